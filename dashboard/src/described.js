// What can be set, as the server describes it: read once, and asked by path.

import { read } from "./api.js";
import { label } from "./labels.js";
import { told } from "./units.js";

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

/** Any network and any node is described once; so are the limits of a holder of keys, which are those of callers without one. */
function shapeOf([top, name, ...rest]) {
  if (top === "networks")
    return [top, "*", ...(rest[0] === "nodes" && rest.length > 1 ? ["nodes", "*", ...rest.slice(2)] : rest)];
  return top === "clients" && name === "keys" ? ["clients", "anonymous", ...rest.slice(1)] : [top, name, ...rest];
}

/** The description of the setting at a path of names; undefined while none is known. */
export const about = (path) =>
  known.get(
    shapeOf(path)
      .filter((name) => name !== undefined)
      .join("."),
  );

/** What the setting at a path is called, described or not. */
export const nameOf = (path) =>
  label(
    shapeOf(path)
      .filter((name) => name !== undefined)
      .join("."),
  ).name;

/** A value at this path in words. */
export const inWords = (path, value) => told(about(path)?.kind, value);

/** As faults of the server name a path. */
export const dotted = (path) =>
  path.map((name) => (/^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name))).join(".");

/** The names of a dotted path. */
export const named = (path) =>
  (path.match(/"(?:[^"\\]|\\.)*"|[^.]+/g) ?? []).map((name) => (name.startsWith('"') ? JSON.parse(name) : name));
