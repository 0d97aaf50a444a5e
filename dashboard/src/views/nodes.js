// Nodes: how each is, what it carries, and what it should carry.

import { Chart } from "../chart.js";
import { h, redraw, setText, state } from "../dom.js";
import { block, duration, lately, rate, span } from "../format.js";
import { menuButton } from "../menu.js";
import { button, hint, quiet, section } from "../parts.js";
import { store } from "../store.js";
import { Table } from "../table.js";
import { SECONDS, spanControl, timeSpan } from "../timespan.js";
import { addNodeForm } from "./add_node.js";
import { nodeDetail } from "./node_detail.js";
import { NodeReport } from "./node_report.js";
import { figures, identity, share } from "./node_table.js";
import { weightControl } from "./weight.js";

const LINES = ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"];

/** What can be done to a node, each with what it will do. `probe()` asks the node and shows what it says. */
function actions(node, probe) {
  const path = ["networks", node.network, "nodes", node.id];
  const [drain, weight] = [
    [...path, "drain"],
    [...path, "weight"],
  ];
  const offered = () => {
    const [removed, draining, cordoned] = [store.value(path) === null, store.value(drain), store.value(weight) === 0];
    return [
      { text: "Probe now", hint: "ask for its head and its chain", run: probe },
      {
        text: draining ? "End the drain" : "Drain",
        hint: draining ? "let it take calls again" : "it finishes what it has and takes no new calls",
        disabled: removed,
        run: () => store.set(drain, !draining),
      },
      {
        text: cordoned ? "Uncordon" : "Cordon",
        hint: cordoned ? "give it its weight back" : "weight 0: it is probed and takes no calls",
        disabled: removed,
        run: () => store.set(weight, cordoned ? store.inForce(weight) || 1 : 0),
      },
      removed
        ? { text: "Do not remove", hint: "keep it in the settings", run: () => store.set(path, store.inForce(path)) }
        : {
            text: "Remove",
            hint: "out of the settings, with its connections",
            danger: true,
            run: () => store.set(path, null),
          },
    ];
  };
  const { element, button: opener } = menuButton(`Actions for node ${node.id}`, offered);
  return { element, update: () => opener.classList.toggle("drafted", store.changed(drain) || store.changed(path)) };
}

const SAYS = {
  balancer: {
    smooth_weighted: "in turn, by weight",
    consistent_hash: "the same call to the same node",
    peak_ewma: "by weight, less to slower nodes",
  },
  hash_key: {
    method: "by method",
    params: "by method and params",
    "first-param": "by first param",
    client: "by client",
  },
};

const spoken = (name, value) => `${value.replaceAll("_", " ")}${SAYS[name][value] ? ` – ${SAYS[name][value]}` : ""}`;

function pickOne(network, name, values) {
  const path = ["networks", network, name];
  const select = h(
    "select",
    {
      class: "field",
      "aria-label": `${name.replace("_", " ")} of ${network}`,
      onchange: () => store.set(path, select.value),
    },
    values.map((value) => h("option", { value }, spoken(name, value))),
  );
  return {
    select,
    update: () => {
      const value = store.value(path);
      if (value && select.value !== value) select.value = value;
      select.classList.toggle("drafted", store.changed(path));
    },
  };
}

/** The head of a network's nodes: its block, how many take calls, and how calls are spread. */
function networkHead(network, balancers, known) {
  const [balancer, key] = [
    pickOne(network, "balancer", balancers),
    pickOne(network, "hash_key", Object.keys(SAYS.hash_key)),
  ];
  const keyed = h("label", {}, "hash key", key.select);
  const figures = h("span", { class: "quiet" });
  const spread = quiet();
  const tune = store.writable
    ? h("div", { class: "inline" }, h("label", {}, "balancer", balancer.select), keyed)
    : spread;
  return {
    element: h("div", { class: "network" }, h("h3", {}, network), figures, tune),
    update: (nodes) => {
      const now = known().find((one) => one.network === network);
      const [serving, failing] = [
        nodes.filter((node) => node.eligible).length,
        nodes.filter((node) => node.state === "failing").length,
      ];
      redraw(figures, JSON.stringify([now?.head, now && span(now.age), serving, failing, nodes.length]), () => [
        state(
          !serving ? "bad" : serving < nodes.length || failing ? "warn" : "good",
          `${serving} of ${nodes.length} take calls${failing ? `, ${failing} failing` : ""}`,
        ),
        now ? ` · head ${block(now.head)}${now.age === null ? "" : `, ${span(now.age)} old`}` : "",
      ]);
      setText(spread, now?.balancer ? `balancer: ${spoken("balancer", now.balancer)}` : "");
      balancer.update();
      key.update();
      keyed.hidden = store.value(["networks", network, "balancer"]) !== "consistent_hash";
    },
  };
}

/** A line for each of the busiest nodes, over what `timeSpan` says; `changed()` when that is something else. */
function nodeCharts(changed) {
  const hold = h("div", { class: "charts" });
  const which = quiet();
  let charts = [];
  const shown = spanControl(() => {
    changed();
    charts.forEach((chart) => chart.again());
  });
  const element = section("Over time", which, hold);
  element.querySelector(".head").append(h("span", { class: "end" }, shown.element));
  const gone = () => charts.forEach((chart) => chart.gone());
  const make = (ids) => {
    gone();
    const short = ids.map((key) => key.slice(key.indexOf("/") + 1));
    const labels = short.map((id, index) => (short.filter((one) => one === id).length > 1 ? ids[index] : id));
    const series = (figure, format) =>
      ids.map((key, index) => ({ key: `${figure} ${key}`, label: labels[index], format, colour: LINES[index] }));
    charts = [
      new Chart({ label: "Calls to each node", zoom: true, series: series("calls", rate) }),
      new Chart({ label: "Latency of each node", log: true, zoom: true, series: series("latency", duration) }),
    ];
    return charts.map((chart) => chart.element);
  };
  const update = ({ columns, nodes, seconds }, serving) => {
    setText(which, serving > nodes.length ? `the ${nodes.length} busiest` : "");
    const busiest = nodes.map((node) => ({ ...node, key: `${node.network}/${node.id}` }));
    redraw(hold, JSON.stringify(busiest.map(({ key }) => key)), () =>
      busiest.length ? make(busiest.map(({ key }) => key)) : "",
    );
    const all = { at: columns.at, seconds };
    for (const { key, calls_per_second: calls, latency } of busiest)
      Object.assign(all, { [`calls ${key}`]: calls, [`latency ${key}`]: latency });
    element.hidden = !busiest.length;
    if (busiest.length) for (const chart of charts) chart.update(all, SECONDS[timeSpan.range]);
  };
  return {
    element,
    update,
    gone: () => {
      shown.gone();
      gone();
    },
  };
}

export const nodes = {
  title: "Nodes",
  needs: () => ({ nodes: { path: "nodes" }, history: timeSpan.need("") }),
  build: (documents, feed) => {
    let last = documents.nodes.nodes;
    let known = documents.overview.networks;
    const keyOf = (node) => `${node.network}/${node.id}`;
    const table = new Table({
      label: "Nodes",
      key: keyOf,
      detail: (node) => nodeDetail(node, about),
      group: {
        of: (node) => node.network,
        head: (network) =>
          networkHead(network, documents.overview.balancers ?? Object.keys(SAYS.balancer), () => known),
      },
      find: (node) => `${node.id} ${node.network} ${node.state} ${node.address}`,
      columns: [
        ...identity(false),
        {
          title: "Weight",
          hint: "and the share of the calls that it means",
          sort: (node) => node.weight,
          build: (node) => weightControl(node, () => last),
        },
        { ...share, fold: 4 },
        ...figures(),
        ...(store.writable
          ? [
              {
                title: "",
                name: "Actions",
                look: "acts",
                build: (node) => actions(node, () => table.open(keyOf(node)).probe()),
              },
            ]
          : []),
      ],
    });
    const about = {
      did: (node) => report.of(keyOf(node)),
      over: () => report.over,
      showCases: (node) => report.cases.of(keyOf(node)),
    };
    const note = quiet();
    const charts = nodeCharts(() => feed.turn("history"));
    const form = addNodeForm(
      documents.overview.networks.map(({ network }) => network),
      () => {
        form.element.hidden = true;
        add.hidden = false;
      },
    );
    const add = button("Add a node", () => {
      form.element.hidden = false;
      add.hidden = true;
      form.focus();
    });
    const why = h("div", { class: "below" });
    const element = section("Nodes", note, form.element, table.element, why);
    const field = h("input", {
      class: "filter field",
      type: "search",
      placeholder: "Filter (press /)",
      "aria-label": "Filter nodes",
      oninput: () => table.filter(field.value),
    });
    element.querySelector(".head").append(h("span", { class: "end" }, add, field));
    table.element.classList.add("cards");
    const show = () => table.update(last);
    const report = new NodeReport(
      documents.overview.networks.map(({ network }) => network),
      show,
    );
    let asked = null; // the node that the address names, until it is there
    const reveal = () => {
      if (asked !== null && table.reveal(asked)) asked = null;
    };
    return {
      elements: [element, charts.element, ...report.elements],
      update: ({ overview, nodes: now, history, settings }) => {
        last = now.nodes;
        known = overview.networks;
        report.update(overview);
        setText(
          note,
          `${last.filter((node) => node.eligible).length} of ${last.length} take calls${now.minute ? ` · percentiles of the last ${lately(now.minute)}` : ""}`,
        );
        field.hidden = last.length < 8;
        if (!store.writable) add.hidden = true;
        redraw(why, String(store.writable) + Boolean(settings), () =>
          store.writable
            ? ""
            : hint(
                settings
                  ? "You may look, not change: your role is “read”."
                  : "This server shows its nodes; to change them, change its config file and start it again.",
              ),
        );
        show();
        reveal();
        if (history) charts.update(history, last.filter((node) => node.eligible).length);
      },
      drafted: () => {
        show();
        report.drafted();
      },
      at: (place) => {
        asked = new URLSearchParams(`node=${place}`).get("node"); // never fails, whatever somebody wrote by hand
        field.value = "";
        table.filter("");
        reveal();
      },
      gone: () => {
        table.gone();
        charts.gone();
        report.gone();
      },
    };
  },
};
