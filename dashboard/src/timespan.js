// The while that the charts show: one range for all charts of all views, a part of it once somebody dragged over a
// chart,
// and the network that is looked at. Kept for the session of the browser.

import { endWith, h, setText } from "./dom.js";
import { clock, moment, span } from "./format.js";
import { button, choice } from "./parts.js";

/** Seconds of each range that the server keeps. */
export const RANGE_SECONDS = { "5m": 300, "1h": 3600, "24h": 86400, "7d": 604800 };
export const RANGE_WORDS = { "5m": "5 min", "1h": "1 h", "24h": "24 h", "7d": "7 days" };
const KEY = "rpcaccel.span";
const LEAST = 4; // seconds: less is a click with an unsteady hand

class TimeSpan {
  constructor() {
    Object.assign(this, { range: "5m", zoomed: null, network: "", heard: new Set(), settling: false });
    try {
      const { range, network } = JSON.parse(sessionStorage.getItem(KEY)) ?? {};
      if (Object.hasOwn(RANGE_SECONDS, range)) this.range = range;
      if (typeof network === "string") this.network = network;
    } catch {
      // nothing was kept, or may be
    }
  }

  /** Call `hear()` after every change; returns what ends that. */
  listen(hear) {
    this.heard.add(hear);
    return () => this.heard.delete(hear);
  }

  tell() {
    try {
      sessionStorage.setItem(KEY, JSON.stringify({ range: this.range, network: this.network }));
    } catch {
      // it lasts until the page is left, then
    }
    for (const hear of this.heard) hear();
  }

  get seconds() {
    return this.zoomed ? this.zoomed[1] - this.zoomed[0] : RANGE_SECONDS[this.range];
  }

  /** What to ask the server for, of the network that is looked at or of all (""): it may have no such network any
   *  more. */
  need(network = this.network) {
    const [from, to] = this.zoomed ?? [];
    const of = network ? `&network=${encodeURIComponent(network)}` : "";
    const part = this.zoomed ? `&from=${from.toFixed(1)}&to=${to.toFixed(1)}` : "";
    return {
      path: `history?range=${this.range}${of}${part}`,
      every: this.range === "5m" && !this.zoomed ? 2000 : 10000,
      optional: true,
    };
  }

  choose(range) {
    Object.assign(this, { range, zoomed: null });
    this.tell();
  }

  look(network) {
    this.network = network;
    this.tell();
  }

  /** Show a part. Charts with one cursor hear of one drag together: the first of them counts. */
  zoom(from, to) {
    if (this.settling || to - from < LEAST) return;
    this.settling = true;
    setTimeout(() => (this.settling = false));
    this.zoomed = [from, to];
    this.tell();
  }

  back() {
    if (!this.zoomed) return;
    this.zoomed = null;
    this.tell();
  }
}

export const timeSpan = new TimeSpan();

/** Buttons for the range, and the way back from a part of it; `changed()` when something else is to be shown. */
export function spanControl(changed) {
  const word = h("span.quiet");
  const back = button("Back", () => timeSpan.back(), { title: "Show the whole range again (or double-click a chart)" });
  const pick = h("span");
  const show = () => {
    pick.replaceChildren(
      choice("Range of the charts", Object.entries(RANGE_WORDS), timeSpan.zoomed ? null : timeSpan.range, (range) =>
        timeSpan.choose(range),
      ),
    );
    back.hidden = word.hidden = !timeSpan.zoomed;
    const [from, to] = timeSpan.zoomed ?? [0, 0];
    const fine = new Date(from * 1000).toDateString() === new Date().toDateString();
    word.title = timeSpan.zoomed ? `${moment(from)} to ${moment(to)}` : "";
    setText(word, `${clock(from, fine ? "seconds" : "day")} · ${span(to - from)}`);
  };
  const end = timeSpan.listen(() => {
    show();
    changed();
  });
  show();
  const element = h("span.span", word, back, pick);
  endWith(element, end);
  return element;
}

/** Buttons for the network; nothing where there is one alone. */
export function networkControl(networks) {
  if (!networks.includes(timeSpan.network)) timeSpan.network = "";
  if (networks.length < 2) {
    timeSpan.network = "";
    return "";
  }
  return choice("Network", [["", "all"], ...networks.map((name) => [name, name])], timeSpan.network, (name) =>
    timeSpan.look(name),
  );
}
