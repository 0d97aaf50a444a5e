// First steps, while no network is served: which nodes there are, what they are, and the first settings.

import { change } from "../api.js";
import { h, redraw, state } from "../dom.js";
import { NONE, block, duration, joined, plural } from "../format.js";
import { button, firstCall, hint, input, labelled, listing, quiet, section, select } from "../parts.js";
import { store } from "../store.js";

const PATIENCE = 35000; // milliseconds: longer than the server waits for the nodes
const FILE = "rpcaccel.toml";
const kept = { text: "", found: null, file: "" }; // stays when the view is built anew, as it is once nodes are served

/** Whoever looks next is not to have the keys of who looked before. */
export const forgetNodes = () => Object.assign(kept, { text: "", found: null, file: "" });

/** Hand a text to the browser as a file. */
function download(text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: "application/toml" })), download: FILE });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href));
}

/** A row for each node that was found, with what is to become of it. `chosen()`: the networks of the nodes that are to
 *  be served, by name; `known`: do they say what they serve? `changed` hears of every choice. */
function foundTable({ networks, nodes }, known, changed) {
  const rows = nodes.map((finding) => {
    const { network, node, trouble } = finding;
    const given = networks[network].nodes.find((one) => one.id === node);
    const taken = input(`Serve node ${node}`, { type: "checkbox", class: null, checked: !trouble, onchange: changed });
    const weight = input(`Weight of node ${node}`, {
      class: "field weight",
      type: "number",
      min: "0",
      max: "1000",
      required: true,
      value: String(given.weight ?? 1),
      oninput: changed,
    });
    return { finding, given, taken, weight };
  });
  const cells = ({ finding: { network, node, url, trouble, ...one }, taken, weight }) => [
    taken,
    weight,
    [
      h("b", node),
      h("div.quiet", url),
      h("div.words", state(trouble ? "bad" : "good", trouble ? `${trouble}.` : "right")),
    ],
    known ? network : NONE,
    one.head === null ? NONE : block(one.head),
    one.behind === null ? NONE : one.behind ? plural(one.behind, "block") : "level",
    one.latency === null ? NONE : joined(duration(one.latency)),
    one.role || NONE,
  ];
  const heads = [
    ["Serve"],
    ["Weight"],
    ["Node"],
    ["Network"],
    ["Head", "right"],
    ["Behind", "right"],
    ["Latency", "right"],
    ["What it is"],
  ];
  const table = listing("Nodes that were tried", heads, rows.map(cells), { class: "found" });
  const chosen = () => {
    const served = {};
    for (const { finding, given, taken, weight } of rows) {
      if (!taken.checked) continue;
      served[finding.network] ??= { ...networks[finding.network], nodes: [] };
      served[finding.network].nodes.push({ ...given, weight: Number(weight.value) });
    }
    return served;
  };
  return { element: table, chosen, valid: () => rows.every(({ weight }) => weight.reportValidity()) };
}

/** The form, and below it what was found. */
function firstNodes(chains) {
  const field = h("textarea.field.call", {
    rows: "4",
    spellcheck: "false",
    required: true,
    placeholder: "https://my-node.example:9500,weight=3\nhttps://api.s0.t.hmny.io",
  });
  field.value = kept.text;
  const endpoints = select("Or public endpoints", [["", "none"], ...chains], {
    onchange: () => {
      if (!endpoints.value) return;
      field.value = endpoints.value;
      forget();
    },
  });
  const word = h("p.said", { role: "status" });
  const result = h("div");
  const trying = h("button.primary", { type: "submit" }, "Try");
  const say = (level, ...words) => redraw(word, level ? state(level, "") : null, ...words);

  /** What was found is about the nodes as they were named then. */
  const forget = () => {
    kept.found = null;
    redraw(word);
    redraw(result);
  };
  field.addEventListener("input", forget);
  const show = (found) => {
    if (!found) return redraw(result);
    const right = found.nodes.filter(({ trouble }) => !trouble).length;
    // Where no node says what it serves, its network is a guess.
    const known = right || !field.value.includes("://");
    const table = foundTable(found, known, () => update());
    const serve = button("Serve", () => apply(table), { class: "primary" });
    const save = button(`Download ${FILE}`, () => written(table).then((text) => text && download(text)));
    const update = () => {
      serve.disabled = save.disabled = !known || !Object.keys(table.chosen()).length;
    };
    update();
    say(
      right === found.nodes.length ? "good" : right ? "warn" : "bad",
      `${right} of ${plural(found.nodes.length, "node")} ${found.nodes.length === 1 ? "is" : "are"} right.`,
      known ? "" : " None says what it serves, so nothing can be served yet: try again when one answers.",
    );
    redraw(
      result,
      table.element,
      known ? found.notes.map((note) => h("p.said", note)) : [],
      h("div.buttons.tight", serve, save),
    );
  };
  /** The file of what is chosen; null when it is refused, which is said. */
  const written = async (table) => {
    if (!table.valid()) return null;
    try {
      kept.file = (await change("POST", "nodes/file", { networks: table.chosen() })).toml;
      return kept.file;
    } catch ({ message }) {
      say("bad", message);
      return null;
    }
  };
  const apply = async (table) => {
    if ((await written(table)) === null) return;
    location.hash = "#/start"; // it stays in view once nodes are served
    store.discard(); // what an attempt that failed has left
    for (const [name, network] of Object.entries(table.chosen())) store.set(["networks", name], network);
    await store.apply();
  };
  const submit = async (event) => {
    event.preventDefault();
    const nodes = field.value.split(/\s+/).filter(Boolean);
    if (!nodes.length) return field.focus();
    Object.assign(kept, { text: field.value, found: null });
    store.discard();
    trying.disabled = true;
    show(null);
    say(null, "asking …");
    try {
      const found = await change("POST", "nodes/find", { nodes }, { patience: PATIENCE });
      if (field.value !== kept.text) say("warn", "Other nodes were named meanwhile: try them."); // what came is about those of before
      else show((kept.found = found));
    } catch ({ message }) {
      say("bad", message);
    }
    trying.disabled = false;
  };
  show(kept.found);
  const form = h(
    "form",
    { onsubmit: submit },
    h("label.node-urls", quiet("Nodes, one a line"), field),
    h("div.inline", labelled(endpoints), trying),
    word,
  );
  return [form, result];
}

/** What is served now, and how it stays so. */
function served(overview) {
  const { persisted } = store.current ?? {};
  const names = overview.networks.map(({ network }) => network);
  const save = button(`Download ${FILE}`, () => download(kept.file));
  return [
    h("p", state("good", ""), `${names.join(", ")} ${names.length === 1 ? "is" : "are"} served now.`),
    firstCall(overview, "Send a call:"),
    persisted
      ? h("p", state("good", ""), `It stays so over a restart: ${persisted} keeps it.`)
      : h(
          "p",
          state("warn", ""),
          `It stays so until the restart. ${kept.file ? `Download ${FILE}, and start with it from then on:` : "To keep it, start with a configuration file."}`,
        ),
    kept.file ? h("div.note", save, h("code", `rpcaccel serve --config ${FILE}`)) : null,
    h("p", h("a", { href: "#/overview" }, "See the overview"), " or ", h("a", { href: "#/nodes" }, "the nodes"), "."),
  ];
}

export const start = {
  title: "First steps",
  needs: {},
  build: ({ overview }) => {
    if (overview.networks.length) return { elements: [section("First steps", null, served(overview))] };
    const note = "This proxy has no nodes yet, so calls get an error. Name nodes, try them, and serve them.";
    const steps = store.writable
      ? firstNodes(overview.chains)
      : [hint("You may look, not change: your role is “read”.")];
    return { elements: [section("First steps", quiet(note), steps)] };
  },
};
