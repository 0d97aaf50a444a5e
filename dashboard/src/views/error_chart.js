// Errors over time as stacked bars, a colour for each code: one bar for each time slot.

import { h, redraw, setText, svg } from "../dom.js";
import { NONE, clock, count, joined } from "../format.js";
import { codeColour } from "../outcomes.js";

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

export class ErrorChart {
  constructor() {
    this.where = h("span");
    this.keys = h("span", { class: "keys" });
    this.top = h("span", { class: "quiet" });
    this.plot = h("div", { class: "error-bars" });
    this.times = h("div", { class: "error-times quiet" });
    this.element = h(
      "figure",
      { class: "chart error-chart" },
      h("figcaption", { class: "caption" }, h("b", {}, "Errors by code"), this.top, this.where, this.keys),
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
    redraw(this.keys, JSON.stringify(lines.map(({ code, sum }) => [code, sum])), () =>
      lines.map(({ code, colour, sum }) =>
        h(
          "span",
          { class: "key", title: MEANING[code] },
          h("i", { class: `swatch ink-${colour}` }),
          `${code} `,
          h("span", {}, joined(count(sum))),
        ),
      ),
    );
    const most = Math.max(0, ...times.map((_, slot) => lines.reduce((sum, { counts }) => sum + counts[slot], 0)));
    setText(
      this.top,
      lines.length
        ? `up to ${joined(count(most))} in ${history.spacing < 60 ? `${history.spacing} s` : "a minute"}`
        : "no errors in this time",
    );
    redraw(this.plot, JSON.stringify([times.at(-1), lines]), () => this.draw(times, lines, most));
    redraw(this.times, JSON.stringify([times[0], times.at(-1)]), () =>
      times.length
        ? [times[0] - history.spacing, times[Math.floor(times.length / 2)], times.at(-1)].map((at) =>
            h("span", {}, clock(at, history.spacing < 60 ? "seconds" : "minutes")),
          )
        : h("span", {}, NONE),
    );
  }

  draw(times, lines, most) {
    const step = WIDTH / Math.max(1, times.length);
    const bars = times.map((at, slot) => {
      let y = HEIGHT;
      const parts = lines.map(({ colour, counts }) => {
        const height = most ? (HEIGHT * counts[slot]) / most : 0;
        y -= height;
        return height ? svg("rect", { class: `bar-${colour}`, x: slot * step, y, width: step * 0.86, height }) : null;
      });
      return svg(
        "g",
        {},
        svg("rect", { class: "slot", x: slot * step, y: 0, width: step, height: HEIGHT }),
        parts,
        svg("title", {}, `until ${clock(at)}: ${told(lines, slot)}`),
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
