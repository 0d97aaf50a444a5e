// Every method: how often, how fast, from where; a row opens to its past, where its time goes and why it misses.

import { read } from "../api.js";
import { Chart } from "../chart.js";
import { h, redraw, refresh, setText } from "../dom.js";
import { count, duration, joined, lately, percent, plural, rate } from "../format.js";
import {
  MEANING,
  STEP_WORDS,
  atEnd,
  bars,
  errorFigure,
  facts,
  filterField,
  firstCall,
  input,
  legend,
  methodName,
  missed,
  paced,
  quiet,
  section,
  select,
  skipped,
} from "../parts.js";
import { store, tierNames } from "../store.js";
import { Table, numbers, words } from "../table.js";
import { CACHE, ruleWords } from "../wording.js";
import { errorsOf } from "./error_groups.js";
import { methodTable } from "./method_table.js";
import { pathOf } from "./setting.js";

/** A rule that rules nothing. */
const NONE = { cache: "", max_age: 0, stale: 0, agree: 1, prove: false };

/** Who may not change the rule reads it. */
function rulePanel({ network, method }) {
  const rules = ["networks", network, "rules"];
  const path = [...rules, method];
  const cache = select("kept", Object.entries(CACHE));
  const seconds = { class: "field weight", type: "number", min: "0", max: "86400", step: "any" };
  const age = input("for at most, seconds", seconds);
  const stale = input("then while it is fetched anew, seconds", seconds);
  const pattern = quiet();
  const told = h("p");
  const fields = [cache, age, stale];
  const collect = () => {
    const written = { cache: cache.value, max_age: Number(age.value) || 0, stale: Number(stale.value) || 0 };
    const wanted = { ...ruleNow(), ...written };
    const empty = JSON.stringify(wanted) === JSON.stringify(NONE);
    store.set(path, empty && !patternOf() ? null : wanted);
  };
  const patternOf = () =>
    Object.keys(store.inForce(rules) ?? {}).find((name) => name.endsWith("*") && method.startsWith(name.slice(0, -1)));
  const ruleNow = () => {
    const covering = patternOf();
    const { prove, ...covered } = (covering && store.inForce([...rules, covering])) || {}; // few methods can be proved
    return { ...NONE, ...(store.value(path) ?? covered) };
  };
  for (const field of fields) field.addEventListener("change", collect);
  const form = h(
    "div.inline",
    h("label", "kept", cache),
    h("label", "for at most", age, "s"),
    h("label", "then, while it is fetched anew, for", stale, "s"),
    quiet("0: no limit of its own"),
  );
  const element = h(
    "div.rule",
    h("h3", "Its cache rule"),
    store.writable ? form : told,
    h("p", pathOf(path), " ", pattern),
  );
  return {
    element,
    update: () => {
      element.hidden = !store.current || store.inForce(["networks", network]) === undefined;
      const covering = patternOf();
      const rule = ruleNow();
      [
        ["cache", cache],
        ["max_age", age],
        ["stale", stale],
      ].forEach(([name, field]) => {
        if (document.activeElement !== field && field.value !== String(rule[name])) field.value = rule[name];
      });
      setText(told, `Answers are kept ${ruleWords(rule)}.`);
      element.classList.toggle("drafted", store.changed(path));
      setText(pattern, covering ? `The rule “${covering}” covers it, too.` : "");
    },
  };
}

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
  const told = h("div.facts");
  const rule = rulePanel(first);
  const failed = errorsOf(first);
  const ask = paced(PAST_EVERY, async () => {
    const query = new URLSearchParams({ network: first.network, method: first.method });
    const past = await read(`methods/history?${query}`).catch(() => null);
    if (past) for (const chart of charts) chart.update(past);
  });
  return {
    element: h("div", h("div.charts.three", charts), told, failed, rule),
    update: (method) => {
      ask();
      refresh(told, figuresOf(method));
      failed.update();
      rule.update(method);
    },
  };
}

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
    ...Object.entries(steps).map(([step, taken]) => [STEP_WORDS[step] ?? step, taken, times[step] ?? 0]),
    slow > 0 && ["the proxy itself", Math.max(0, slow - stepped), calls("disk", "redis", "flight", "node", "partial")],
  ];
  return rows
    .filter(Boolean)
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
  const hold = h("div.facts");
  return {
    element: section("Where the time goes", quiet("all methods, last minute"), hold),
    update: (steps) =>
      redraw(
        hold,
        steps.length
          ? bars(
              "",
              steps.map((step) => [
                STEP_WORDS[step.step] ?? step.step,
                step.seconds,
                `${plural(step.count, "time")}, p50 ${joined(duration(step.p50))}, p99 ${joined(duration(step.p99))}`,
              ]),
            )
          : quiet("Nothing was timed in the last minute."),
      ),
  };
}

/** What arithmetic told of the answers that nodes gave; hidden until one was judged. */
function proofsSection(severalNetworks) {
  const part = (title, standing, hint, more) =>
    numbers(title, ({ proofs }) => proofs[standing] ?? 0, count, { hint, ...more });
  const answers = ({ proofs }) => Object.values(proofs).reduce((sum, many) => sum + many, 0);
  const table = new Table({
    label: "Answers judged by arithmetic",
    key: (method) => `${method.network}/${method.method}`,
    sort: severalNetworks ? 2 : 1,
    find: (method) => method.method,
    columns: [
      { title: "Method", sort: (method) => method.method, cell: (method) => methodName(method.method) },
      severalNetworks && words("Network", (method) => method.network, { fold: 5 }),
      part("Proved", "proved", "the hashes that the answer names come out right"),
      part("Consistent", "consistent", "nothing contradicts them; no hash covers all that they show"),
      part("Not provable", "not_provable", "empty, or nothing that the chain hashes: Explain tells why"),
      part("Unsure", "unsure", "the block that it is judged by could not be had", { fold: 1 }),
      part("Doubted", "doubted", "another node was asked whether it has a better answer", { fold: 3 }),
      part("Disproved", "disproved", "false, and given to nobody", {
        cell: ({ proofs }) => errorFigure(proofs.disproved ?? 0),
      }),
      part("Poisoned", "poisoned", "false, and kept by Redis or the disk: a node was asked instead", {
        cell: ({ proofs }) => errorFigure(proofs.poisoned ?? 0),
        fold: 4,
      }),
      numbers("Cost", (method) => method.proof_seconds / answers(method), duration, {
        hint: "of the proxy's own time, for each answer",
        fold: 2,
      }),
    ],
  });
  table.element.classList.add("cards");
  const element = section("Answers judged by arithmetic", quiet("since the start"), table);
  const hide = () => {
    element.hidden = !table.shown;
  };
  return {
    element,
    filter: (text) => {
      table.filter(text);
      hide();
    },
    update: (all) => {
      table.update(all.filter(answers));
      hide();
    },
  };
}

export const methods = {
  title: "Methods",
  needs: { methods: { path: "methods" } },
  build: (documents) => {
    const table = methodTable(documents.overview.networks.length > 1, { detail, tiers: tierNames() });
    const note = quiet();
    const [empty, command] = [h("div"), firstCall(documents.overview)];
    const steps = stepsSection();
    const proofs = proofsSection(documents.overview.networks.length > 1);
    const field = filterField("methods by name", (text) => {
      table.filter(text);
      proofs.filter(text);
      tell();
    });
    const colours = legend();
    const element = section("Methods", [note, atEnd(field)], empty, table, colours);
    let last = { methods: [], minute: null };
    const tell = () =>
      setText(
        note,
        !last.methods.length
          ? ""
          : `${table.shown === last.methods.length ? last.methods.length : `${table.shown} of ${last.methods.length}`} called since the start${last.minute ? ` · figures of the last ${lately(last.minute)}` : ""}`,
      );
    return {
      elements: [element, proofs, steps],
      update: ({ methods: now, overview }) => {
        last = now;
        table.update(now.methods);
        tell();
        for (const part of [table.element, colours, field]) part.hidden = !now.methods.length;
        redraw(empty, !now.methods.length && command);
        proofs.update(now.methods);
        steps.update(overview.steps);
      },
    };
  },
};
