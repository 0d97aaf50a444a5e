// A question that is asked once, before what cannot simply be taken back, or to fill in some fields.

import { h } from "./dom.js";

/** True when the reader agrees. `text` says what will happen, with numbers; `lines` one each; `fields` are [name, control] to be filled in. */
export function confirm({ title, text, lines = [], fields = [], yes }) {
  return new Promise((answer) => {
    const agree = h("button", { type: "submit", class: fields.length ? "primary" : "danger", value: "yes" }, yes);
    const cancel = h("button", { type: "button", class: "plain", onclick: () => box.close("no") }, "Cancel");
    const box = h(
      "dialog",
      { class: "ask", "aria-label": title },
      h(
        "form",
        { method: "dialog" },
        h("h2", {}, title),
        text ? h("p", {}, text) : null,
        lines.length
          ? h(
              "ul",
              {},
              lines.map((line) => h("li", {}, line)),
            )
          : null,
        fields.map(([name, control]) => h("label", {}, name, control)),
        h("div", { class: "buttons" }, cancel, agree),
      ),
    );
    box.addEventListener("close", () => {
      box.remove();
      answer(box.returnValue === "yes");
    });
    document.body.append(box);
    box.showModal();
    (fields[0]?.[1] ?? cancel).focus();
  });
}
