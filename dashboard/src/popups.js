// What opens over the page: a question that is asked once, and a menu of actions.

import { h } from "./dom.js";
import { labelled } from "./parts.js";

/** True when the reader agrees. `text` says what will happen, with numbers; `lines` one each; `fields` are controls to
 *  be filled in. */
export function confirmed({ title, text, lines = [], fields = [], yes }) {
  return new Promise((answer) => {
    const agree = h("button", { type: "submit", class: fields.length ? "primary" : "danger", value: "yes" }, yes);
    const cancel = h("button.plain", { type: "button", onclick: () => box.close("no") }, "Cancel");
    const box = h(
      "dialog.ask",
      { "aria-label": title },
      h(
        "form",
        { method: "dialog" },
        h("h2", title),
        text ? h("p", text) : null,
        lines.length
          ? h(
              "ul",
              lines.map((line) => h("li", line)),
            )
          : null,
        fields.map(labelled),
        h("div.buttons", cancel, agree),
      ),
    );
    const leave = () => box.close("no"); // another view has nothing to do with the question
    addEventListener("hashchange", leave);
    box.addEventListener("close", () => {
      removeEventListener("hashchange", leave);
      box.remove();
      answer(box.returnValue === "yes");
    });
    document.body.append(box);
    box.showModal();
    (fields[0] ?? cancel).focus();
  });
}

const GAP = 4; // pixels between the button and its menu
let shown = null;
addEventListener("scroll", () => shown?.hidePopover(), { capture: true, passive: true }); // it would stay where its button was

/** `items()`: [{ text, hint, run, danger?, disabled? }], made anew each time the menu opens. */
export function menuButton(label, items) {
  const list = h("div.menu", { role: "menu", popover: "auto", "aria-label": label });
  const button = h(
    "button.plain.more",
    { type: "button", "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": label, title: label },
    h("span", { "aria-hidden": "true" }, "⋯"),
  );
  button.popoverTargetElement = list;
  let first = 0; // the entry that has the focus when the menu opens
  const entry = ({ text, hint, run, danger, disabled }) =>
    h(
      "button",
      {
        type: "button",
        role: "menuitem",
        tabindex: "-1",
        class: danger ? "danger" : null,
        disabled,
        onclick: () => {
          list.hidePopover();
          run();
        },
      },
      text,
      h("span.hint", hint),
    );
  const entries = () => [...list.querySelectorAll("button:not(:disabled)")];
  const place = () => {
    const at = button.getBoundingClientRect();
    const [width, height] = [list.offsetWidth, list.offsetHeight];
    const below = at.bottom + GAP + height <= innerHeight;
    list.style.left = `${Math.max(GAP, Math.min(at.right, innerWidth - GAP) - width)}px`;
    list.style.top = `${below ? at.bottom + GAP : Math.max(GAP, at.top - GAP - height)}px`;
    entries().at(first)?.focus();
    first = 0;
  };
  list.addEventListener("beforetoggle", ({ newState }) => {
    if (newState !== "open") return;
    list.replaceChildren(...items().map(entry));
    requestAnimationFrame(place);
  });
  list.addEventListener("toggle", ({ newState }) => {
    button.setAttribute("aria-expanded", String(newState === "open"));
    if (newState === "open") shown = list;
    else if (shown === list) shown = null;
  });
  list.addEventListener("keydown", (event) => {
    const all = entries();
    const here = all.indexOf(document.activeElement);
    const to = { ArrowDown: (here + 1) % all.length, ArrowUp: here - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) {
      if (event.key === "Tab") list.hidePopover(); // the focus goes on from the button
      return;
    }
    event.preventDefault();
    all.at(to).focus();
  });
  button.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    first = event.key === "ArrowDown" ? 0 : -1;
    list.showPopover();
  });
  return { element: h("div.actions", button, list), button };
}
