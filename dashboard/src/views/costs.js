// Own costs of a node: units of a call, by the name of its method or a pattern of names.

import { dotted } from "../described.js";
import { h, setText } from "../dom.js";
import { atEnd, button, foldedForm, input, quiet } from "../parts.js";
import { store } from "../store.js";
import { meant, told, written } from "../units.js";

const amount = (label) => input(label, { class: "field amount", inputmode: "decimal", required: true });

function costRow(path) {
  const method = path.at(-1);
  const field = store.writable ? amount(`Cost of ${method}`) : h("b.code");
  const fault = h("p.isbad.fault", { role: "alert" });
  const set = (units) => {
    store.set(path, units);
    store.check();
  };
  field.addEventListener("input", () => set(meant("number", field.value)));
  const remove = button("Remove", () => set(null), { class: "link", "aria-label": `Remove the cost of ${method}` });
  const element = h(
    "div.setting",
    h("code", method),
    h("div.setting-value", h("span", field, store.writable ? remove : null), fault),
  );
  return {
    element,
    update: () => {
      const units = store.value(path);
      if (!store.writable) setText(field, told("number", units));
      else if (document.activeElement !== field) field.value = written("number", units);
      element.classList.toggle("drafted", store.changed(path));
      const wrong = store.fault(dotted(path));
      setText(fault, wrong ?? "");
      if (store.writable) field.setAttribute("aria-invalid", String(wrong !== null));
    },
  };
}

/** A form for one row more: `add(method, units)`. */
function costForm(add) {
  const method = input("Method of a new cost", {
    class: "field long",
    spellcheck: "false",
    placeholder: "eth_getLogs or debug_*",
    required: true,
  });
  const units = amount("Units of a new cost");
  const submit = () => {
    add(method.value.trim(), meant("number", units.value));
    return true;
  };
  const fields = [h("label.grow", "method or pattern", method), h("label", "costs", units)];
  return foldedForm({ title: "Add a cost", look: "route", fields, submit });
}

/** The rows at `path`, quota.costs of a node; `unit()`: what they are counted in. */
export function costsGroup(path, unit) {
  const names = () => {
    const mine = store.edits().filter(([one]) => dotted(one.slice(0, -1)) === dotted(path));
    const all = [...Object.keys(store.inForce(path) ?? {}), ...mine.map(([one]) => one.at(-1))];
    return [...new Set(all)].filter((name) => (store.value([...path, name]) ?? null) !== null);
  };
  const { form, open } = costForm((method, units) => {
    store.set([...path, method], units);
    store.check();
  });
  const note = quiet();
  const none = h("p.route.quiet");
  const hold = h("div");
  const element = h(
    "section.group",
    h("div.head", h("h3", "Own costs of its calls"), note, atEnd(open)),
    h("div.settings", hold, none, form),
  );
  let rows = new Map();
  return {
    element,
    update: () => {
      const now = names();
      if (now.join() !== [...rows.keys()].join()) {
        rows = new Map(now.map((name) => [name, rows.get(name) ?? costRow([...path, name])]));
        hold.replaceChildren(...[...rows.values()].map((row) => row.element));
      }
      for (const row of rows.values()) row.update();
      const provider = store.value([...path.slice(0, -1), "provider"]);
      const counted = unit() === "calls" ? "units" : unit();
      const before = provider ? ", before the provider's" : "";
      setText(note, `in ${counted}${before}; a name wins, then the first pattern that fits`);
      open.hidden = !store.writable || !form.hidden;
      none.hidden = now.length > 0 || !form.hidden;
      setText(
        none,
        provider
          ? "None: each call costs what the provider bills."
          : "None, and no provider: each call counts as one, and a heavy one as it says above.",
      );
    },
  };
}
