// The settings in force, the changes collected and not yet applied, and the way from one to the other.

import { change } from "./api.js";
import { named } from "./described.js";

const CHECK_AFTER = 300; // milliseconds in which nothing more is written

const TOLD = 5; // changes by others that are told at once
const KEY = "\u0000";
const NOTHING = Symbol("nothing");

function at(document, path) {
  return path.reduce((found, name) => (found && typeof found === "object" ? found[name] : undefined), document);
}

const same = (one, two) => JSON.stringify(one) === JSON.stringify(two);

/** What was added to a list and taken from it, done to what the list is now: two who each add one lose none. */
function rebased(before, mine, now) {
  const [was, is, wanted] = [before, now, mine].map((list) => new Set(list.map((one) => JSON.stringify(one))));
  const among = (set) => (one) => set.has(JSON.stringify(one));
  return [
    ...now.filter((one) => among(wanted)(one) || !among(was)(one)),
    ...mine.filter((one) => !among(was)(one) && !among(is)(one)),
  ];
}

class Store {
  constructor() {
    Object.assign(this, {
      current: null,
      role: "admin",
      drafts: new Map(),
      busy: false,
      problem: null,
      applied: null,
      heard: new Set(),
    });
    Object.assign(this, { faults: [], checking: null, changedAt: -Infinity, answered: () => {} });
    Object.assign(this, { others: [], mine: new Set(), heardOf: null });
  }

  /** Call `hear()` after every change of anything here. */
  listen(hear) {
    this.heard.add(hear);
    return () => this.heard.delete(hear);
  }

  tell() {
    for (const hear of this.heard) hear();
  }

  /** Somebody else looks, or in another role. */
  become(role) {
    this.role = role;
    this.tell();
  }

  /** May this viewer change anything? */
  get writable() {
    return Boolean(this.current) && this.role === "admin";
  }

  /**
   * News of the settings: null when this server has none to change. `asked`: when, by performance.now(). What was
   * asked for before a change of ours went through may be from before it; what was asked for since is believed
   * whatever it says.
   */
  adopt(settings, asked = Infinity) {
    if (same(settings, this.current) || (asked < this.changedAt && settings?.revision < this.current?.revision)) return;
    const before = this.current?.document;
    this.current = settings;
    for (const [key, mine] of this.drafts) {
      const [was, now] = [at(before, key.split(KEY)), this.inForce(key.split(KEY))];
      if ([was, mine, now].every(Array.isArray) && !same(was, now)) this.drafts.set(key, rebased(was, mine, now));
    }
    this.forget();
    this.tell();
  }

  /** News of the record of changes, newest first: those that this page did not make are told until they are let go. */
  hear(lines) {
    if (!lines || this.busy) return; // while a change of ours is on its way it cannot be told from theirs
    const adopted = lines.filter(({ outcome }) => outcome === "adopted");
    const newest = Math.max(0, ...adopted.map(({ revision }) => revision));
    const known = this.heardOf;
    this.heardOf = newest; // a server that began anew counts from one
    if (known === null) return;
    const fresh = adopted.filter(
      ({ revision, action }) => revision > known && action !== "start" && !this.mine.has(revision),
    );
    if (!fresh.length) return;
    this.others = [...fresh, ...this.others].slice(0, TOLD);
    this.tell();
  }

  /** The collected changes, as keys, of what `line` of the record changed, too. */
  against({ difference }) {
    const paths = difference.map(({ path }) => named(path).join(KEY));
    return [...this.drafts.keys()].filter((key) =>
      paths.some((path) => key === path || path.startsWith(key + KEY) || key.startsWith(path + KEY)),
    );
  }

  /** What was told need not be told any more, but for what stands against a collected change. */
  letGo() {
    Object.assign(this, {
      applied: null,
      problem: null,
      others: this.others.filter((line) => this.against(line).length),
    });
    this.tell();
  }

  /** Others' value instead of those collected under these keys. */
  yield(keys) {
    for (const key of keys) this.drafts.delete(key);
    if (!this.drafts.size) this.faults = [];
    this.tell();
  }

  /** What is in force is no change any more. */
  forget() {
    for (const [key, value] of this.drafts)
      if (same(this.inForce(key.split(KEY)) ?? null, value)) this.drafts.delete(key);
  }

  inForce(path) {
    return at(this.current?.document, path);
  }

  draft(path) {
    const found = this.drafts.get(path.join(KEY));
    return found === undefined ? NOTHING : found;
  }

  changed(path) {
    return this.drafts.has(path.join(KEY));
  }

  /** As it will be when all is applied. */
  value(path) {
    const draft = this.draft(path);
    return draft === NOTHING ? this.inForce(path) : draft;
  }

  /** Collect a change; back to what is in force is no change. null removes. */
  set(path, value) {
    const key = path.join(KEY);
    if (same(this.inForce(path) ?? null, value)) this.drafts.delete(key);
    else this.drafts.set(key, value);
    this.problem = null;
    this.applied = null;
    if (!this.drafts.size) this.faults = [];
    else if (this.faults.length) this.check();
    this.tell();
  }

  discard() {
    this.drafts.clear();
    this.problem = null;
    this.faults = [];
    this.tell();
  }

  /** Soon have the server look at what is collected, without a change: what is wrong is told at its field. */
  check() {
    clearTimeout(this.checking);
    this.checking = setTimeout(async () => {
      const asked = JSON.stringify(this.patch());
      const found = await change("PATCH", "settings?dry_run=1", this.patch()).then(
        () => [],
        (problem) => problem.errors,
      );
      if (asked !== JSON.stringify(this.patch())) return; // more was written meanwhile, and is looked at in its turn
      this.faults = found;
      this.tell();
    }, CHECK_AFTER);
  }

  /** What is wrong with the value at a dotted path, or inside it; null when nothing is known to be. */
  fault(path) {
    const found = this.faults.find(
      (one) => one.path === path || (one.path.startsWith(path) && ".[".includes(one.path[path.length])),
    );
    return found ? `expected ${found.expected}` : null;
  }

  /** [path, before, after] of what is collected. */
  edits() {
    return [...this.drafts].map(([key, value]) => [key.split(KEY), this.inForce(key.split(KEY)), value]);
  }

  /** The JSON merge patch of what is collected; a removal takes what lies below it along. */
  patch() {
    const patch = {};
    for (const [path, , value] of this.edits().sort(([one], [two]) => two.length - one.length)) {
      let into = patch;
      for (const name of path.slice(0, -1)) into = into[name] ??= {};
      into[path.at(-1)] = value;
    }
    return patch;
  }

  apply() {
    return this.send(
      () => change("PATCH", "settings", this.patch(), { expected: this.current.revision }),
      new Map(this.drafts),
    );
  }

  /** Back to the settings of revision `to`; to those before the last change when it is null. */
  undo(to = null) {
    return this.send(() =>
      change("POST", "settings/undo", to === null ? {} : { to }, { expected: this.current.revision }),
    );
  }

  /** `sent`: what is collected no more when it went well; what was written meanwhile is. */
  async send(request, sent = new Map()) {
    if (this.busy) return false;
    Object.assign(this, { busy: true, problem: null });
    this.tell();
    try {
      const { change: line, ...settings } = await request();
      Object.assign(this, { current: settings, applied: line ?? null, changedAt: performance.now(), others: [] });
      this.mine.add(settings.revision);
      for (const [key, value] of sent) if (this.drafts.get(key) === value) this.drafts.delete(key);
      this.forget();
      this.faults = [];
      if (this.drafts.size) this.check();
      return true;
    } catch (problem) {
      this.problem = problem;
      this.faults = problem.errors ?? [];
      return false;
    } finally {
      this.busy = false;
      this.tell();
      this.answered();
    }
  }
}

export const store = new Store();

const SWITCH = { disk: ["disk", "path"], redis: ["redis", "url"] };

/** Is there this tier? */
export const hasTier = (tier) => tier === "memory" || Boolean(store.inForce(SWITCH[tier]));

/** The names of the tiers, in the order in which a call asks them. */
export const tierNames = () => ["memory", "disk", "redis"].filter(hasTier);
