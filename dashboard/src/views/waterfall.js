// The time of one call as bars: its steps, the attempts within them, and the rest. All rows but those of
// attempts, which may overlap, add up to the last.

import { h, svg } from "../dom.js";
import { duration, joined } from "../format.js";
import { FAILED, STEP_WORDS } from "../parts.js";

const FIRST = "forward"; // attempts are made in this step
const WELL = new Set(["answered", "overtaken", "cancelled"]);
const LEAST = 5e-6; // seconds: the header rounds to hundredths of a millisecond

/** `Server-Timing: forward;dur=12.4, attempt;desc="a timeout";start=0;dur=3` as [{name, words, start, seconds}]. */
function timings(header) {
  return (header ?? "")
    .split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/)
    .map((part) => {
      const [name, ...more] = part.split(";").map((one) => one.trim());
      const of = (key) =>
        more
          .find((one) => one.startsWith(`${key}=`))
          ?.slice(key.length + 1)
          .replace(/^"|"$/g, "");
      return {
        name,
        words: of("desc") ?? "",
        start: Number(of("start") ?? NaN) / 1000,
        seconds: Number(of("dur") ?? NaN) / 1000,
      };
    })
    .filter(({ name, seconds }) => name && !Number.isNaN(seconds));
}

/** The seconds in which at least one attempt ran. */
function covered(attempts) {
  let [sum, until] = [0, 0];
  for (const { start, seconds } of [...attempts].sort((one, two) => one.start - two.start)) {
    sum += Math.max(0, start + seconds - Math.max(start, until));
    until = Math.max(until, start + seconds);
  }
  return sum;
}

/** The rows of a call that took `whole` seconds for who sent it: [{ name, words, at, seconds, kind }]. Each step stands
 *  after the one before it, an attempt where it began; what has no `at` is of no certain moment. */
export function rowsOf(header, whole) {
  const all = timings(header);
  const total = all.find(({ name }) => name === "total")?.seconds;
  if (total === undefined) return [];
  const attempts = all.filter(({ name }) => name === "attempt");
  const rows = [];
  let at = 0;
  for (const { name, seconds } of all) {
    if (name === "attempt" || name === "total") continue;
    rows.push({ name: STEP_WORDS[name] ?? name, at, seconds });
    if (name === FIRST && attempts.length) {
      const began = at;
      for (const { words, start, seconds: took } of attempts) {
        const [node, end] = words.split(" ");
        rows.push({ name: node, words: end, at: began + start, seconds: took, kind: "attempt", bad: !WELL.has(end) });
      }
      rows.push({ name: "no node was asked", seconds: seconds - covered(attempts), kind: "attempt" });
      attempts.length = 0;
    }
    at += seconds;
  }
  rows.push({ name: rows.length ? "the rest of the proxy's work" : "the proxy itself", at, seconds: total - at });
  rows.push({ name: "to the proxy and back", at: Math.max(at, total), seconds: whole - Math.max(at, total) });
  return [...rows.filter(({ seconds }) => seconds >= LEAST), { name: "in all", seconds: Math.max(whole, at, total) }];
}

function row({ name, words, at, seconds, kind, bad }, whole) {
  const said = words
    ? [h("b", name), h("span", { class: bad ? "isbad" : "quiet" }, ` ${FAILED[words] ?? words}`)]
    : name;
  const bar = { x: (1000 * at) / whole, y: 0, width: Math.max(3, (1000 * seconds) / whole), height: 8 };
  return h(
    "tr",
    { class: kind ? `${kind}${bad ? " failed" : ""}` : null },
    h("td", said),
    h(
      "td.fall",
      at === undefined
        ? null
        : svg("svg", { viewBox: "0 0 1000 8", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", bar)),
    ),
    h("td.right", joined(duration(seconds))),
  );
}

/** A table of the rows; null where the answer tells no times. */
export function waterfall(header, seconds) {
  const rows = rowsOf(header, seconds);
  if (!rows.length) return null;
  const whole = rows.at(-1).seconds;
  return h(
    "table.waterfall",
    h(
      "tbody",
      rows.map((one) => row(one, whole)),
    ),
  );
}
