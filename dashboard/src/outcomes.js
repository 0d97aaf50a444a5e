// How calls ended, with which error code, and why they were refused: one colour and one word for each, in every view.

const OUTCOMES = [
  ["hits", "hits", "accent"],
  ["nodes", "nodes", "node"],
  ["client_errors", "by callers", "muted"],
  ["errors", "failed", "bad"],
  ["refused", "refused", "flight"],
];
const CODES = { "-32603": "bad", "-32000": "failed", "-32601": "s3", "-32005": "flight", "-32602": "s6", 3: "s7" };
const OTHERS = ["s1", "s4", "s8"];

/** The series of a chart of calls by their end; `labels` are those that read otherwise there. */
export const outcomeSeries = (format, labels = {}) =>
  OUTCOMES.map(([key, label, colour]) => ({ key, label: labels[key] ?? label, format, colour, stack: true }));

/** The colour of an error code: of the usual ones by a table, of others by their digits, so that it never depends on
 *  the rest. */
export function codeColour(code) {
  const digits = [...String(code)].reduce((sum, digit) => sum * 7 + digit.charCodeAt(0), 0);
  return CODES[code] ?? OTHERS[digits % OTHERS.length];
}

/** Reasons that are no refusals: answers or notifications were left unread, and the connection was closed. */
export const UNREAD = ["slow-reader", "unsent-too-much", "slow-subscriber"];
/** Why a call, or what was to be one, was refused. */
export const REFUSED = {
  malformed: "no JSON-RPC call",
  "malformed-http": "no proper HTTP request",
  "no-network": "a call before there were nodes",
  "no-key": "no API key",
  "unknown-key": "an unknown API key",
  "in-flight": "too many calls at once",
  "batch-too-long": "a batch that is too long",
  "batch-answer-too-large": "a batch whose answers found no room",
  "body-too-large": "a body that is too large",
  "header-too-large": "a header that is too large",
  "plain-http": "HTTP where TLS is spoken",
  "tls-failed": "TLS that failed",
  "slow-client": "a body that did not come",
  "slow-head": "a head that did not come",
  "slow-reader": "an answer nobody took",
  "unsent-too-much": "too many answers nobody took",
  websocket: "a malformed WebSocket handshake",
  "websocket-off": "a WebSocket where there are none",
  "websocket-origin": "a WebSocket of another origin",
  "websocket-full": "too many WebSockets",
  "websocket-client": "a client's limit of WebSockets",
  "malformed-websocket": "malformed WebSocket frames",
  "partial-too-much": "WebSocket messages that did not come whole",
  "slow-subscriber": "a subscriber that did not read",
  bug: "a bug of the proxy",
  rate: "rate limit",
  method: "a method it may not call",
  concurrency: "a client's limit of requests at once",
  batch: "a client's limit of calls in a batch",
};
