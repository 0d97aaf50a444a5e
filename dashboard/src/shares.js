// What weights mean: the share of the calls each node is asked to carry, as things are and as they would be.

import { joined, percent } from "./format.js";

const path = (node, name) => ["networks", node.network, "nodes", node.id, name];

/** The weight a node will have when the collected changes are applied; 0 when it will take no calls. */
function weightAfter(store, node) {
  if (store.value(path(node, "drain")) === true || store.value(["networks", node.network, "nodes", node.id]) === null)
    return 0;
  return store.value(path(node, "weight")) ?? node.weight;
}

const tierAfter = (store, node) => store.value(path(node, "tier")) ?? node.tier;

/** A node that is out for a reason of its own (behind, failing ...) stays out; a cordoned or drained one may come back. */
function canServe(node) {
  return node.eligible || node.state === "cordoned" || node.state === "drained";
}

const serving = (store, nodes, network) =>
  nodes.filter((node) => node.network === network && canServe(node) && weightAfter(store, node));
const sum = (store, nodes) => nodes.reduce((total, node) => total + weightAfter(store, node), 0);

export const weightsAfter = (store, nodes, network) => sum(store, serving(store, nodes, network));

/** "5 of 7 → 71 %", after what it is now where that is another share. */
export function meaning(store, nodes, node) {
  const weight = weightAfter(store, node);
  if (!canServe(node)) return `${weight}, no calls now`;
  if (!weight)
    return store.drafts.size && node.share_wanted
      ? `${joined(percent(node.share_wanted))} now, then no calls`
      : "no calls";
  const all = serving(store, nodes, node.network);
  const tier = Math.min(...all.map((one) => tierAfter(store, one)));
  if (tierAfter(store, node) > tier) return `stands by in tier ${tierAfter(store, node)}`;
  const total = sum(
    store,
    all.filter((one) => tierAfter(store, one) === tier),
  );
  const [now, then] = [node.share_wanted, weight / total];
  const about = node.share_aim ? "~" : ""; // the balancer looks at more than weights
  const words = `${weight} of ${total} → ${about}${joined(percent(then))}`;
  return store.drafts.size && now !== null && joined(percent(now)) !== joined(percent(then))
    ? `${about}${joined(percent(now))} now, then ${words}`
    : words;
}
