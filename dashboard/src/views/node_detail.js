// What a node's row opens to: its facts, and what can be done to it.

import { change } from "../api.js";
import { h, redraw, refresh, setText, state } from "../dom.js";
import { NONE, block, clock, count, duration, joined, moment, percent, plural, span } from "../format.js";
import { button, facts, failures } from "../parts.js";
import { store } from "../store.js";
import { costsGroup } from "./costs.js";
import { reasonOf, stateOf, wordOf } from "./node_table.js";
import { groupSoon, pathOf } from "./setting.js";
import { agreement } from "./worth.js";

const UNKNOWN = "not found out";
const yes = (found) => (found === null ? UNKNOWN : found ? "yes" : "no");

/** The oldest block that it answers about. */
function oldest(from, head) {
  if (from === null) return UNKNOWN;
  if (from === 0) return "every block";
  return from > head ? "none" : `${block(from)}, ${plural(head - from, "block")} below its head then`;
}

/** "100 blocks", "no limit up to 1025 blocks" */
function longest(most, tried, what, more = 0) {
  if (tried === null) return UNKNOWN;
  return most === null ? `no limit up to ${plural(tried + more, what)}` : plural(most + more, what);
}

function roles({ roles: found, state_from: from }) {
  const all = from === null ? found : { ...found, archive: from === 0 };
  return (
    Object.entries(all)
      .map(([role, has]) => (has ? role : `not ${role}`))
      .join(", ") || UNKNOWN
  );
}

/** Leads, where answers differed, to the sentence that says how. */
function agreed({ compared, differing, first }) {
  if (!compared) return "nothing was compared";
  const said = `${joined(count(compared - differing))} of ${plural(compared, "answer")}`;
  if (!differing || !first) return h("span", { class: differing ? "isbad" : null }, said);
  const show = ({ target }) => target.closest(".examination").querySelector(".wrong li").focus();
  return button(said, show, { class: "link isbad", "aria-label": `${said}: what differed` });
}

function tables(examination) {
  const found = [
    ["oldest state", oldest(examination.state_from, examination.head)],
    ["oldest logs", oldest(examination.logs_from, examination.head)],
    ["longest range of logs", longest(examination.range_most, examination.range_tried, "block", 1)],
    [
      "longest batch",
      examination.batch_most !== null && examination.batch_most <= 1
        ? "takes no batches"
        : longest(examination.batch_most, examination.batch_tried, "call"),
    ],
    ["traces transactions", yes(examination.traces)],
    ["roles, by its answers", roles(examination)],
    ["agrees with other nodes", agreed(examination.agreement)],
  ];
  const latency = Object.entries(examination.latency)
    .sort(([, one], [, two]) => two - one)
    .map(([method, seconds]) => [h("code", method), joined(duration(seconds))]);
  return [
    facts("What it answers", found),
    latency.length ? facts("Latency by method, of the examination's calls", latency) : null,
  ];
}

/** The last examination of a node, or why there is none; with what is wrong in sentences. `byHand`: is no node examined
 *  by itself? */
function examinationOf({ examination, state: word }, byHand) {
  const examining = word === "examining";
  if (!examination) {
    return h(
      "p.quiet",
      examining
        ? "It is being examined: about 100 calls, for which nobody waits, find out what it has, how far back, and whether it is right. That takes 30 s at the most; then it gets calls."
        : byHand
          ? "Not examined: by the settings of its network, nodes are examined by hand alone."
          : "Not examined yet. Nodes that are there at the start are examined one after the other, from a minute later on; a node that is added is examined before it gets calls.",
    );
  }
  const at = Date.parse(examination.at) / 1000;
  const when =
    at > 0
      ? `Examined ${moment(at)} with ${plural(examination.calls, "call")} in ${joined(duration(examination.seconds))}.${examination.version ? ` Its software, by its own word: ${examination.version}.` : ""}`
      : "";
  const { differing } = examination.agreement;
  const wrong = [
    examination.agreement.first &&
      `It differs from another node${differing > 1 ? ` in ${differing} answers, first` : ""}: ${examination.agreement.first}`,
    ...examination.faults,
  ].filter(Boolean);
  return [
    h("p.quiet", when, examining ? " It is being examined again, and gets calls once that has ended." : ""),
    at > 0 ? h("div.facts", tables(examination)) : null,
    wrong.length
      ? h(
          "ul.wrong",
          wrong.map((sentence) => h("li", { tabindex: "-1" }, sentence)),
        )
      : null,
  ];
}

/** The part of a node's opened row about its examination, with a button that has it examined again. */
function examinationPart({ network, id }) {
  const told = h("div.examination");
  const word = h("span.quiet", { role: "status" });
  let before = null; // the time of the last examination before the one that was asked for
  const examine = button("Examine again", async () => {
    examine.disabled = true;
    setText(word, "asking …");
    try {
      const begun = await change("POST", `nodes/${encodeURIComponent(network)}/${encodeURIComponent(id)}/examine`, {});
      before = begun.examination?.at ?? "";
      setText(
        word,
        `Asked for at ${clock(Date.now() / 1000)}: it goes on serving meanwhile. The examination takes 30 s at the most, from when the node answers and other examinations have ended; then the table changes.`,
      );
    } catch (problem) {
      setText(word, problem.status === 404 ? "This server cannot examine nodes." : problem.message);
    }
    examine.disabled = false;
  });
  return {
    element: h("div", told, h("div.buttons", examine, word)),
    update: (node) => {
      const byHand = store.inForce(["networks", network, "examine"]) === false;
      refresh(told, h("h3", "Examination"), examinationOf(node, byHand));
      const ended = Date.parse(node.examination?.at) / 1000;
      if (before !== null && node.examination && node.examination.at !== before) {
        before = null;
        setText(word, ended > 0 ? `Examined anew at ${clock(ended)}.` : "The examination itself failed.");
      }
      setText(examine, node.examination ? "Examine again" : "Examine now");
      examine.hidden = !store.writable || node.state === "examining";
    },
  };
}

const SETTINGS = [
  "tier",
  "tags",
  "roles",
  "quota.second",
  "quota.day",
  "quota.month",
  "quota.heavy",
  "quota.provider",
  "timeout",
  "connect_timeout",
  "max_connections",
  "max_heavy",
  "keepalive",
  "warm",
  "max_answer",
  "gather",
];

/** `about`: what else is known of a node: { did, over, showCases } of it, and `covered()`, how far back figures look. */
export function nodeDetail(first, about) {
  const path = ["networks", first.network, "nodes", first.id];
  const told = h("div.facts");
  const word = h("span.quiet", { role: "status" });
  const why = h("p.reason");
  const ask = async () => {
    probe.disabled = true;
    setText(word, "asking …");
    try {
      const found = await change(
        "POST",
        `nodes/${encodeURIComponent(first.network)}/${encodeURIComponent(first.id)}/probe`,
        {},
      );
      redraw(word, probed(found));
    } catch (problem) {
      setText(word, problem.status === 404 ? "This server cannot probe on demand." : problem.message);
    }
    probe.disabled = false;
  };
  const probe = button("Probe now", ask);
  const examination = examinationPart(first);
  const doubt = h("p.doubt");
  const cases = button("Show the cases", () => about.showCases(first));
  const draw = (node, covered) => [
    facts("Node", [
      ["address", h("code", node.address || NONE)],
      ["roles", node.roles.join(", ") || "none set"],
      ["by its own word", said(node.says)],
      ["new heads", node.pushes ? "told over a WebSocket" : "asked for"],
      ["head moved", node.head_age === null ? NONE : `${span(node.head_age)} ago`],
      ["calls since the start", joined(count(node.calls_total))],
      [`retried, last ${covered}`, joined(count(node.retries))],
      node.tier && ["tier", String(node.tier)],
      node.limit && ["calls at once, at most", joined(count(node.limit))],
    ]),
    facts(
      `Latency, last ${covered}`,
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
        ["used", `${joined(percent(one.used / one.limit))} of ${joined(count(one.limit))} ${node.unit}`],
        ["renewed", moment(Date.parse(one.renews) / 1000)],
        [
          "used up",
          one.runs_out ? h("span.iswarn", moment(Date.parse(one.runs_out) / 1000)) : "not before it is renewed",
        ],
      ]),
    ),
    ...agreementFacts(about.did(node), about.over()),
    Object.keys(node.failures).length
      ? failures(node.failures, covered)
      : facts(`Attempts without a result, last ${covered}`, [
          ["none", node.failures_total ? `${joined(count(node.failures_total))} since the start` : ""],
        ]),
  ];
  let { unit: counted } = first; // what its quotas are counted in
  // What another provider bills has a name once it is in force.
  const unit = () => (store.changed([...path, "quota", "provider"]) ? "units" : counted);
  const own = store.inForce(path);
  const settings = own
    ? groupSoon(
        "Settings of this node",
        null,
        SETTINGS.map((name) => [...path, ...name.split(".")]),
        unit,
      )
    : null;
  const costs = own ? costsGroup([...path, "quota", "costs"], unit) : null;
  // The buttons that copy a path are made once: in `told` a press, and the word that tells of it, would not outlast a
  // second.
  const paths = settings
    ? h(
        "div.facts",
        facts(
          "In the settings",
          ["weight", "drain", "quota.costs"].map((name) => [name, pathOf([...path, ...name.split(".")])]),
        ),
      )
    : "";
  return {
    element: h("div", doubt, why, told, paths, h("div.buttons", probe, word), examination, settings, costs),
    probe: ask,
    update: (node) => {
      counted = node.unit;
      settings?.update();
      costs?.update();
      const reason = reasonOf(node);
      refresh(why, node.suspect ? `Apart from that: ${wordOf(node)}` : stateOf(node), reason ? `: ${reason}` : "");
      refresh(told, draw(node, about.covered()));
      redraw(
        doubt,
        node.suspect
          ? [
              stateOf(node),
              ": an answer contradicted its call or block, or two other nodes contradicted it more often than chance explains. It is judged by the last hour, and suspected for ten minutes after its last case at least; nothing that it answers is kept meanwhile. ",
              cases,
            ]
          : "",
      );
      doubt.hidden = !node.suspect;
      examination.update(node);
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
