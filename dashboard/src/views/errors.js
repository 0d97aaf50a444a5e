// Errors that clients got: over time by code, in groups of one cause with samples; then what no rule knows.

import { h, redraw, setText } from "../dom.js";
import { count, joined, plural, span } from "../format.js";
import { REFUSED, UNREAD } from "../outcomes.js";
import { choice, facts, filterField, hint, quiet, section } from "../parts.js";
import { ErrorChart } from "./error_chart.js";
import { WORDS, byFault, groupTable } from "./error_groups.js";
import { unclassedSection } from "./unclassed.js";
import { unknownMethods } from "./unknown_methods.js";

const ALL = "";
const FAULTS = [[ALL, "all"], ...Object.entries(WORDS).map(([fault, [, word]]) => [fault, word])];
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
function chooser(name, word, changed) {
  const select = h("select", {
    class: "field",
    "aria-label": word,
    onchange: () => {
      wanted[name] = select.value;
      changed();
    },
  });
  const label = h("label", {}, word, select);
  return {
    element: label,
    update: (names) => {
      const shown = [...new Set([...names, wanted[name]])].filter(Boolean).sort();
      label.hidden = shown.length < 2 && wanted[name] === ALL;
      redraw(select, JSON.stringify(shown), () => [
        h("option", { value: ALL }, "all"),
        ...shown.map((one) => h("option", { value: one }, one)),
      ]);
      if (select.value !== wanted[name]) select.value = wanted[name];
    },
  };
}

const names = (groups, of) => groups.flatMap((group) => of(group));

/** Counts of the range by fault. Errors are not kept over a restart, so a range that reaches back further says since when. */
function words(groups, { at, began, window: seconds }) {
  const by = (fault) => groups.filter((group) => group.fault === fault).reduce((sum, group) => sum + group.lately, 0);
  const all = Object.entries(WORDS)
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
    const table = groupTable(several, () => minutes);
    const choosers = [
      several ? ["network", "network", (groups) => names(groups, (one) => [one.network])] : null,
      ["method", "method", (groups) => names(groups, (one) => [one.method])],
      ["client", "client", (groups) => names(groups, (one) => Object.keys(one.clients))],
      ["node", "node", (groups) => names(groups, (one) => Object.keys(one.nodes))],
    ]
      .filter(Boolean)
      .map(([name, word, of]) => ({ name, of, ...chooser(name, word, show) }));
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
    const field = filterField(table, "errors");
    const form = h(
      "div",
      { class: "inline filters" },
      fault,
      choosers.map(({ element }) => element),
      field,
    );
    const about = h("div", { class: "facts below" });
    const element = section("Errors that clients got", note, chart.element, form, empty, table.element, about);
    element.querySelector(".head").append(h("span", { class: "end" }, range));
    const unclassed = unclassedSection();
    const unknown = unknownMethods();
    const update = (now) => {
      const found = now?.groups ?? [];
      const groups = found.filter((group) => group.lately && fits(group)).sort(byFault);
      setText(note, now ? words(found, now) : "");
      chart.update(now?.history ?? null, wanted);
      for (const { update: refill, of } of choosers) refill(of(found));
      table.update(groups);
      table.element.hidden = !groups.length;
      form.hidden = !found.length;
      redraw(empty, `${groups.length > 0}${found.length > 0}`, () =>
        groups.length ? "" : found.length ? hint("No such error in this time.") : hint("No client got an error yet."),
      );
      redraw(about, JSON.stringify([now?.refusals, now?.forgotten]), () => (now ? refusedFacts(now) : ""));
      unclassed.update(now?.unclassed ?? []);
      unknown.update(now?.unknown_methods ?? [], now?.unnamed ?? 0);
    };
    return {
      elements: [element, unclassed.element, unknown.element],
      update: ({ errors: now }) => update((last = now)),
      drafted: show,
      at: (place) => {
        const asked = new URLSearchParams(place);
        for (const name of Object.keys(wanted)) wanted[name] = asked.get(name) ?? ALL;
        if (!several) wanted.network = ALL;
        if (!Object.hasOwn(WORDS, wanted.fault)) wanted.fault = ALL;
        field.value = "";
        table.filter("");
        showFault();
        show();
      },
      gone: () => [table, unclassed, unknown].forEach((one) => one.gone()),
    };
  },
};
