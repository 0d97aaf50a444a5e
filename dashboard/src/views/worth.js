// What each node is worth: its calls, its latency against the others', errors, lag, agreement, quota and cost.

import { h, redraw } from "../dom.js";
import { NONE, count, digits, duration, joined, moment, money, percent, plural } from "../format.js";
import { FAILED, facts, listing, methodName, reasons } from "../parts.js";
import { Table, numbers, words } from "../table.js";

const METHODS = 12; // of a node that are listed, those called most

/** "3.10×" of the seconds of the others. */
const times = (ratio) => (ratio === null ? NONE : `${digits(ratio)}×`);
const spread = ({ low, high }) => (low === null || high === null ? "" : ` (${digits(low)}–${digits(high)})`);
const against = (figures) => [times(figures.ratio), h("span.unit", spread(figures))];
const errorsOf = (node) => Object.values(node.errors).reduce((sum, one) => sum + one, 0);
const byCount = (counts) => Object.entries(counts).sort(([, one], [, two]) => two - one);
const kinds = ({ errors }) =>
  byCount(errors)
    .map(([kind, times_]) => `${joined(count(times_))} ${FAILED[kind] ?? kind}`)
    .join(", ");
const part = (node) => (node.calls ? node.failed / node.calls : null);

/** "3 disproved · 0 of 512 wrong", and what else there is: undecided, false hashes. */
export function agreement({ compared, minority, undecided, false_hashes: hashes, disproved, suspect }) {
  if (!compared && !hashes && !disproved) return [h("span.quiet", "none compared")];
  const wrong = [
    disproved ? `${joined(count(disproved))} disproved` : "",
    compared || !disproved ? `${joined(count(minority))} of ${joined(count(compared))} wrong` : "",
  ].filter(Boolean);
  return [
    h(
      "span",
      { class: suspect || disproved ? "isbad" : minority ? "iswarn" : null },
      `${suspect ? "✖ " : ""}${wrong.join(" · ")}`,
    ),
    undecided ? h("span.unit", ` · ${joined(count(undecided))} undecided`) : "",
    hashes ? h("span.unit", ` · ${plural(hashes, "false hash", "false hashes")}`) : "",
  ];
}

/** What it means that a node has no costs. */
const unbilled = ({ cost }) => `it has no costs${cost === null ? "" : ": each of its calls is priced as one unit"}`;

const ends = ({ window, renews }) => `the ${window}'s end, ${moment(Date.parse(renews) / 1000)}`;

/** "81 % → 121 % of the month" */
function quota(node) {
  return node.quota.map((one, index) => {
    const over = one.projected > one.limit;
    return h(
      "span",
      {
        title: `${joined(count(one.used))} of ${joined(count(one.limit))} ${node.unit} used; ${joined(count(one.projected))} by ${ends(one)}, at the pace of this report`,
      },
      index ? " · " : "",
      joined(percent(one.used / one.limit)),
      " → ",
      h("span", { class: over ? "iswarn" : null }, `${over ? "▲ " : ""}${joined(percent(one.projected / one.limit))}`),
      h("span.unit", ` of the ${one.window}`),
    );
  });
}

const others = (seconds) => (seconds === null ? h("span.quiet", "never asked") : joined(duration(seconds)));

const HEADS = [
  ["Method"],
  ...["Answers", "Mean", "Mean of the others", "Against the others"].map((title) => [title, "right"]),
];

function methods(found) {
  if (!found.length) return null;
  const row = (one) => [
    methodName(one.method, one.method),
    joined(count(one.calls)),
    joined(duration(one.mean)),
    others(one.others),
    against(one),
  ];
  const more = found.length - METHODS;
  return [
    h("h3", "By method"),
    listing("By method", HEADS, found.slice(0, METHODS).map(row), { class: "methods" }),
    more > 0 && h("p.quiet", `and ${more} more, called less: `, h("code", "rpcaccel nodes --report --json")),
  ];
}

function draw(node) {
  const { compared, minority, undecided, false_hashes: hashes, disproved } = node.agreement;
  return [
    h(
      "div.facts",
      errorsOf(node)
        ? reasons("Errors by kind", Object.fromEntries(byCount(node.errors)), FAILED)
        : facts("Errors", [["none", ""]]),
      facts("Behind the others", [
        ["share of the time", joined(percent(node.lag.behind_share))],
        ["blocks it lacked, half the time at most", joined(count(node.lag.p50 ?? NaN))],
        ["99 % of the time at most", joined(count(node.lag.p99 ?? NaN))],
      ]),
      facts("Answers compared with other nodes", [
        ["compared", joined(count(compared))],
        ["contradicted by two others", joined(count(minority))],
        undecided && ["undecided", joined(count(undecided))],
        hashes && ["false block hashes in logs", joined(count(hashes))],
        disproved && ["disproved by the call or their block", h("span.isbad", joined(count(disproved)))],
      ]),
      node.credits === null ? [] : facts("Cost of its calls", [[node.unit, joined(count(node.credits))]]),
      node.quota.map((one) =>
        facts(`Quota of the ${one.window}`, [
          ["used", `${joined(count(one.used))} of ${joined(count(one.limit))} ${node.unit}`],
          [
            `by ${ends(one)}`,
            h("span", { class: one.projected > one.limit ? "iswarn" : null }, joined(count(one.projected))),
          ],
        ]),
      ),
    ),
    methods(node.latency.methods),
  ].flat();
}

function detail() {
  const element = h("div");
  return { element, update: (node) => redraw(element, draw(node)) };
}

/** `currency`: null where nothing has a price; `quotas`: has any node one? `billed`: has any node costs? */
export function worthTable(several, currency, quotas, billed) {
  const table = new Table({
    label: "What each node is worth",
    key: (node) => `${node.network}/${node.id}`,
    detail,
    columns: [
      {
        title: "Node",
        name: "Node in the report",
        sort: (node) => `${node.network}/${node.id}`,
        cell: (node) => [h("span.name", { title: node.id }, node.id), h("span.unseen", " in the report")],
      },
      several && words("Network", (node) => node.network, { fold: 7 }),
      numbers("Calls", (node) => node.calls, count, { hint: "attempts sent to it, repeated ones included" }),
      numbers("Share", (node) => node.share, percent, { hint: "of the calls to the nodes of its network", fold: 6 }),
      numbers("p50", (node) => node.latency.p50 ?? NaN, duration, { fold: 4 }),
      numbers("p99", (node) => node.latency.p99 ?? NaN, duration, { fold: 5 }),
      {
        title: "Against the others",
        right: true,
        sort: (node) => node.latency.ratio,
        cell: (node) => against(node.latency),
        hint: "how many times the seconds of the others it took for the same methods, and where that ratio lies with 95 %",
      },
      {
        title: "Failed",
        right: true,
        sort: part,
        hint: "attempts without a result by the node's fault; the opened row has all errors, reverts among them",
        cell: (node) =>
          h(
            "span",
            { title: kinds(node) || null },
            joined(count(node.failed)),
            h("span.unit", node.failed ? ` · ${joined(percent(part(node)))}` : ""),
          ),
      },
      numbers("Lost hedges", (node) => node.overtaken, count, {
        hint: "attempts given up because a second node, asked as well, was quicker",
        fold: 1,
      }),
      numbers("Behind", (node) => node.lag.behind_share ?? NaN, percent, {
        hint: "share of the time for which it was behind for longer than a new block needs",
        fold: 3,
      }),
      {
        title: "Agreement",
        right: true,
        sort: ({ agreement: { compared, minority, disproved } }) =>
          compared || disproved ? disproved + minority / Math.max(compared, 1) : null,
        cell: (node) => agreement(node.agreement),
        hint: "answers that contradict their call or block; and those that two other nodes contradicted, of those that were compared",
      },
      quotas && {
        title: "Quota used → by its end",
        name: "Quota",
        right: true,
        fold: 2,
        sort: (node) => Math.max(...node.quota.map((one) => one.projected / one.limit), -1),
        cell: (node) => (node.quota.length ? quota(node) : h("span.quiet", NONE)),
        hint: "at the pace of this report",
      },
      billed && {
        title: "Units",
        right: true,
        fold: 2,
        sort: (node) => node.credits,
        cell: (node) =>
          node.credits === null
            ? h("span.quiet", { title: unbilled(node) }, NONE)
            : [joined(count(node.credits)), h("span.unit", ` ${node.unit}`)],
        hint: "what its calls cost, as its provider bills them or its own costs say",
      },
      currency && {
        title: "Cost",
        right: true,
        sort: (node) => node.cost,
        cell: (node) =>
          h(
            "span",
            { title: billed && node.credits === null ? unbilled(node) : null },
            joined(money(node.cost ?? NaN, currency)),
          ),
      },
    ],
  });
  table.element.classList.add("cards", "worth");
  return table;
}
