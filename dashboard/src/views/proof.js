// What calls in the shadow showed of a node, as a table in its opened row.

import { change } from "../api.js";
import { h, refresh, setText } from "../dom.js";
import { block, clock, count, duration, joined, moment, plural } from "../format.js";
import { button, facts } from "../parts.js";
import { store } from "../store.js";

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

function agreed({ compared, differing }) {
  if (!compared) return "nothing was compared";
  return h(
    "span",
    { class: differing ? "isbad" : null },
    `${joined(count(compared - differing))} of ${plural(compared, "answer")}`,
  );
}

function tables(proof) {
  const found = [
    ["oldest state", oldest(proof.state_from, proof.head)],
    ["oldest logs", oldest(proof.logs_from, proof.head)],
    ["longest range of logs", longest(proof.range_most, proof.range_tried, "block", 1)],
    [
      "longest batch",
      proof.batch_most !== null && proof.batch_most <= 1
        ? "takes no batches"
        : longest(proof.batch_most, proof.batch_tried, "call"),
    ],
    ["traces transactions", yes(proof.traces)],
    ["roles, by its answers", roles(proof)],
    ["agrees with other nodes", agreed(proof.agreement)],
  ];
  const latency = Object.entries(proof.latency)
    .sort(([, one], [, two]) => two - one)
    .map(([method, seconds]) => [h("code", {}, method), joined(duration(seconds))]);
  return [
    facts("What it answers", found),
    latency.length ? facts("Latency by method, of the proof's calls", latency) : null,
  ];
}

/** The last proof of a node, or why there is none; with what is wrong in sentences. `byHand`: is no node proved by itself? */
function proofOf({ proof, state: word }, byHand) {
  const proving = word === "proving";
  if (!proof) {
    return h(
      "p",
      { class: "quiet" },
      proving
        ? "It is being proved: about 100 calls, for which nobody waits, find out what it has, how far back, and whether it is right. That takes 30 s at the most; then it gets calls."
        : byHand
          ? "Not proved: by the settings of its network, nodes are proved by hand alone."
          : "Not proved yet. Nodes that are there at the start are proved one after the other, from a minute later on; a node that is added is proved before it gets calls.",
    );
  }
  const at = Date.parse(proof.at) / 1000;
  const when =
    at > 0
      ? `Proved ${moment(at)} with ${plural(proof.calls, "call")} in ${joined(duration(proof.seconds))}.${proof.version ? ` Its software, by its own word: ${proof.version}.` : ""}`
      : "";
  const wrong = [
    ...(proof.agreement.first ? [`It differs from another node: ${proof.agreement.first}`] : []),
    ...proof.faults,
  ];
  return [
    h("p", { class: "quiet" }, when, proving ? " It is being proved again, and gets calls once that has ended." : ""),
    at > 0 ? h("div", { class: "facts" }, tables(proof)) : null,
    wrong.length
      ? h(
          "ul",
          { class: "wrong" },
          wrong.map((sentence) => h("li", {}, sentence)),
        )
      : null,
  ];
}

/** The part of a node's opened row about its proof, with a button that has it proved again. */
export function proofPart({ network, id }) {
  const told = h("div", { class: "proof" });
  const word = h("span", { class: "quiet", role: "status" });
  let before = null; // the time of the last proof before the one that was asked for
  const prove = button("Prove again", async () => {
    prove.disabled = true;
    setText(word, "asking …");
    try {
      const begun = await change("POST", `nodes/${encodeURIComponent(network)}/${encodeURIComponent(id)}/prove`, {});
      before = begun.proof?.at ?? "";
      setText(
        word,
        `Asked for at ${clock(Date.now() / 1000)}: it goes on serving meanwhile. The proof takes 30 s at the most, from when the node answers and other proofs have ended; then the table changes.`,
      );
    } catch (problem) {
      setText(word, problem.status === 404 ? "This server cannot prove nodes." : problem.message);
    }
    prove.disabled = false;
  });
  return {
    element: h("div", {}, told, h("div", { class: "buttons" }, prove, word)),
    update: (node) => {
      const byHand = store.inForce(["networks", network, "prove"]) === false;
      refresh(told, JSON.stringify([node.proof, node.state === "proving", byHand]), () =>
        [h("h3", {}, "Proof"), proofOf(node, byHand)].flat(),
      );
      const ended = Date.parse(node.proof?.at) / 1000;
      if (before !== null && node.proof && node.proof.at !== before) {
        before = null;
        setText(word, ended > 0 ? `Proved anew at ${clock(ended)}.` : "The proof itself failed.");
      }
      setText(prove, node.proof ? "Prove again" : "Prove now");
      prove.hidden = !store.writable || node.state === "proving";
    },
  };
}
