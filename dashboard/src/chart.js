// Lines over time (uPlot). Every chart of a view shares one cursor; changes of the settings are thin vertical lines.

import { endWith, h, setText } from "./dom.js";
import { NONE, clock, joined, moment } from "./format.js";
import { timeSpan } from "./timespan.js";
import { changeText } from "./wording.js";

let known = [];

/** The lines of the audit that changed something. */
export function setMarks(changes) {
  const lines = (changes ?? []).filter(({ outcome, action }) => outcome === "adopted" && action !== "start");
  const news = lines.length !== known.length || lines[0]?.at !== known[0]?.at;
  known = lines;
  return news;
}

const marks = () => known;

/** What was changed within `reach` seconds of a time, in a sentence; null when nothing was. */
export function marksAt(time, reach) {
  const near = known.filter(({ at }) => Math.abs(at - time) <= reach);
  return near.length ? near.map((line) => `${clock(line.at)} ${line.by}: ${changeText(line)}`).join("; ") : null;
}

const { uPlot } = globalThis; // a classic script of index.html
const cursor = uPlot.sync("view");
const charts = new Set();
const sizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) target.chart?.resize(contentRect.width);
});

const colours = new Map();
export const colour = (name) => {
  if (!colours.has(name))
    colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return colours.get(name);
};
/** Seconds between two times on an axis: with two minutes among them, five minutes have more than one in a narrow
 *  chart. */
const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800];
const DAYS = 2 * 86400; // seconds: from here on an axis names days
const FILL = "b8"; // alpha of what is stacked
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
   * `series`: [{ key, label?, format, colour, dash?, area?, stack? }] of the columns given to `update`, stacked ones
   * upwards; `log` for latencies of unlike size; `floor`: the top is at least this; `seconds`: how much time is
   * shown; `zoom`: it shows what `timeSpan` says, and a drag over it chooses a part.
   */
  constructor({ label, series, height = 160, log = false, floor = 0, seconds = 300, zoom = false }) {
    Object.assign(this, { label, height, log, floor, seconds, zoom, plot: null, columns: null });
    this.box = h("div", { class: zoom ? "plot zooms" : "plot", role: "img", "aria-label": label });
    this.left = h("span");
    this.right = h("span.keys", { title: "the newest point, or the one under the pointer" });
    this.define(series);
    const caption = h("figcaption.caption", h("b", label), this.left, this.right);
    this.element = h("figure.chart", caption, this.box);
    this.box.style.height = `${height}px`;
    this.box.chart = this;
    charts.add(this);
    endWith(this.element, () => this.gone());
    sizes.observe(this.box);
  }

  /** What is drawn: a stack is drawn from its top down, each over the one before, and lines over all of it. */
  define(series) {
    this.series = series;
    this.lines = [...series.filter(({ stack }) => stack).reverse(), ...series.filter(({ stack }) => !stack)];
    this.keys = series.map((line) => this.keyOf(line));
    this.right.replaceChildren(...this.keys.map(({ element }) => element));
    if (!this.plot) return;
    const { width } = this.plot;
    this.plot.destroy();
    this.plot = new uPlot(this.options(width), this.data(), this.box);
  }

  keyOf(line) {
    const value = h("span");
    const look = `swatch${line.dash ? " dashed" : ""}${line.stack ? " filled" : ""}`;
    const mark = this.series.length > 1 || line.dash ? h("i", { class: look, colour: line.colour }) : null;
    return { value, element: h("span.key", mark, line.label ? `${line.label} ` : "", value) };
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
    this.again();
  }

  /** The same data, over what is to be shown now. */
  again() {
    this.plot?.setData(this.data());
    this.tell();
  }

  data() {
    const columns = this.columns ?? { at: [] };
    const empty = () => columns.at.map(() => null);
    const drawn = new Map();
    let below = null;
    for (const { key, stack } of this.series) {
      const column = columns[key] ?? empty();
      const under = below;
      drawn.set(
        key,
        stack && under ? column.map((value, index) => (value === null ? null : value + (under[index] ?? 0))) : column,
      );
      if (stack) below = drawn.get(key);
    }
    return [columns.at, ...this.lines.map(({ key }) => drawn.get(key))];
  }

  options(width) {
    const only = this.log
      ? (_, splits) => splits.map((value) => (value !== null && decade(value) ? value : null))
      : undefined;
    const grid = { stroke: () => colour("line"), width: 1 };
    const axis = { stroke: () => colour("muted"), font: FONT, grid, ticks: { show: false } };
    const format = this.series[0].format;
    return {
      width,
      height: this.height,
      padding: [8, 26, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: cursor.key, scales: ["x", null] },
        y: false,
        points: { size: 5 },
        drag: { x: this.zoom, y: false, setScale: false },
        bind: { dblclick: () => () => this.zoom && timeSpan.back() },
      },
      scales: {
        x: { time: true, range: () => this.span() },
        y: this.log
          ? { distr: 3, log: 10, range: (_, low, high) => this.range(low, high) }
          : { range: (_, low, high) => [0, Math.max(high ?? 0, this.floor) * 1.05 || 1] },
      },
      axes: [
        {
          ...axis,
          size: 24,
          space: 56,
          incrs: STEPS,
          values: (_, splits) =>
            splits.map((at) => clock(at, this.shown > DAYS ? "date" : this.shown > 600 ? "minutes" : "seconds")),
        },
        {
          ...axis,
          grid: only ? { ...grid, filter: only } : grid,
          size: 62,
          space: 28,
          values: (_, splits) =>
            splits.map((value) => (value === null || (this.log && !decade(value)) ? "" : joined(format(value)))),
        },
      ],
      series: [
        {},
        ...this.lines.map((line) => ({
          label: line.label ?? this.label,
          width: line.stack ? 0 : 1.5,
          stroke: () => colour(line.colour),
          dash: line.dash,
          points: { show: false },
          spanGaps: false,
          fill: line.stack ? () => colour(line.colour) + FILL : line.area ? () => colour("accent-soft") : undefined,
        })),
      ],
      // what is stacked is filled down to what is below it
      bands: this.lines.flatMap((line, index) =>
        line.stack && this.lines[index + 1]?.stack ? [{ series: [index + 1, index + 2] }] : [],
      ),
      hooks: {
        setCursor: [() => this.tell()],
        setSelect: [(plot) => this.dragged(plot)],
        draw: [(plot) => drawMarks(plot)],
      },
    };
  }

  /** The lowest and highest value of a logarithmic scale. */
  range(low, high) {
    return logRange(low, high);
  }

  dragged(plot) {
    const { left, width } = plot.select;
    if (!width) return;
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    timeSpan.zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  }

  /** Seconds that are shown: what there is of the range, in whole minutes, so that a young program fills its charts. */
  get shown() {
    if (this.zoom && timeSpan.zoomed) return timeSpan.seconds;
    const { at, seconds } = this.columns ?? { at: [] };
    const have = at.length ? at.at(-1) - at[0] + (seconds?.[0] ?? 0) : 0;
    return Math.min(this.seconds, Math.max(1, Math.ceil(have / 60 - 0.05)) * 60);
  }

  /** The right edge is the newest point. */
  span() {
    if (this.zoom && timeSpan.zoomed) return timeSpan.zoomed;
    const newest = this.columns?.at.at(-1) ?? Date.now() / 1000;
    return [newest - this.shown, newest];
  }

  /** The figures under the cursor, or the newest ones. */
  tell() {
    const columns = this.columns ?? { at: [] };
    const index = this.plot?.cursor.idx ?? null;
    const held = this.plot && this.plot.cursor.left >= 0 && index !== null && index < columns.at.length; // fewer points may have come
    const shown = held ? index : columns.at.length - 1;
    this.keys.forEach(({ value }, line) =>
      setText(value, shown < 0 ? NONE : joined(this.series[line].format(columns[this.series[line].key]?.[shown]))),
    );
    setText(this.left, this.where(columns.at, held ? index : null));
  }

  where(times, index) {
    if (!times.length) return "no data yet";
    if (index === null) return "";
    const near = this.plot
      ? marksAt(
          this.plot.posToVal(this.plot.cursor.left, "x"),
          (this.shown / this.plot.bbox.width) * 8 * devicePixelRatio,
        )
      : null;
    return near ?? (this.shown > DAYS / 2 ? moment(times[index]) : clock(times[index]));
  }
}

/** From where time runs forward: what a clock told before it was put back cannot be drawn with what it tells now. */
function onward(columns) {
  const from = columns.at.findLastIndex((at, index) => index && at <= columns.at[index - 1]);
  return from > 0
    ? Object.fromEntries(Object.entries(columns).map(([key, column]) => [key, column.slice(from)]))
    : columns;
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
