// How a call went, from the headers of its answer: each step as a bar, one after the other.

import { h, svg } from "../dom.js";
import { bytes, duration, joined, plural } from "../format.js";
import { MEANING, section } from "../parts.js";

const LONGEST = 4000;

const FIRST = "forward"; // attempts are made in this step
const WELL = new Set(["answered", "overtaken", "cancelled"]);
const WORDS = {
  parse: "reading the request",
  plan: "planning",
  memory: "looking in memory",
  disk: "reading from the disk",
  redis: "asking Redis",
  flight: "waiting for the same call",
  forward: "asking nodes",
};

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

/** Each step after the one before it; attempts where they began. */
function placed(all) {
  let at = 0;
  let forward = 0;
  return all.map((one) => {
    if (one.name === "attempt") return { ...one, at: forward + one.start };
    if (one.name === FIRST) forward = at;
    at += one.seconds;
    return { ...one, at: at - one.seconds };
  });
}

function row({ name, words, at, seconds }, whole) {
  const [node, end] = words.split(" ");
  const attempt = name === "attempt";
  const bad = attempt && !WELL.has(end);
  const said = attempt
    ? [h("b", {}, node), h("span", { class: bad ? "isbad" : "quiet" }, ` ${end}`)]
    : (WORDS[name] ?? name);
  return h(
    "tr",
    { class: attempt ? `attempt${bad ? " failed" : ""}` : null },
    h("td", {}, said),
    h(
      "td",
      { class: "fall" },
      svg(
        "svg",
        { viewBox: "0 0 1000 8", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("rect", { x: (1000 * at) / whole, y: 0, width: Math.max(3, (1000 * seconds) / whole), height: 8 }),
      ),
    ),
    h("td", { class: "right" }, joined(duration(seconds))),
  );
}

export function waterfall(ran) {
  const headers = Object.fromEntries(Object.entries(ran.headers).map(([name, value]) => [name.toLowerCase(), value]));
  const steps = placed(timings(headers["server-timing"]).filter(({ name }) => name !== "total"));
  const whole = Math.max(ran.seconds, ...steps.map(({ at, seconds }) => at + seconds));
  const from = headers["x-rpcaccel-cache"];
  const attempts = Number(headers["x-rpcaccel-attempts"] ?? 0);
  const said = [
    `HTTP ${ran.status}`,
    from ? `from ${MEANING[from] ?? from}` : null,
    headers["x-rpcaccel-node"] ? `node ${headers["x-rpcaccel-node"]}` : null,
    attempts ? plural(attempts, "attempt") : null,
    `${joined(duration(ran.seconds))} in all`,
    joined(bytes(ran.size)),
  ].filter(Boolean);
  const text = ran.body.length > LONGEST ? `${ran.body.slice(0, LONGEST)} …` : ran.body;
  return section(
    "How it went",
    h("span", { class: "quiet" }, said.join(" · ")),
    steps.length
      ? h(
          "table",
          { class: "waterfall" },
          h(
            "tbody",
            {},
            steps.map((one) => row(one, whole)),
          ),
        )
      : null,
    h("pre", { class: "answer", tabindex: "0" }, text),
  );
}
