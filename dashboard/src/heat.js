// Latency over time as a heat map: the darker a cell, the more answers took so long; hits and misses in colours of
// their own,
// with the lines of their percentiles over it.

import { Chart, colour } from "./chart.js";
import { duration } from "./format.js";

const LINES = [
  { key: "miss_p99", label: "misses p99", format: duration, colour: "node" },
  { key: "miss_p50", label: "p50", format: duration, colour: "node", dash: [4, 3] },
  { key: "hit_p99", label: "hits p99", format: duration, colour: "accent" },
  { key: "hit_p50", label: "p50", format: duration, colour: "accent", dash: [4, 3] },
];
const FAINTEST = 0.1;
const DARKEST = 0.62; // so that lines stay in sight

export class HeatChart extends Chart {
  constructor(options) {
    super({ log: true, series: LINES, ...options });
    this.bounds = [];
  }

  /** `latency`: { bounds, hits, misses } as the history has it, in step with the columns. */
  show(columns, latency, seconds) {
    this.bounds = latency.bounds;
    this.update({ ...columns, hot_hits: latency.hits, hot_misses: latency.misses }, seconds);
  }

  options(width) {
    const options = super.options(width);
    return { ...options, hooks: { ...options.hooks, drawClear: [(plot) => this.paint(plot)] } };
  }

  /** From the lowest row that has anything to the highest. */
  range(low, high) {
    let [first, last] = [Infinity, -1];
    for (const rows of [...(this.columns?.hot_hits ?? []), ...(this.columns?.hot_misses ?? [])]) {
      rows.forEach((count, row) => {
        if (!count) return;
        first = Math.min(first, row);
        last = Math.max(last, row);
      });
    }
    return last < 0 ? super.range(low, high) : [this.bounds[first - 1] ?? this.bounds[0] / 2, this.bounds[last]];
  }

  paint(plot) {
    const { at, seconds, hot_hits: hits, hot_misses: misses } = this.columns ?? {};
    if (!hits) return;
    const most = Math.max(1, ...[...hits, ...misses].flat());
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const [columns, name] of [
      [hits, "accent"],
      [misses, "node"],
    ]) {
      ctx.fillStyle = colour(name);
      columns.forEach((rows, index) => {
        const [left, right] = [at[index] - seconds[index], at[index]].map((time) =>
          Math.round(plot.valToPos(time, "x", true)),
        );
        if (right < bbox.left || left > bbox.left + bbox.width) return;
        rows.forEach((count, row) => {
          if (!count) return;
          const [top, bottom] = [this.bounds[row], this.bounds[row - 1] ?? this.bounds[0] / 2].map((bound) =>
            Math.round(plot.valToPos(bound, "y", true)),
          );
          ctx.globalAlpha = FAINTEST + (DARKEST - FAINTEST) * (Math.log1p(count) / Math.log1p(most));
          ctx.fillRect(left, top, Math.max(1, right - left), bottom - top);
        });
      });
    }
    ctx.restore();
  }
}
