// Sizes and durations as people write them and as the settings hold them: "256 MB" is 256000000, "30 ms" is 0.03.
// Everything the server reads is read here as well; what is not understood stays text, and the server says what is
// wrong.

import { NONE, block } from "./format.js";

const SECONDS = { "": 1, us: 1e-6, µs: 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600, d: 86400 };
const BYTES = { "": 1, b: 1 };
"kmgt".split("").forEach((letter, index) => {
  BYTES[letter] = BYTES[`${letter}b`] = 1000 ** (index + 1);
  BYTES[`${letter}i`] = BYTES[`${letter}ib`] = 1024 ** (index + 1);
});
const NUMBER = /^\s*(\d+(?:\.\d+)?)\s*([a-zµ]*)\s*$/i;

function measured(text, units) {
  const found = NUMBER.exec(text);
  const unit = found && units[found[2].toLowerCase()];
  return unit ? Number((Number(found[1]) * unit).toPrecision(15)) : text;
}

const SHAPES = [
  [2 ** 40, "TiB"],
  [1e12, "TB"],
  [2 ** 30, "GiB"],
  [1e9, "GB"],
  [2 ** 20, "MiB"],
  [1e6, "MB"],
  [1024, "KiB"],
  [1e3, "kB"],
];

/** The shortest text that is exactly so many bytes. */
function sizeText(bytes) {
  const fits = bytes
    ? SHAPES.filter(([unit]) => bytes % unit === 0).sort(([one], [two]) => bytes / one - bytes / two)[0]
    : null;
  return fits ? `${bytes / fits[0]} ${fits[1]}` : `${bytes} B`;
}

function durationText(seconds) {
  if (!seconds) return "0 s";
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(12))} ms`;
  const fits = [
    [86400, "d", 2],
    [3600, "h", 1],
    [60, "m", 2],
  ].find(([unit, , least]) => seconds % unit === 0 && seconds >= least * unit);
  return fits ? `${seconds / fits[0]} ${fits[1]}` : `${seconds} s`;
}

/** What a field of this kind shows. */
export function written(kind, value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (kind === "size") return sizeText(value);
  if (kind === "duration") return durationText(value);
  if (kind === "list") return value.join(", ");
  return String(value);
}

/** What was written into a field of this kind, as the settings hold it. */
export function meant(kind, text) {
  if (kind === "size") return measured(text, BYTES);
  if (kind === "duration") return measured(text, SECONDS);
  if (kind === "list") return text.split(/[,\s]+/).filter(Boolean);
  if (kind === "whole" || kind === "number") return /^\s*-?\d+(\.\d+)?\s*$/.test(text) ? Number(text) : text;
  return text;
}

/** A value in words, for sentences and tables. */
export function told(kind, value) {
  if (value === null || value === undefined) return NONE;
  if (kind === "switch") return value ? "on" : "off";
  if ((kind === "whole" || kind === "number") && value >= 1e4) return block(value);
  if (kind === "list") return Array.isArray(value) ? value.join(", ") || "none" : String(value);
  return typeof value === "object" ? JSON.stringify(value) : written(kind, value).replaceAll("_", " ");
}
