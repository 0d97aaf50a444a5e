// What weights mean: the share of the calls each node is asked to carry, as things are and as they would be.

import { joined, percent } from "./format.js";

const path = (node, name) => ["networks", node.network, "nodes", node.id, name];

/** The weight a node will have when the collected changes are applied; 0 when it will take no calls. */
export function weightAfter(store, node) {
  if (store.value(path(node, "drain")) === true || store.value(["networks", node.network, "nodes", node.id]) === null) return 0;
  return store.value(path(node, "weight")) ?? node.weight;
}

/** A node that is out for a reason of its own (behind, failing ...) stays out; a cordoned or drained one may come back. */
export function canServe(node) {
  return node.eligible || node.state === "cordoned" || node.state === "drained";
}

export function weightsAfter(store, nodes, network) {
  const mine = nodes.filter((node) => node.network === network && canServe(node));
  return mine.reduce((sum, node) => sum + weightAfter(store, node), 0);
}

/** "5 of 7 → 71 %" */
export function meaning(store, nodes, node) {
  const weight = weightAfter(store, node);
  const total = weightsAfter(store, nodes, node.network);
  if (!canServe(node)) return `${weight}, once it may take calls`;
  if (!weight) return "no calls";
  return `${weight} of ${total} → ${joined(percent(weight / total))}`;
}
