// The cache: its tiers, what it does for each class, and emptying it.

import { h, redraw, refresh, setText, state } from "../dom.js";
import { NONE, bytes, count, duration, joined, lately, percent, plural } from "../format.js";
import {
  MEANING,
  errorFigure,
  facts,
  firstCall,
  hint,
  legend,
  missed,
  notices,
  quiet,
  section,
  skipped,
} from "../parts.js";
import { Table, numbers } from "../table.js";
import { has } from "../tiers.js";
import { traffic } from "./method_table.js";
import { purgePanel } from "./purge.js";
import { groupSoon } from "./setting.js";

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
    columns: [
      { title: "Tier", text: (tier) => tier.name, cell: (tier) => MEANING[tier.name] ?? tier.name },
      {
        title: "State",
        text: (tier) => `${tier.up} ${tier.fault}`,
        cell: (tier) => [state(...standing(tier)), tier.fault ? h("span", { class: "why" }, tier.fault) : ""],
      },
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
        text: (tier) => times(tier).join(),
        cell: (tier) => (tier.reads ? times(tier).join(" / ") : NONE),
      },
      numbers("Stored", (tier) => tier.stored, count),
      numbers("Evicted", (tier) => tier.evicted, count),
      numbers("Expired", (tier) => tier.expired, count),
      numbers("Purged", (tier) => tier.purged, count),
      {
        ...numbers("Failures", failures, count, { hint: "errors, timeouts and writes given up" }),
        text: (tier) => kinds(tier),
        cell: (tier) => h("span", { title: kinds(tier) }, errorFigure(failures(tier))),
      },
    ].map(({ sort: _, ...column }) => column),
  });
}

function classTable() {
  return new Table({
    label: "Cache classes",
    key: (row) => row.class,
    sort: 1,
    detail: () => {
      const element = h("div", { class: "facts" });
      return {
        element,
        update: (row) =>
          refresh(element, JSON.stringify(row), () => [
            missed(row.misses) ?? facts("Why it missed", [["no misses", ""]]),
            skipped(row.skips),
          ]),
      };
    },
    columns: [
      { title: "Class", sort: (row) => row.class, text: (row) => row.class, cell: (row) => row.class },
      ...traffic({ brief: true }),
    ],
  });
}

const nothingLately = (methods, overview) =>
  methods.methods.length ? hint("No call in the last minute.") : firstCall(overview);

export const cache = {
  title: "Cache",
  needs: { cache: { path: "cache" }, methods: { path: "methods", every: 5000 } },
  build: (documents, feed) => {
    const tiers = tierTable();
    tiers.element.classList.add("cards");
    const classes = classTable();
    const health = notices();
    const empty = h("div");
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
      documents.settings && has("disk")
        ? groupSoon("Disk", "in force at once; what no longer fits is removed, the oldest first", [["disk", "size"]])
        : null;
    const warnings = h("div", { class: "below" }, health.element);
    return {
      elements: [
        section("Tiers", quiet("since the start"), tiers.element, warnings),
        section("Classes", note, empty, classes.element, colours),
        purge.element,
        memory?.element ?? "",
        disk?.element ?? "",
      ],
      update: ({ cache: now, methods, overview }) => {
        for (const part of [classes.element, colours]) part.hidden = !now.classes.length;
        redraw(empty, String(now.classes.length > 0), () =>
          now.classes.length ? "" : nothingLately(methods, overview),
        );
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
      drafted: () => {
        memory?.update();
        disk?.update();
      },
      gone: () => [tiers, classes].forEach((table) => table.gone()),
    };
  },
};
