// Weights: a slider and a number that mirror each other, and the share of the calls that they mean.

import { h, redraw, setAttribute, setText } from "./dom.js";
import { joined, percent } from "./format.js";
import { store } from "./store.js";

const HIGHEST = 1000;
const valid = (weight) => Number.isInteger(weight) && weight >= 0 && weight <= HIGHEST;

let made = 0;

/** Who may not change it sees the number. `nodes()`: all nodes as they were last told. */
export function weightControl(node, nodes) {
  const share = h("span.means");
  const tellShare = (now) => {
    const said = meaning(store, nodes(), now);
    const then = said.split(", then ").at(-1);
    redraw(share, [h("span.before", said.slice(0, said.length - then.length)), then]);
    setAttribute(share, "title", said);
  };
  if (!store.writable) {
    const figure = h("b");
    return {
      element: h("div.tune", figure, share),
      update: (now) => {
        setText(figure, String(now.weight));
        tellShare(now);
      },
    };
  }
  const path = ["networks", node.network, "nodes", node.id, "weight"];
  const label = `Weight of node ${node.id}`;
  const slider = h("input", { type: "range", min: "0", max: "10", step: "1", "aria-label": label });
  const number = h("input.field.weight", {
    type: "number",
    min: "0",
    max: String(HIGHEST),
    step: "1",
    "aria-label": `${label}, as a number`,
  });
  const fault = h("p.isbad.fault", { role: "alert", id: `weight-fault-${(made += 1)}` });
  number.setAttribute("aria-describedby", fault.id);
  // A weight that the server would refuse is collected like any other: the bar does not apply it, and says why.
  const set = (text) => {
    if (text === "") return;
    store.set(path, Number(text));
    if (!valid(Number(text))) store.check();
  };
  slider.addEventListener("input", () => set(slider.value));
  number.addEventListener("input", () => set(number.value));
  number.addEventListener("keydown", (event) => event.key === "Enter" && set(number.value));
  const element = h("div.tune", slider, number, share, fault);
  const update = (now) => {
    const wanted = store.value(path) ?? now.weight;
    const highest = Math.max(
      10,
      ...nodes()
        .filter((one) => one.network === now.network)
        .map((one) => one.weight),
      Math.min(wanted, HIGHEST),
    );
    // While a slider is held its end does not move away from under the pointer.
    if (document.activeElement !== slider) setAttribute(slider, "max", String(highest));
    if (Number(slider.value) !== wanted) slider.value = wanted;
    if (document.activeElement !== number && number.value !== String(wanted)) number.value = wanted;
    slider.disabled = number.disabled = store.value(path.slice(0, -1)) === null;
    element.classList.toggle("drafted", store.changed(path));
    const none = document.activeElement === number && number.value === ""; // the field takes no letters
    const wrong = valid(wanted) && !none ? "" : `expected a whole number, 0 to ${HIGHEST}`;
    setText(fault, wrong);
    setAttribute(number, "aria-invalid", String(Boolean(wrong)));
    if (wrong) redraw(share);
    else tellShare(now);
  };
  return { element, update };
}

const path = (node, name) => ["networks", node.network, "nodes", node.id, name];

/** The weight a node will have when the collected changes are applied; 0 when it will take no calls. */
function weightAfter(store, node) {
  if (store.value(path(node, "drain")) === true || store.value(["networks", node.network, "nodes", node.id]) === null)
    return 0;
  const weight = store.value(path(node, "weight"));
  return valid(weight) ? weight : node.weight;
}

const tierAfter = (store, node) => store.value(path(node, "tier")) ?? node.tier;

/** A node that is out for a reason of its own (behind, failing ...) stays out; a cordoned or drained one may come
 *  back. */
function canServe(node) {
  return node.eligible || node.state === "cordoned" || node.state === "drained";
}

const serving = (store, nodes, network) =>
  nodes.filter((node) => node.network === network && canServe(node) && weightAfter(store, node));
const sum = (store, nodes) => nodes.reduce((total, node) => total + weightAfter(store, node), 0);

const lowest = (tiers) => Math.min(...tiers); // Infinity without any

/** What becomes of a network's calls: { none: would no node take any?, tier, ids }, the tier and the nodes that would
 *  take them in place of a lower tier; null when nothing of that. */
export function leftAfter(store, nodes, network) {
  const left = serving(store, nodes, network);
  const [now, tier] = [
    lowest(nodes.filter((node) => node.network === network && node.eligible).map((node) => node.tier)),
    lowest(left.map((node) => tierAfter(store, node))),
  ];
  if (!left.length) return { none: true };
  return tier > now ? { tier, ids: left.filter((node) => tierAfter(store, node) === tier).map(({ id }) => id) } : null;
}

/** "5 of 7 → 71 %", after what it is now where that is another share. */
function meaning(store, nodes, node) {
  const weight = weightAfter(store, node);
  if (node.state === "behind") return `${weight}, calls about older blocks alone`;
  if (!canServe(node)) return `${weight}, ${node.state === "failing" ? "trials alone" : "no calls now"}`;
  if (!weight)
    return store.drafts.size && node.share_wanted
      ? `${joined(percent(node.share_wanted))} now, then no calls`
      : "no calls";
  const all = serving(store, nodes, node.network);
  const tier = Math.min(...all.map((one) => tierAfter(store, one)));
  if (tierAfter(store, node) > tier)
    return node.share_got && node.tier > tier
      ? `takes what tier ${tier} cannot`
      : `stands by in tier ${tierAfter(store, node)}`;
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
