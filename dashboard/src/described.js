// What can be set, as the server describes it: read once, and asked by path.

import { read } from "./api.js";
import { told } from "./units.js";

const LABELS = {
  workers: ["Workers", "processes"],
  tls_cert: ["Certificate for HTTPS and WSS"],
  tls_key: ["Key of the certificate"],
  worker_timeout: ["A silent worker is replaced after"],
  drain_timeout: ["Time to finish at shutdown"],
  drain_linger: ["Open connections are answered at shutdown"],
  "memory.size": ["Memory for answers, per worker"],
  "memory.max_entry": ["Longest answer kept"],
  "disk.path": ["Folder of the cache on disk"],
  "disk.size": ["Room on the disk"],
  "disk.read_timeout": ["Time limit of a disk read"],
  "disk.queue": ["Unwritten answers, per worker"],
  "redis.prefix": ["Prefix of keys"],
  "redis.read_timeout": ["Time limit of a read"],
  "redis.write_timeout": ["Time limit of a write"],
  "redis.connect_timeout": ["Time limit to connect"],
  "redis.pool_size": ["Connections to each server"],
  "redis.queue": ["Writes that may queue", "writes"],
  "redis.compress_from": ["Compress values from"],
  "http.max_body": ["Longest request"],
  "http.max_batch": ["Largest batch", "calls"],
  "http.max_batch_answer": ["Longest answer to a batch"],
  "http.max_in_flight": ["Calls at once", "calls"],
  "http.max_header": ["Longest header"],
  "http.read_timeout": ["Time to receive a request"],
  "http.write_timeout": ["Time for a slow client to read"],
  "http.max_unsent": ["Unsent answers per connection"],
  "http.batch_at_once": ["Calls of one batch at once", "calls"],
  "http.keepalive": ["Idle connections are kept"],
  "http.gzip_from": ["Compress answers from"],
  "http.cors_origins": ["Allowed browser origins (CORS)"],
  "http.headers": ["Send headers about the answer"],
  "http.deny": ["Methods refused"],
  "http.expose": ["Operator methods let through"],
  "http.websocket.enabled": ["Clients may open WebSockets"],
  "http.websocket.connections": ["WebSockets at once, per worker"],
  "http.websocket.per_client": ["WebSockets at once, of one client"],
  "http.websocket.subscriptions": ["Subscriptions per WebSocket"],
  "http.websocket.at_once": ["Calls of one WebSocket at once", "calls"],
  "http.websocket.queue": ["Unread by a client, at most"],
  "http.websocket.ping": ["Ping a silent client after"],
  "http.websocket.idle": ["Close an unused WebSocket after"],
  "http.websocket.replay": ["Blocks sent again on request", "blocks"],
  "clients.require_key": ["A key is required"],
  "clients.heavy_cost": ["A heavy call counts as", "calls"],
  "clients.trusted_proxies": ["Trusted proxies"],
  "clients.forwarded_header": ["Header that names the client"],
  "clients.anonymous.rate": ["Rate", "calls/s"],
  "clients.anonymous.burst": ["Burst", "calls"],
  "clients.anonymous.concurrency": ["In flight", "requests"],
  "clients.anonymous.batch": ["Largest batch", "calls"],
  "clients.anonymous.allow": ["Allowed methods"],
  "clients.anonymous.deny": ["Refused methods"],
  "clients.anonymous.directives": ["Directives of calls"],
  "clients.keys.*.cache": ["Cache", "", "as usual"],
  "clients.keys.*.tag": ["Calls go to nodes tagged"],
  "alerts.after": ["Told once it has lasted"],
  "alerts.page": ["Address of this page, for links"],
  "alerts.host": ["Name of this host in messages"],
  "errors.params": ["Samples of errors show params"],
  "errors.warn": ["Warn from a failed share of", "of a network's calls"],
  "errors.bad": ["Red from a failed share of", "of a network's calls"],
  "log.level": ["Level"],
  "log.format": ["Format"],
  "log.access": ["Log each call"],
  "log.access_share": ["Share of requests logged", "of requests"],
  "log.slow": ["Log calls slower than"],
  "tracing.endpoint": ["Traces are sent to"],
  "tracing.sample": ["Requests that are traced", "of all"],
  "tracing.service": ["Name of the service"],
  "networks.*.attempts": ["Nodes asked for one call", "at most"],
  "networks.*.behind_attempts": ["More nodes when one is behind", "at most"],
  "networks.*.deadline": ["Time limit of a call"],
  "networks.*.hedge.quantile": ["Hedge calls slower than", "of answers"],
  "networks.*.hedge.at_least": ["Hedge no earlier than"],
  "networks.*.budget.share": ["Retries and hedges", "of calls"],
  "networks.*.budget.floor": ["Retries and hedges, at least", "a second"],
  "networks.*.breaker.failures": ["Breaker opens after", "in a row"],
  "networks.*.breaker.ratio": ["Breaker opens at a failure share of", "of calls"],
  "networks.*.breaker.volume": ["Calls before that share counts", "calls"],
  "networks.*.breaker.rest": ["First rest of an open breaker"],
  "networks.*.breaker.rest_max": ["Longest rest of an open breaker"],
  "networks.*.outliers.factor": ["Outlier when slower by", "times"],
  "networks.*.outliers.by": ["Outlier when slower by at least"],
  "networks.*.outliers.share": ["Outliers at once", "of nodes"],
  "networks.*.outliers.rest": ["First exclusion of an outlier"],
  "networks.*.slow_start": ["Slow start of a returning node"],
  "networks.*.concurrency.least": ["Light calls at once on a node", "at least"],
  "networks.*.concurrency.heavy_wait": ["Queue time of a heavy call"],
  "networks.*.concurrency.wait": ["Queue time of a light call"],
  "networks.*.concurrency.waiting": ["Calls that may queue", "calls"],
  "networks.*.transactions.share": ["Transactions go to", "of nodes"],
  "networks.*.transactions.at_least": ["Transactions go to at least", "nodes"],
  "networks.*.balancer": ["Balancer"],
  "networks.*.hash_key": ["Hash key"],
  "networks.*.finality_depth": ["Blocks until final", "blocks"],
  "networks.*.block_time": ["Time between blocks"],
  "networks.*.websockets": ["WebSockets to nodes"],
  "networks.*.hidden_lag": ["Lag hidden behind a node's URL"],
  "networks.*.refresh": ["Fetch again at a new head", "of node calls"],
  "networks.*.agreement.share": ["Calls for comparisons", "of answers"],
  "networks.*.agreement.budget": ["Comparisons, at most", "calls a minute"],
  "networks.*.agreement.keep": ["Cases that are kept"],
  "networks.*.prove": ["Judge answers by arithmetic"],
  "networks.*.examine": ["Nodes are examined by themselves"],
  "networks.*.on_disagreement": ["A node that is contradicted"],
  "networks.*.price": ["A million units of node calls cost"],
  "networks.*.uniform_error_codes": ["Make error codes of nodes uniform"],
  "networks.*.ranges.enabled": ["Answer block ranges from cached pieces"],
  "networks.*.ranges.segment": ["Logs cached in segments of", "blocks"],
  "networks.*.ranges.divide_from": ["Divide ranges longer than", "blocks"],
  "networks.*.nodes.*.weight": ["weight"],
  "networks.*.nodes.*.drain": ["drain"],
  "networks.*.nodes.*.tier": ["Tier"],
  "networks.*.nodes.*.tags": ["Tags"],
  "networks.*.nodes.*.roles": ["Roles"],
  "networks.*.nodes.*.max_heavy": ["Heavy calls at once", "calls"],
  "networks.*.nodes.*.gather": ["Send light reads in batches"],
  "networks.*.nodes.*.timeout": ["Time limit of an attempt"],
  "networks.*.nodes.*.connect_timeout": ["Time limit to connect"],
  "networks.*.nodes.*.max_connections": ["Connections at once", "at most"],
  "networks.*.nodes.*.keepalive": ["Idle connections are kept"],
  "networks.*.nodes.*.warm": ["Connections opened at start", "connections"],
  "networks.*.nodes.*.max_answer": ["Longest answer"],
  "networks.*.nodes.*.quota.second": ["Quota per second", "units"],
  "networks.*.nodes.*.quota.day": ["Quota per day", "units"],
  "networks.*.nodes.*.quota.month": ["Quota per month", "units"],
  "networks.*.nodes.*.quota.heavy": ["A heavy call counts as", "units"],
  "networks.*.nodes.*.quota.provider": ["Calls cost what this provider bills"],
  "networks.*.ranges.max_pieces": ["Pieces of a range", "at most"],
  "networks.*.ranges.at_once": ["Pieces of a range at once", "calls"],
};

/** Words that people look for, which neither name nor explanation has, by the paths that they are about. */
const ALSO = [
  [/deadline|timeout|keepalive|websocket\.(idle|ping)|drain_linger|concurrency\.(heavy_)?wait$/, "timeout"],
  [/^(memory|disk|redis)\./, "cache"],
  [/^(memory|disk)\.size$/, "cache size limit"],
  [/attempts$|\.budget\./, "retries retry failover"],
  [/^clients\.(anonymous\.(rate|burst)|heavy_cost)$/, "rate limit throttle"],
  [/^clients\.require_key$/, "password authentication login api key token"],
  [/^tls_/, "ssl"],
  [/^errors\./, "log"],
  [/\.breaker\./, "circuit"],
];

/** [label, unit, what stands for an empty text] of a path. */
function label(path) {
  const [name, unit = "", empty = "none"] = LABELS[path] ?? [
    path
      .replace(/^networks\.\*\./, "")
      .replaceAll(".", " · ")
      .replaceAll("_", " "),
  ];
  return { name, unit, empty };
}

let known = new Map();
let asking = null;

/** All descriptions, in the order of the settings. Asked again after it failed. */
export function describe() {
  asking ??= read("settings/described")
    .then(({ settings }) => {
      known = new Map(settings.map((one) => [one.path, { ...one, label: label(one.path) }]));
      return [...known.values()];
    })
    .catch((problem) => {
      asking = null;
      throw problem;
    });
  return asking;
}

const OF_KEYS_ALONE = ["cache", "tag"];

/** Any network and any node is described once; so are the limits of a holder of keys that callers without one have as
 *  well. */
function shapeOf([top, name, ...rest]) {
  if (top === "networks")
    return [top, "*", ...(rest[0] === "nodes" && rest.length > 1 ? ["nodes", "*", ...rest.slice(2)] : rest)];
  if (top !== "clients" || name !== "keys") return [top, name, ...rest];
  return OF_KEYS_ALONE.includes(rest[1]) ? [top, name, "*", rest[1]] : [top, "anonymous", ...rest.slice(1)];
}

const keyOf = (path) =>
  shapeOf(path)
    .filter((name) => name !== undefined)
    .join(".");

/** The description of the setting at a path of names; undefined while none is known. */
export const about = (path) => known.get(keyOf(path));

/** What the setting at a path is called, described or not. */
export const nameOf = (path) => label(keyOf(path)).name;

/** Other words by which people look for the setting at a path. */
export const alsoCalled = (path) =>
  ALSO.filter(([paths]) => paths.test(keyOf(path)))
    .map(([, words]) => words)
    .join(" ");

/** A value at this path in words. */
export const inWords = (path, value) => (value === "" ? label(keyOf(path)).empty : told(about(path)?.kind, value));

/** As faults of the server name a path. */
export const dotted = (path) =>
  path.map((name) => (/^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name))).join(".");

/** The names of a dotted path. */
export const named = (path) =>
  (path.match(/"(?:[^"\\]|\\.)*"|[^.]+/g) ?? []).map((name) => (name.startsWith('"') ? JSON.parse(name) : name));
