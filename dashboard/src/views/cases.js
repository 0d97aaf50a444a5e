// Cases of disagreement: nodes that answered one call about final data differently, or one that answered falsely.

import { h, redraw, setText, state } from "../dom.js";
import { NONE, block, bytes, joined, plural } from "../format.js";
import { atEnd, hint, labelled, methodName, options, quiet, section, select } from "../parts.js";
import { store } from "../store.js";
import { Table, moments, words } from "../table.js";

const ALL = "";
const NOBODY = "\u0000";
const UNDECIDED = "nobody could decide";
const SETTINGS = "#/settings/examination-and-agreement";

const contradicted = ({ minority }) => (minority.length ? state("bad", minority.join(", ")) : state("idle", UNDECIDED));
const keysOf = ({ network, minority }) => minority.map((id) => `${network}/${id}`);
const fits = (wanted) => (one) =>
  wanted === ALL || (wanted === NOBODY ? !one.minority.length : keysOf(one).includes(wanted));

function answerOf({ node, head, text, size }, { minority, disproved }) {
  const cut = new Blob([text]).size < size;
  return h(
    "li",
    h(
      "div.sample-head",
      h("b", node),
      minority.includes(node) ? state("bad", disproved ? "disproved" : "contradicted by two others") : null,
      h("span", quiet("head "), head === null ? NONE : block(head)),
      h(
        "span",
        quiet(cut ? `the first ${block(text.length)} characters of ` : ""),
        size < 1000 ? plural(size, "byte") : joined(bytes(size)),
      ),
    ),
    h("pre.answer", { tabindex: "0", "aria-label": `Answer of ${node}` }, cut ? `${text}…` : text),
  );
}

/** What a case shows, and what followed. */
function sentence({ minority, disproved, difference }) {
  const nodes = minority.join(" and ");
  if (disproved)
    return `The answer of ${nodes} contradicts the call, or its block: nobody was given it. What is wrong: ${difference}`;
  const who = nodes
    ? `Two other nodes contradict ${nodes}; what was kept of its answer is removed.`
    : "The nodes that were asked differ, and no third one could say which of them is right: none is blamed.";
  return `${who} First difference: ${difference}`;
}

function detail() {
  const element = h("div");
  return {
    element,
    update: (one) =>
      redraw(element, [
        h("p.reason", sentence(one)),
        h("h3", "Params"),
        h("pre.answer.params", { tabindex: "0", "aria-label": "Params" }, one.params),
        h("h3", one.disproved ? "Answer" : "Answers"),
        h(
          "ul.samples",
          one.answers.map((answer) => answerOf(answer, one)),
        ),
      ]),
  };
}

function caseTable(several) {
  const table = new Table({
    label: "Answers that differ",
    key: (one) => `${one.at} ${one.network} ${one.method} ${one.params}`,
    detail,
    columns: [
      { title: "Method", sort: (one) => one.method, cell: (one) => methodName(one.method, one.method) },
      several && words("Network", (one) => one.network, { fold: 2 }),
      moments("When", (one) => one.at),
      { title: "Block", right: true, fold: 1, sort: (one) => one.block, cell: (one) => block(one.block ?? NaN) },
      { title: "Contradicted", sort: (one) => one.minority.join(), cell: contradicted },
      { title: "What differs", look: "told", cell: (one) => h("span.words.error-text", one.difference) },
    ],
  });
  table.element.classList.add("cards", "cases");
  return table;
}

/** How often answers are compared, by the settings of the networks. */
function howOften() {
  const shares = Object.values(store.current?.document.networks ?? {})
    .map(({ agreement }) => agreement?.share)
    .filter((share) => share !== undefined);
  if (!shares.length)
    return "Answers about final blocks are compared with those of a second node: 1 in 200, unless the settings say otherwise.";
  if (shares.every((share) => share === 0)) return "No answers are compared: the settings switch it off.";
  const told = [...new Set(shares.filter(Boolean))].map((share) =>
    share === 1 ? "all" : `1 in ${Math.round(1 / share)}`,
  );
  return `Answers about final blocks are compared with those of a second node: ${told.join(", or by network ")}.`;
}

export function casesSection(several) {
  const table = caseTable(several);
  const note = quiet();
  const empty = h("div");
  let wanted = ALL;
  let cases = [];
  const choose = () => {
    wanted = field.value;
    show();
  };
  const field = select("Contradicted", [], { onchange: choose });
  const label = labelled(field);
  const settings = h("a", { href: SETTINGS }, "How many are compared, and what follows");
  const element = section("Answers that differ", [note, atEnd(label, settings)], empty, table);
  element.querySelector("h2").tabIndex = -1;
  const show = () => {
    const nodes = [...new Set([...cases.flatMap(keysOf), wanted === NOBODY ? ALL : wanted])].filter(Boolean).sort();
    const all = [
      [ALL, "any or nobody"],
      ...nodes.map((key) => [key, several ? key : key.slice(key.indexOf("/") + 1)]),
      [NOBODY, UNDECIDED],
    ];
    redraw(field, options(all));
    if (field.value !== wanted) field.value = wanted;
    const found = cases.filter(fits(wanted));
    table.update(found);
    table.element.hidden = !found.length;
    label.hidden = !cases.length && wanted === ALL;
    redraw(
      empty,
      found.length ? "" : hint(cases.length ? "No such case is kept." : `No two nodes differed yet. ${howOften()}`),
    );
  };
  return {
    element,
    update: (report) => {
      ({ cases } = report);
      setText(note, cases.length ? `${plural(cases.length, "case")}, newest first` : "");
      settings.hidden = !store.current;
      show();
    },
    /** Go to the cases in which one node was contradicted, by NETWORK/NODE. */
    of: (key) => {
      wanted = key;
      show();
      element.scrollIntoView();
      element.querySelector("h2").focus({ preventScroll: true });
    },
  };
}
