// The report on nodes over the hour or the day: what each is worth, suggested weights, and the cases of disagreement.

import { read } from "../api.js";
import { endWith, h, leave, redraw, setText } from "../dom.js";
import { NONE, joined, percent, span } from "../format.js";
import { atEnd, button, choice, listing, quiet, section } from "../parts.js";
import { store } from "../store.js";
import { casesSection } from "./cases.js";
import { worthTable } from "./worth.js";

const drained = ({ network, id }) => store.inForce(["networks", network, "nodes", id, "drain"]) === true;

/** "71 % → 86 %": weights count in relation to each other alone, and a drained node takes no calls. */
function shares(nodes, node) {
  if (drained(node)) return NONE;
  const tier = nodes.filter((one) => one.tier === node.tier && !drained(one));
  const of = (weight) => joined(percent(weight(node) / tier.reduce((sum, one) => sum + weight(one), 0)));
  const [now, then] = [of((one) => one.weight), of((one) => one.suggested_weight.value)];
  return now === then ? now : `${now} → ${then}`;
}

const weights = ({ weight, suggested_weight: { value } }) =>
  weight === value ? `stays ${weight}` : `${weight} → ${value}`;

const HEADS = [["Node"], ["Weight", "right"], ["Share of calls", "right"], ["Why", "words"]];

function table(nodes) {
  const name = ({ id }) => h("span.name", { title: id }, id);
  const row = (node) => [name(node), weights(node), shares(nodes, node), node.suggested_weight.why];
  return listing("Suggested weights", HEADS, nodes.map(row));
}

/** The block of one network; what its button collects is what is shown. */
function suggestion(network) {
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
    "div.suggestion",
    h("div.head", h("h3", `Suggested weights of ${network}`), h("span.end", use)),
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
      redraw(hold, [
        h("p", `${shown.length ? "By the last hour: " : "None other than those in force: "}${weighed.why || NONE}.`),
        shown.length ? table(shown) : null,
      ]);
      drafted();
    },
  };
}

const EVERY = 10000;
const PATIENCE = 20000;
const OVER = [
  ["hour", "1 h"],
  ["day", "24 h"],
];
let over = "hour";

export class NodeReport {
  /** `told()` when another report is there. */
  constructor(networks, told) {
    Object.assign(this, {
      told,
      report: null,
      byNode: new Map(),
      askedAt: -Infinity,
      revision: null,
      asking: null,
      table: null,
      shape: "",
    });
    this.several = networks.length > 1;
    this.note = quiet();
    this.word = h("p.note", { hidden: true });
    this.hold = h("div");
    this.suggestions = new Map(networks.map((name) => [name, suggestion(name)]));
    this.worth = section(
      "What each node is worth",
      [this.note, atEnd(choice("Report over", OVER, over, (chosen) => this.look(chosen)))],
      this.word,
      this.hold,
      [...this.suggestions.values()],
    );
    this.cases = casesSection(this.several);
    this.elements = [this.worth, this.cases.element];
    endWith(this.worth, () => (this.asking = null)); // an answer that is on its way is thrown away
    for (const one of this.elements) one.hidden = true;
  }

  /** What a node did, by NETWORK/NODE; undefined while that is not known. */
  of(key) {
    return this.byNode.get(key);
  }

  get over() {
    return this.report?.over;
  }

  /** Each second: ask when it is time to, or when the settings have changed. */
  update({ revision }) {
    this.drafted();
    if (performance.now() - this.askedAt < EVERY && revision === this.revision) return;
    this.revision = revision;
    this.ask();
  }

  /** What is collected has changed, or who may change anything. */
  drafted() {
    for (const one of this.suggestions.values()) one.drafted();
  }

  look(chosen) {
    over = chosen;
    this.ask();
  }

  async ask() {
    const wanted = over;
    const asking = (this.asking = {}); // an answer that comes after a later question is thrown away
    this.askedAt = performance.now();
    try {
      const report = await read(`nodes/report?over=${wanted}`, { patience: PATIENCE });
      if (this.asking === asking) this.show(report);
    } catch (problem) {
      if (this.asking === asking) this.failed(problem);
    }
  }

  failed({ status, message }) {
    if (status === 404) return; // an older server has none
    this.worth.hidden = false;
    this.word.hidden = false;
    setText(this.word, `The report could not be read, and is asked for again: ${message}.`);
  }

  show(report) {
    Object.assign(this, { report, byNode: new Map(report.nodes.map((node) => [`${node.network}/${node.id}`, node])) });
    for (const one of this.elements) one.hidden = false;
    this.word.hidden = true;
    const whole = report.over === "hour" ? 3600 : 86400;
    setText(
      this.note,
      `in the last ${report.over}${report.seconds < whole * 0.98 ? `, of which there are ${span(report.seconds)} so far` : ""}`,
    );
    this.tableFor(report).update(report.nodes);
    for (const weighed of report.networks)
      this.suggestions.get(weighed.network)?.update(weighed, report.nodes, this.revision);
    this.drafted();
    this.cases.update(report);
    this.told();
  }

  /** Prices, quotas and costs have a column where any node has them. */
  tableFor({ nodes, currency }) {
    const has = [
      nodes.some(({ cost }) => cost !== null) ? currency : null,
      nodes.some(({ quota }) => quota.length),
      nodes.some(({ credits }) => credits !== null),
    ];
    const shape = has.join();
    if (shape !== this.shape) {
      leave(this.hold);
      Object.assign(this, { table: worthTable(this.several, ...has), shape });
      this.hold.replaceChildren(this.table.element);
    }
    return this.table;
  }
}
