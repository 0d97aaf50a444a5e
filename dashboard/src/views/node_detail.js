// What a node's row opens to: its facts, and what can be done to it.

import { change } from "../api.js";
import { h, redraw, refresh, setText, state } from "../dom.js";
import { NONE, block, count, duration, joined, moment, percent, span } from "../format.js";
import { button, facts, failures } from "../parts.js";
import { store } from "../store.js";
import { stateOf } from "./node_table.js";
import { proofPart } from "./proof.js";
import { groupSoon, pathOf } from "./setting.js";
import { agreement } from "./worth.js";

const SETTINGS = [
  "tier",
  "tags",
  "roles",
  "quota.second",
  "quota.day",
  "quota.month",
  "quota.heavy",
  "timeout",
  "connect_timeout",
  "max_connections",
  "max_heavy",
  "keepalive",
  "warm",
  "max_answer",
  "gather",
];

/** `about`: what else is known of a node: { did, over, showCases } of it. */
export function nodeDetail(first, about) {
  const path = ["networks", first.network, "nodes", first.id];
  const told = h("div", { class: "facts" });
  const word = h("span", { class: "quiet", role: "status" });
  const why = h("p", { class: "reason" });
  const ask = async () => {
    probe.disabled = true;
    setText(word, "asking …");
    try {
      const found = await change(
        "POST",
        `nodes/${encodeURIComponent(first.network)}/${encodeURIComponent(first.id)}/probe`,
        {},
      );
      redraw(word, JSON.stringify([found, Date.now()]), () => probed(found));
    } catch (problem) {
      setText(word, problem.status === 404 ? "This server cannot probe on demand." : problem.message);
    }
    probe.disabled = false;
  };
  const probe = button("Probe now", ask);
  const proof = proofPart(first);
  const doubt = h("p", { class: "doubt" });
  const cases = button("Show the cases", () => about.showCases(first));
  const draw = (node) => [
    facts("Node", [
      ["address", h("code", {}, node.address || NONE)],
      ["roles", node.roles.join(", ") || "none set"],
      ["by its own word", said(node.says)],
      ["new heads", node.pushes ? "told over a WebSocket" : "asked for"],
      ["head moved", node.head_age === null ? NONE : `${span(node.head_age)} ago`],
      ["calls since the start", joined(count(node.calls_total))],
      ["retried, last minute", joined(count(node.retries))],
      ...(node.tier ? [["tier", String(node.tier)]] : []),
      ...(node.limit ? [["calls at once, at most", joined(count(node.limit))]] : []),
    ]),
    facts(
      "Latency, last minute",
      ["p50", "p90", "p99"]
        .map((name) => [name, joined(duration(node.latency?.[name]))])
        .concat([["answers", joined(count(node.latency?.count ?? 0))]]),
    ),
    facts("Connections", [
      ["open", joined(count(node.connections_open))],
      ["idle", joined(count(node.connections_idle))],
      ["reused", joined(percent(node.reuse_ratio))],
    ]),
    ...(node.quota ?? []).map((one) =>
      facts(`Quota of the ${one.window}`, [
        ["used", `${joined(percent(one.used / one.limit))} of ${joined(count(one.limit))}`],
        ["renewed", moment(Date.parse(one.renews) / 1000)],
        [
          "used up",
          one.runs_out
            ? h("span", { class: "iswarn" }, moment(Date.parse(one.runs_out) / 1000))
            : "not before it is renewed",
        ],
      ]),
    ),
    ...agreementFacts(about.did(node), about.over()),
    Object.keys(node.failures).length
      ? failures(node.failures)
      : facts("Attempts without a result, last minute", [
          ["none", node.failures_total ? `${joined(count(node.failures_total))} since the start` : ""],
        ]),
  ];
  const settings = store.inForce(path)
    ? groupSoon(
        "Settings of this node",
        null,
        SETTINGS.map((name) => [...path, ...name.split(".")]),
      )
    : null;
  // The buttons that copy a path are made once: in `told` a press, and the word that tells of it, would not outlast a second.
  const paths = settings
    ? h(
        "div",
        { class: "facts" },
        facts(
          "In the settings",
          ["weight", "drain"].map((name) => [name, pathOf([...path, name])]),
        ),
      )
    : "";
  return {
    element: h(
      "div",
      {},
      why,
      doubt,
      told,
      paths,
      h("div", { class: "buttons" }, probe, word),
      proof.element,
      settings?.element ?? "",
    ),
    probe: ask,
    update: (node) => {
      settings?.update();
      refresh(why, node.state + node.why, () => [stateOf(node), node.why ? `: ${node.why}` : ""]);
      refresh(told, JSON.stringify([node, about.did(node)?.agreement, about.over()]), () => draw(node));
      redraw(doubt, String(node.suspect), () =>
        node.suspect
          ? [
              state("bad", "suspected"),
              ": two other nodes contradicted it more often than chance explains. It is judged by the last hour; nothing that it answers is kept meanwhile. ",
              cases,
            ]
          : "",
      );
      doubt.hidden = !node.suspect;
      proof.update(node);
      probe.hidden = !store.writable;
    },
  };
}

function agreementFacts(did, over) {
  return did
    ? [facts(`Answers compared with other nodes, last ${over}`, [["agreement", agreement(did.agreement)]])]
    : [];
}

/** "explorer, not archive" */
function said(says) {
  return (
    Object.entries(says)
      .map(([role, has]) => (has ? role : `not ${role}`))
      .join(", ") || NONE
  );
}

function probed(found) {
  const well = found.answering && found.chain_ok !== false;
  const words = found.answering ? `head ${block(found.head)} in ${joined(duration(found.latency))}` : "no answer";
  return [state(well ? "good" : "bad", words), found.note ? ` ${found.note}` : ""];
}
