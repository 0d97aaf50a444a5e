// What no rule knows: errors, to be classed by a rule that is tried first, and methods, to be refused by their name.

import { change } from "../api.js";
import { h, redraw, refresh, setText } from "../dom.js";
import { count, joined, moment, plural } from "../format.js";
import { button, facts, hint, input, methodName, quiet, section, select } from "../parts.js";
import { store } from "../store.js";
import { Table, moments, numbers, words } from "../table.js";

const DENY = ["http", "deny"];
const FIT = /^[A-Za-z0-9_]{1,63}$/; // as a rule may name it, for itself alone; a longer one may have been cut

/** Puts the name on the list of methods that nobody may call, or takes it off again. */
function refusal({ method }) {
  const word = quiet();
  const hold = h("span.buttons.tight.refusal");
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
    columns: [
      { title: "Method", sort: (one) => one.method, cell: (one) => methodName(one.method) },
      words("Network", (one) => one.network),
      numbers("Calls", (one) => one.calls, count),
      numbers("Errors", (one) => one.errors, count),
      moments("Last", (one) => one.last_seen),
      { title: "", build: refusal },
    ],
  });
  const note = quiet();
  const empty = hint("None was called: every method that clients asked for is described by a rule.");
  return {
    element: section("Methods no rule names", note, table, empty),
    update: (methods, unnamed) => {
      table.update(methods);
      table.element.hidden = !methods.length;
      empty.hidden = methods.length > 0;
      setText(
        note,
        methods.length
          ? `never kept, and passed on to nodes unless they are refused${unnamed ? `; ${plural(unnamed, "call")} of further names` : ""}`
          : "",
      );
    },
  };
}

const KINDS = {
  "rate-limited": "the node asks to be left alone for a while",
  "node-behind": "the node has not reached the block",
  pruned: "the node has not kept that state",
  "method-missing": "the node does not have the method",
  "role-missing": "the node has not the role the method needs",
  "node-timeout": "the node gave up itself",
  "too-large": "the answer would be too large",
  unauthorized: "the node wants another key",
  "invalid-params": "the caller's mistake",
  revert: "the contract said no",
  rejected: "the node refused the transaction",
  "already-known": "the node has the transaction already",
  "nonce-too-low": "the transaction's nonce is used",
  "filter-not-found": "the filter is gone",
};
const RETRY = {
  never: "no other node is asked",
  "if-repeatable": "another node is asked when the call may be repeated",
  always: "another node is asked",
  "same-node": "the same node is asked again",
  "one-other": "one other node is asked when the call may be repeated",
};
const CLIENT = {
  "own-error": "the client gets the proxy's own error",
  "pass-through": "the client gets the node's words",
  "success-with-hash": "the client gets the transaction's hash",
};
const BY = {
  tried: "the rule you try",
  settings: "a rule of the settings",
  chain: "the chain's own rule",
  nobody: "no rule",
};

/** The longest piece of a folded text that holds no placeholder. */
function fragment(text) {
  return (
    text
      .split(/<[^>]*>|…|#/)
      .map((piece) => piece.trim())
      .sort((one, two) => two.length - one.length)[0] || text
  );
}

const byCount = ({ nodes }) => Object.entries(nodes).sort(([, one], [, two]) => two - one);

/** "flaky 1.19k, slow 1" */
const nodesOf = (error) =>
  byCount(error)
    .map(([node, times]) => `${node} ${joined(count(times))}`)
    .join(", ");

function treated(found) {
  return facts("Such an error would be", [
    ["kind", h("b", found.kind)],
    ["by", BY[found.by] ?? found.by],
    ["then", RETRY[found.retry] ?? found.retry],
    [
      "breaker",
      { failure: "counts against the node", ignore: "learns nothing", success: "counts for the node" }[found.breaker] ??
        found.breaker,
    ],
    ["client", `${CLIENT[found.client] ?? found.client} (code ${found.client_code})`],
  ]);
}

function detail(first) {
  const kind = select("Kind", [
    ["", "choose what it means"],
    ...Object.entries(KINDS).map(([value, word]) => [value, `${value} – ${word}`]),
  ]);
  const more = { class: "field wide", value: fragment(first.text), maxlength: "200" };
  const text = input("The message contains", more);
  const told = h("div.facts");
  const outcome = h("div.facts");
  const word = h("span.quiet", { role: "status" });
  const rule = () => ({ kind: kind.value, contains: [text.value] });
  const path = ["networks", first.network, "error_rules"];
  const chosen = () => {
    setText(word, kind.value ? "" : "Choose first what it means.");
    return kind.value !== "";
  };
  const attempt = async () => {
    if (!chosen()) return;
    try {
      const found = await change("POST", "errors/try", {
        network: first.network,
        message: first.message,
        code: first.code,
        http_status: first.http_status,
        rules: [rule()],
      });
      redraw(outcome, treated(found));
      setText(word, found.by === "tried" ? "" : "The rule does not fit this error.");
    } catch (problem) {
      setText(word, problem.message);
    }
  };
  const add = button("Add to the pending changes", () => {
    if (!chosen()) return;
    const [mine, rules] = [rule(), store.value(path) ?? []];
    const there = rules.some((one) => one.kind === mine.kind && String(one.contains) === String(mine.contains));
    if (!there) store.set(path, [...rules, mine]);
    setText(word, there ? "It is there already." : "It is applied with the bar below.");
  });
  const form = h(
    "div.inline",
    h("label", "class it as", kind),
    h("label", "when it contains", text),
    button("Try", attempt),
    add,
    word,
  );
  return {
    element: h("div", told, form, outcome),
    update: (error) => {
      form.hidden = !store.writable;
      refresh(
        told,
        facts("Last one", [
          ["method", h("code", error.method)],
          ["nodes", `${error.network}: ${nodesOf(error)}`],
          ["HTTP status", String(error.http_status)],
          ["first seen", moment(error.first_seen)],
          ["in full", h("code.words", error.message)],
        ]),
      );
    },
  };
}

export function unclassedSection() {
  const table = new Table({
    label: "Errors no rule knows",
    key: (error) => `${error.network} ${error.code} ${error.text}`,
    detail,
    sort: 2,
    columns: [
      { title: "Text, numbers and hashes folded", cell: (error) => h("span.words", error.text) },
      numbers(
        "Code",
        (error) => error.code,
        (value) => [String(value), ""],
      ),
      numbers("Times", (error) => error.count, count),
      moments("Last", (error) => error.last_seen, { fold: 1 }),
      words("Network", (error) => error.network, { fold: 4 }),
      { title: "Nodes", fold: 3, sort: (error) => byCount(error)[0][0], cell: nodesOf },
      { title: "Last method", fold: 2, sort: (error) => error.method, cell: (error) => methodName(error.method) },
    ],
  });
  const note = quiet();
  const empty = hint("Nothing here: every error that nodes sent was known to a rule.");
  return {
    element: section("Errors no rule knows", note, table, empty),
    update: (found) => {
      table.update(found);
      table.element.hidden = !found.length;
      empty.hidden = found.length > 0;
      setText(
        note,
        found.length
          ? `${plural(found.length, "kind")}, ${joined(count(found.reduce((sum, error) => sum + error.count, 0)))} in all; they are passed on, and retried if the call may be repeated`
          : "",
      );
    },
  };
}
