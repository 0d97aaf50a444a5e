// Lines over time (uPlot). Every chart of a view shares one cursor; changes of the settings are thin vertical lines.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { h, setText } from "./dom.js";
import { NONE, clock, joined, span } from "./format.js";
import { marks, marksAt } from "./marks.js";

const cursor = uPlot.sync("view");
const charts = new Set();
const sizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) target.chart?.resize(contentRect.width);
});

const colours = new Map();
const colour = (name) => {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return colours.get(name);
};
/** Seconds between two times on an axis: with two minutes among them, five minutes have more than one in a narrow chart. */
const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200];
const FONT = "11px system-ui, sans-serif";

/** The theme has changed: canvases do not follow by themselves. */
export function recolour() {
  colours.clear();
  for (const chart of charts) chart.plot?.redraw(false, true);
}

export function remark() {
  for (const chart of charts) chart.plot?.redraw(false, false);
}

export class Chart {
  /**
   * `series`: [{ key, label?, format, colour, dash?, area? }] of the columns given to `update`; `log` for latencies of unlike
   * size; `floor`: the top is at least this; `small`: no axes; `seconds`: how much time is shown.
   */
  constructor({ label, series, height = 160, log = false, floor = 0, small = false, seconds = 300 }) {
    Object.assign(this, { label, series, height, log, floor, small, seconds, plot: null, columns: null });
    this.box = h("div", { class: small ? "plot small" : "plot", role: "img", "aria-label": label });
    this.left = h("span");
    this.right = h("span", { class: "keys" });
    this.keys = series.map((line) => this.keyOf(line));
    this.right.append(...this.keys.map(({ element }) => element));
    this.element = h("figure", { class: "chart" }, h("figcaption", { class: small ? "scale" : "caption" }, small ? null : h("b", {}, label), this.left, this.right), this.box);
    if (small) this.element.append(this.element.firstChild); // a small one says its figures below
    this.box.style.height = `${height + (small ? 2 : 0)}px`;
    this.box.chart = this;
    charts.add(this);
    sizes.observe(this.box);
  }

  keyOf(line) {
    const value = h("span");
    const many = this.series.length > 1;
    const mark = many ? h("i", { class: `swatch ink-${line.colour}${line.dash ? " dashed" : ""}` }) : null;
    return { value, element: h("span", { class: "key" }, mark, line.label ? `${line.label} ` : "", value) };
  }

  gone() {
    charts.delete(this);
    sizes.unobserve(this.box);
    this.plot?.destroy();
    this.plot = null;
  }

  resize(width) {
    if (width < 10) return;
    if (this.plot) this.plot.setSize({ width, height: this.height });
    else this.plot = new uPlot(this.options(width), this.data(), this.box);
  }

  update(columns, seconds = this.seconds) {
    Object.assign(this, { columns: onward(columns), seconds });
    this.plot?.setData(this.data());
    this.tell();
  }

  data() {
    const columns = this.columns ?? { at: [] };
    return [columns.at, ...this.series.map(({ key }) => columns[key] ?? columns.at.map(() => null))];
  }

  options(width) {
    const only = this.log ? (_, splits) => splits.map((value) => (value !== null && decade(value) ? value : null)) : undefined;
    const grid = { stroke: () => colour("line"), width: 1 };
    const axis = { stroke: () => colour("muted"), font: FONT, grid, ticks: { show: false } };
    const format = this.series[0].format;
    return {
      width, height: this.height, padding: this.small ? [4, 0, 1, 0] : [8, 26, 0, 0], legend: { show: false },
      cursor: { sync: { key: cursor.key, scales: ["x", null] }, y: false, drag: { x: false, y: false }, points: { size: 5 } },
      scales: {
        x: { time: true, range: () => this.span() },
        y: this.log ? { distr: 3, log: 10, range: (_, low, high) => logRange(low, high) } : { range: (_, low, high) => [0, Math.max(high ?? 0, this.floor) * 1.05 || 1] },
      },
      axes: this.small ? [{ show: false }, { show: false }] : [
        { ...axis, size: 24, space: 56, incrs: STEPS, values: (_, splits) => splits.map((at) => clock(at, this.shown > 600 ? "minutes" : "seconds")) },
        { ...axis, grid: only ? { ...grid, filter: only } : grid, size: 62, space: 28, values: (_, splits) => splits.map((value) => (value === null || (this.log && !decade(value)) ? "" : joined(format(value)))) },
      ],
      series: [{}, ...this.series.map((line) => ({
        label: line.label ?? this.label, width: 1.5, stroke: () => colour(line.colour), dash: line.dash, points: { show: false }, spanGaps: false,
        fill: line.area ? () => colour("accent-soft") : undefined,
      }))],
      hooks: { setCursor: [() => this.tell()], draw: [(plot) => drawMarks(plot)] },
    };
  }

  /** Seconds that are shown: what there is of the range, in whole minutes, so that a young program fills its charts. */
  get shown() {
    const { at } = this.columns ?? { at: [] };
    const have = at.length ? at.at(-1) - at[0] : 0;
    return Math.min(this.seconds, Math.max(1, Math.ceil(have / 60 - 0.05)) * 60);
  }

  /** The right edge is the newest point. */
  span() {
    const newest = this.columns?.at.at(-1) ?? Date.now() / 1000;
    return [newest - this.shown, newest];
  }

  /** The figures under the cursor, or the newest ones. */
  tell() {
    const data = this.data();
    const index = this.plot?.cursor.idx ?? null;
    const held = this.plot && this.plot.cursor.left >= 0 && index !== null;
    const shown = held ? index : data[0].length - 1;
    this.keys.forEach(({ value }, line) => setText(value, shown < 0 ? NONE : joined(this.series[line].format(data[line + 1][shown]))));
    setText(this.left, this.where(data[0], held ? index : null));
  }

  where(times, index) {
    if (!times.length) return "no data yet";
    if (index === null) return this.small ? `last ${span(this.shown)}` : "";
    const near = this.plot ? marksAt(this.plot.posToVal(this.plot.cursor.left, "x"), (this.shown / this.plot.bbox.width) * 8 * devicePixelRatio) : null;
    return near ?? clock(times[index]);
  }
}

/** From where time runs forward: what a clock told before it was put back cannot be drawn with what it tells now. */
function onward(columns) {
  const from = columns.at.findLastIndex((at, index) => index && at <= columns.at[index - 1]);
  return from > 0 ? Object.fromEntries(Object.entries(columns).map(([key, column]) => [key, column.slice(from)])) : columns;
}

const decade = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;

function logRange(low, high) {
  if (low === null || high === null || !(low > 0)) return [1e-5, 1];
  return [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high * 1.0001))];
}

function drawMarks(plot) {
  const { ctx, bbox } = plot;
  const [from, to] = [plot.scales.x.min, plot.scales.x.max];
  ctx.save();
  ctx.strokeStyle = colour("ink");
  ctx.globalAlpha = 0.55;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { at } of marks()) {
    if (at < from || at > to) continue;
    const x = Math.round(plot.valToPos(at, "x", true)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
