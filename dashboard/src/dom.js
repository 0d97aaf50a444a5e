// A few lines instead of a framework: text is only ever set as text, never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Set text, attribute or children only when they differ, so that nothing flickers and no selection is lost. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Replace the children by `make()` when `signature` is another than the last time. */
export function redraw(element, signature, make) {
  if (element.dataset.drawn === signature) return;
  element.dataset.drawn = signature;
  element.replaceChildren(...[make()].flat().filter((child) => child !== null && child !== undefined));
}

let marked = null; // where somebody marks text; heard of, since to ask lays out the page each time
document.addEventListener("selectionchange", () => {
  const selection = document.getSelection();
  marked = selection && !selection.isCollapsed ? selection.anchorNode : null;
});

let pressed = null; // what the pointer is held down on: a click counts only where it is let go of the same element
addEventListener("pointerdown", ({ target }) => (pressed = target), true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(() => (pressed = null)), true); // after the click

/** The same, each second: what somebody is marking or pressing in it stays until it is let go. */
export function refresh(element, signature, make) {
  if (![marked, pressed].some((held) => held && element.contains(held))) redraw(element, signature, make);
}

/** Figure and thin unit. */
export function figure([value, unit]) {
  return [value, unit ? h("span", { class: "unit" }, unit) : null];
}

const SHAPES = { good: "●", warn: "▲", bad: "✖", idle: "○" };

/** A state: shape, colour, word. */
export function state(level, word) {
  return h(
    "span",
    { class: `state ${level}` },
    h("span", { class: "shape", "aria-hidden": "true" }, SHAPES[level]),
    word,
  );
}
