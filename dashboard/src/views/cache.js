// The cache: its tiers, what it does for each class, and emptying it.

import { change, read } from "../api.js";
import { h, redraw, refresh, setText, state } from "../dom.js";
import { NONE, bytes, count, duration, joined, lately, listed, percent, plural } from "../format.js";
import { notices } from "../notices.js";
import {
  MEANING,
  button,
  choice,
  errorFigure,
  facts,
  firstCall,
  hint,
  input,
  labelled,
  legend,
  missed,
  quiet,
  section,
  select,
  skipped,
} from "../parts.js";
import { confirmed } from "../popups.js";
import { hasTier, store } from "../store.js";
import { Table, numbers, words } from "../table.js";
import { traffic } from "./method_table.js";
import { groupSoon } from "./setting.js";

/** "3 entries in memory, 2 on disk and 1 in Redis": the tiers that there are, and those that something was found in. */
function found({ memory, disk, store: shared, complete }) {
  const parts = [
    `${plural(memory, "entry", "entries")} in memory`,
    hasTier("disk") || disk ? `${joined(count(disk))} on disk` : null,
    hasTier("redis") || shared ? `${joined(count(shared))} in Redis` : null,
  ];
  const silent = listed(
    ["a worker", hasTier("disk") ? "the disk" : null, hasTier("redis") ? "Redis" : null].filter(Boolean),
    "or",
  );
  return `${listed(parts.filter(Boolean))}${complete ? "" : `; ${silent} did not answer for all of its own`}`;
}

/** The options of a choice of methods: those called first, then every other one that the networks have a rule for. */
function methodOptions(called, known) {
  const others = known.filter((name) => !called.includes(name));
  const group = (label, names) =>
    names.length
      ? h(
          "optgroup",
          { label },
          names.map((name) => h("option", name)),
        )
      : null;
  return [group("called since the start", called), group("not called yet", others)];
}

function purgePanel(documents, done) {
  let known = null; // the methods that have a rule, by network
  read("methods/known").then(
    (found) => (known = found),
    () => (known = {}),
  );
  let what = "method";
  const word = h("span.said", { role: "status" });
  const networks = documents.overview.networks.map((one) => one.network);
  const network = select("Network", [["", "every network"], ...networks]);
  const method = select("Method", []);
  const key = input("Key", { class: "field wide", placeholder: "a key, as Explain shows it" });
  const fields = { method: labelled(method), network: labelled(network), key: labelled(key) };
  const shown = { method: ["method", "network"], network: ["network"], key: ["key"], all: [] };
  const pick = (value) => {
    what = value;
    for (const [name, field] of Object.entries(fields)) field.hidden = !shown[what].includes(name);
    setText(word, "");
  };
  const meant = () => {
    if (what === "all" || (what === "network" && !network.value)) return { all: true };
    if (what === "key") return { key: key.value.trim() };
    return {
      ...(what === "method" ? { method: method.value } : {}),
      ...(network.value ? { network: network.value } : {}),
    };
  };
  const named = () =>
    meant().all
      ? "every answer kept"
      : what === "key"
        ? "this key"
        : `answers of ${[what === "method" ? method.value : "", network.value].filter(Boolean).join(" on ")}`;
  const run = async () => {
    if (what === "method" && !method.value) return setText(word, "Which method? None is known yet.");
    if (what === "key" && !key.value.trim()) return setText(word, "Which key? Explain shows the keys of a call.");
    const wanted = meant(); // what was counted is what is removed
    start.disabled = true;
    setText(word, "counting …");
    try {
      const counted = await change("POST", "purge", { ...wanted, dry_run: true });
      setText(word, `${found(counted)}.`);
      const agreed = await confirmed({
        title: `Remove ${named()}?`,
        yes: "Remove",
        text: `That is ${found(counted)}. The next calls for them go to the nodes.`,
      });
      setText(word, agreed ? `Removed: ${found(await change("POST", "purge", wanted))}.` : "Nothing was removed.");
    } catch (problem) {
      setText(word, problem.status === 404 ? "This server cannot purge on demand." : problem.message);
    }
    start.disabled = false;
    return done();
  };
  const start = button("Count, then remove …", run);
  const element = section(
    "Purge",
    quiet(
      `remove kept answers ${listed(["in every worker", hasTier("disk") ? "on disk" : null, hasTier("redis") ? "in Redis" : null].filter(Boolean))}`,
    ),
    h(
      "div.inline",
      choice(
        "What to remove",
        [
          ["method", "a method"],
          ["network", "a network"],
          ["key", "a key"],
          ["all", "everything"],
        ],
        what,
        pick,
      ),
      fields.method,
      fields.network,
      fields.key,
      start,
      word,
    ),
  );
  pick(what);
  return {
    element,
    update: (methods) => {
      element.hidden = store.role !== "admin";
      if (document.activeElement === method) return;
      const of = (name) => !network.value || name === network.value;
      const called = [
        ...new Set((methods?.methods ?? []).filter((one) => of(one.network)).map((one) => one.method)),
      ].sort();
      const ruled = [
        ...new Set(
          Object.entries(known ?? {})
            .filter(([name]) => of(name))
            .flatMap(([, names]) => names),
        ),
      ].sort();
      const chosen = method.value;
      redraw(method, methodOptions(called, ruled));
      if (called.includes(chosen) || ruled.includes(chosen)) method.value = chosen;
    },
  };
}

/** Redis does not say how much of it is ours, nor does a disk that could not be opened. */
const told = (tier, amount) => (tier.shared && !tier.limit && !amount ? null : amount);

/** How a tier is: a level and a word. What is on this host is in use or not; Redis is reached or not. */
function standing({ name, shared, up, fault }) {
  if (name === "disk")
    return !up ? ["bad", "set aside"] : fault ? ["warn", "in use, with trouble"] : ["good", "in use"];
  return !up ? ["bad", "not reached"] : fault ? ["warn", "reached in part"] : ["good", shared ? "reached" : "in use"];
}

const times = ({ reads }) => [reads?.p50, reads?.p99].map((value) => joined(duration(value)));

function tierTable() {
  const failures = (tier) => tier.errors + tier.timeouts + tier.dropped;
  const kinds = (tier) =>
    `${plural(tier.errors, "error")}, ${joined(count(tier.timeouts))} too late, ${plural(tier.dropped, "write")} given up`;
  return new Table({
    label: "Cache tiers",
    key: (tier) => tier.name,
    sortable: false,
    columns: [
      { title: "Tier", cell: (tier) => MEANING[tier.name] ?? tier.name },
      { title: "State", cell: (tier) => [state(...standing(tier)), tier.fault ? h("span.why", tier.fault) : ""] },
      numbers("Entries", (tier) => told(tier, tier.entries), count),
      numbers("Held", (tier) => told(tier, tier.bytes), bytes),
      numbers("Limit", (tier) => tier.limit || null, bytes),
      numbers("Filled", (tier) => (tier.limit ? tier.bytes / tier.limit : null), percent),
      numbers("Lookups", (tier) => tier.hits + tier.misses, count),
      numbers("Hit ratio", (tier) => tier.hit_ratio, percent),
      numbers("Too late", (tier) => tier.late_ratio, percent, {
        hint: "lookups without an answer in time, whose calls went to nodes",
      }),
      {
        title: "Read p50 / p99",
        right: true,
        hint: "the time of a lookup; memory is too quick to be timed",
        cell: (tier) => (tier.reads ? times(tier).join(" / ") : NONE),
      },
      numbers("Stored", (tier) => tier.stored, count),
      numbers("Evicted", (tier) => tier.evicted, count),
      numbers("Expired", (tier) => tier.expired, count),
      numbers("Purged", (tier) => tier.purged, count),
      numbers("Failures", failures, count, {
        hint: "errors, timeouts and writes given up",
        cell: (tier) => h("span", { title: kinds(tier) }, errorFigure(failures(tier))),
      }),
    ],
  });
}

function classTable() {
  return new Table({
    label: "Cache classes",
    key: (row) => row.class,
    sort: 1,
    detail: () => {
      const element = h("div.facts");
      return {
        element,
        update: (row) =>
          refresh(element, [missed(row.misses) ?? facts("Why it missed", [["no misses", ""]]), skipped(row.skips)]),
      };
    },
    columns: [words("Class", (row) => row.class), ...traffic({ brief: true })],
  });
}

export const cache = {
  title: "Cache",
  needs: { cache: { path: "cache" }, methods: { path: "methods", every: 5000 } },
  build: (documents, feed) => {
    const tiers = tierTable();
    tiers.element.classList.add("cards");
    const classes = classTable();
    const health = notices();
    const [empty, command, idle] = [h("div"), firstCall(documents.overview), hint("No call in the last minute.")];
    const colours = legend();
    const note = quiet();
    const purge = purgePanel(documents, () => feed.stale("cache"));
    const memory = documents.settings
      ? groupSoon("Memory", "in force at once; entries that no longer fit are removed", [
          ["memory", "size"],
          ["memory", "max_entry"],
        ])
      : null;
    const disk =
      documents.settings && hasTier("disk")
        ? groupSoon("Disk", "in force at once; what no longer fits is removed, the oldest first", [["disk", "size"]])
        : null;
    const warnings = h("div.below", health);
    return {
      elements: [
        section("Tiers", quiet("since the start"), tiers, warnings),
        section("Classes", note, empty, classes, colours),
        purge,
        memory,
        disk,
      ],
      update: ({ cache: now, methods }) => {
        for (const part of [classes.element, colours]) part.hidden = !now.classes.length;
        redraw(empty, !now.classes.length && (methods.methods.length ? idle : command));
        tiers.update(now.tiers);
        classes.update(now.classes);
        const said = (now.warnings ?? []).map((text) => ({ level: "warn", text }));
        health.update(said);
        warnings.hidden = !said.length;
        purge.update(methods);
        memory?.update();
        disk?.update();
        setText(note, now.minute ? `figures of the last ${lately(now.minute)}` : "no figures yet");
      },
    };
  },
};
