// Every method: how often, how fast, from where; a row opens to its past, where its time goes and why it misses.

import { read } from "../api.js";
import { Chart } from "../chart.js";
import { h, redraw, refresh, setText } from "../dom.js";
import { count, duration, joined, lately, percent, plural, rate } from "../format.js";
import { MEANING, bars, facts, filterField, firstCall, legend, missed, quiet, section, skipped } from "../parts.js";
import { tiers } from "../tiers.js";
import { errorsOf } from "./error_groups.js";
import { methodTable } from "./method_table.js";
import { rulePanel } from "./rule.js";

const PAST_EVERY = 5000;

const latency = (title, figures) =>
  facts(
    title,
    ["p50", "p90", "p99"]
      .map((name) => [name, joined(duration(figures?.[name]))])
      .concat([["calls", joined(count(figures?.count ?? 0))]]),
  );

/** What a row opens to. Its past is asked for while it is open. */
function detail(first) {
  const charts = [
    new Chart({
      label: "Latency",
      log: true,
      height: 140,
      series: [
        { key: "miss_p99", label: "miss p99", format: duration, colour: "node" },
        { key: "miss_p50", label: "miss p50", format: duration, colour: "node", dash: [4, 3] },
        { key: "hit_p99", label: "hit p99", format: duration, colour: "accent" },
        { key: "hit_p50", label: "hit p50", format: duration, colour: "accent", dash: [4, 3] },
      ],
    }),
    new Chart({
      label: "Calls",
      height: 140,
      series: [{ key: "calls_per_second", label: "", format: rate, colour: "accent", area: true }],
    }),
    new Chart({
      label: "Hit ratio",
      height: 140,
      floor: 1,
      series: [{ key: "hit_ratio", label: "", format: percent, colour: "redis", area: true }],
    }),
  ];
  const told = h("div", { class: "facts" });
  const rule = rulePanel(first);
  const failed = errorsOf(first);
  let askedAt = -Infinity;
  const ask = async () => {
    askedAt = performance.now();
    const query = new URLSearchParams({ network: first.network, method: first.method });
    const past = await read(`methods/history?${query}`).catch(() => null);
    if (past) for (const chart of charts) chart.update(past);
  };
  return {
    element: h(
      "div",
      {},
      h(
        "div",
        { class: "charts three" },
        charts.map((chart) => chart.element),
      ),
      told,
      failed.element,
      rule.element,
    ),
    update: (method) => {
      if (performance.now() - askedAt > PAST_EVERY) ask();
      refresh(told, JSON.stringify(method), () => figuresOf(method));
      failed.update();
      rule.update(method);
    },
    gone: () => charts.forEach((chart) => chart.gone()),
  };
}

const STEPS = {
  parse: "reading the request",
  plan: "planning",
  memory: "looking in memory",
  disk: "reading from the disk",
  redis: "asking Redis",
  flight: "waiting for the same call",
  forward: "asking nodes",
  encode: "writing the answer",
};
const AT_ONCE = ["local", "memory", "refused"];

/** Where the seconds of a method go: what was answered at once as a whole, the rest by its steps. */
function timesOf({ seconds, sources, steps }) {
  const calls = (...names) => names.reduce((sum, name) => sum + (sources[name] ?? 0), 0);
  const slow = Object.entries(seconds)
    .filter(([name]) => !AT_ONCE.includes(name))
    .reduce((sum, [, taken]) => sum + taken, 0);
  const stepped = Object.values(steps).reduce((sum, taken) => sum + taken, 0);
  const times = {
    flight: calls("flight"),
    forward: calls("node", "partial"),
    disk: calls("disk", "redis", "node", "partial"),
    redis: calls("redis", "node", "partial"),
  };
  const rows = [
    ...AT_ONCE.filter((name) => seconds[name]).map((name) => [MEANING[name], seconds[name], calls(name)]),
    ...Object.entries(steps).map(([step, taken]) => [STEPS[step] ?? step, taken, times[step] ?? 0]),
    ...(slow
      ? [["the proxy itself", Math.max(0, slow - stepped), calls("disk", "redis", "flight", "node", "partial")]]
      : []),
  ];
  return rows
    .sort(([, one], [, two]) => two - one)
    .map(([name, taken, many]) => [
      name,
      taken,
      many ? `${plural(many, "call")}, ${joined(duration(taken / many))} each` : joined(duration(taken)),
    ]);
}

function figuresOf(method) {
  return [
    bars("Where the time goes, last minute", timesOf(method)),
    latency("Hits", method.hit),
    latency("Misses", method.miss),
    missed(method.misses),
    skipped(method.skips),
    facts("All", [
      ["share of calls", joined(percent(method.share))],
      ["since the start", plural(method.calls_total, "call")],
      ["refused", joined(count(method.refused))],
    ]),
  ];
}

function stepsSection() {
  const hold = h("div", { class: "facts" });
  return {
    element: section("Where the time goes", quiet("all methods, last minute"), hold),
    update: (steps) =>
      redraw(hold, JSON.stringify(steps), () =>
        steps.length
          ? bars(
              "",
              steps.map((step) => [
                STEPS[step.step] ?? step.step,
                step.seconds,
                `${plural(step.count, "time")}, p50 ${joined(duration(step.p50))}, p99 ${joined(duration(step.p99))}`,
              ]),
            )
          : quiet("Nothing was timed in the last minute."),
      ),
  };
}

export const methods = {
  title: "Methods",
  needs: { methods: { path: "methods" } },
  build: (documents) => {
    const table = methodTable(documents.overview.networks.length > 1, { detail, tiers: tiers() });
    const note = quiet();
    const empty = h("div");
    const steps = stepsSection();
    const field = filterField(table, "methods", () => tell());
    const colours = legend();
    const element = section("Methods", note, empty, table.element, colours);
    element.querySelector(".head").append(h("span", { class: "end" }, field));
    let last = { methods: [], minute: null };
    const tell = () =>
      setText(
        note,
        !last.methods.length
          ? ""
          : `${table.shown === last.methods.length ? last.methods.length : `${table.shown} of ${last.methods.length}`} called since the start${last.minute ? ` · figures of the last ${lately(last.minute)}` : ""}`,
      );
    return {
      elements: [element, steps.element],
      update: ({ methods: now, overview }) => {
        last = now;
        table.update(now.methods);
        tell();
        for (const part of [table.element, colours, field]) part.hidden = !now.methods.length;
        redraw(empty, String(now.methods.length > 0), () => (now.methods.length ? "" : firstCall(overview)));
        steps.update(overview.steps);
      },
      drafted: () => table.update(last.methods),
      gone: () => table.gone(),
    };
  },
};
