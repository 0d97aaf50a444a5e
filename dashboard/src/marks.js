// Changes of the settings as the charts mark them.

import { clock } from "./format.js";

let known = [];

/** The lines of the audit that changed something. */
export function setMarks(changes) {
  const lines = (changes ?? []).filter(({ outcome, action }) => outcome === "adopted" && action !== "start");
  const news = lines.length !== known.length || lines[0]?.at !== known[0]?.at;
  known = lines;
  return news;
}

export const marks = () => known;

/** What was changed within `reach` seconds of a time, in a sentence; null when nothing was. */
export function marksAt(time, reach) {
  const near = known.filter(({ at }) => Math.abs(at - time) <= reach);
  return near.length ? near.map(({ at, by, text }) => `${clock(at)} ${by}: ${text}`).join("; ") : null;
}
