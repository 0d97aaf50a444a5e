// A form to add a node: the node is tested first, and then collected like every other change.

import { change } from "../api.js";
import { h, redraw, setText, state } from "../dom.js";
import { block, duration, joined, plural } from "../format.js";
import { button } from "../parts.js";
import { store } from "../store.js";

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
  if (!found.answering) return [state("bad", "It does not answer"), found.note ? `: ${found.note}.` : "."];
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

export function addNodeForm(networks, done) {
  const network = h(
    "select",
    { class: "field", "aria-label": "Network" },
    networks.map((name) => h("option", { value: name }, name)),
  );
  const id = h("input", {
    class: "field",
    required: true,
    placeholder: "backup-1",
    pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*",
    maxlength: "64",
    autocomplete: "off",
    "aria-label": "Name",
  });
  const url = h("input", {
    class: "field wide",
    required: true,
    type: "url",
    placeholder: "https://node.example:9500",
    autocomplete: "off",
    "aria-label": "Address",
  });
  const weight = h("input", {
    class: "field weight",
    type: "number",
    min: "0",
    max: "1000",
    value: "1",
    "aria-label": "Weight",
  });
  const word = h("p", { class: "said", role: "status" });
  const add = h("button", { type: "submit", class: "primary" }, ADD);
  let tested = null; // { asked, well }: the last test, and whether the node passed
  const asked = () => `${network.value} ${url.value}`;
  const say = (...words) => redraw(word, `${Date.now()} ${words}`, () => words);
  const show = () => setText(add, tested && !tested.well ? "Add it all the same" : ADD);
  const forget = () => {
    if (tested?.asked === asked()) return;
    tested = null;
    say("");
    show();
  };
  const ask = async () => {
    if (!url.reportValidity()) return;
    const about = asked();
    test.disabled = add.disabled = true;
    say("asking it …");
    try {
      const found = await change(
        "POST",
        "nodes/test",
        { network: network.value, url: url.value },
        { patience: PATIENCE },
      );
      if (about === asked()) {
        tested = { asked: about, well: passed(found) };
        say(...verdict(found));
      }
    } catch (problem) {
      tested = problem.status === 422 ? null : { asked: about, well: false };
      say(state("bad", ""), problem.status === 422 ? problem.message : `It could not be tested: ${problem.message}.`);
    }
    test.disabled = add.disabled = false;
    show();
  };
  const test = button("Test", ask, { title: "Ask the node for its head and its chain, without adding it" });
  const form = h(
    "form",
    { class: "inline", hidden: true },
    networks.length > 1 ? h("label", {}, "network", network) : null,
    h("label", {}, "name", id),
    h("label", {}, "address", url),
    h("label", {}, "weight", weight),
    test,
    add,
    button("Cancel", () => leave()),
    word,
  );
  const leave = () => {
    form.reset();
    forget();
    done();
  };
  for (const field of [network, url]) field.addEventListener("input", forget);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const path = ["networks", network.value, "nodes", id.value];
    if (store.value(path)) return say(state("bad", ""), `There is a node ${id.value} already.`);
    const known = tested?.asked === asked();
    if (!known) await ask();
    if (!tested || (!known && !tested.well)) return null; // what was found is read first, and then confirmed by another click
    store.set(path, { url: url.value, weight: Number(weight.value) });
    return leave();
  });
  return { element: form, focus: () => (networks.length > 1 ? network : id).focus() };
}
