// The report on nodes over the hour or the day: what each is worth, suggested weights, and the cases of disagreement.

import { read } from "../api.js";
import { h, setText } from "../dom.js";
import { span } from "../format.js";
import { choice, quiet, section } from "../parts.js";
import { casesSection } from "./cases.js";
import { suggestion } from "./suggested.js";
import { worthTable } from "./worth.js";

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
    this.word = h("p", { class: "note", hidden: true });
    this.hold = h("div");
    this.suggestions = new Map(networks.map((name) => [name, suggestion(name)]));
    this.worth = section(
      "What each node is worth",
      this.note,
      this.word,
      this.hold,
      ...[...this.suggestions.values()].map(({ element }) => element),
    );
    this.worth.querySelector(".head").append(
      h(
        "span",
        { class: "end" },
        choice("Report over", OVER, over, (chosen) => {
          over = chosen;
          this.ask();
        }),
      ),
    );
    this.cases = casesSection(this.several);
    this.elements = [this.worth, this.cases.element];
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

  /** Costs and quotas have a column where any node has them. */
  tableFor({ nodes, currency }) {
    const [costs, quotas] = [
      nodes.some(({ cost }) => cost !== null) ? currency : null,
      nodes.some(({ quota }) => quota.length),
    ];
    const shape = `${costs} ${quotas}`;
    if (shape !== this.shape) {
      this.table?.gone();
      Object.assign(this, { table: worthTable(this.several, costs, quotas), shape });
      this.hold.replaceChildren(this.table.element);
    }
    return this.table;
  }

  gone() {
    this.asking = null;
    this.table?.gone();
    this.cases.gone();
  }
}
