// Nodes: how each is, what it carries, and what it should carry.

import { Chart } from "../chart.js";
import { h, redraw, setAttribute, setText } from "../dom.js";
import { duration, lately, rate } from "../format.js";
import { button, hint, quiet, section } from "../parts.js";
import { store } from "../store.js";
import { Table } from "../table.js";
import { addNodeForm } from "./add_node.js";
import { nodeDetail } from "./node_detail.js";
import { figures, identity, share } from "./node_table.js";
import { weightControl } from "./weight.js";

const LINES = ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"];

/** Drain and cordon: each a button that says what it will do. */
function switches(node) {
  const path = ["networks", node.network, "nodes", node.id];
  const drain = button("", () => store.set([...path, "drain"], !store.value([...path, "drain"])));
  const cordon = button("", () => store.set([...path, "weight"], store.value([...path, "weight"]) === 0 ? store.inForce([...path, "weight"]) || 1 : 0));
  return {
    element: h("div", { class: "buttons tight" }, drain, cordon),
    update: () => {
      const [draining, cordoned] = [store.value([...path, "drain"]), store.value([...path, "weight"]) === 0];
      setText(drain, draining ? "End drain" : "Drain");
      setText(cordon, cordoned ? "Uncordon" : "Cordon");
      setAttribute(drain, "title", draining ? "Let it take calls again" : "It finishes what it has and takes no new calls");
      setAttribute(cordon, "title", cordoned ? "Give it a weight again" : "Weight 0: it is probed and takes no calls");
      setAttribute(drain, "aria-label", `${drain.textContent} node ${node.id}`);
      setAttribute(cordon, "aria-label", `${cordon.textContent} node ${node.id}`);
      drain.classList.toggle("drafted", store.changed([...path, "drain"]));
      drain.disabled = cordon.disabled = store.value(path) === null;
    },
  };
}

const SAYS = {
  balancer: {
    smooth_weighted: "in turn, by weight", consistent_hash: "the same call to the same node", peak_ewma: "by weight, less to slower nodes",
  },
  hash_key: { method: "by method", params: "by method and params", "first-param": "by first param", client: "by client" },
};

function pickOne(network, name, values) {
  const path = ["networks", network, name];
  const select = h("select", { class: "field", "aria-label": `${name.replace("_", " ")} of ${network}`, onchange: () => store.set(path, select.value) },
    values.map((value) => h("option", { value }, `${value.replaceAll("_", " ")}${SAYS[name][value] ? ` – ${SAYS[name][value]}` : ""}`)));
  return { select, update: () => {
    const value = store.value(path);
    if (value && select.value !== value) select.value = value;
    select.classList.toggle("drafted", store.changed(path));
  } };
}

/** How the calls of each network are spread. */
function balancing(overview) {
  const rows = overview.networks.map(({ network }) => {
    const [balancer, key] = [pickOne(network, "balancer", overview.balancers ?? Object.keys(SAYS.balancer)), pickOne(network, "hash_key", Object.keys(SAYS.hash_key))];
    const keyed = h("label", {}, "hash key", key.select);
    const element = h("div", { class: "inline" }, h("b", {}, network), h("label", {}, "balancer", balancer.select), keyed);
    return { element, update: () => {
      balancer.update();
      key.update();
      keyed.hidden = store.value(["networks", network, "balancer"]) !== "consistent_hash";
    } };
  });
  const element = h("div", { class: "balancing" }, rows.map((row) => row.element));
  return { element, update: () => {
    element.hidden = !store.writable;
    for (const row of rows) row.update();
  } };
}

/** A line for each of the busiest nodes. */
function nodeCharts() {
  const hold = h("div", { class: "charts" });
  let charts = [];
  const gone = () => charts.forEach((chart) => chart.gone());
  const make = (ids) => {
    gone();
    const series = (figure, format) => ids.map((key, index) => ({ key: `${figure} ${key}`, label: key.split("/")[1], format, colour: LINES[index] }));
    charts = [new Chart({ label: "Calls to each node, mean of 10 s", series: series("calls", rate) }), new Chart({ label: "Latency of each node, mean of 10 s", log: true, series: series("latency", duration) })];
    return charts.map((chart) => chart.element);
  };
  const update = ({ columns, nodes }) => {
    const busiest = nodes.map((node) => ({ ...node, key: `${node.network}/${node.id}` }));
    redraw(hold, JSON.stringify(busiest.map(({ key }) => key)), () => (busiest.length ? make(busiest.map(({ key }) => key)) : ""));
    const all = { at: columns.at };
    for (const { key, calls_per_second: calls, latency } of busiest) Object.assign(all, { [`calls ${key}`]: calls, [`latency ${key}`]: latency });
    if (busiest.length) for (const chart of charts) chart.update(all);
  };
  return { element: hold, update, gone };
}

export const nodes = {
  title: "Nodes",
  needs: { nodes: { path: "nodes" }, history: { path: "history?range=5m", every: 2000 } },
  build: (documents) => {
    let last = documents.nodes.nodes;
    const table = new Table({
      label: "Nodes", key: (node) => `${node.network}/${node.id}`, detail: nodeDetail,
      find: (node) => `${node.id} ${node.network} ${node.state} ${node.address}`,
      columns: [
        ...identity(documents.overview.networks.length > 1),
        { title: "Weight", hint: "and the share of the calls that it means", sort: (node) => node.weight, build: (node) => weightControl(node, () => last) },
        share, ...figures(),
        ...(store.writable ? [{ title: "", build: switches }] : []),
      ],
    });
    const note = quiet();
    const charts = nodeCharts();
    const spread = balancing(documents.overview);
    const form = addNodeForm(documents.overview.networks.map(({ network }) => network), () => {
      form.element.hidden = true;
      add.hidden = false;
    });
    const add = button("Add a node", () => {
      form.element.hidden = false;
      add.hidden = true;
      form.focus();
    });
    const why = h("div", { class: "below" });
    const element = section("Nodes", note, spread.element, form.element, table.element, why);
    const field = h("input", { class: "filter field", type: "search", placeholder: "Filter (press /)", "aria-label": "Filter nodes", oninput: () => table.filter(field.value) });
    element.querySelector(".head").append(h("span", { class: "end" }, add, field));
    table.element.classList.add("cards");
    const show = () => {
      table.update(last);
      spread.update();
    };
    return {
      elements: [element, charts.element],
      update: ({ nodes: now, history, settings }) => {
        last = now.nodes;
        setText(note, `${last.filter((node) => node.eligible).length} of ${last.length} take calls${now.minute ? ` · percentiles of the last ${lately(now.minute)}` : ""}`);
        field.hidden = last.length < 8;
        if (!store.writable) add.hidden = true;
        redraw(why, String(store.writable) + Boolean(settings), () => (store.writable ? "" : hint(settings ? "You may look, not change: your role is “read”." : "This server shows its nodes; to change them, change its config file and start it again.")));
        show();
        charts.update(history);
      },
      drafted: show,
      gone: () => {
        table.gone();
        charts.gone();
      },
    };
  },
};
