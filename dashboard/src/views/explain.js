// A call, pasted: how it would be treated and why; and how it went when it is run.

import { change } from "../api.js";
import { h, redraw, setText } from "../dom.js";
import { NONE, block, bytes, count, duration, joined, listed, plural, span } from "../format.js";
import { laidOut } from "../json_layout.js";
import { MEANING, button, facts, quiet, section, select } from "../parts.js";
import { store } from "../store.js";
import { waterfall } from "./waterfall.js";

const LONGEST = 4000;

function went(ran) {
  const headers = Object.fromEntries(Object.entries(ran.headers).map(([name, value]) => [name.toLowerCase(), value]));
  const from = headers["x-rpcaccel-cache"];
  const attempts = Number(headers["x-rpcaccel-attempts"] ?? 0);
  const said = [
    `HTTP ${ran.status}`,
    from ? `from ${MEANING[from] ?? from}` : null,
    headers["x-rpcaccel-node"] ? `node ${headers["x-rpcaccel-node"]}` : null,
    attempts ? plural(attempts, "attempt") : null,
    `${joined(duration(ran.seconds))} in all`,
    joined(bytes(ran.size)),
  ].filter(Boolean);
  const cut = ran.body.length > LONGEST;
  return section(
    "How it went",
    h("span.quiet", said.join(" · ")),
    waterfall(headers["server-timing"], ran.seconds),
    h(
      "pre.answer",
      { tabindex: "0", "aria-label": "Its answer" },
      `${laidOut(cut ? ran.body.slice(0, LONGEST) : ran.body)}${cut ? " …" : ""}`,
    ),
    cut ? quiet(`the first ${LONGEST} characters of ${joined(bytes(ran.size))}, laid out in lines`) : null,
  );
}

const EXAMPLES = {
  harmony: { jsonrpc: "2.0", id: 1, method: "hmyv2_getBlockByNumber", params: ["latest", {}] },
  ethereum: { jsonrpc: "2.0", id: 1, method: "eth_getBlockByNumber", params: ["latest", false] },
};
let pasted = null; // stays while other views are looked at

const sentenceOf = (text) =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) || !text ? "" : "."}`;

/** Where else than in memory an answer of this key may be. */
function also({ on_disk: disk, shared }, key) {
  const where = [disk.includes(key) ? "on disk" : null, shared.includes(key) ? "in Redis" : null].filter(Boolean);
  return where.length ? ` also ${listed(where)}` : "";
}

/** Why a node is not well, or left out, in words that follow its name. */
function whyNot({ refused }, { id }) {
  const { why } = refused.find((node) => node.id === id) ?? { why: "" };
  return why.startsWith(`node ${id} `) ? why.slice(`node ${id}`.length) : why && `: ${why}`;
}

/** The explanation as words, in the order of the way of a call. */
function told(plan) {
  const list = (title, rows, tag = "ul") =>
    rows.length
      ? h(
          "div",
          h("h3", title),
          h(
            tag,
            { class: "steps" },
            rows.map((row) => h("li", row)),
          ),
        )
      : null;
  const code = (text) => h("code", text);
  return [
    h(
      "p.lead",
      code(plan.method),
      " on ",
      h("b", plan.network),
      ": class ",
      h("b", plan.cache),
      ". ",
      sentenceOf(plan.why),
    ),
    plan.note ? h("p", plan.note) : null,
    h(
      "div.facts",
      facts("Call", [
        ["rule from", plan.origin],
        ["as the client sent it", code(plan.asked)],
        ["as a node gets it", plan.live.length ? "no node gets it" : code(plan.forwarded)],
        ["answered by the proxy itself", plan.live.length ? "yes" : plan.local === null ? "no" : code(plan.local)],
        ["the same call is on its way to a node", plan.in_flight ? "yes" : "no"],
      ]),
      facts("Block", [
        ["head", plan.head < 0 ? NONE : block(plan.head)],
        ["block", plan.first_block === null ? block(plan.block) : `${block(plan.first_block)} to ${block(plan.block)}`],
        ["final", plan.final ? "yes" : "no"],
        ["a node must be at", plan.min_head < 0 ? "any head" : block(plan.min_head)],
      ]),
    ),
    list("What the proxy does with it", plan.live),
    list(
      "Cache keys",
      [plan.key, plan.head_key].filter(Boolean).map((key) => [code(key), also(plan, key)]),
    ),
    list(
      "Cached now",
      plan.held.map(
        (held) =>
          `${MEANING[held.tier] ?? held.tier}${held.tier === "memory" ? ` of ${held.worker}` : ""}: ${joined(bytes(held.size))}, ${span(held.age)} old${held.left === null ? "" : `, for ${span(held.left)} more`}${held.served ? "" : "; this call would not be answered from it"}`,
      ),
    ),
    list("What of its answer is cached", plan.keeping),
    list("How an answer of a node is judged", [plan.proof].filter(Boolean)),
    list(
      plan.forced ? "Nodes that are asked though none is well" : "Nodes, in the order they would be asked",
      plan.nodes.map((node) => [
        h("b", node.id),
        ` at ${block(node.head)}, ${joined(count(node.in_flight))} in flight${node.latency === null ? "" : `, ${joined(duration(node.latency))}`}${node.preferred ? ", preferred" : ""}`,
        plan.forced ? `; it${whyNot(plan, node)}` : "",
      ]),
      "ol",
    ),
    list("Further nodes", [plan.retries].filter(Boolean)),
    list(
      "Nodes left out",
      plan.refused
        .filter(({ id }) => !plan.nodes.some((node) => node.id === id))
        .map((node) => [h("b", node.id), whyNot(plan, node)]),
    ),
  ];
}

export const explain = {
  title: "Explain",
  needs: {},
  build: ({ overview }) => {
    const network = select(
      "Network",
      overview.networks.map((one) => one.network),
    );
    const chain = () => overview.networks.find((one) => one.network === network.value)?.chain;
    const field = h("textarea.field.call", { rows: "5", spellcheck: "false", "aria-label": "A JSON-RPC call" });
    field.value = pasted ?? JSON.stringify(EXAMPLES[chain()] ?? EXAMPLES.ethereum, null, 1).replace(/\s*\n\s*/g, " ");
    const word = h("p.said", { role: "status" });
    const plan = h("div.plan");
    const ran = h("div.plan");
    let about = null; // the call that is shown: nothing of another one stays beside it
    const say = (text, wrong = false) => {
      setText(word, text);
      word.classList.toggle("isbad", wrong);
    };
    const ask = async (path, into, draw) => {
      const asked = `${network.value} ${field.value}`;
      if (asked !== about) for (const old of [plan, ran]) redraw(old);
      about = asked;
      let call = field.value;
      try {
        const { method, id } = JSON.parse(call) ?? {};
        if (method !== undefined && id === undefined) call = call.replace("{", '{"id":1,'); // or there is no answer
      } catch (fault) {
        say(`This is not JSON: ${fault.message}`, true);
        return;
      }
      say("asking …");
      try {
        // The text itself, not what was parsed of it: large numbers stay as they are.
        const found = await change("POST", path, undefined, {
          text: `{"network":${JSON.stringify(network.value)},"call":${call}}`,
          patience: 60000,
        });
        redraw(into, draw(found));
        say("");
      } catch (problem) {
        say(problem.status === 404 && !problem.code ? "This server cannot do that." : problem.message, true);
      }
    };
    const run = button("Run it", () => ask("run", ran, went), { hidden: store.role !== "admin" });
    const buttons = h(
      "div.buttons",
      button("Explain", () => ask("explain", plan, told), { class: "primary" }),
      run,
      word,
    );
    field.addEventListener("input", () => {
      pasted = field.value;
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault(); // what is collected for the settings stays collected
      ask("explain", plan, told);
    });
    return {
      elements: [
        section(
          "Explain a call",
          quiet("its cache rule, its cache key, what is cached of it, and the nodes it would go to; Ctrl+Enter"),
          h("div.inline", h("label", "network", network)),
          field,
          buttons,
        ),
        plan,
        ran,
      ],
    };
  },
};
