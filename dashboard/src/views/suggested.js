// Suggested weights of a network: the reason of each, and one press that collects them as changes to be applied.

import { h, redraw } from "../dom.js";
import { NONE, joined, percent } from "../format.js";
import { button } from "../parts.js";
import { store } from "../store.js";

/** "71 % → 86 %": weights count in relation to each other alone. */
function shares(nodes, node) {
  const tier = nodes.filter((one) => one.tier === node.tier);
  const of = (weight) => joined(percent(weight(node) / tier.reduce((sum, one) => sum + weight(one), 0)));
  const [now, then] = [of((one) => one.weight), of((one) => one.suggested_weight.value)];
  return now === then ? now : `${now} → ${then}`;
}

const weights = ({ weight, suggested_weight: { value } }) =>
  weight === value ? `stays ${weight}` : `${weight} → ${value}`;

function table(nodes) {
  return h(
    "div",
    { class: "attempts", tabindex: "0", role: "region", "aria-label": "Suggested weights" },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          [["Node"], ["Weight", "right"], ["Share of calls", "right"], ["Why"]].map(([title, side]) =>
            h("th", { scope: "col", class: side }, h("span", {}, title)),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        nodes.map((node) =>
          h(
            "tr",
            {},
            h("td", {}, h("span", { class: "name", title: node.id }, node.id)),
            h("td", { class: "right" }, weights(node)),
            h("td", { class: "right" }, shares(nodes, node)),
            h("td", { class: "words" }, node.suggested_weight.why),
          ),
        ),
      ),
    ),
  );
}

/** The block of one network; what its button collects is what is shown. */
export function suggestion(network) {
  let shown = []; // nodes with a suggested weight
  const use = button(
    "Use these weights",
    () => {
      for (const {
        id,
        suggested_weight: { value },
      } of shown)
        store.set(["networks", network, "nodes", id, "weight"], value);
    },
    { hidden: true },
  );
  const hold = h("div");
  const element = h(
    "div",
    { class: "suggestion" },
    h("div", { class: "head" }, h("h3", {}, `Suggested weights of ${network}`), h("span", { class: "end" }, use)),
    hold,
  );
  const drafted = () => {
    use.hidden = !store.writable || !shown.length;
  };
  return {
    element,
    drafted,
    /** `revision`: of the settings that the report was made by. */
    update: (weighed, all, revision) => {
      const held = use.matches(":hover, :focus-visible") && hold.dataset.revision === String(revision);
      if (held) return; // what is about to be pressed does not change
      hold.dataset.revision = revision;
      shown = all.filter((node) => node.network === network && node.suggested_weight);
      redraw(
        hold,
        JSON.stringify([weighed, shown.map(({ id, weight, suggested_weight: suggested }) => [id, weight, suggested])]),
        () => [
          h(
            "p",
            {},
            `${shown.length ? "By the last hour: " : "None other than those in force: "}${weighed.why || NONE}.`,
          ),
          shown.length ? table(shown) : null,
        ],
      );
      drafted();
    },
  };
}
