// What the views need, kept fresh: pushed by the event stream each second, asked for each second where there is none.
// Asks for nothing while the page is hidden or paused, and says when the server is lost.

import { Problem, read } from "./api.js";

const EVERY = 1000;
const LATE = 1600; // no push for this long: ask
const STREAM_AGAIN = 15000;
const COLUMNS = 300;
const OTHERS = ["settings", "node", "worker", "shared"];

export class Feed {
  /**
   * `wanted()`: { name: { path, every?, optional? } }, `every` in ms; `told(documents)` gets them, null for what
   * this server does not have; `lost(since, problem)` says otherwise; `happened(name, event)` for each event of the
   * stream.
   */
  constructor({ wanted, told, lost, happened }) {
    Object.assign(this, {
      wanted,
      told,
      lost,
      happened,
      paused: false,
      lastGood: null,
      asking: false,
      again: false,
      once: false,
    });
    Object.assign(this, {
      documents: {},
      askedAt: {},
      readAt: {},
      source: null,
      pushedAt: 0,
      streamTriedAt: -Infinity,
      timer: null,
    });
    document.addEventListener("visibilitychange", () => (document.hidden ? this.sleep() : this.wake()));
    addEventListener("online", () => this.wake());
    addEventListener("pagehide", () => this.sleep());
    addEventListener("pageshow", (event) => event.persisted && this.wake());
  }

  get streaming() {
    return performance.now() - this.pushedAt < LATE * 2;
  }

  setPaused(paused) {
    this.paused = paused;
    if (paused) this.sleep();
    else this.wake();
  }

  sleep() {
    clearTimeout(this.timer);
    this.timer = null;
    this.source?.close();
    this.source = null;
    this.streamTriedAt = -Infinity;
  }

  /** Everything anew. */
  wake() {
    if (document.hidden || this.paused) return;
    this.askedAt = {};
    this.tick();
  }

  /** What is wanted now is another thing: it is asked for once even while figures are held. */
  turn(...names) {
    if (this.paused && !document.hidden) this.once = true;
    this.stale(...names);
    if (this.once) this.ask();
  }

  /** Documents of these names are stale. */
  stale(...names) {
    for (const name of names) delete this.askedAt[name];
    if (!document.hidden && !this.paused) this.tick();
  }

  tick() {
    clearTimeout(this.timer);
    this.listen();
    this.ask();
    this.timer = setTimeout(() => this.tick(), this.streaming ? LATE : EVERY);
  }

  due() {
    const now = performance.now();
    return Object.entries(this.wanted()).filter(([name, { path, every = EVERY }]) => {
      const asked = this.askedAt[name];
      // Somewhat early is on time: ticks are not exact.
      return !asked || asked.path !== path || now - asked.at >= every * 0.9;
    });
  }

  async ask() {
    if (this.asking) {
      this.again = true; // the answer on its way is followed by the next question
      return;
    }
    const once = this.once;
    Object.assign(this, { asking: true, again: false, once: false });
    const questions = this.due();
    const at = performance.now();
    for (const [name, { path }] of questions) this.askedAt[name] = { path, at };
    try {
      const answers = await Promise.all(questions.map(([, question]) => optional(question)));
      questions.forEach(([name], index) => {
        this.documents[name] = answers[index];
        this.readAt[name] = at; // what it tells is no older than the question
      });
      if (questions.length) {
        this.lastGood = Date.now();
        this.lost(null, null);
      }
      if (!this.paused || once) this.told(this.documents);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.askedAt = {};
      this.lost(this.lastGood, problem);
    } finally {
      this.asking = false;
      if (this.again && !document.hidden && (!this.paused || this.once)) this.ask();
    }
  }

  listen() {
    const now = performance.now();
    if (this.source?.readyState === EventSource.CLOSED) this.source = null;
    if (this.source || now - this.streamTriedAt < STREAM_AGAIN || !this.documents.settings) return;
    this.streamTriedAt = now;
    const source = (this.source = new EventSource("/api/v1/events"));
    source.addEventListener("hello", () => {
      this.askedAt = {};
      this.ask();
    });
    source.addEventListener("stats", (event) => this.push(JSON.parse(event.data)));
    for (const name of OTHERS) {
      source.addEventListener(name, (event) => {
        this.askedAt = {};
        this.happened(name, JSON.parse(event.data));
        this.ask();
      });
    }
  }

  /** One second of the stream: the overview goes on without being asked for. */
  push(stats) {
    this.pushedAt = performance.now();
    const { overview } = this.documents;
    if (overview && this.askedAt.overview) {
      const { readings, networks, in_flight, connections, revision, point } = stats;
      Object.assign(overview, { readings, networks, in_flight, connections, revision, at: stats.at });
      const behind = overview.history.at.at(-1) - point?.at; // seconds; so many that the server's clock was put back
      if (point && !(behind >= 0 && behind < COLUMNS)) {
        for (const [name, column] of Object.entries(overview.history)) {
          column.push(point[name] ?? null);
          if (column.length > COLUMNS) column.shift();
        }
      }
    }
    this.tick();
  }
}

async function optional(question) {
  try {
    return await read(question.path);
  } catch (problem) {
    if (question.optional && problem.status === 404) return null;
    throw problem;
  }
}
