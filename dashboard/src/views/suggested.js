// Suggested weights of a network: the reason, what the last hour's calls would have taken, and one press that applies them.

import { h, redraw } from "../dom.js";
import { NONE, duration, joined, percent } from "../format.js";
import { button } from "../parts.js";
import { store } from "../store.js";

const WAYS = [["manual", "by hand"], ["auto", "by themselves, in steps"]];
const AUTOMATIC = "Applied by themselves: a step every ten minutes at the most, while they save 5 % of the mean or more. After somebody changed weights by hand or undid them, an hour's rest.";

const changed = (now, then) => (joined(duration(now)) === joined(duration(then)) ? joined(duration(now)) : `${joined(duration(now))} → ${joined(duration(then))}`);

/** "p50 21 ms → 19 ms · p99 ... · mean ...", by the last hour's calls; null without any. */
function replayed({ now, suggested: then }) {
  if (now.mean === null) return null;
  const figures = ["p50", "p99", "mean"].map((name) => h("span", {}, h("span", { class: "quiet" }, `${name} `), then ? changed(now[name], then[name]) : joined(duration(now[name]))));
  return h("p", { class: "replayed" }, figures, h("span", { class: "quiet" }, then ? "the last hour's calls, as they were → with these weights" : "the last hour's calls"));
}

/** "5 of 7 → 12 of 14": weights count in relation to each other alone. */
function shares(nodes, node) {
  const tier = nodes.filter((one) => one.tier === node.tier);
  const of = (weight) => joined(percent(weight(node) / tier.reduce((sum, one) => sum + weight(one), 0)));
  const [now, then] = [of((one) => one.weight), of((one) => one.suggested_weight.value)];
  return now === then ? now : `${now} → ${then}`;
}

const weights = ({ weight, suggested_weight: { value } }) => (weight === value ? `stays ${weight}` : `${weight} → ${value}`);

function table(nodes) {
  return h("div", { class: "attempts", tabindex: "0", role: "region", "aria-label": "Suggested weights" }, h("table", {}, h("thead", {}, h("tr", {}, [["Node"], ["Weight", "right"], ["Share of calls", "right"], ["Why"]].map(([title, side]) => h("th", { scope: "col", class: side }, h("span", {}, title))))),
    h("tbody", {}, nodes.map((node) => h("tr", {}, h("td", {}, h("span", { class: "name", title: node.id }, node.id)), h("td", { class: "right" }, weights(node)), h("td", { class: "right" }, shares(nodes, node)),
      h("td", { class: "words" }, node.suggested_weight.why))))));
}

/** The block of one network; what its button applies is what is shown. */
export function suggestion(network) {
  const path = ["networks", network, "weights"];
  let shown = {}; // node -> weight
  const apply = button("Apply these weights", () => store.applyWeights(network, shown), { hidden: true });
  const select = h("select", { class: "field", "aria-label": `Suggested weights of ${network} are applied`, onchange: () => store.set(path, select.value) }, WAYS.map(([value, word]) => h("option", { value }, word)));
  const tune = h("label", {}, "applied", select);
  const hold = h("div");
  const element = h("div", { class: "suggestion" }, h("div", { class: "head" }, h("h3", {}, `Suggested weights of ${network}`), h("span", { class: "end" }, tune, apply)), hold);
  const draw = (weighed, nodes) => [
    h("p", {}, `${nodes.length ? "By the last hour: " : "None other than those in force: "}${weighed.why || NONE}.`),
    replayed(weighed),
    weighed.weights === "auto" ? h("p", { class: "quiet" }, AUTOMATIC) : null,
    nodes.length ? table(nodes) : null,
  ];
  return {
    element,
    /** `revision`: of the settings that the report was made by. */
    update: (weighed, all, revision) => {
      const held = apply.matches(":hover, :focus-visible") && hold.dataset.revision === String(revision);
      if (held) return; // what is about to be pressed does not change
      hold.dataset.revision = revision;
      const nodes = all.filter((node) => node.network === network && node.suggested_weight);
      shown = Object.fromEntries(nodes.map((node) => [node.id, node.suggested_weight.value]));
      redraw(hold, JSON.stringify([weighed, nodes.map(({ id, weight, suggested_weight: suggested }) => [id, weight, suggested])]), () => draw(weighed, nodes));
      apply.hidden = !store.writable || !nodes.length || weighed.weights === "auto";
    },
    drafted: () => {
      tune.hidden = !store.writable;
      apply.disabled = store.busy;
      const value = store.value(path);
      if (value && select.value !== value) select.value = value;
      select.classList.toggle("drafted", store.changed(path));
    },
  };
}
