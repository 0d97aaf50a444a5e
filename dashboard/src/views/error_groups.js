// Errors of one cause as rows; a row opens to samples: whose call it was, its params, and what each node said.

import { read } from "../api.js";
import { h, redraw, refresh, state } from "../dom.js";
import { NONE, count, duration, joined, moment, plural } from "../format.js";
import { FAILED, errorsAt, facts, listing, methodName, paced } from "../parts.js";
import { Table, moments, numbers, words } from "../table.js";

const SAMPLES_EVERY = 4000;

/** Whose doing an error is: level and word. */
export const FAULT_WORDS = { service: ["bad", "failed"], client: ["idle", "by callers"], refused: ["warn", "refused"] };

const fault = ({ fault: whose }) => state(...FAULT_WORDS[whose]);
/** The name that most come from, or how many there are. */
const mostly = (name, counts, what) =>
  name ?? (Object.keys(counts).length ? plural(Object.keys(counts).length, what) : NONE);
const NAMELESS = { "": "several methods", other: "methods no rule names" };
const method = (group) =>
  Object.hasOwn(NAMELESS, group.method)
    ? h("span.words", NAMELESS[group.method])
    : methodName(group.method, group.method);
/** A name that may be long, with a title that has all of it. */
const named = (name) => h("span.name", { title: name }, name);
const spread = (title, name) => ({
  title,
  hint: "that most of the latest come from",
  sort: name,
  cell: (group) => named(name(group)),
});

const ATTEMPTS = [["Node"], ["Asked after", "right"], ["Took", "right"], ["Ended", "words"], ["What it said", "words"]];

function attempts(sample) {
  const row = ({ node, start, seconds, end, said }) => [
    node,
    start ? joined(duration(start)) : "at once",
    joined(duration(seconds)),
    FAILED[end] ?? end,
    said || NONE,
  ];
  return sample.attempts.length ? listing("Attempts", ATTEMPTS, sample.attempts.map(row)) : null;
}

function sampleOf(sample) {
  const about = [
    ["client", `${sample.client}${sample.address ? ` (${sample.address})` : ""}`],
    ["request", sample.request || NONE],
    ["answered after", joined(duration(sample.seconds))],
  ];
  return h(
    "li",
    h(
      "div.sample-head",
      h("b", moment(sample.at)),
      about.map(([name, value]) => h("span", h("span.quiet", `${name} `), value)),
    ),
    h("p.words", sample.message),
    sample.params ? h("pre.answer.params", { tabindex: "0", "aria-label": "Params" }, sample.params) : null,
    sample.params_note ? h("p.quiet", `Params: ${sample.params_note}.`) : null,
    attempts(sample),
    sample.stopped ? h("p.quiet", `Asked no further: ${sample.stopped}.`) : null,
  );
}

const counted = (title, counts) =>
  Object.keys(counts).length
    ? facts(
        title,
        Object.entries(counts)
          .sort(([, one], [, two]) => two - one)
          .map(([name, number]) => [name, joined(count(number))]),
      )
    : null;

function detail(first) {
  const told = h("div.facts");
  const list = h("ul.samples");
  const ask = paced(SAMPLES_EVERY, async () => {
    const opened = await read(`errors/${first.id}`).catch(() => null);
    if (opened)
      refresh(
        list,
        opened.samples.length ? opened.samples.map(sampleOf) : h("li.quiet", "No call of it was kept whole."),
      );
  });
  return {
    element: h("div", told, h("h3", "The latest that were kept whole"), list),
    update: (group) => {
      ask();
      refresh(told, [
        facts("In all", [
          ["errors", joined(count(group.count))],
          ["first", moment(group.first_seen)],
          ["last", moment(group.last_seen)],
          ["kind", group.kind || NONE],
        ]),
        counted("By client", group.clients),
        counted("By node", group.nodes),
      ]);
    },
  };
}

const RANKS = Object.keys(FAULT_WORDS);
/** Failures first, then mistakes of callers, then refusals, which are many; the most frequent of each first. */
export const byFault = (one, two) => RANKS.indexOf(one.fault) - RANKS.indexOf(two.fault) || two.lately - one.lately;

export function groupTable(severalNetworks) {
  const table = new Table({
    label: "Errors that clients got",
    key: (group) => group.id,
    detail,
    find: (group) =>
      `${group.method} ${group.code} ${group.text} ${group.kind} ${Object.keys(group.clients).join(" ")} ${Object.keys(group.nodes).join(" ")}`,
    columns: [
      { title: "Method", sort: (group) => group.method, cell: method },
      severalNetworks && words("Network", (group) => group.network, { fold: 2 }),
      { title: "Whose doing", sort: (group) => group.fault, cell: fault },
      numbers("Last minute", (group) => group.minute, count, { fold: 1 }),
      numbers("In range", (group) => group.lately, count, { hint: "within the time that is chosen above" }),
      numbers(
        "Code",
        (group) => group.code,
        (value) => [String(value), ""],
      ),
      {
        title: "Text, numbers and hashes folded",
        look: "told",
        cell: (group) => h("span.words.error-text", group.text || "several texts"),
      },
      spread("Node", (group) => mostly(group.node, group.nodes, "node")),
      spread("Client", (group) => mostly(group.client, group.clients, "client")),
      moments("Last", (group) => group.last_seen, { fold: 3 }),
    ],
  });
  table.element.classList.add("cards", "error-groups");
  return table;
}

/** The errors of one method in short, with a link to all of them; asked for while its row is open. */
export function errorsOf({ network, method: name }) {
  const hold = h("div.method-errors");
  const ask = paced(SAMPLES_EVERY, async () => {
    const found = await read(`errors?${new URLSearchParams({ network, method: name })}`).catch(() => null);
    const groups = (found?.groups ?? []).filter((group) => group.lately).sort((one, two) => two.lately - one.lately);
    redraw(
      hold,
      groups.length
        ? [
            h("h3", "Its errors, last hour"),
            h(
              "ul.notices",
              groups
                .slice(0, 3)
                .map((group) =>
                  h(
                    "li",
                    fault(group),
                    h("span.words", `${plural(group.lately, "time")} ${group.code}: ${group.text}`),
                  ),
                ),
            ),
            h(
              "p",
              h(
                "a",
                { href: errorsAt({ network, method: name }) },
                groups.length > 3 ? `All ${groups.length} kinds, with samples` : "Samples of them",
              ),
            ),
          ]
        : "",
    );
  });
  return { element: hold, update: ask };
}
