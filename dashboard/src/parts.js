// Parts that several views use: heads, small drawings and tables, fields and forms.

import { h, setText, state, svg } from "./dom.js";
import { NONE, count, joined, percent, plural } from "./format.js";

const SOURCES = ["local", "memory", "disk", "redis", "flight", "node", "partial", "refused"];

export const MEANING = {
  local: "known by the proxy",
  memory: "memory",
  disk: "disk",
  redis: "Redis",
  flight: "waited for the same call",
  node: "a node",
  miss: "a node",
  partial: "partly cached",
  refused: "refused",
};

/** The steps of a call. */
export const STEP_WORDS = {
  parse: "reading the request",
  plan: "planning",
  memory: "looking in memory",
  disk: "reading from the disk",
  redis: "asking Redis",
  flight: "waiting for the same call",
  forward: "asking nodes",
  encode: "writing the answer",
};

/** `note` stands behind the title, a list of what stands there where that is more. */
export const section = (title, note, ...children) => h("section", h("div.head", h("h2", title), note), ...children);
/** Controls at the end of a section's head. */
export const atEnd = (...controls) => h("span.end", controls);
export const quiet = (text = "") => h("span.quiet", text);
export const button = (text, onclick, more = {}) =>
  h("button", { type: "button", class: "plain", onclick, ...more }, text);

/** A method's name, which a narrow window may break between its words: hmyv2_get|Balance|By|Block|Number. */
export const methodName = (name, title = null) =>
  h(
    "code.method",
    { title },
    name.split(/(?<=_)|(?<=[a-z0-9])(?=[A-Z])/).flatMap((word, index) => (index ? [h("wbr"), word] : [word])),
  );

/** Where answers came from, as one bar. */
export function mix(sources) {
  const total = SOURCES.reduce((sum, source) => sum + (sources[source] ?? 0), 0);
  if (!total) return "";
  let x = 0;
  const pieces = SOURCES.filter((source) => sources[source]).map((source) => {
    const width = (96 * sources[source]) / total;
    const piece = svg("rect", { x, y: 0, width, height: 8, colour: source });
    x += width;
    return piece;
  });
  const words = SOURCES.filter((source) => sources[source])
    .map((source) => `${MEANING[source]} ${joined(percent(sources[source] / total))}`)
    .join(", ");
  return svg(
    "svg.mix",
    { viewBox: "0 0 96 8", preserveAspectRatio: "none", role: "img", "aria-label": words },
    svg("title", words),
    pieces,
  );
}

export function legend() {
  return h(
    "p.legend",
    SOURCES.map((source) => h("span", h("i.swatch", { colour: source }), MEANING[source])),
  );
}

/** Share got as a bar, share wanted as a mark on it. */
export function shareBar(got, wanted) {
  if (got === null && wanted === null) return "";
  return svg(
    "svg.share",
    { viewBox: "0 0 80 14", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect.ground", { x: 0, y: 5, width: 80, height: 4 }),
    svg("rect.got", { x: 0, y: 5, width: 80 * (got ?? 0), height: 4 }),
    wanted === null
      ? null
      : svg("rect.wanted", { x: Math.min(78, Math.max(0, 80 * wanted - 1)), y: 1, width: 2, height: 12 }),
  );
}

/** A short table of facts with a heading: [name, value] each; what is none is left out. */
export function facts(title, rows) {
  const row = ([name, value]) => h("tr", h("td", name), h("td.right", value));
  return h("div", h("h3", title), h("table", h("tbody", rows.filter(Boolean).map(row))));
}

/** A small table in a frame of its own: `heads` are [title, look], and each row has a cell for each. */
export function listing(label, heads, rows, attributes = {}) {
  const head = ([title, look]) => h("th", { scope: "col", class: look }, h("span", title));
  const row = (cells) =>
    h(
      "tr",
      cells.map((cell, index) => h("td", { class: heads[index][1] }, cell)),
    );
  const table = h("table", attributes, h("thead", h("tr", heads.map(head))), h("tbody", rows.map(row)));
  return h("div.attempts", { tabindex: "0", role: "region", "aria-label": label }, table);
}

/** Parts as bars with their share: [[name, amount, shown]]. */
export function bars(title, rows) {
  const total = rows.reduce((sum, [, amount]) => sum + amount, 0);
  return h(
    "div.bars",
    title ? h("h3", title) : null,
    h(
      "table",
      h(
        "tbody",
        rows.map(([name, amount, shown]) =>
          h(
            "tr",
            h("td", name),
            h(
              "td",
              svg(
                "svg.part",
                { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
                svg("rect", { x: 0, y: 0, width: total ? (100 * amount) / total : 0, height: 8 }),
              ),
            ),
            h("td.right", total ? joined(percent(amount / total)) : NONE),
            h("td.right", shown),
          ),
        ),
      ),
    ),
  );
}

const MISSED = {
  "not-kept-yet": "nothing was kept for it yet, or not any more",
  off: "the settings keep nothing of it",
  "not-understood": "its params could not be read, so it was passed on",
  node: "its answer differs by node",
  never: "nothing is kept of such a call",
  head: "no head is known yet",
  static: "no chain is known yet",
};
const SKIPPED = {
  class: "not kept: nothing is of such a call",
  "too-large": "not kept: longer than memory.max_entry",
  "above-head": "not kept: the node had not reached the block",
  pending: "not kept: the transaction is not mined yet",
  "short-range": "not kept: the node cut the range short",
  null: "until the next head: null may become something",
  "empty-list": "until the next head: an empty list may fill",
  "empty-list-unless-genesis": "until the next head: no signers are known yet",
  "empty-string": "until the next head: empty, which the rule distrusts",
  "0x": "until the next head: empty, which the rule distrusts",
  blobs: "until the next head: only a pool has its blobs",
  "not-final": "until the next head: its block is not final yet",
  "fills-later": "until the next head: a member that is null fills later",
  unproven: "until the next head: a machine that lags would say the same",
};
export const FAILED = {
  connect: "no connection",
  tls: "TLS failed",
  dns: "its name was not found",
  timeout: "no answer in time",
  "client-deadline": "the caller gave it too little time",
  "rate-limited": "it limits our rate",
  "node-behind": "it has not reached the block",
  pruned: "it has not kept that state",
  "method-missing": "it does not have the method",
  "role-missing": "it has not the role",
  "http-status": "an HTTP status that is no answer",
  "beyond-window": "it answers the method for newer blocks only",
  "not-json-rpc": "no JSON-RPC",
  "wrong-id": "the answer to another call",
  "broken-reply": "the answer broke off",
  "oversized-answer": "the answer was too long",
  "reset-before-reply": "the connection was closed",
  unknown: "an error no rule knows",
  "node-timeout": "it gave up itself",
  cancelled: "not needed any more",
  overtaken: "another node was quicker",
  unauthorized: "it does not let us in",
  misconfigured: "no JSON-RPC at its URL",
  "call-refused": "it does not take such a call",
  "no-node": "no node could be asked",
  busy: "no connection was free",
  "impossible-result": "a result that cannot be",
  "too-large": "the answer would be too large",
  revert: "the contract said no",
  "invalid-params": "the caller's mistake",
  rejected: "it refused the transaction",
  "already-known": "it has the transaction already",
  "nonce-too-low": "the transaction's nonce is used",
  "filter-not-found": "the filter is gone",
  "false-hashes": "its logs name a block hash that the block has not",
  unproven: "its answer could not be proved",
  disproved: "its answer contradicts the call or the block",
  disagreed: "other nodes gave other answers",
};

/** Reasons as sentences, with how often each held. */
export function reasons(title, counts, words) {
  const rows = Object.entries(counts);
  return rows.length
    ? bars(
        title,
        rows.map(([reason, times]) => [words[reason] ?? reason, times, plural(times, "time")]),
      )
    : null;
}
export const missed = (counts) => reasons("Why it missed", counts, MISSED);
export const skipped = (counts) => reasons("Kept until the next head or not at all, and why", counts, SKIPPED);
export const failures = (counts, covered) => reasons(`Attempts without a result, last ${covered}`, counts, FAILED);

/** The address of the errors that are of one network, method, fault ...; every filter that is not named is reset. */
export const errorsAt = (wanted) => `#/errors/${new URLSearchParams(wanted)}`;

/** The address of a node, NETWORK/NODE, opened. */
export const nodeAt = (key) => `#/nodes/${encodeURIComponent(key)}`;

/** A button that copies `text`; hidden unless the page came over TLS or from this machine: others may not copy. */
export function copyButton(text) {
  const copy = button(
    "Copy",
    async () => {
      const copied = await navigator.clipboard.writeText(text).then(
        () => true,
        () => false,
      );
      setText(copy, copied ? "Copied" : "The browser does not let this page copy");
    },
    { hidden: !navigator.clipboard },
  );
  return copy;
}

/** An empty view says how to fill it, with a command to copy. */
export function hint(text, command = null) {
  return h("div.note", text, ...(command ? [h("code", command), copyButton(command)] : []));
}

/** A call to send: what to do when none has come yet. */
export function firstCall(overview, words = "No call has come in yet. Send one:") {
  const method = overview.networks[0]?.chain === "harmony" ? "hmyv2_blockNumber" : "eth_blockNumber";
  const scheme = overview.settings.tls_cert ? "https" : "http";
  const address = String(overview.settings.listen ?? "127.0.0.1:8888").replace(
    /^(0\.0\.0\.0|\[::\])/,
    location.hostname,
  );
  return hint(
    words,
    `curl -s ${scheme}://${address}/ -H 'content-type: application/json' -d '{"jsonrpc":"2.0","id":1,"method":"${method}","params":[]}'`,
  );
}

/** A field that `filter(text)` hears of; "/" leads to it from everywhere in a view. */
export const filterField = (what, filter) =>
  input(`Filter ${what}`, {
    class: "filter field",
    type: "search",
    placeholder: "Filter (press /)",
    oninput: ({ target }) => filter(target.value),
  });

export const errorFigure = (value) => {
  const [figure, unit] = count(value);
  return h("span", { class: value ? "isbad" : null }, figure, unit ? h("span.unit", unit) : "");
};

/** The options of a select: [value, word], or a value that is its own word. */
export const options = (all) => all.map((one) => h("option", { value: [one].flat()[0] }, [one].flat().at(-1)));
export const select = (label, all, more = {}) =>
  h("select", { class: "field", "aria-label": label, ...more }, options(all));
export const input = (label, more = {}) =>
  h("input", { class: "field", autocomplete: "off", "aria-label": label, ...more });

/** A control behind the word that it is labelled by. */
export const labelled = (control) => h("label", control.getAttribute("aria-label").toLowerCase(), control);

/** A form that is hidden until `open`, a button, is pressed. `fields` are its labelled controls, the first of which
 *  has the focus then; `submit()` returns whether it is done with, and `left()` is called when it is hidden again. */
export function foldedForm({
  title,
  look = "inline",
  fields,
  send = "Add to the pending changes",
  after,
  submit,
  left = () => {},
}) {
  const open = button(title, () => show(true));
  const add = h("button.primary", { type: "submit" }, send);
  const buttons = [add, button("Cancel", () => show(false))];
  const form = h(
    "form",
    { class: look, hidden: true },
    fields,
    look === "inline" ? buttons : h("div.buttons.tight", buttons),
    after,
  );
  const show = (shown) => {
    form.hidden = !shown;
    open.hidden = shown;
    if (shown) return form.querySelector("input, select").focus();
    form.reset();
    return left();
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await submit()) show(false);
  });
  return { form, open, add };
}

/** Asks no more often than each `every` milliseconds. */
export function paced(every, ask) {
  let askedAt = -Infinity;
  return () => {
    if (performance.now() - askedAt < every) return;
    askedAt = performance.now();
    ask();
  };
}

/** Choices of which one holds: [[value, word]]. */
export function choice(label, options, chosen, changed) {
  const buttons = options.map(([value, word]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => pick(value) }, word),
  );
  const pick = (value) => {
    buttons.forEach((one, index) => one.setAttribute("aria-pressed", String(options[index][0] === value)));
    changed(value);
  };
  return h("div.choice", { role: "group", "aria-label": label }, buttons);
}

/** ", 2 failing, 1 suspected": of nodes that may take calls all the same. */
export const troubled = ({ failing, suspected }) =>
  `${failing ? `, ${failing} failing` : ""}${suspected ? `, ${suspected} suspected` : ""}`;

/** "4 of 4 nodes", or "3 of 4 take calls, 2 failing": one that is failing may be among those. */
function nodesOf(network) {
  const trouble = troubled(network);
  if (trouble) return `${network.eligible} of ${network.nodes} take calls${trouble}`;
  return network.nodes ? `${network.eligible} of ${plural(network.nodes, "node")}` : "no nodes";
}

/** How the nodes of a network are: colour, shape and words. */
export const networkState = (network) =>
  state({ ok: "good", part: "warn", down: "bad" }[network.state], nodesOf(network));
