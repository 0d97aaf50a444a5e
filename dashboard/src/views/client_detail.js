// What a client's row opens to: its past, the methods that it calls, and what was refused to it.

import { read } from "../api.js";
import { Chart } from "../chart.js";
import { endWith, h, refresh, setText } from "../dom.js";
import { count, duration, joined, percent, rate } from "../format.js";
import { HeatChart } from "../heat.js";
import { REFUSED, outcomeSeries } from "../outcomes.js";
import { choice, facts, hint, methodName } from "../parts.js";
import { Table, numbers } from "../table.js";

const RANGES = { "1h": 3600, "24h": 86400 };
const NONE_REFUSED = [{ key: "refused", label: "", format: rate, colour: "flight", stack: true }];
const EVERY = 5000; // milliseconds
const COLOURS = ["s5", "s4", "s7", "s6", "s3", "s8", "s1"]; // not that of nodes, which is s2 as well
const LABELS = { nodes: "from nodes", client_errors: "its mistakes" };
let range = "1h";

function methodsOf(client) {
  return new Table({
    label: `Methods of ${client}`,
    key: (row) => row.method,
    sortable: false,
    columns: [
      {
        title: "Method",
        cell: (row) => (row.method === "other" ? "without a rule, or beyond 64 methods" : methodName(row.method)),
      },
      numbers("Calls", (row) => row.calls, count),
      numbers("Hits", (row) => row.hits, count),
      numbers("Failed", (row) => row.errors, count, { hint: "what the proxy or its nodes failed at" }),
      numbers("Its mistakes", (row) => row.client_errors, count, { hint: "errors by its own doing" }),
    ],
  });
}

/** The past of a client, asked for while its row is open. */
export function clientDetail(name) {
  const chart = { height: 140 };
  const calls = new Chart({ ...chart, label: "Calls", series: outcomeSeries(rate, LABELS) });
  const heat = new HeatChart({ ...chart, label: "Latency" });
  const refused = new Chart({ ...chart, label: "Refused", series: NONE_REFUSED });
  const charts = [calls, heat, refused];
  const table = methodsOf(name);
  const since = h("h3", "Methods, since the start");
  const sums = h("div.facts");
  const word = h("p.quiet", { role: "status" });
  let [askedAt, reasons, alive, shown] = [-Infinity, "", true, ""];
  const none = hint("No call has been counted of it since the start.");

  const show = ({ columns, outcomes, limited, latency, seconds, whole, client, methods }) => {
    const found = Object.keys(limited);
    if (reasons !== found.join())
      refused.define(
        found.length
          ? found.map((reason, index) => ({
              key: `limited ${reason}`,
              label: REFUSED[reason] ?? reason,
              format: rate,
              colour: COLOURS[index],
              stack: true,
            }))
          : NONE_REFUSED,
      );
    reasons = found.join();
    const all = {
      ...columns,
      ...outcomes,
      seconds,
      ...Object.fromEntries(Object.entries(limited).map(([reason, column]) => [`limited ${reason}`, column])),
    };
    for (const one of [calls, refused]) one.update(all, RANGES[range]);
    heat.show(all, latency, RANGES[range]);
    table.update(methods);
    table.element.hidden = since.hidden = !methods.length;
    none.hidden = methods.length > 0;
    refresh(sums, [
      facts(
        range === "1h" ? "Last hour" : "Last day",
        whole
          ? [
              ["calls", joined(count(whole.calls))],
              ["hit ratio", joined(percent(whole.hit_ratio))],
              ["failed", joined(count(whole.errors))],
              ["its own mistakes", joined(count(whole.client_errors))],
              ["refused", joined(count(whole.refused))],
            ]
          : [["nothing", "yet"]],
      ),
      facts(
        "Latency",
        ["p50", "p90", "p99"].map((one) => [
          one,
          `hits ${joined(duration(whole?.hit?.[one]))} · misses ${joined(duration(whole?.miss?.[one]))}`,
        ]),
      ),
      facts(
        "Refused since the start",
        Object.keys(client.limited).length
          ? Object.entries(client.limited).map(([reason, times]) => [REFUSED[reason] ?? reason, joined(count(times))])
          : [["nothing", ""]],
      ),
    ]);
  };
  const ask = async () => {
    const path = `clients/${encodeURIComponent(name)}?range=${range}`;
    if (performance.now() - askedAt < EVERY && shown === path) return;
    [askedAt, shown] = [performance.now(), path];
    try {
      const found = await read(path);
      if (!alive || shown !== path) return;
      show(found);
      setText(word, "");
    } catch (problem) {
      if (alive) setText(word, problem.status === 404 ? "This server keeps no past of its clients." : problem.message);
    }
  };
  const pick = choice(
    "Range of this client's charts",
    [
      ["1h", "1 h"],
      ["24h", "24 h"],
    ],
    range,
    (chosen) => {
      range = chosen;
      ask();
    },
  );
  const element = h("div.client", h("div.inline", pick, word), h("div.charts.three", charts), sums, since, table, none);
  endWith(element, () => (alive = false));
  return { element, update: ask };
}
