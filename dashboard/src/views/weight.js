// A weight: a slider and a number that mirror each other, and the share it means.

import { h, redraw, setAttribute, setText } from "../dom.js";
import { meaning } from "../shares.js";
import { store } from "../store.js";

const HIGHEST = 1000;

/** Who may not change it sees the number. `nodes()`: all nodes as they were last told. */
export function weightControl(node, nodes) {
  const share = h("span", { class: "means" });
  const tellShare = (now) => {
    const said = meaning(store, nodes(), now);
    const then = said.split(", then ").at(-1);
    redraw(share, said, () => [h("span", { class: "before" }, said.slice(0, said.length - then.length)), then]);
    setAttribute(share, "title", said);
  };
  if (!store.writable) {
    const figure = h("b");
    return {
      element: h("div", { class: "tune" }, figure, share),
      update: (now) => {
        setText(figure, String(now.weight));
        tellShare(now);
      },
    };
  }
  const path = ["networks", node.network, "nodes", node.id, "weight"];
  const label = `Weight of node ${node.id}`;
  const slider = h("input", { type: "range", min: "0", max: "10", step: "1", "aria-label": label });
  const number = h("input", {
    type: "number",
    min: "0",
    max: String(HIGHEST),
    step: "1",
    class: "field weight",
    "aria-label": `${label}, as a number`,
  });
  const set = (text) => {
    const wanted = Math.round(Number(text));
    if (text !== "" && wanted >= 0 && wanted <= HIGHEST) store.set(path, wanted);
  };
  slider.addEventListener("input", () => set(slider.value));
  number.addEventListener("input", () => set(number.value));
  number.addEventListener("keydown", (event) => event.key === "Enter" && set(number.value));
  const element = h("div", { class: "tune" }, slider, number, share);
  const update = (now) => {
    const wanted = store.value(path) ?? now.weight;
    const highest = Math.max(
      10,
      ...nodes()
        .filter((one) => one.network === now.network)
        .map((one) => one.weight),
      wanted,
    );
    // While a slider is held its end does not move away from under the pointer.
    if (document.activeElement !== slider) setAttribute(slider, "max", String(highest));
    if (Number(slider.value) !== wanted) slider.value = wanted;
    if (document.activeElement !== number && number.value !== String(wanted)) number.value = wanted;
    slider.disabled = number.disabled = store.value(path.slice(0, -1)) === null;
    element.classList.toggle("drafted", store.changed(path));
    tellShare(now);
  };
  return { element, update };
}
