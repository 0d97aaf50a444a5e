// Changes of the settings in words.

import { inWords, nameOf, named } from "./described.js";
import { joined, percent, plural, rate } from "./format.js";

/** How an operator may have answers kept. */
export const CACHE = {
  "": "as the chain's rule says",
  head: "until the next block at most",
  off: "off: keep and share nothing",
};

/** "kept until the next block at most, served for 5 s" */
export function ruleWords(rule) {
  if (!rule) return "as the chain's rule says";
  const age = rule.max_age
    ? `for ${rule.max_age} s${rule.stale ? `, then for ${rule.stale} s while it is fetched anew` : ""}`
    : "";
  return [rule.cache || !age ? CACHE[rule.cache ?? ""] : "", age].filter(Boolean).join(", ");
}

/** The way that a change came, by its name in the record of changes. */
export const WAYS = {
  page: "on the page",
  cli: "by a command",
  api: "through the API",
  signal: "by a signal",
  shared: "on another host",
  start: "at the start",
};

/** There was none: on the page it is not defined, in the record of changes null. */
const missing = (before) => before === undefined || before === null;

const NAMES = { balancer: "balancer", hash_key: "hash key", weight: "weight", drain: "drain" };

/** "alice: rate 0 → 5" of the holders of keys. */
function ofClient(name, what, before, after, path) {
  if (!what)
    return after === null
      ? `client ${name}: remove`
      : missing(before)
        ? `client ${name}: a new key`
        : `client ${name}: changed`;
  if (what === "enabled") return `client ${name}: ${after ? "enable" : "disable"} its keys`;
  if (what === "hashes")
    return `client ${name}: ${(after ?? []).length > (before ?? []).length ? "one more key" : "fewer keys"}`;
  return `client ${name}: ${changed(path, before, after)}`;
}

/** "webhook ops: add"; its address may be its key, and is not told. */
function ofWebhook(name, what, before, after, path) {
  if (what === "url" || what === "headers") return `webhook ${name}: another ${what === "url" ? "address" : "header"}`;
  if (what) return `webhook ${name}: ${changed(path, before, after)}`;
  return `webhook ${name}: ${after === null ? "remove" : missing(before) ? "add" : "changed"}`;
}

/** "Memory 256 MB → 512 MB" */
function changed(path, before, after, name = nameOf(path)) {
  return `${name} ${inWords(path, before)} → ${inWords(path, after)}`;
}

/** ", of which 2 agree, a transaction to one of them alone": what a route says besides methods and tag. */
export const routeMore = ({ agree, broadcast, fallback }) =>
  [
    agree > 1 && `, of which ${agree} agree`,
    broadcast === false && ", a transaction to one of them alone",
    broadcast === false && fallback && `, and as others are after ${plural(fallback, "block")}`,
  ]
    .filter(Boolean)
    .join("");

/** "trace_*, eth_call to archive; debug_* to own" */
export const routesText = (routes) =>
  routes?.map((route) => `${route.methods.join(", ")} to ${route.tag}${routeMore(route)}`).join("; ") || "none";

/** "node b: weight 1 → 5"; `before` undefined: there was none. */
export function sentence(path, before, after) {
  const [top, network, what, id, ...rest] = path;
  if (top === "alerts" && network === "webhooks") return ofWebhook(what, id, before, after, path);
  if (top === "clients" && network === "keys") return ofClient(what, id, before, after, path);
  if (top !== "networks") return changed(path, before, after);
  if (!what)
    return after === null
      ? `network ${network}: remove`
      : missing(before)
        ? `network ${network}: add with ${plural(Object.keys(after.nodes).length, "node")}`
        : `network ${network}: changed`;
  if (what === "rules" && id) return `${id}: kept ${ruleWords(before)} → ${ruleWords(after)}`;
  if (what === "error_rules")
    return `${network}: ${(after ?? []).length - (before ?? []).length} more error ${(after ?? []).length - (before ?? []).length === 1 ? "rule" : "rules"}`;
  if (what === "routes") return `${network}: routes ${routesText(before)} → ${routesText(after)}`;
  if (what !== "nodes") return `${network}: ${changed(path, before, after, NAMES[what])}`;
  if (after === null && !rest.length) return `node ${id}: remove`;
  if (!rest.length)
    return missing(before) ? `node ${id}: add ${after.url}, weight ${after.weight ?? 1}` : `node ${id}: changed`;
  if (rest[1] === "costs") return `node ${id}: ${changed(path, before, after, `cost of ${rest[2]}`)}`;
  if (rest[0] === "drain") return `node ${id}: ${after ? "drain" : "end draining"}`;
  return `node ${id}: ${changed(path, before, after)}`;
}

const TOLD = 8; // edits of a line; the table of a line has all of them

/** A line of the record of changes, in the words in which the bar told it. */
export function changeText({ difference = [], text, action }) {
  const said = difference.slice(0, TOLD).map(({ path, before, after }) => sentence(named(path), before, after));
  if (difference.length > TOLD) said.push(`${difference.length - TOLD} more`);
  return said.join("; ") || text || action;
}

/** Does an edit take the calls away from a node? */
const stops = ([, , what, , ...rest], after) =>
  what === "nodes" &&
  (rest.length ? (rest[0] === "drain" && after === true) || (rest[0] === "weight" && after === 0) : after === null);

/** A sentence about each network of which other nodes, or none, would take calls after these edits; `left(network)`: as
 *  `leftAfter` has it. */
export const stopped = (edits, left) =>
  [...new Set(edits.filter(([path, , after]) => stops(path, after)).map(([[, network]]) => network))]
    .map((network) => [network, left(network)])
    .filter(([, found]) => found !== null)
    .map(([network, { none, tier, ids }]) =>
      none
        ? `No node of ${network} would take calls: every call that is not cached would fail.`
        : `All calls to nodes of ${network} would go to tier ${tier}: ${ids.join(", ")}.`,
    );

/** The sentence that an edit deserves to be asked about before it is applied, or null. */
export function danger([top, network, what, id, ...rest], after, { nodes, clients }) {
  if (top === "clients") return ofCallers(network, what, id, after, clients);
  if (what !== "nodes" || after !== null || rest.length) return null;
  const node = nodes.find((one) => one.network === network && one.id === id);
  const share = node?.share_got
    ? `it carries ${joined(percent(node.share_got))} of the calls now`
    : "it carries no calls now";
  return `Node ${id} is removed: ${share}, and its connections are closed.`;
}

function ofCallers(what, name, key, after, clients) {
  const now = (client) =>
    client?.calls_per_second
      ? `${joined(rate(client.calls_per_second))} come from there now`
      : "no calls come from there now";
  if (what === "require_key" && after)
    return `Callers without a key are refused: ${now(clients.find((one) => one.name === "anonymous"))}.`;
  if (what !== "keys" || !(after === null || (key === "enabled" && after === false))) return null;
  const gone = after === null ? "is removed, and its keys with it" : "is disabled: its keys are refused";
  return `Client ${name} ${gone}; ${now(clients.find((one) => one.name === name))}.`;
}
