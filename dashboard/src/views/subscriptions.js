// Subscriptions: who is told of new blocks and logs, how soon, and what was done so that none of them is missed.

import { Chart } from "../chart.js";
import { h, redraw, setText } from "../dom.js";
import { count, duration, joined, lately, plural, rate } from "../format.js";
import { bars, facts, quiet, section } from "../parts.js";
import { Table, numbers } from "../table.js";
import { RANGE_SECONDS, timeSpan } from "../timespan.js";

const CLOSED = {
  slow: "slow: left more unread than it may",
  late: "late: the logs of a block could not be had",
  restarted: "the chain or its network began anew",
  drained: "the worker ended: clients come back",
};
const LATE = "from a block becoming the served head until a notification of it was sent, in the last minute";

const WINDOW = 10; // seconds that a rate is averaged over at the least: those of the table
const kindsOf = ({ kinds }) => Object.entries(kinds).map(([kind, many]) => `${kind} ${joined(count(many))}`);
const sumOf = (rows, name) => rows.reduce((sum, row) => sum + row[name], 0);
const late = ({ lateness }) => [lateness?.p50, lateness?.p99].map((value) => joined(duration(value))).join(" / ");

/** The kinds of a row; where they are broken over lines, the dot stays at the end of a line. */
function kindsCell(row) {
  const kinds = kindsOf(row);
  if (!kinds.length) return quiet("none now");
  return kinds.flatMap((kind, index) => [h("span", index < kinds.length - 1 ? `${kind} ·` : kind), " "]);
}

function networkTable() {
  return new Table({
    label: "Subscriptions",
    sortable: false,
    key: (row) => row.network,
    columns: [
      { title: "Network", cell: (row) => row.network },
      { title: "Subscriptions", look: "kinds", cell: kindsCell },
      numbers("Topics", (row) => row.topics, count, {
        fold: 1,

        hint: "different ones among them, each followed once for all; every worker counts its own",
      }),
      numbers("Notifications", (row) => row.notifications_per_second, rate, { fold: 2 }),
      { title: "Lateness p50 / p99", right: true, hint: LATE, cell: late },
    ],
  });
}

/** Rates as means over the last WINDOW seconds: notifications come in a burst with each block. `seconds`: what each
 *  point tells of. */
function averaged(rates, seconds) {
  return rates.map((rate, index) => {
    if (rate === null) return null;
    let [sum, over] = [0, 0];
    for (let at = index; at >= 0 && over < WINDOW && rates[at] !== null; at -= 1) {
      sum += rates[at] * seconds[at];
      over += seconds[at];
    }
    return over ? sum / over : null;
  });
}

function closedParts(closed) {
  const title = "Connections closed since the start";
  const rows = Object.entries(closed).map(([reason, many]) => [CLOSED[reason] ?? reason, many, joined(count(many))]);
  if (rows.length > 1) return bars(title, rows);
  return facts(title, rows.length ? rows.map(([reason, , many]) => [reason, many]) : [["none", ""]]);
}

/** What was done since the start for the subscribers of these networks. */
function done(rows) {
  const closed = {};
  for (const { cut } of rows)
    for (const [reason, many] of Object.entries(cut)) closed[reason] = (closed[reason] ?? 0) + many;
  const number = (name) => joined(count(sumOf(rows, name)));
  return [
    facts("Since the start", [
      ["blocks filled in, of which no node had told", number("filled")],
      ["blocks taken back by reorganisations", number("abandoned")],
      ["subscriptions resumed at an older block", number("resumed")],
      ["blocks sent again to those", number("replayed")],
    ]),
    closedParts(closed),
  ];
}

/** What the head says of the rows that are shown. */
function saidOf(subscriptions, rows, minute) {
  if (!rows.length)
    return timeSpan.network && subscriptions.length ? `nobody subscribes to ${timeSpan.network}` : "nobody subscribes";
  if (!rows.some((row) => kindsOf(row).length)) return "nobody subscribes now";
  return `lateness over the last ${lately(minute ?? 60)}`;
}

/** The section takes no room where there is no WebSocket, and a line where nobody subscribed yet. */
export function subscriptionsSection() {
  const note = quiet();
  const table = networkTable();
  const chart = new Chart({
    label: "Notifications, averaged",
    zoom: true,
    height: 168,
    series: [{ key: "notifications_per_second", format: rate, colour: "accent", area: true }],
  });
  const told = h("div.told");
  const body = h("div", table, h("div.pair", chart, told));
  const element = section("Subscriptions", note, body);
  element.hidden = true;
  return {
    element,
    update: ({ websockets, subscriptions }, rows, minute) => {
      element.hidden = !websockets && !subscriptions.length;
      body.hidden = !rows.length;
      setText(note, `${plural(websockets, "WebSocket")} · ${saidOf(subscriptions, rows, minute)}`);
      table.update(rows);
      redraw(told, done(rows));
    },
    draw: ({ columns, seconds }) => {
      const notifications_per_second = averaged(columns.notifications_per_second, seconds);
      chart.update({ ...columns, notifications_per_second, seconds }, RANGE_SECONDS[timeSpan.range]);
    },
    again: () => chart.again(),
  };
}
