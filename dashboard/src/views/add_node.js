// A form to add a node: it is collected like every other change.

import { h, setText } from "../dom.js";
import { store } from "../store.js";

export function addNodeForm(networks, done) {
  const network = h("select", { class: "field", "aria-label": "Network" }, networks.map((name) => h("option", { value: name }, name)));
  const id = h("input", { class: "field", required: true, placeholder: "backup-1", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", maxlength: "64", autocomplete: "off", "aria-label": "Name" });
  const url = h("input", { class: "field wide", required: true, type: "url", placeholder: "https://node.example:9500", autocomplete: "off", "aria-label": "Address" });
  const weight = h("input", { class: "field weight", type: "number", min: "0", max: "1000", value: "1", "aria-label": "Weight" });
  const word = h("span", { class: "isbad", role: "alert" });
  const form = h("form", { class: "inline", hidden: true }, networks.length > 1 ? h("label", {}, "network", network) : null,
    h("label", {}, "name", id), h("label", {}, "address", url), h("label", {}, "weight", weight),
    h("button", { type: "submit", class: "plain" }, "Collect"), h("button", { type: "button", class: "plain", onclick: () => done() }, "Cancel"), word);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const path = ["networks", network.value, "nodes", id.value];
    if (store.value(path)) return setText(word, `There is a node ${id.value} already.`);
    setText(word, "");
    store.set(path, { url: url.value, weight: Number(weight.value) });
    form.reset();
    return done();
  });
  return { element: form, focus: () => (networks.length > 1 ? network : id).focus() };
}
