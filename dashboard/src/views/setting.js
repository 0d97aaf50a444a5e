// One setting: its name, a field for its value, what it means, and what is wrong with it. Several make a group.

import { about, alsoCalled, describe, dotted } from "../described.js";
import { h, setText } from "../dom.js";
import { button, options, quiet } from "../parts.js";
import { store } from "../store.js";
import { meant, told, written } from "../units.js";

let made = 0;

function fieldFor({ kind, choices, label }, id) {
  if (kind === "switch") return h("input", { type: "checkbox", id });
  if (kind === "choice") return h("select.field", { id }, options(choices.map((one) => [one, one || label.empty])));
  return h("input", {
    class: `field${kind === "list" || kind === "text" ? " long" : " amount"}`,
    id,
    autocomplete: "off",
    spellcheck: "false",
  });
}

/** The path of a setting, as the config file and the commands name it: a click copies it where the browser lets the
 *  page. */
export function pathOf(path) {
  const name = dotted(path);
  if (!navigator.clipboard) return h("code.path", name);
  const copy = h(
    "button.copies",
    {
      type: "button",
      title: "Copy this path, as the config file and the commands name it",
      onclick: async () => {
        const copied = await navigator.clipboard.writeText(name).then(
          () => true,
          () => false,
        );
        setText(word, copied ? "copied" : "the browser does not let this page copy");
        setTimeout(() => setText(word, ""), COPIED);
      },
    },
    name,
  );
  const word = h("span.quiet", { role: "status" });
  return h("span.path", copy, " ", word);
}

const COPIED = 3000; // milliseconds that the word stays
const HUGE = 1e5; // a bound that nobody comes near is no help

/** "1 to 100", "more than 0 s, at most 60 s", "any of archive, explorer" */
function bounds({ kind, least, most, above, below, choices }) {
  if (kind === "list") return choices?.length ? `any of ${choices.join(", ")}` : "";
  const say = (value) => told(kind, value);
  const top = most !== undefined && (kind === "size" || kind === "duration" || most <= HUGE) ? most : undefined;
  if (least !== undefined && top !== undefined) return `${say(least)} to ${say(top)}`;
  return [
    above === undefined ? null : `more than ${say(above)}`,
    least ? `at least ${say(least)}` : null,
    below === undefined ? null : `less than ${say(below)}`,
    top === undefined ? null : `at most ${say(top)}`,
  ]
    .filter(Boolean)
    .join(", ");
}

const sayDefault = ({ kind, label, default: value }) =>
  value === undefined ? "the chain's own" : value === "" ? label.empty : told(kind, value);

/** `path`: names down to the value, in a document of the settings; `unitOf()`: what "units" are. */
function setting(path, unitOf) {
  const { kind, text, label, default: usual = null, ...rest } = about(path);
  const id = `setting-${(made += 1)}`;
  const writable = store.writable;
  const field = writable ? fieldFor({ kind, label, ...rest }, id) : h("b.code", { id });
  const word = kind === "switch" && writable ? h("span") : null;
  const unit = label.unit ? h("span.unit", label.unit) : null;
  const fault = h("p.isbad.fault", { role: "alert", id: `${id}-fault` });
  const range = bounds({ kind, ...rest });
  const later = store.current.restart.some(
    (prefix) => dotted(path) === prefix || dotted(path).startsWith(`${prefix}.`),
  );
  const value = () => store.value(path) ?? null;
  const back = button(
    "Default",
    () => {
      set(usual);
      show(true);
    },
    { class: "link", hidden: true, "aria-label": `${label.name}: back to ${sayDefault(about(path))}` },
  );
  const set = (wanted) => {
    store.set(path, wanted);
    store.check();
  };
  const read = () =>
    kind === "switch" ? field.checked : field.value.trim() === "" && kind !== "list" ? usual : meant(kind, field.value);
  if (writable) {
    field.setAttribute("aria-describedby", `${id}-fault`);
    if (usual === null) field.placeholder = "the chain's";
    field.addEventListener("input", () => set(read()));
    field.addEventListener("change", () => show(true));
  }
  const element = h(
    "div.setting",
    h("label", { for: id, title: dotted(path) }, label.name),
    h("div.setting-value", h("span", field, word, unit, back), fault),
    h(
      "p.setting-text",
      text,
      " ",
      quiet(
        `Default: ${sayDefault(about(path))}${range ? ` · ${range}` : ""}${later ? " · in force after a restart" : ""}`,
      ),
      pathOf(path),
    ),
  );
  /** What is in the field while it is being written in is let be. */
  const show = (settled = false) => {
    const now = value();
    if (!writable) setText(field, now === "" ? label.empty : told(kind, now));
    else if (word) {
      field.checked = Boolean(now);
      setText(word, now ? "on" : "off");
    } else if ((settled || document.activeElement !== field) && field.value !== written(kind, now)) {
      field.value = written(kind, now);
    }
    if (label.unit === "units") setText(unit, unitOf());
    element.classList.toggle("drafted", store.changed(path));
    back.hidden = !writable || JSON.stringify(now) === JSON.stringify(usual);
    const wrong = store.fault(dotted(path));
    setText(fault, wrong ?? "");
    if (writable) field.setAttribute("aria-invalid", String(wrong !== null));
  };
  show();
  return {
    element,
    update: () => show(),
    words: `${label.name} ${dotted(path)} ${text} ${alsoCalled(path)}`.toLowerCase(),
  };
}

/** Do the words have the text as it stands, or, in any order, words that begin with each word of it? */
const found = (words, needle) =>
  words.includes(needle) ||
  needle.split(/\s+/).every((start) => words.split(/[^a-z0-9]+/).some((word) => word.startsWith(start)));

/** Some settings under one heading; `unitOf()`: what "units" are among them. */
export function group(title, note, paths, unitOf) {
  const all = paths.filter((path) => about(path)).map((path) => setting(path, unitOf));
  const element = h(
    "section.group",
    h("div.head", h("h3", { tabindex: "-1" }, title), note ? quiet(note) : null),
    h("div.settings", all),
  );
  return {
    title,
    element,
    update: () => all.forEach((one) => one.update()),
    /** Show those alone that `found` tells of; how many that are. */
    filter: (needle) => {
      const shown = all.filter((one) => !(one.element.hidden = !found(one.words, needle)));
      element.hidden = !shown.length;
      return shown.length;
    },
  };
}

/** The same in a view that does not wait for the descriptions. */
export function groupSoon(title, note, paths, unitOf) {
  const element = h("div");
  let made = null;
  describe()
    .then(() => {
      made = group(title, note, paths, unitOf);
      element.replaceChildren(made.element);
    })
    .catch(() => {}); // the settings themselves are not there either, and the page says so
  return { element, update: () => made?.update() };
}
