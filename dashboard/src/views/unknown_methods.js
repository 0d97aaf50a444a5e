// Methods that no rule describes, by the name that clients gave them; each can be refused by that very name.

import { h, setText } from "../dom.js";
import { NONE, count, moment, plural } from "../format.js";
import { button, hint, methodName, quiet, section } from "../parts.js";
import { store } from "../store.js";
import { Table, numbers } from "../table.js";

const DENY = ["http", "deny"];
const FIT = /^[A-Za-z0-9_]{1,63}$/; // as a rule may name it, for itself alone; a longer one may have been cut

/** Puts the name on the list of methods that nobody may call, or takes it off again. */
function refusal({ method }) {
  const word = quiet();
  const hold = h("span", { class: "buttons tight refusal" });
  const toggle = button("", () => {
    const denied = store.value(DENY) ?? [];
    store.set(DENY, denied.includes(method) ? denied.filter((name) => name !== method) : [...denied, method]);
  });
  hold.append(toggle, word);
  return {
    element: hold,
    update: () => {
      const denied = (store.value(DENY) ?? []).includes(method);
      const draft = denied !== (store.inForce(DENY) ?? []).includes(method);
      toggle.hidden = !store.writable || !FIT.test(method);
      setText(toggle, denied ? (draft ? "Do not refuse it" : "Let it pass again") : "Refuse it");
      toggle.setAttribute("aria-label", `${toggle.textContent}: ${method}`);
      toggle.classList.toggle("drafted", draft);
      setText(
        word,
        draft ? "" : denied ? "refused" : toggle.hidden && store.writable ? "no name that a rule can have" : "",
      );
    },
  };
}

export function unknownMethods() {
  const table = new Table({
    label: "Methods no rule names",
    key: (one) => `${one.network}/${one.method}`,
    sort: 2,
    find: (one) => one.method,
    columns: [
      { title: "Method", sort: (one) => one.method, text: (one) => one.method, cell: (one) => methodName(one.method) },
      { title: "Network", sort: (one) => one.network, text: (one) => one.network, cell: (one) => one.network },
      numbers("Calls", (one) => one.calls, count),
      numbers("Errors", (one) => one.errors, count),
      {
        title: "Last",
        sort: (one) => one.last_seen,
        text: (one) => moment(one.last_seen),
        cell: (one) => (one.last_seen ? moment(one.last_seen) : NONE),
      },
      { title: "", build: refusal, text: () => "" },
    ],
  });
  const note = quiet();
  const empty = hint("None was called: every method that clients asked for is described by a rule.");
  return {
    element: section("Methods no rule names", note, table.element, empty),
    update: (methods, unnamed) => {
      table.update(methods);
      table.element.hidden = !methods.length;
      empty.hidden = methods.length > 0;
      setText(
        note,
        methods.length
          ? `passed on to nodes, never kept${unnamed ? `; ${plural(unnamed, "call")} of further names` : ""}`
          : "",
      );
    },
    gone: () => table.gone(),
  };
}
