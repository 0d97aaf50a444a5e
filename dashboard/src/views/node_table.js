// Nodes as rows of figures, without anything to change: for the overview, and the first columns of the nodes view.

import { h, state, svg } from "../dom.js";
import { block, count, duration, joined, percent, rate, span } from "../format.js";
import { errorFigure, shareBar } from "../parts.js";
import { Table, numbers, words } from "../table.js";

const STATES = {
  serving: ["good", "serving"],
  examining: ["idle", "being examined"],
  behind: ["warn", "behind"],
  parked: ["warn", "parked"],
  failing: ["bad", "failing"],
  "wrong-chain": ["bad", "wrong chain"],
  cordoned: ["idle", "cordoned"],
  drained: ["idle", "drained"],
  unknown: ["idle", "not known yet"],
};

const ofState = (node) =>
  node.state === "serving" && node.warned ? ["warn", "serving"] : (STATES[node.state] ?? ["idle", node.state]);

/** The nodes, each with `warned`: what Attention says of it beside its state; empty where that is nothing. */
export function withAttention(nodes, attention) {
  const failing = attention.filter(({ kind }) => kind === "failing");
  const told = new Map(failing.map(({ subject, text }) => [subject, text.replace(`node ${subject}`, "it")]));
  return nodes.map((node) => ({ ...node, warned: told.get(`${node.network}/${node.id}`) ?? "" }));
}

/** The word for the state of a node, whether or not it is suspected. */
export const wordOf = (node) => ofState(node)[1];

/** "▲ behind", its colour and word by the state of a node. One that is suspected has no other state beside that. */
export const stateOf = (node) => (node.suspect ? state("bad", "suspected") : state(...ofState(node)));

const REPORTED = 3; // seconds after which every worker has told of a drain, and of what it has in flight

/** Why a node is in its state, and what somebody who waits for it wants to know. */
export function reasonOf(node) {
  if (node.state === "drained" && node.since > REPORTED && !node.in_flight)
    return "it may be stopped: this host has no calls in flight there, and sends it none until draining is switched off";
  return node.why || (node.state === "serving" ? node.warned : "");
}

/** Blocks that a node lacks, with their place kept when it lacks none. A new block reaches one node before another,
 *  so only a node that is behind is warned of. */
const lag = (node) =>
  h(
    "span",
    {
      class: node.state === "behind" ? "lag iswarn" : "lag quiet",
      title: node.state === "behind" ? "blocks behind" : "a new block reaches it in a moment",
    },
    node.lag > 0 ? `−${node.lag}` : "",
  );

/** A mark at the head of a node that tells of new blocks by itself. */
const pushes = (node) =>
  node.pushes
    ? svg(
        "svg.pushes",
        { viewBox: "0 0 12 12", role: "img", "aria-label": "pushes" },
        svg("title", "It tells its new heads over a WebSocket."),
        svg("path", { d: "M6.8 1 2.5 7h3L4.8 11 9.5 5H6.2z" }),
      )
    : "";

const nameColumn = {
  title: "Node",
  sort: (node) => `${node.network}/${node.id}`,
  cell: (node) => h("span.name", { title: node.id }, node.id),
};

/** The name, state and head of a node; with its network where rows of several stand among each other, and marked where
 *  its answers are wrong. */
export const identity = (severalNetworks) => [
  nameColumn,
  severalNetworks && words("Network", (node) => node.network),
  {
    title: "State",
    sort: (node) => (node.suspect ? "suspected" : node.state),
    look: "elastic",
    cell: (node) => {
      const [known, reason] = [node.suspect ? ` · ${wordOf(node)}` : "", reasonOf(node)];
      const since = node.since === null ? "" : ` for ${span(node.since).split(" ")[0]}`;
      return h(
        "div.line",
        { title: reason || null },
        stateOf(node),
        h("span.quiet", known, since, reason ? ` · ${reason}` : ""),
      );
    },
  },
  {
    title: "Head",
    right: true,
    fold: 6,
    sort: (node) => node.head,
    cell: (node) => [lag(node), pushes(node), block(node.head)],
  },
];

export const share = {
  title: "Share got / wanted",
  right: true,
  sort: (node) => node.share_got,
  hint: "of calls in the last 10 s, or since the start where that is less; the mark is what the weights ask for, with ~ where the balancer looks at more than weights. A node that gets new blocks later gets fewer calls about them.",
  cell: (node) => [
    joined(percent(node.share_got)),
    h(
      "span",
      node.share_aim ? { class: "unit", title: `The balancer aims at ${node.share_aim}.` } : { class: "unit" },
      ` / ${node.share_aim && node.share_wanted ? "~" : ""}${joined(percent(node.share_wanted))}`,
    ),
    shareBar(node.share_got, node.share_wanted),
  ],
};

export const figures = () => [
  numbers("Calls", (node) => node.calls_per_second, rate, { fold: 5 }),
  numbers("p50", (node) => node.latency?.p50, duration, { fold: 2 }),
  numbers("p99", (node) => node.latency?.p99, duration, { fold: 3 }),
  numbers("In flight", (node) => node.in_flight, count, { fold: 1 }),
  numbers("Failed", (node) => node.failed, count, {
    hint: "attempts without a result by the node's fault, in the time that stands above the table",
    cell: (node) => errorFigure(node.failed),
  }),
];

export function nodeTable(severalNetworks) {
  return new Table({
    label: "Nodes",
    key: (node) => `${node.network}/${node.id}`,
    columns: [...identity(severalNetworks), numbers("Weight", (node) => node.weight, count), share, ...figures()],
  });
}
