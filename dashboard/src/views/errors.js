// Errors that clients got: over time by code, in groups of one cause with samples; then what no rule knows.

import { h, redraw, setText, svg } from "../dom.js";
import { NONE, clock, count, joined, plural, span } from "../format.js";
import { REFUSED, UNREAD, codeColour } from "../outcomes.js";
import { atEnd, choice, facts, filterField, hint, labelled, options, quiet, section, select } from "../parts.js";
import { FAULT_WORDS, byFault, groupTable } from "./error_groups.js";
import { unclassedSection, unknownMethods } from "./unknown.js";

const COLOURS = 7; // codes that are drawn each by itself; the others are one
const MEANING = {
  "-32700": "parse error",
  "-32600": "invalid request",
  "-32601": "no such method",
  "-32602": "invalid params",
  "-32603": "internal error",
  "-32000": "server error",
  "-32003": "answer too large",
  "-32005": "limit",
  3: "reverted",
};
const [WIDTH, HEIGHT] = [600, 100];
const FEWEST = 20; // bars there is room for, however young the first error is

/** [{ code, colour, counts, sum }] by code; beyond COLOURS of them, the rarest are one. */
function byCode(series) {
  const found = new Map();
  const add = (code, colour, counts) => {
    const line = found.get(code) ?? { code, colour, counts: counts.map(() => 0) };
    line.counts = line.counts.map((number, slot) => number + counts[slot]);
    line.sum = line.counts.reduce((sum, number) => sum + number, 0);
    found.set(code, line);
  };
  for (const { code, counts } of series) add(String(code), codeColour(code), counts);
  const rarest = [...found.values()].sort((one, two) => two.sum - one.sum).slice(COLOURS);
  for (const { code } of rarest) found.delete(code);
  const lines = [...found.values()].sort((one, two) => one.code.localeCompare(two.code));
  found.clear();
  for (const { counts } of rarest) add("others", "muted", counts);
  return [...lines, ...found.values()];
}

const told = (lines, slot) =>
  lines
    .filter(({ counts }) => counts[slot])
    .map(({ code, counts }) => `${joined(count(counts[slot]))} × ${code}`)
    .join(", ") || "no errors";

class ErrorChart {
  constructor() {
    this.keys = h("span.keys");
    this.top = h("span.quiet");
    this.plot = h("div.error-bars");
    this.times = h("div.error-times.quiet");
    this.element = h(
      "figure.chart.error-chart",
      h("figcaption.caption", h("b", "Errors by code"), this.top, this.keys),
      this.plot,
      this.times,
    );
  }

  /** `wanted` has the network and the fault that are looked at; empty: all of them. */
  update(history, wanted) {
    const series = (history?.series ?? []).filter(
      ({ network, fault }) =>
        (!wanted.network || network === wanted.network) && (!wanted.fault || fault === wanted.fault),
    );
    const from = Math.min(
      ...series.map(({ counts }) => counts.findIndex(Boolean)),
      (history?.at ?? []).length - FEWEST,
    );
    const lines = byCode(series.map((line) => ({ ...line, counts: line.counts.slice(Math.max(0, from - 1)) })));
    const times = (history?.at ?? []).slice(Math.max(0, from - 1));
    redraw(
      this.keys,
      lines.map(({ code, colour, sum }) =>
        h("span.key", { title: MEANING[code] }, h("i.swatch", { colour }), `${code} `, h("span", joined(count(sum)))),
      ),
    );
    const most = Math.max(0, ...times.map((_, slot) => lines.reduce((sum, { counts }) => sum + counts[slot], 0)));
    setText(
      this.top,
      lines.length
        ? `up to ${joined(count(most))} in ${history.spacing < 60 ? `${history.spacing} s` : "a minute"}`
        : "no errors in this time",
    );
    redraw(this.plot, this.draw(times, lines, most));
    redraw(
      this.times,
      times.length
        ? [times[0] - history.spacing, times[Math.floor(times.length / 2)], times.at(-1)].map((at) =>
            h("span", clock(at, history.spacing < 60 ? "seconds" : "minutes")),
          )
        : h("span", NONE),
    );
  }

  draw(times, lines, most) {
    const step = WIDTH / Math.max(1, times.length);
    const bars = times.map((at, slot) => {
      let y = HEIGHT;
      const parts = lines.map(({ colour, counts }) => {
        const height = most ? (HEIGHT * counts[slot]) / most : 0;
        y -= height;
        return height ? svg("rect", { colour, x: slot * step, y, width: step * 0.86, height }) : null;
      });
      return svg(
        "g",
        svg("rect.slot", { x: slot * step, y: 0, width: step, height: HEIGHT }),
        parts,
        svg("title", `until ${clock(at)}: ${told(lines, slot)}`),
      );
    });
    const sum = lines.map(({ code, sum: number }) => `${joined(count(number))} of code ${code}`).join(", ");
    return svg(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `Errors over time: ${sum || "none"}`,
      },
      bars,
    );
  }
}

const ALL = "";
const FAULTS = [[ALL, "all"], ...Object.entries(FAULT_WORDS).map(([fault, [, word]]) => [fault, word])];
const RANGES = [
  [5, "5 min"],
  [60, "1 h"],
];
let minutes = 60;

/** Which groups are looked at. */
const wanted = { network: ALL, fault: ALL, method: ALL, client: ALL, node: ALL };
const has = (counts, name) => name === ALL || Object.hasOwn(counts, name);
const fits = (group) =>
  (wanted.network === ALL || group.network === wanted.network) &&
  (wanted.fault === ALL || group.fault === wanted.fault) &&
  (wanted.method === ALL || group.method === wanted.method) &&
  has(group.clients, wanted.client) &&
  has(group.nodes, wanted.node);

/** A select over the names there are; what is chosen stays among them. */
function chooser(name, of, changed) {
  const choose = () => {
    wanted[name] = field.value;
    changed();
  };
  const field = select(name, [], { onchange: choose });
  const element = labelled(field);
  return {
    element,
    update: (groups) => {
      const shown = [...new Set([...groups.flatMap(of), wanted[name]])].filter(Boolean).sort();
      element.hidden = shown.length < 2 && wanted[name] === ALL;
      redraw(field, options([[ALL, "all"], ...shown]));
      if (field.value !== wanted[name]) field.value = wanted[name];
    },
  };
}

/** Counts of the range by fault. Errors are not kept over a restart, so a range that reaches back further says since
 *  when. */
function summary(groups, { at, began, window: seconds }) {
  const by = (fault) => groups.filter((group) => group.fault === fault).reduce((sum, group) => sum + group.lately, 0);
  const all = Object.entries(FAULT_WORDS)
    .map(([fault, [, word]]) => [by(fault), word])
    .filter(([number]) => number);
  const over =
    at - began < seconds
      ? `since the start, ${span(at - began)} ago`
      : `in the last ${minutes === 60 ? "hour" : `${minutes} min`}`;
  return all.length
    ? `${over}: ${all.map(([number, word]) => `${joined(count(number))} ${word}`).join(" · ")}`
    : `none ${over}`;
}

function countedFacts(title, refusals) {
  const lately = (minute) => (minute ? ` (${joined(count(minute))} in the last minute)` : "");
  return refusals.length
    ? facts(
        title,
        refusals.map(({ reason, minute, total }) => [
          REFUSED[reason] ?? reason,
          `${joined(count(total))}${lately(minute)}`,
        ]),
      )
    : null;
}

function refusedFacts({ refusals, forgotten, forgotten_errors: lost }) {
  return [
    countedFacts(
      "Refused before they were a call",
      refusals.filter(({ reason }) => !UNREAD.includes(reason)),
    ),
    countedFacts(
      "Connections closed because nobody read",
      refusals.filter(({ reason }) => UNREAD.includes(reason)),
    ),
    forgotten ? facts("Dropped for want of room", [[plural(forgotten, "group"), plural(lost, "error")]]) : null,
  ];
}

export const errors = {
  title: "Errors",
  needs: () => ({ errors: { path: `errors?minutes=${minutes}`, every: 2000, optional: true } }),
  build: (documents, feed) => {
    const several = documents.overview.networks.length > 1;
    let last = null;
    const show = () => last && update(last);
    const chart = new ErrorChart();
    const table = groupTable(several);
    const choosers = [
      several && chooser("network", (one) => one.network, show),
      chooser("method", (one) => one.method, show),
      chooser("client", (one) => Object.keys(one.clients), show),
      chooser("node", (one) => Object.keys(one.nodes), show),
    ].filter(Boolean);
    const fault = h("span");
    const showFault = () =>
      fault.replaceChildren(
        choice("Whose doing", FAULTS, wanted.fault, (value) => {
          wanted.fault = value;
          show();
        }),
      );
    showFault();
    const range = choice("Range", RANGES, minutes, (value) => {
      minutes = value;
      feed.turn("errors");
    });
    const note = quiet();
    const empty = h("div");
    const field = filterField("errors by name", (text) => table.filter(text));
    const form = h("div.inline.filters", fault, choosers, field);
    const about = h("div.facts.below");
    const element = section("Errors that clients got", [note, atEnd(range)], chart, form, empty, table, about);
    const unclassed = unclassedSection();
    const unknown = unknownMethods();
    const update = (now) => {
      const found = now?.groups ?? [];
      const groups = found.filter((group) => group.lately && fits(group)).sort(byFault);
      setText(note, now ? summary(found, now) : "");
      chart.update(now?.history ?? null, wanted);
      for (const one of choosers) one.update(found);
      table.update(groups);
      table.element.hidden = !groups.length;
      form.hidden = !found.length;
      redraw(
        empty,
        groups.length ? "" : found.length ? hint("No such error in this time.") : hint("No client got an error yet."),
      );
      redraw(about, now ? refusedFacts(now) : "");
      unclassed.update(now?.unclassed ?? []);
      unknown.update(now?.unknown_methods ?? [], now?.unnamed ?? 0);
    };
    return {
      elements: [element, unclassed, unknown],
      update: ({ errors: now }) => update((last = now)),
      at: (place) => {
        const asked = new URLSearchParams(place);
        for (const name of Object.keys(wanted)) wanted[name] = asked.get(name) ?? ALL;
        if (!several) wanted.network = ALL;
        if (!Object.hasOwn(FAULT_WORDS, wanted.fault)) wanted.fault = ALL;
        field.value = "";
        table.filter("");
        showFault();
        show();
      },
    };
  },
};
