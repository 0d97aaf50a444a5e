// Methods, or cache classes, as rows of figures.

import { h } from "../dom.js";
import { bytesPerSecond, count, duration, joined, percent, rate } from "../format.js";
import { MEANING, errorFigure, methodName, mix } from "../parts.js";
import { Table, numbers, words } from "../table.js";

const NONE = [];

const tier = (source) => (row) =>
  row.calls - row.refused > 0 ? (row.sources[source] ?? 0) / (row.calls - row.refused) : null;

/** "Memory / Disk / Redis": the hit ratio of each tier. */
function byTier(tiers) {
  const word = (name) => MEANING[name].charAt(0).toUpperCase() + MEANING[name].slice(1);
  return {
    title: tiers.map(word).join(" / "),
    right: true,
    fold: 2,
    sort: tier(tiers.at(-1)),
    hint: "the hit ratio by tier",
    cell: (row) =>
      tiers.map((name, index) =>
        index ? h("span.unit", ` / ${joined(percent(tier(name)(row)))}`) : joined(percent(tier(name)(row))),
      ),
  };
}

/** `tiers`: the names of those that a column is to tell apart. */
export const traffic = ({ brief = false, tiers = NONE } = {}) => [
  numbers("Calls", (row) => row.calls_per_second, rate),
  !brief && numbers("Share", (row) => row.share, percent, { hint: "of all calls in the last minute", fold: 5 }),
  { title: "Answered by", fold: 6, cell: (row) => mix(row.sources) },
  numbers("Hit ratio", (row) => row.hit_ratio, percent, {
    hint: "answered by the proxy itself, in the last minute",
    cell: (row) => [
      joined(percent(row.hit_ratio)),
      h("span.unit.of", row.hit_ratio === null ? "" : ` of ${joined(count(row.calls - row.refused))}`),
    ],
  }),
  tiers.length > 1 && byTier(tiers),
  numbers("Hit p50", (row) => row.hit?.p50, duration, { fold: 7 }),
  !brief && numbers("Hit p90", (row) => row.hit?.p90, duration, { fold: 3 }),
  numbers("Hit p99", (row) => row.hit?.p99, duration, { fold: 8 }),
  numbers("Miss p50", (row) => row.miss?.p50, duration, { fold: 7 }),
  !brief && numbers("Miss p90", (row) => row.miss?.p90, duration, { fold: 3 }),
  numbers("Miss p99", (row) => row.miss?.p99, duration),
  numbers("Errors", (row) => row.errors, count, {
    hint: "calls that failed in the last minute; mistakes of callers apart",
    cell: (row) => [
      errorFigure(row.errors),
      row.client_errors ? h("span.unit", ` · ${joined(count(row.client_errors))} by callers`) : "",
    ],
  }),
  numbers("Sent", (row) => row.bytes_per_second, bytesPerSecond, { fold: 4 }),
];

export function methodTable(severalNetworks, { brief = false, tiers = NONE, detail = null } = {}) {
  return new Table({
    label: "Methods",
    key: (method) => `${method.network}/${method.method}`,
    detail,
    sort: severalNetworks ? 2 : 1,
    find: (method) => `${method.method} ${method.classes.join(" ")}`,
    columns: [
      { title: "Method", sort: (method) => method.method, cell: (method) => methodName(method.method) },
      severalNetworks && words("Network", (method) => method.network, { fold: 9 }),
      ...traffic({ brief, tiers }),
      { title: "Class", fold: 1, sort: (method) => method.classes.join(), cell: (method) => method.classes.join(", ") },
    ],
  });
}
