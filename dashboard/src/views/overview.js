// Everything at once: four readings, what needs attention, the past, each network and its nodes.

import { Chart } from "../chart.js";
import { figure, h, redraw, setText, state } from "../dom.js";
import { NONE, block, count, duration, joined, percent, plural, rate, span } from "../format.js";
import { choice, firstCall, notices, quiet, section } from "../parts.js";
import { Table, numbers } from "../table.js";
import { methodTable } from "./method_table.js";
import { nodeTable } from "./node_table.js";

const SECONDS = { "5m": 300, "1h": 3600, "24h": 86400 };
const WORDS = { "5m": "5 min", "1h": "1 h", "24h": "24 h" };
const TOP = 8;
const MANY = 12; // nodes: beyond, those in trouble and the busiest are shown
let range = "5m";

class Reading {
  constructor(title, tags, chart) {
    this.figures = tags.map((tag) => ({ value: h("span"), tag }));
    this.under = h("div", { class: "under" });
    this.chart = new Chart({ small: true, height: 56, label: `${title}, last 5 minutes`, ...chart });
    this.element = h("div", { class: "reading" }, h("h2", {}, title),
      h("div", { class: "figures" }, this.figures.map(({ value, tag }) => h("div", { class: "figure" }, value, tag ? h("span", { class: "tag" }, tag) : null))),
      this.under, this.chart.element);
  }

  update(values, under, columns) {
    values.forEach((value, index) => redraw(this.figures[index].value, value.join(""), () => figure(value)));
    setText(this.under, under);
    this.under.title = under;
    this.chart.update(columns);
  }
}

const misses = (key, more) => ({ key, label: "misses", format: duration, colour: "node", ...more });
const hits = (key, more) => ({ key, label: "hits", format: duration, colour: "accent", ...more });

function readings() {
  const all = {
    calls: new Reading("Calls", [null], { series: [{ key: "calls_per_second", format: rate, colour: "accent", area: true }] }),
    hits: new Reading("Hit ratio", [null], { series: [{ key: "hit_ratio", format: percent, colour: "accent", area: true }], floor: 1 }),
    p99: new Reading("p99", ["misses", "hits"], { log: true, series: [misses("miss_p99"), hits("hit_p99")] }),
    errors: new Reading("Errors", [null], { series: [{ key: "errors_per_second", format: rate, colour: "bad" }], floor: 1 }),
  };
  const update = (overview) => {
    const now = overview.readings ?? {};
    const over = now.window ? `in ${span(now.window)}` : "";
    all.calls.update([rate(now.calls_per_second)], `${joined(count(overview.in_flight))} in flight · ${plural(overview.connections, "client connection")}`, overview.history);
    all.hits.update([percent(now.hit_ratio)], now.hit_ratio === undefined || now.hit_ratio === null ? "no calls to speak of"
      : `of ${plural(now.calls - now.refused_calls, "call")} ${over}`, overview.history);
    all.p99.update([duration(now.miss?.p99), duration(now.hit?.p99)], now.miss || now.hit
      ? `half are under ${joined(duration(now.miss?.p50))} and ${joined(duration(now.hit?.p50))}` : "no answers to measure", overview.history);
    all.errors.update([percent(now.error_ratio)], now.errors === undefined ? NONE
      : `${plural(now.errors, "error")} ${over} · ${joined(count(now.refused))} refused`, overview.history);
  };
  return {
    element: h("section", {}, h("div", { class: "readings" }, Object.values(all).map((reading) => reading.element))),
    update,
    gone: () => Object.values(all).forEach((reading) => reading.chart.gone()),
  };
}

/** One line for each range: what the cache did over it. */
function sumsTable() {
  const of = (name) => (row) => row[name];
  return new Table({
    label: "The last five minutes, hour and day", key: (row) => row.range,
    columns: [
      { title: "Over", text: (row) => row.range + span(row.window), cell: (row) => [WORDS[row.range], row.short ? h("span", { class: "unit" }, ` (${span(row.window)} so far)`) : ""] },
      numbers("Calls", of("calls_per_second"), rate),
      { ...numbers("Hit ratio", of("hit_ratio"), percent), text: (row) => `${percent(row.hit_ratio)}${count(row.calls)}`,
        cell: (row) => [joined(percent(row.hit_ratio)), h("span", { class: "unit" }, row.hit_ratio === null ? "" : ` of ${joined(count(row.calls - row.refused_calls))}`)] },
      numbers("Hit p50", (row) => row.hit?.p50, duration),
      numbers("Hit p99", (row) => row.hit?.p99, duration),
      numbers("Miss p50", (row) => row.miss?.p50, duration),
      numbers("Miss p99", (row) => row.miss?.p99, duration),
      numbers("Errors", of("errors"), count),
      numbers("Node calls made", of("node_calls"), count),
      numbers("Node calls saved", of("spared_calls"), count, { hint: "answered by the proxy itself, or together with the same call" }),
      { ...numbers("Waiting saved", of("spared_seconds"), count, { hint: "a hit counts as the mean miss of its method at that time" }),
        text: (row) => span(row.spared_seconds), cell: (row) => [span(row.spared_seconds)] },
    ].map(({ sort: _, ...column }) => column),
  });
}

function pastSection(feed) {
  const table = sumsTable();
  const made = { key: "node_calls_per_second", label: "made", format: rate, colour: "node" };
  const charts = [
    new Chart({ label: "Latency of misses", log: true, series: [misses("miss_p99", { label: "p99" }), misses("miss_p50", { label: "p50", dash: [4, 3] })] }),
    new Chart({ label: "Latency of hits", log: true, series: [hits("hit_p99", { label: "p99" }), hits("hit_p50", { label: "p50", dash: [4, 3] })] }),
    new Chart({ label: "Calls", series: [{ key: "calls_per_second", label: "calls", format: rate, colour: "accent", area: true }, { key: "errors_per_second", label: "errors", format: rate, colour: "bad" }] }),
    new Chart({ label: "Node calls", series: [made, { key: "spared_per_second", label: "saved", format: rate, colour: "redis" }] }),
  ];
  const pick = choice("Range of the charts", Object.entries(WORDS), range, (chosen) => {
    range = chosen;
    feed.stale("history");
  });
  const element = section("Over time", quiet("dashed lines mark changes of the settings"), table.element, h("div", { class: "charts" }, charts.map((chart) => chart.element)));
  element.querySelector(".head").append(h("span", { class: "end" }, pick));
  return {
    element,
    update: (history) => {
      table.update(Object.entries(history.sums).filter(([, sums]) => sums).map(([name, sums]) => ({ range: name, short: sums.window < SECONDS[name] * 0.98, ...sums })));
      for (const chart of charts) chart.update(history.columns, SECONDS[history.range]);
    },
    gone: () => [table, ...charts].forEach((one) => one.gone()),
  };
}

const LEVELS = { ok: "good", part: "warn", down: "bad" };

function networkTable() {
  return new Table({
    label: "Networks", key: (network) => network.network,
    columns: [
      { title: "Network", text: (one) => one.network, cell: (one) => one.network },
      { title: "State", text: (one) => one.state + one.note + one.eligible + one.nodes, cell: (one) => [state(LEVELS[one.state], `${one.eligible} of ${plural(one.nodes, "node")}`), one.note ? h("span", { class: "why" }, one.note) : ""] },
      { title: "Head", right: true, text: (one) => block(one.head), cell: (one) => block(one.head) },
      { title: "Moved", right: true, text: (one) => span(one.age), cell: (one) => (one.age === null ? NONE : `${span(one.age)} ago`) },
      { title: "A block takes", right: true, text: (one) => span(one.block_time), cell: (one) => span(one.block_time) },
      { title: "Chain", text: (one) => one.chain + one.shard, cell: (one) => (one.shard === null ? one.chain : `${one.chain}, shard ${one.shard}`) },
      { title: "Balancer", text: (one) => one.balancer, cell: (one) => one.balancer.replaceAll("_", " ") },
    ],
  });
}

/** All nodes in the order of the settings, or those that need a look and then the busiest. */
function looked(nodes) {
  if (nodes.length <= MANY) return nodes;
  const rank = (node) => (node.state === "serving" ? 0 : 1);
  return [...nodes].sort((one, two) => rank(two) - rank(one) || two.calls_per_second - one.calls_per_second).slice(0, MANY);
}

export const overview = {
  title: "Overview",
  needs: () => ({ nodes: { path: "nodes" }, methods: { path: "methods", every: 2000 }, history: { path: `history?range=${range}`, every: range === "5m" ? 2000 : 10000 } }),
  build: (documents, feed) => {
    const several = documents.overview.networks.length > 1;
    const parts = { readings: readings(), notices: notices(), past: pastSection(feed) };
    const tables = { networks: networkTable(), nodes: nodeTable(several), methods: methodTable(several, { brief: true }) };
    const more = h("a", { href: "#/methods" });
    const tune = h("a", { href: "#/nodes" });
    const empty = h("div");
    return {
      elements: [parts.readings.element, section("Attention", null, parts.notices.element), section("Networks", null, tables.networks.element),
        section("Nodes", tune, tables.nodes.element), parts.past.element, section("Busiest methods", more, empty, tables.methods.element)],
      update: ({ overview: now, nodes, methods, history }) => {
        parts.readings.update(now);
        parts.notices.update(now.attention);
        tables.networks.update(now.networks);
        tables.nodes.update(looked(nodes.nodes));
        setText(tune, nodes.nodes.length > MANY ? `all ${nodes.nodes.length}, and tune them` : "tune them");
        parts.past.update(history);
        tables.methods.update([...methods.methods].sort((one, two) => two.calls - one.calls).slice(0, TOP));
        tables.methods.element.hidden = !methods.methods.length;
        setText(more, methods.methods.length > TOP ? `all ${methods.methods.length}` : "in full");
        redraw(empty, String(methods.methods.length > 0), () => (methods.methods.length ? "" : firstCall(now)));
      },
      gone: () => {
        parts.readings.gone();
        parts.past.gone();
        for (const table of Object.values(tables)) table.gone();
      },
    };
  },
};
