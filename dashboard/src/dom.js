// A few lines instead of a framework: text is only ever set as text, never parsed as HTML.

const HTML = "http://www.w3.org/1999/xhtml";
const SVG = "http://www.w3.org/2000/svg";

/** Children laid flat: a part stands for its `element`; null, false and empty text are left out. */
export const present = (children) =>
  children
    .flat(Infinity)
    .filter((child) => child || child === 0)
    .map((child) => child.element ?? child);

/** A plain object holds attributes, unless it has an `element`: then it is a part, and so a child. */
const areAttributes = (one) => one?.constructor === Object && !("element" in one);

function make(space, [tag, ...rest]) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElementNS(space, name);
  const [attributes, children] = areAttributes(rest[0]) ? [rest[0], rest.slice(1)] : [{}, rest];
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "colour") element.style.setProperty("--colour", `var(--${value})`);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** An element, as in `h("p.note", { hidden: true }, "text", ...)`: tag and classes, attributes if any, and children. */
export const h = (...how) => make(HTML, how);
export const svg = (...how) => make(SVG, how);

/** Set text or an attribute only when it differs, so that nothing flickers and no selection is lost. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

const shows = (there, child) =>
  typeof child === "object"
    ? child.isEqualNode(there)
    : there.nodeType === Node.TEXT_NODE && there.data === String(child);

/** Replace the children of an element, unless the new ones look the same. A listener on a child that is made anew
 *  each time may depend on nothing that is not shown: the child of before stays, with its listener. */
export function redraw(element, ...children) {
  const wanted = present(children);
  const there = element.childNodes;
  if (there.length !== wanted.length || !wanted.every((child, index) => shows(there[index], child)))
    element.replaceChildren(...wanted);
}

const ends = new Map(); // by element: what has to end when the element is left

/** Call `end()` before the element, or what it stands in, is removed by somebody who calls `leave`. */
export const endWith = (element, end) => ends.set(element, end);

/** Call what `endWith` has for an element and for all inside it, before they are removed. */
export function leave(root) {
  for (const [element, end] of ends) {
    if (!root.contains(element)) continue;
    ends.delete(element);
    end();
  }
}

let marked = null; // where somebody marks text; heard of, since to ask lays out the page each time
document.addEventListener("selectionchange", () => {
  const selection = document.getSelection();
  marked = selection && !selection.isCollapsed ? selection.anchorNode : null;
});

let pressed = null; // what the pointer is held down on: a click counts only where it is let go of the same element
addEventListener("pointerdown", ({ target }) => (pressed = target), true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(() => (pressed = null)), true); // after the click

/** The same, each second: what somebody is marking or pressing in it, or has come to by keyboard, stays until it is let
 *  go. */
export function refresh(element, ...children) {
  const { activeElement: focused } = document;
  const held = [marked, pressed, focused !== element && focused?.matches(":focus-visible") ? focused : null];
  if (!held.some((one) => one && element.contains(one))) redraw(element, ...children);
}

/** Figure and thin unit. */
export function figure([value, unit]) {
  return [value, unit ? h("span.unit", unit) : null];
}

const SHAPES = { good: "●", warn: "▲", bad: "✖", idle: "○" };

/** A state: shape, colour, word. */
export function state(level, word) {
  return h("span", { class: `state ${level}` }, h("span.shape", { "aria-hidden": "true" }, SHAPES[level]), word);
}
