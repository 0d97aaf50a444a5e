// Nodes: how each is, what it carries, and what it should carry.

import { change } from "../api.js";
import { Chart } from "../chart.js";
import { h, leave, redraw, setText, state } from "../dom.js";
import { block, duration, joined, lately, plural, rate, span } from "../format.js";
import {
  atEnd,
  button,
  filterField,
  foldedForm,
  hint,
  input,
  labelled,
  quiet,
  section,
  select,
  troubled,
} from "../parts.js";
import { menuButton } from "../popups.js";
import { store } from "../store.js";
import { Table } from "../table.js";
import { RANGE_SECONDS, spanControl, timeSpan } from "../timespan.js";
import { weightControl } from "../weights.js";
import { nodeDetail } from "./node_detail.js";
import { NodeReport } from "./node_report.js";
import { figures, identity, share, withAttention } from "./node_table.js";

const ADD = "Add to the pending changes";
const PATIENCE = 20000; // milliseconds: longer than the server waits for the node

/** A node that answers for the right chain, as far as that can be told. */
const passed = (found) => found.answering && found.chain_ok !== false;

/** What a test found, in words. */
function verdict(found) {
  const lag = found.lag
    ? `, ${plural(found.lag, "block")} behind the network`
    : found.lag === 0
      ? ", level with the network"
      : "";
  const chain = found.chain_id === null || found.note ? "" : ` It says chain id ${found.chain_id}.`;
  if (!found.answering) {
    const word = found.chain_ok === false ? "It serves another chain" : "It does not answer";
    return [state("bad", word), found.note ? `: ${found.note}.` : "."];
  }
  const head = `head ${block(found.head)}${lag}, in ${joined(duration(found.latency))}.`;
  if (found.chain_ok === false)
    return [state("bad", "It serves another chain"), found.note ? `: ${found.note}.` : ".", chain];
  if (found.chain_ok === null)
    return [
      state("warn", "It answers"),
      `: ${head} Whether it serves the right chain cannot be told${found.note ? `: ${found.note}` : ""}.`,
      chain,
    ];
  return [state(found.lag ? "warn" : "good", "It answers and serves the right chain"), `: ${head}`, chain];
}

/** { form, open } of a new node of one of these networks. */
function addNodeForm(networks) {
  const network = select("Network", networks);
  const named = { required: true, placeholder: "backup-1", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", maxlength: "64" };
  const id = input("Name", named);
  const url = input("Address", {
    class: "field wide",
    required: true,
    type: "url",
    placeholder: "https://node.example:9500",
  });
  const weight = input("Weight", { class: "field weight", type: "number", min: "0", max: "1000", value: "1" });
  const tier = input("Tier", {
    class: "field weight",
    type: "number",
    min: "0",
    max: "100",
    value: "0",
    title: "Nodes of a higher tier are asked when none of a lower one can be; paid ones, for example",
  });
  const word = h("p.said", { role: "status" });
  let tested = null; // { asked, well }: the last test, and whether the node passed
  const asked = () => `${network.value} ${url.value}`;
  const show = () => setText(add, tested && !tested.well ? "Add it all the same" : ADD);
  const forget = () => {
    if (tested?.asked === asked()) return;
    tested = null;
    redraw(word);
    show();
  };
  const ask = async () => {
    if (!url.reportValidity()) return;
    const about = asked();
    test.disabled = add.disabled = true;
    redraw(word, "asking it …");
    try {
      const node = { network: network.value, url: url.value };
      const found = await change("POST", "nodes/test", node, { patience: PATIENCE });
      if (about === asked()) {
        tested = { asked: about, well: passed(found) };
        redraw(word, verdict(found));
      }
    } catch ({ status, message }) {
      tested = status === 422 ? null : { asked: about, well: false };
      redraw(word, state("bad", ""), status === 422 ? message : `It could not be tested: ${message}.`);
    }
    test.disabled = add.disabled = false;
    show();
  };
  const submit = async () => {
    const path = ["networks", network.value, "nodes", id.value];
    if (store.value(path)) return redraw(word, state("bad", ""), `There is a node ${id.value} already.`);
    const known = tested?.asked === asked();
    if (!known) await ask();
    if (!tested || (!known && !tested.well)) return false; // what was found is read first, and then confirmed by another click
    store.set(path, {
      url: url.value,
      weight: Number(weight.value),
      ...(Number(tier.value) ? { tier: Number(tier.value) } : {}),
    });
    return true;
  };
  const test = button("Test", ask, { title: "Ask the node for its head and its chain, without adding it" });
  const fields = [networks.length > 1 && labelled(network), ...[id, url, weight, tier].map(labelled), test];
  const { form, open, add } = foldedForm({ title: "Add a node", fields, send: ADD, after: word, submit, left: forget });
  for (const field of [network, url]) field.addEventListener("input", forget);
  return { form, open };
}

const LINES = ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"];
const COLOURS_KEPT = 200; // nodes
const given = keptColours(); // of each node, whichever come and go beside it

function keptColours() {
  try {
    return new Map(JSON.parse(localStorage.getItem("rpcaccel.colours") ?? "[]"));
  } catch {
    return new Map(); // the browser keeps nothing for this page, or something else
  }
}

/** The colours of up to eight nodes, each another. */
function coloursOf(keys) {
  for (const key of keys) {
    const others = keys.filter((one) => one !== key).map((one) => given.get(one));
    const free = LINES.find((line) => !others.includes(line));
    if (!given.has(key) || others.includes(given.get(key))) given.set(key, free);
  }
  try {
    localStorage.setItem("rpcaccel.colours", JSON.stringify([...given].slice(-COLOURS_KEPT)));
  } catch {
    // then they are kept for as long as the page is open
  }
  return keys.map((key) => given.get(key));
}

const keyOf = (node) => `${node.network}/${node.id}`;

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
  const all = values.map((value) => [value, spoken(name, value)]);
  const field = select(`${name.replace("_", " ")} of ${network}`, all, {
    onchange: () => store.set(path, field.value),
  });
  return {
    field,
    update: () => {
      const value = store.value(path);
      if (value && field.value !== value) field.value = value;
      field.classList.toggle("drafted", store.changed(path));
    },
  };
}

/** The head of a network's nodes: its block, how many take calls, and how calls are spread. */
function networkHead(network, balancers, known) {
  const [balancer, key] = [
    pickOne(network, "balancer", balancers),
    pickOne(network, "hash_key", Object.keys(SAYS.hash_key)),
  ];
  const keyed = h("label", "hash key", key.field);
  const figures = h("span.quiet");
  const spread = quiet();
  const tune = store.writable ? h("div.inline", h("label", "balancer", balancer.field), keyed) : spread;
  return {
    element: h("div.network", h("h3", network), figures, tune),
    update: (nodes) => {
      const now = known().find((one) => one.network === network);
      const serving = nodes.filter((node) => node.eligible).length;
      const trouble = troubled({
        failing: nodes.filter((node) => node.state === "failing").length,
        suspected: nodes.filter((node) => node.suspect).length,
      });
      redraw(figures, [
        state(
          !serving ? "bad" : serving < nodes.length || trouble ? "warn" : "good",
          `${serving} of ${nodes.length} take calls${trouble}`,
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
  const hold = h("div.charts");
  const which = quiet();
  let charts = [];
  let drawn = "";
  const shown = spanControl(() => {
    changed();
    charts.forEach((chart) => chart.again());
  });
  const element = section("Over time", [which, atEnd(shown)], hold);
  const make = (ids) => {
    leave(hold);
    const short = ids.map((key) => key.slice(key.indexOf("/") + 1));
    const labels = short.map((id, index) => (short.filter((one) => one === id).length > 1 ? ids[index] : id));
    const colours = coloursOf(ids);
    const series = (figure, format) =>
      ids.map((key, index) => ({ key: `${figure} ${key}`, label: labels[index], format, colour: colours[index] }));
    charts = [
      new Chart({ label: "Calls to each node", zoom: true, series: series("calls", rate) }),
      new Chart({ label: "Latency of each node", log: true, zoom: true, series: series("latency", duration) }),
    ];
    return charts.map((chart) => chart.element);
  };
  const update = ({ columns, nodes, seconds }, all) => {
    const serving = all.filter((node) => node.eligible).length;
    setText(which, serving > nodes.length ? `the ${nodes.length} busiest` : "");
    const order = all.map(keyOf);
    const busiest = nodes
      .map((node) => ({ ...node, key: keyOf(node) }))
      .sort((one, two) => order.indexOf(one.key) - order.indexOf(two.key));
    const ids = busiest.map(({ key }) => key);
    if (ids.join() !== drawn) hold.replaceChildren(...make(ids));
    drawn = ids.join();
    const figures = { at: columns.at, seconds };
    for (const { key, calls_per_second: calls, latency } of busiest)
      Object.assign(figures, { [`calls ${key}`]: calls, [`latency ${key}`]: latency });
    element.hidden = !busiest.length;
    if (busiest.length) for (const chart of charts) chart.update(figures, RANGE_SECONDS[timeSpan.range]);
  };
  return { element, update };
}

export const nodes = {
  title: "Nodes",
  needs: () => ({ nodes: { path: "nodes" }, history: timeSpan.need("") }),
  build: (documents, feed) => {
    let last = withAttention(documents.nodes.nodes, documents.overview.attention);
    let covered = "";
    let known = documents.overview.networks;
    const names = known.map(({ network }) => network);
    const table = new Table({
      label: "Nodes",
      key: keyOf,
      detail: (node) => nodeDetail(node, about),
      group: {
        of: (node) => node.network,
        head: (network) =>
          networkHead(network, documents.overview.balancers ?? Object.keys(SAYS.balancer), () => known),
      },
      find: (node) => `${node.id} ${node.network} ${node.state} ${node.suspect ? "suspected" : ""} ${node.address}`,
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
        store.writable && {
          title: "",
          name: "Actions",
          look: "acts",
          build: (node) => actions(node, () => table.open(keyOf(node)).probe()),
        },
      ],
    });
    const about = {
      did: (node) => report.of(keyOf(node)),
      over: () => report.over,
      covered: () => covered,
      showCases: (node) => report.cases.of(keyOf(node)),
    };
    const note = quiet();
    const charts = nodeCharts(() => feed.turn("history"));
    const { form, open: add } = addNodeForm(names);
    const why = h("div.below");
    const field = filterField("nodes", (text) => table.filter(text));
    const element = section("Nodes", [note, atEnd(add, field)], form, table, why);
    table.element.classList.add("cards");
    const show = () => table.update(last);
    const report = new NodeReport(names, show);
    let asked = null; // the node that the address names, until it is there
    const reveal = () => {
      if (asked !== null && table.reveal(asked)) asked = null;
    };
    return {
      elements: [element, charts, ...report.elements],
      update: ({ overview, nodes: now, history, settings }) => {
        last = withAttention(now.nodes, overview.attention);
        covered = lately(now.minute);
        known = overview.networks;
        report.update(overview);
        setText(
          note,
          `${last.filter((node) => node.eligible).length} of ${last.length} take calls${now.minute ? ` · latency and failures of the last ${covered}` : ""}`,
        );
        field.hidden = last.length < 8;
        if (!store.writable) add.hidden = true;
        redraw(
          why,
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
        if (history) charts.update(history, last);
      },
      at: (place) => {
        asked = new URLSearchParams(`node=${place}`).get("node"); // never fails, whatever somebody wrote by hand
        field.value = "";
        table.filter("");
        reveal();
      },
    };
  },
};
