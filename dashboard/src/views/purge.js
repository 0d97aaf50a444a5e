// Emptying the cache: what is meant is counted before it is removed.

import { change, read } from "../api.js";
import { confirm } from "../dialog.js";
import { h, redraw, setText } from "../dom.js";
import { joined, count, plural } from "../format.js";
import { button, choice, quiet, section } from "../parts.js";
import { store } from "../store.js";
import { has, listed } from "../tiers.js";

/** "3 entries in memory, 2 on disk and 1 in Redis": the tiers that there are, and those that something was found in. */
function found({ memory, disk, store: shared, complete }) {
  const parts = [
    `${plural(memory, "entry", "entries")} in memory`,
    has("disk") || disk ? `${joined(count(disk))} on disk` : null,
    has("redis") || shared ? `${joined(count(shared))} in Redis` : null,
  ];
  const silent = listed(
    ["a worker", has("disk") ? "the disk" : null, has("redis") ? "Redis" : null].filter(Boolean),
    "or",
  );
  return `${listed(parts.filter(Boolean))}${complete ? "" : `; ${silent} did not answer for all of its own`}`;
}

/** The options of a choice of methods: those called first, then every other one that the networks have a rule for. */
function methodOptions(called, known) {
  const others = known.filter((name) => !called.includes(name));
  const group = (label, names) =>
    names.length
      ? h(
          "optgroup",
          { label },
          names.map((name) => h("option", {}, name)),
        )
      : null;
  return [group("called since the start", called), group("not called yet", others)];
}

export function purgePanel(documents, done) {
  let known = null; // the methods that have a rule, by network
  read("methods/known")
    .then((found) => {
      known = found;
    })
    .catch(() => {
      known = {};
    });
  let what = "method";
  const word = h("span", { class: "said", role: "status" });
  const network = h(
    "select",
    { class: "field", "aria-label": "Network" },
    h("option", { value: "" }, "every network"),
    documents.overview.networks.map((one) => h("option", {}, one.network)),
  );
  const method = h("select", { class: "field", "aria-label": "Method" });
  const key = h("input", {
    class: "field wide",
    "aria-label": "Key",
    placeholder: "a key, as Explain shows it",
    autocomplete: "off",
  });
  const fields = {
    method: h("label", {}, "method", method),
    network: h("label", {}, "network", network),
    key: h("label", {}, "key", key),
  };
  const shown = { method: ["method", "network"], network: ["network"], key: ["key"], all: [] };
  const pick = (value) => {
    what = value;
    for (const [name, field] of Object.entries(fields)) field.hidden = !shown[what].includes(name);
    setText(word, "");
  };
  const meant = () => {
    if (what === "all" || (what === "network" && !network.value)) return { all: true };
    if (what === "key") return { key: key.value.trim() };
    return {
      ...(what === "method" ? { method: method.value } : {}),
      ...(network.value ? { network: network.value } : {}),
    };
  };
  const named = () =>
    meant().all
      ? "every answer kept"
      : what === "key"
        ? "this key"
        : `answers of ${[what === "method" ? method.value : "", network.value].filter(Boolean).join(" on ")}`;
  const run = async () => {
    if (what === "method" && !method.value) return setText(word, "Which method? None is known yet.");
    if (what === "key" && !key.value.trim()) return setText(word, "Which key? Explain shows the keys of a call.");
    const wanted = meant(); // what was counted is what is removed
    start.disabled = true;
    setText(word, "counting …");
    try {
      const counted = await change("POST", "purge", { ...wanted, dry_run: true });
      setText(word, `${found(counted)}.`);
      const agreed = await confirm({
        title: `Remove ${named()}?`,
        yes: "Remove",
        text: `That is ${found(counted)}. The next calls for them go to the nodes.`,
      });
      setText(word, agreed ? `Removed: ${found(await change("POST", "purge", wanted))}.` : "Nothing was removed.");
    } catch (problem) {
      setText(word, problem.status === 404 ? "This server cannot purge on demand." : problem.message);
    }
    start.disabled = false;
    return done();
  };
  const start = button("Count, then remove …", run);
  const element = section(
    "Purge",
    quiet(
      `remove kept answers ${listed(["in every worker", has("disk") ? "on disk" : null, has("redis") ? "in Redis" : null].filter(Boolean))}`,
    ),
    h(
      "div",
      { class: "inline" },
      choice(
        "What to remove",
        [
          ["method", "a method"],
          ["network", "a network"],
          ["key", "a key"],
          ["all", "everything"],
        ],
        what,
        pick,
      ),
      fields.method,
      fields.network,
      fields.key,
      start,
      word,
    ),
  );
  pick(what);
  return {
    element,
    update: (methods) => {
      element.hidden = store.role !== "admin";
      if (document.activeElement === method) return;
      const of = (name) => !network.value || name === network.value;
      const called = [
        ...new Set((methods?.methods ?? []).filter((one) => of(one.network)).map((one) => one.method)),
      ].sort();
      const ruled = [
        ...new Set(
          Object.entries(known ?? {})
            .filter(([name]) => of(name))
            .flatMap(([, names]) => names),
        ),
      ].sort();
      const chosen = method.value;
      redraw(method, JSON.stringify([called, ruled]), () => methodOptions(called, ruled));
      if (called.includes(chosen) || ruled.includes(chosen)) method.value = chosen;
    },
  };
}
