// A question that is asked once, before what cannot simply be taken back.

import { h } from "./dom.js";

/** True when the reader agrees. `text` says what will happen, with numbers; `lines` one each. */
export function confirm({ title, text, lines = [], yes }) {
  return new Promise((answer) => {
    const agree = h("button", { type: "submit", class: "danger", value: "yes" }, yes);
    const cancel = h("button", { type: "submit", class: "plain", value: "no" }, "Cancel");
    const box = h("dialog", { class: "ask", "aria-label": title },
      h("form", { method: "dialog" }, h("h2", {}, title), text ? h("p", {}, text) : null,
        lines.length ? h("ul", {}, lines.map((line) => h("li", {}, line))) : null, h("div", { class: "buttons" }, cancel, agree)));
    box.addEventListener("close", () => {
      box.remove();
      answer(box.returnValue === "yes");
    });
    document.body.append(box);
    box.showModal();
    cancel.focus();
  });
}
