// Small drawings that several views use.

import { h, redraw, setText, state, svg } from "./dom.js";
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

export const section = (title, note, ...children) =>
  h("section", {}, h("div", { class: "head" }, h("h2", {}, title), note), ...children);
export const quiet = (text = "") => h("span", { class: "quiet" }, text);
export const button = (text, onclick, more = {}) =>
  h("button", { type: "button", class: "plain", onclick, ...more }, text);

/** A method's name, which a narrow window may break between its words: hmyv2_get|Balance|By|Block|Number. */
export const methodName = (name, title = null) =>
  h(
    "code",
    { class: "method", title },
    name.split(/(?<=_)|(?<=[a-z0-9])(?=[A-Z])/).flatMap((word, index) => (index ? [h("wbr"), word] : [word])),
  );

/** Where answers came from, as one bar. */
export function mix(sources) {
  const total = SOURCES.reduce((sum, source) => sum + (sources[source] ?? 0), 0);
  if (!total) return "";
  let x = 0;
  const pieces = SOURCES.filter((source) => sources[source]).map((source) => {
    const width = (96 * sources[source]) / total;
    const piece = svg("rect", { x, y: 0, width, height: 8, class: `fill-${source}` });
    x += width;
    return piece;
  });
  const words = SOURCES.filter((source) => sources[source])
    .map((source) => `${MEANING[source]} ${joined(percent(sources[source] / total))}`)
    .join(", ");
  return svg(
    "svg",
    { class: "mix", viewBox: "0 0 96 8", preserveAspectRatio: "none", role: "img", "aria-label": words },
    svg("title", {}, words),
    pieces,
  );
}

export function legend() {
  return h(
    "p",
    { class: "legend" },
    SOURCES.map((source) => h("span", {}, h("i", { class: `swatch ink-${source}` }), MEANING[source])),
  );
}

/** Share got as a bar, share wanted as a mark on it. */
export function shareBar(got, wanted) {
  if (got === null && wanted === null) return "";
  return svg(
    "svg",
    { class: "share", viewBox: "0 0 80 14", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "ground", x: 0, y: 5, width: 80, height: 4 }),
    svg("rect", { class: "got", x: 0, y: 5, width: 80 * (got ?? 0), height: 4 }),
    wanted === null
      ? null
      : svg("rect", { class: "wanted", x: Math.min(78, Math.max(0, 80 * wanted - 1)), y: 1, width: 2, height: 12 }),
  );
}

/** A short table of facts with a heading. */
export function facts(title, rows) {
  return h(
    "div",
    {},
    h("h3", {}, title),
    h(
      "table",
      {},
      h(
        "tbody",
        {},
        rows.map(([name, value]) => h("tr", {}, h("td", {}, name), h("td", { class: "right" }, value))),
      ),
    ),
  );
}

/** Parts as bars with their share: [[name, amount, shown]]. */
export function bars(title, rows) {
  const total = rows.reduce((sum, [, amount]) => sum + amount, 0);
  return h(
    "div",
    { class: "bars" },
    title ? h("h3", {}, title) : null,
    h(
      "table",
      {},
      h(
        "tbody",
        {},
        rows.map(([name, amount, shown]) =>
          h(
            "tr",
            {},
            h("td", {}, name),
            h(
              "td",
              {},
              svg(
                "svg",
                { class: "part", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
                svg("rect", { x: 0, y: 0, width: total ? (100 * amount) / total : 0, height: 8 }),
              ),
            ),
            h("td", { class: "right" }, total ? joined(percent(amount / total)) : NONE),
            h("td", { class: "right" }, shown),
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
  never: "its answers are never kept",
  head: "no head is known yet",
  static: "no chain is known yet",
};
const SKIPPED = {
  class: "its answers are never kept",
  "too-large": "longer than memory.max_entry",
  "above-head": "the node had not reached the block",
  pending: "the transaction is not mined yet",
  null: "null may become something",
  "empty-list": "an empty list may fill",
  "empty-list-unless-genesis": "no signers are known yet",
  "empty-string": "empty, which the rule distrusts",
  "0x": "empty, which the rule distrusts",
  blobs: "only a pool has its blobs: kept until the next head",
  "short-range": "the node cut the range short",
  "not-final": "its block is not final yet: kept until the next head",
  "fills-later": "a member that is null fills later: kept until the next head",
  unproven: "a machine that lags would say the same: kept until the next head",
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
export const skipped = (counts) => reasons("Why it was not kept", counts, SKIPPED);
export const failures = (counts) => reasons("Attempts without a result, last minute", counts, FAILED);

/** The address of the errors that are of one network, method, fault ...; every filter that is not named is reset. */
export const errorsAt = (wanted) => `#/errors/${new URLSearchParams(wanted)}`;

/** The address of a node, NETWORK/NODE, opened. */
export const nodeAt = (key) => `#/nodes/${encodeURIComponent(key)}`;

/** What needs attention, in sentences, a line each that stays while its sentence changes. `leadsTo(notice)`: the address that tells more, or
 *  null; `control()`: { element, update(notice) } of what stands behind a sentence. */
export function notices(leadsTo = () => null, control = null) {
  const list = h("ul", { class: "notices" });
  const well = h("li", {}, state("good", ""), h("span", { class: "quiet" }, "Nothing needs attention."));
  let lines = new Map();
  return {
    element: list,
    update: (attention) => {
      const before = lines;
      lines = new Map();
      for (const notice of attention) {
        let key = notice.id ?? notice.text;
        while (lines.has(key)) key += "+"; // two workers died of one cause
        lines.set(key, before.get(key) ?? noticeLine(control?.()));
        lines.get(key).update(notice, leadsTo(notice));
      }
      const wanted = lines.size ? [...lines.values()].map(({ element }) => element) : [well];
      // Those that stay are not touched, or a button among them would lose the focus whenever a sentence comes or goes.
      for (const element of [...list.children]) if (!wanted.includes(element)) element.remove();
      wanted.forEach((element, index) => {
        if (list.children[index] !== element) list.insertBefore(element, list.children[index] ?? null);
      });
    },
  };
}

function noticeLine(control) {
  const level = h("span");
  const sentence = h("span", { class: "sentence" });
  return {
    element: h("li", {}, level, sentence, control?.element ?? null),
    update: (notice, href) => {
      redraw(level, notice.level, () => state(notice.level, ""));
      redraw(sentence, String(href), () => (href ? h("a", { href }) : h("span")));
      setText(sentence.firstChild, notice.text);
      sentence.firstChild.title = notice.text;
      control?.update(notice);
    },
  };
}

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
  return h("div", { class: "note" }, text, ...(command ? [h("code", {}, command), copyButton(command)] : []));
}

/** What to do when no call has come yet. */
export function firstCall(overview) {
  const method = overview.networks[0]?.chain === "harmony" ? "hmyv2_blockNumber" : "eth_blockNumber";
  const address = String(overview.settings.listen ?? "127.0.0.1:8888").replace(
    /^(0\.0\.0\.0|\[::\])/,
    location.hostname,
  );
  return hint(
    "No call has come in yet. Send one:",
    `curl -s http://${address}/ -H 'content-type: application/json' -d '{"jsonrpc":"2.0","id":1,"method":"${method}","params":[]}'`,
  );
}

export function filterField(table, what, changed = () => {}) {
  return h("input", {
    class: "filter field",
    type: "search",
    placeholder: "Filter (press /)",
    "aria-label": `Filter ${what} by name`,
    oninput: (event) => {
      table.filter(event.target.value);
      changed();
    },
  });
}

export const errorFigure = (value) => {
  const [figure, unit] = count(value);
  return h("span", { class: value ? "isbad" : null }, figure, unit ? h("span", { class: "unit" }, unit) : "");
};

/** Choices of which one holds: [[value, word]]. */
export function choice(label, options, chosen, changed) {
  const buttons = options.map(([value, word]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => pick(value) }, word),
  );
  const pick = (value) => {
    buttons.forEach((one, index) => one.setAttribute("aria-pressed", String(options[index][0] === value)));
    changed(value);
  };
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

/** "4 of 4 nodes, 2 failing": a node that is failing may still be asked. */
export const nodesOf = ({ eligible, nodes, failing }) =>
  nodes ? `${eligible} of ${plural(nodes, "node")}${failing ? `, ${failing} failing` : ""}` : "no nodes";

/** How the nodes of a network are: colour, shape and words. */
export const networkState = (network) =>
  state({ ok: "good", part: "warn", down: "bad" }[network.state], nodesOf(network));
