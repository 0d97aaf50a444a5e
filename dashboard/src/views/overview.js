// The big picture: what needs attention, four readings and the charts of the same; then each network and its nodes.

import { Chart } from "../chart.js";
import { figure, h, redraw, setText, state } from "../dom.js";
import { NONE, block, count, duration, joined, lately, money, percent, plural, rate, span } from "../format.js";
import { HeatChart } from "../heat.js";
import { leadsTo, mostUrgent, muteControl, notices } from "../notices.js";
import { codeColour, outcomeSeries } from "../outcomes.js";
import { atEnd, button, firstCall, networkState, quiet, section } from "../parts.js";
import { store } from "../store.js";
import { Table, numbers } from "../table.js";
import { RANGE_SECONDS, RANGE_WORDS, networkControl, spanControl, timeSpan } from "../timespan.js";
import { hostsSection } from "./hosts.js";
import { methodTable } from "./method_table.js";
import { nodeTable, withAttention } from "./node_table.js";
import { subscriptionsSection } from "./subscriptions.js";

const TOP = 8;
const MANY = 12; // nodes: beyond, those in trouble and the busiest are shown
const HEIGHT = 178;
const LIMITS = { warn: 0.05, bad: 0.2 }; // shares of failed calls, where the settings say nothing
const URGENT = 3; // sentences about what needs attention, before the rest is asked for: charts stay above the fold
const FEW = 10; // failed calls: fewer are no reason for a colour

/** How bad a share of failed calls is. */
export function errorLevel(ratio, errors, limits = {}) {
  const { warn, bad } = { ...LIMITS, ...limits };
  if (!(errors >= FEW)) return null;
  return ratio >= bad ? "isbad" : ratio >= warn ? "iswarn" : null;
}

class Reading {
  constructor(title, tags) {
    this.figures = tags.map((tag) => ({ value: h("span"), tag }));
    this.under = h("div.under");
    this.element = h(
      "div.reading",
      h("h2", title),
      h(
        "div.figures",
        this.figures.map(({ value, tag }) => h("div.figure", value, tag ? h("span.tag", tag) : null)),
      ),
      this.under,
    );
  }

  update(values, under, level = null) {
    values.forEach((value, index) => redraw(this.figures[index].value, h("span", { class: level }, figure(value))));
    setText(this.under, under);
    this.under.title = under;
  }
}

function readings() {
  const all = {
    calls: new Reading("Calls", [null]),
    hits: new Reading("Hit ratio", [null]),
    p99: new Reading("p99", ["misses", "hits"]),
    errors: new Reading("Errors", [null]),
  };
  return {
    element: h("div.readings", Object.values(all)),
    update: (overview, settings) => {
      const now = (timeSpan.network ? overview.by_network?.[timeSpan.network] : overview.readings) ?? {};
      const over = now.window ? `in ${span(now.window)}` : "";
      all.calls.update(
        [rate(now.calls_per_second)],
        `${joined(count(overview.in_flight))} in flight · ${plural(overview.connections, "client connection")}`,
      );
      all.hits.update(
        [percent(now.hit_ratio)],
        now.hit_ratio === undefined || now.hit_ratio === null
          ? "no calls to speak of"
          : `of ${plural(now.calls - now.refused_calls, "call")} ${over}`,
      );
      all.p99.update(
        [duration(now.miss?.p99), duration(now.hit?.p99)],
        now.miss || now.hit
          ? `half are under ${joined(duration(now.miss?.p50))} and ${joined(duration(now.hit?.p50))}`
          : "no answers to measure",
      );
      all.errors.update(
        [percent(now.error_ratio)],
        now.errors === undefined
          ? NONE
          : `${joined(count(now.errors))} of ${joined(count(now.calls - now.refused_calls))} failed ${over} · ${joined(count(now.client_errors))} by callers · ${joined(count(now.refused))} refused`,
        errorLevel(now.error_ratio, now.errors, settings?.document?.errors),
      );
    },
  };
}

const MISTAKES = { key: "client_errors", label: "by callers", format: rate, colour: "muted", dash: [4, 3] };

/** The charts above the fold; each shows what `timeSpan` says. */
function firstCharts() {
  const chart = { height: HEIGHT, zoom: true };
  const calls = new Chart({ ...chart, label: "Calls", series: outcomeSeries(rate) });
  const hits = new Chart({
    ...chart,
    label: "Hit ratio",
    floor: 1,
    series: [{ key: "hit_ratio", format: percent, colour: "accent", area: true }],
  });
  const heat = new HeatChart({ ...chart, label: "Latency" });
  const errors = new Chart({ ...chart, label: "Errors", series: [MISTAKES] });
  const made = { key: "node_calls_per_second", label: "made", format: rate, colour: "node" };
  const nodes = new Chart({
    label: "Node calls",
    zoom: true,
    height: 140,
    series: [made, { key: "spared_per_second", label: "saved", format: rate, colour: "redis" }],
  });
  const all = [calls, hits, heat, errors, nodes];
  let codes = "";
  return {
    element: h("div.charts", [calls, hits, heat, errors]),
    nodes: nodes.element,
    again: () => all.forEach((one) => one.again()),
    update: (history) => {
      const seconds = RANGE_SECONDS[timeSpan.range];
      const found = Object.keys(history.codes);
      if (codes !== found.join())
        errors.define([
          ...found.map((code) => ({
            key: `code ${code}`,
            label: code,
            format: rate,
            colour: codeColour(code),
            stack: true,
          })),
          MISTAKES,
        ]);
      codes = found.join();
      const coded = Object.fromEntries(Object.entries(history.codes).map(([code, column]) => [`code ${code}`, column]));
      const columns = { ...history.columns, ...history.outcomes, ...coded, seconds: history.seconds };
      for (const one of [calls, hits, errors, nodes]) one.update(columns, seconds);
      heat.show(columns, history.latency, seconds);
    },
  };
}

/** Hosts are asked about where there may be others. */
const hostsNeeded = () => (store.current?.shared ? { hosts: { path: "hosts", every: 2000, optional: true } } : {});

/** One line for each range: what the cache did over it. */
function sumsTable() {
  const of = (name) => (row) => row[name];
  const withCost = (name) => (row) => [
    joined(count(row[`${name}_calls`])),
    row[`${name}_credits`] === null ? "" : h("span.unit", ` · ${joined(count(row[`${name}_credits`]))} units`),
    row[`${name}_cost`] === null ? "" : h("span.unit", ` · ${joined(money(row[`${name}_cost`], row.currency))}`),
  ];
  return new Table({
    label: "The last five minutes, hour, day and week",
    key: (row) => row.range,
    sortable: false,
    columns: [
      {
        title: "Over",
        cell: (row) => [RANGE_WORDS[row.range], row.short ? h("span.unit", ` (${span(row.window)} so far)`) : ""],
      },
      numbers("Calls", of("calls_per_second"), rate),
      numbers("Hit ratio", of("hit_ratio"), percent, {
        cell: (row) => [
          joined(percent(row.hit_ratio)),
          h("span.unit", row.hit_ratio === null ? "" : ` of ${joined(count(row.calls - row.refused_calls))}`),
        ],
      }),
      numbers("Hit p50", (row) => row.hit?.p50, duration, { fold: 1 }),
      numbers("Hit p99", (row) => row.hit?.p99, duration),
      numbers("Miss p50", (row) => row.miss?.p50, duration, { fold: 1 }),
      numbers("Miss p99", (row) => row.miss?.p99, duration),
      numbers("Failed", of("errors"), count, { hint: "what the proxy or its nodes failed at" }),
      numbers("By callers", of("client_errors"), count, { hint: "errors by the callers' own doing" }),
      numbers("Node calls made", of("node_calls"), count, { cell: withCost("node") }),
      numbers("Node calls saved", of("spared_calls"), count, {
        hint: "answered by the proxy itself, or together with the same call",
        cell: withCost("spared"),
      }),
      numbers("Waiting saved", of("spared_seconds"), count, {
        hint: "a hit counts as the mean miss of its method at that time",
        cell: (row) => [span(row.spared_seconds)],
      }),
    ],
  });
}

function savedSection(charts) {
  const table = sumsTable();
  return {
    element: section("What the cache saved", null, table, h("div.pair", charts.nodes)),
    update: ({ sums, currency }) =>
      table.update(
        Object.entries(sums)
          .filter(([, found]) => found)
          .map(([range, found]) => ({ range, currency, short: found.window < RANGE_SECONDS[range] * 0.98, ...found })),
      ),
  };
}

function networkTable() {
  return new Table({
    label: "Networks",
    key: (network) => network.network,
    columns: [
      { title: "Network", cell: (one) => one.network },
      { title: "State", cell: (one) => [networkState(one), one.note ? h("span.why", one.note) : ""] },
      { title: "Head", right: true, cell: (one) => block(one.head) },
      { title: "Moved", right: true, cell: (one) => (one.age === null ? NONE : `${span(one.age)} ago`) },
      { title: "A block takes", right: true, cell: (one) => span(one.block_time) },
      { title: "Chain", cell: (one) => (one.shard === null ? one.chain : `${one.chain}, shard ${one.shard}`) },
      { title: "Balancer", cell: (one) => one.balancer.replaceAll("_", " ") },
    ],
  });
}

/** All nodes in the order of the settings, or those that need a look and then the busiest. */
function looked(nodes) {
  if (nodes.length <= MANY) return nodes;
  const rank = (node) => (node.state === "serving" ? 0 : 1);
  return [...nodes]
    .sort((one, two) => rank(two) - rank(one) || two.calls_per_second - one.calls_per_second)
    .slice(0, MANY);
}

const chosen = (rows) => (timeSpan.network ? rows.filter(({ network }) => network === timeSpan.network) : rows);

/** What needs attention comes first; when nothing does, the head says so. */
function firstSection(networks, charts, changed, muted) {
  const parts = {
    readings: readings(),
    notices: notices(
      (notice) => leadsTo(notice, networks),
      () => muteControl(muted),
    ),
    span: spanControl(changed),
  };
  const well = h("span");
  let [all, told] = [false, []];
  const more = button("", () => {
    all = !all;
    tell();
  });
  const webhooks = h("a.quiet", { href: "#/settings/alerts" }, "alerts");
  const attention = h("div.attention", { role: "region", "aria-label": "Attention" }, parts.notices);
  const tell = () => {
    const worst = mostUrgent(told, networks);
    attention.hidden = !told.length;
    if (told.length) parts.notices.update(all ? worst : worst.slice(0, URGENT));
    redraw(
      well,
      told.length
        ? quiet(`${plural(told.length, "thing needs", "things need")} attention`)
        : state("good", "Nothing needs attention"),
    );
    const many = Object.keys(store.inForce(["alerts", "webhooks"]) ?? {}).length;
    webhooks.hidden = !told.length || !store.current;
    webhooks.title = many ? `${plural(many, "webhook is", "webhooks are")} told` : "no webhook is told";
    more.hidden = told.length <= URGENT;
    setText(more, all ? "The worst alone" : `Show all ${told.length}`);
  };
  const element = section(
    "Overview",
    [well, more, webhooks, atEnd(networkControl(networks), parts.span)],
    attention,
    parts.readings,
    charts,
  );
  element.classList.add("first");
  return {
    element,
    update: (now, settings) => {
      told = now.attention;
      tell();
      parts.readings.update(now, settings);
    },
  };
}

export const overview = {
  title: "Overview",
  needs: () => ({
    nodes: { path: "nodes" },
    methods: { path: "methods", every: 2000 },
    history: timeSpan.need(),
    ...hostsNeeded(),
  }),
  build: (documents, feed) => {
    const names = documents.overview.networks.map(({ network }) => network);
    const charts = firstCharts();
    const saved = savedSection(charts);
    const live = subscriptionsSection();
    const hosts = hostsSection();
    let last = documents;
    const first = firstSection(
      names,
      charts,
      () => {
        feed.turn("history");
        charts.again();
        live.again();
        show(last);
      },
      () => feed.stale("overview"),
    );
    const tables = {
      networks: networkTable(),
      nodes: nodeTable(names.length > 1),
      methods: methodTable(names.length > 1, { brief: true }),
    };
    const more = h("a", { href: "#/methods" });
    const [tune, covered, counted] = [h("a", { href: "#/nodes" }), quiet(), quiet()];
    const [empty, command] = [h("div"), firstCall(documents.overview)];
    const show = ({ overview: now, nodes, methods, settings }) => {
      first.update(now, settings);
      tables.networks.update(chosen(now.networks));
      tables.nodes.update(looked(chosen(withAttention(nodes.nodes, now.attention))));
      setText(tune, nodes.nodes.length > MANY ? `all ${nodes.nodes.length}, and tune them` : "tune them");
      setText(covered, nodes.minute ? `latency and failures of the last ${lately(nodes.minute)}` : "");
      live.update(now, chosen(now.subscriptions), nodes.minute);
      const called = chosen(methods.methods);
      tables.methods.update([...called].sort((one, two) => two.calls - one.calls).slice(0, TOP));
      tables.methods.element.hidden = !called.length;
      setText(more, called.length > TOP ? `all ${called.length}` : "in full");
      setText(counted, methods.minute ? `figures of the last ${lately(methods.minute)}` : "");
      redraw(empty, !called.length && command);
    };
    return {
      elements: [
        first,
        hosts,
        section("Networks", null, tables.networks),
        section("Nodes", [tune, covered], tables.nodes),
        live,
        section("Busiest methods", [more, counted], empty, tables.methods),
        saved,
      ],
      update: (found) => {
        last = found;
        show(found);
        hosts.update(store.current?.shared ? found.hosts : null);
        if (!found.history) return; // the network that was looked at is gone
        charts.update(found.history);
        saved.update(found.history);
        live.draw(found.history);
      },
    };
  },
};
