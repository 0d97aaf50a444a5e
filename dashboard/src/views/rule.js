// What the operator wants of a method's answers: less in the cache than the chain's rule, or for a shorter time.

import { h, setText } from "../dom.js";
import { quiet } from "../parts.js";
import { store } from "../store.js";
import { pathOf } from "./setting.js";

const NONE = { cache: "", max_age: 0, stale: 0 };
const CACHE = {
  "": "as the chain's rule says",
  head: "until the next block at most",
  off: "off: keep and share nothing",
};

/** "kept until the next block at most, served for 5 s" */
export function ruleWords(rule) {
  if (!rule) return "as the chain's rule says";
  const age = rule.max_age
    ? `for ${rule.max_age} s${rule.stale ? `, then for ${rule.stale} s while it is fetched anew` : ""}`
    : "";
  return [rule.cache || !age ? CACHE[rule.cache ?? ""] : "", age].filter(Boolean).join(", ");
}

/** Who may not change the rule reads it. */
export function rulePanel({ network, method }) {
  const rules = ["networks", network, "rules"];
  const path = [...rules, method];
  const cache = h(
    "select",
    { class: "field", "aria-label": "kept" },
    Object.entries(CACHE).map(([value, word]) => h("option", { value }, word)),
  );
  const age = h("input", {
    class: "field weight",
    "aria-label": "for at most, seconds",
    type: "number",
    min: "0",
    max: "86400",
    step: "any",
  });
  const stale = h("input", {
    class: "field weight",
    "aria-label": "then while it is fetched anew, seconds",
    type: "number",
    min: "0",
    max: "86400",
    step: "any",
  });
  const pattern = quiet();
  const told = h("p");
  const fields = [cache, age, stale];
  const collect = () => {
    const wanted = { cache: cache.value, max_age: Number(age.value) || 0, stale: Number(stale.value) || 0 };
    const empty = JSON.stringify(wanted) === JSON.stringify(NONE);
    store.set(path, empty && !patternOf() ? null : wanted);
  };
  const patternOf = () =>
    Object.keys(store.inForce(rules) ?? {}).find((name) => name.endsWith("*") && method.startsWith(name.slice(0, -1)));
  for (const field of fields) field.addEventListener("change", collect);
  const form = h(
    "div",
    { class: "inline" },
    h("label", {}, "kept", cache),
    h("label", {}, "for at most", age, "s"),
    h("label", {}, "then, while it is fetched anew, for", stale, "s"),
    quiet("0: no limit of its own"),
  );
  const element = h(
    "div",
    { class: "rule" },
    h("h3", {}, "Its cache rule"),
    store.writable ? form : told,
    h("p", {}, pathOf(path), " ", pattern),
  );
  return {
    element,
    update: () => {
      element.hidden = !store.current || store.inForce(["networks", network]) === undefined;
      const covering = patternOf();
      const rule = { ...NONE, ...(store.value(path) ?? (covering ? store.inForce([...rules, covering]) : null)) };
      [
        ["cache", cache],
        ["max_age", age],
        ["stale", stale],
      ].forEach(([name, field]) => {
        if (document.activeElement !== field && field.value !== String(rule[name])) field.value = rule[name];
      });
      setText(told, `Answers are kept ${ruleWords(rule)}.`);
      element.classList.toggle("drafted", store.changed(path));
      setText(pattern, covering ? `The rule “${covering}” covers it, too.` : "");
    },
  };
}
