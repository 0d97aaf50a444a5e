// JSON text laid out in lines, every value as it was written: a large number stays exact, and a text that ends in the
// middle is laid out as far as it goes.

const TOKEN = /"(?:[^"\\]|\\.)*"?|[{}[\],:]|[^\s"{}[\],:]+/g;
const DEEPEST = 12; // levels that are indented: a hostile nesting makes no wide lines

/** The lines of a JSON text; what is no object and no array stays as it is. */
export function laidOut(text) {
  if (!/^\s*[{[]/.test(text)) return text;
  let depth = 0;
  let laid = "";
  let before = "";
  const line = () => `\n${"  ".repeat(Math.min(depth, DEEPEST))}`;
  for (const [token] of text.matchAll(TOKEN)) {
    const ends = token === "}" || token === "]";
    if (ends) depth = Math.max(0, depth - 1);
    const opened = before === "{" || before === "[";
    if (before === "," || (opened && !ends) || (ends && !opened)) laid += line();
    laid += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return laid;
}
