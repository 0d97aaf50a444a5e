// Subscriptions: who is told of new blocks and logs, how soon, and what was done so that none of them is missed.

import { Chart } from "../chart.js";
import { h, redraw, setText } from "../dom.js";
import { count, duration, joined, lately, plural, rate } from "../format.js";
import { bars, facts, quiet, section } from "../parts.js";
import { Table, numbers } from "../table.js";
import { SECONDS, timeSpan } from "../timespan.js";

const CLOSED = {
  slow: "slow: left more unread than it may", late: "late: the logs of a block could not be had",
  restarted: "the chain or its network began anew", drained: "the worker ended: clients come back",
};
const LATE = "from a block becoming the served head until a notification of it was sent, in the last minute";

const kindsOf = ({ kinds }) => Object.entries(kinds).map(([kind, many]) => `${kind} ${joined(count(many))}`);
const sumOf = (rows, name) => rows.reduce((sum, row) => sum + row[name], 0);

function networkTable() {
  return new Table({
    label: "Subscriptions", key: (row) => row.network,
    columns: [
      { title: "Network", text: (row) => row.network, cell: (row) => row.network },
      { title: "Subscriptions", look: "kinds", text: (row) => kindsOf(row).join(), cell: (row) => (kindsOf(row).length ? kindsOf(row).flatMap((kind, index) => (index ? [" · ", h("span", {}, kind)] : [h("span", {}, kind)])) : quiet("none now")) },
      numbers("Topics", (row) => row.topics, count, { fold: 1, hint: "different ones among them: what is followed for all" }),
      numbers("Notifications", (row) => row.notifications_per_second, rate, { fold: 3 }),
      numbers("Lateness p50", (row) => row.lateness?.p50, duration, { fold: 2, hint: LATE }),
      numbers("Lateness p99", (row) => row.lateness?.p99, duration, { hint: LATE }),
    ].map(({ sort: _, ...column }) => column),
  });
}

/** What was done since the start for the subscribers of these networks. */
function done(rows) {
  const closed = {};
  for (const { cut } of rows) for (const [reason, many] of Object.entries(cut)) closed[reason] = (closed[reason] ?? 0) + many;
  const number = (name) => joined(count(sumOf(rows, name)));
  return [
    facts("Since the start", [
      ["blocks filled in, of which no node had told", number("filled")],
      ["blocks taken back by reorganisations", number("abandoned")],
      ["subscriptions resumed at an older block", number("resumed")],
      ["blocks sent again to those", number("replayed")],
    ]),
    Object.keys(closed).length ? bars("Connections closed since the start", Object.entries(closed).map(([reason, many]) => [CLOSED[reason] ?? reason, many, joined(count(many))]))
      : facts("Connections closed since the start", [["none", ""]]),
  ];
}

/** The section takes no room where there is no WebSocket, and a line where nobody subscribed yet. */
export function subscriptionsSection() {
  const note = quiet();
  const table = networkTable();
  const chart = new Chart({ label: "Notifications", zoom: true, height: 168, series: [{ key: "notifications_per_second", format: rate, colour: "accent", area: true }] });
  const told = h("div", { class: "told" });
  const body = h("div", {}, table.element, h("div", { class: "pair" }, chart.element, told));
  const element = section("Subscriptions", note, body);
  element.hidden = true;
  return {
    element,
    update: ({ websockets, subscriptions }, rows, minute) => {
      element.hidden = !websockets && !subscriptions.length;
      body.hidden = !rows.length;
      const where = timeSpan.network && subscriptions.length ? ` to ${timeSpan.network}` : "";
      setText(note, `${plural(websockets, "WebSocket")} · ${rows.length ? `lateness over the last ${lately(minute ?? 60)}` : `nobody subscribes${where}`}`);
      table.update(rows);
      redraw(told, JSON.stringify(rows.map(({ filled, abandoned, resumed, replayed, cut }) => [filled, abandoned, resumed, replayed, cut])), () => done(rows));
    },
    draw: ({ columns, seconds }) => chart.update({ ...columns, seconds }, SECONDS[timeSpan.range]),
    again: () => chart.again(),
    gone: () => {
      table.gone();
      chart.gone();
    },
  };
}
