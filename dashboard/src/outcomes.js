// How calls ended, and with which error code: one colour for each, in every chart.

const OUTCOMES = [["hits", "hits", "accent"], ["nodes", "nodes", "node"], ["client_errors", "by callers", "muted"], ["errors", "failed", "bad"], ["refused", "refused", "flight"]];
const CODES = { "-32603": "bad", "-32000": "s2", "-32601": "s3", "-32005": "s5", "-32602": "s6", 3: "s7" };
const OTHERS = ["s1", "s4", "s8"];

/** The series of a chart of calls by their end; `labels` are those that read otherwise there. */
export const outcomeSeries = (format, labels = {}) => OUTCOMES.map(([key, label, colour]) => ({ key, label: labels[key] ?? label, format, colour, stack: true }));

/** The colour of an error code: of the usual ones by a table, of others by their digits, so that it never depends on the rest. */
export function codeColour(code) {
  const digits = [...String(code)].reduce((sum, digit) => sum * 7 + digit.charCodeAt(0), 0);
  return CODES[code] ?? OTHERS[digits % OTHERS.length];
}
