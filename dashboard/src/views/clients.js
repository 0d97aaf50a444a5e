// Who calls: the holders of API keys, what each may, and what was refused to them.

import { change } from "../api.js";
import { h, setText, state } from "../dom.js";
import { count, percent, rate, span } from "../format.js";
import { atEnd, button, copyButton, foldedForm, hint, input, quiet, section } from "../parts.js";
import { store } from "../store.js";
import { Table, numbers, words } from "../table.js";
import { clientDetail } from "./client_detail.js";
import { groupSoon } from "./setting.js";

const KEYS = ["clients", "keys"];

/** Ask for a key, and collect its hash for `name`: {key, hash}; the key itself is for the holder alone. */
async function collect(name) {
  const made = await change("POST", "keys", {});
  const { hash } = made;
  const path = [...KEYS, name];
  if (store.inForce(path)) store.set([...path, "hashes"], [...(store.value([...path, "hashes"]) ?? []), hash]);
  else store.set(path, { ...(store.value(path) ?? {}), hashes: [...(store.value(path)?.hashes ?? []), hash] });
  return made;
}

/** One new key, until it is done with. */
function shownKey(name, { key: made, hash }) {
  const key = h("code", { tabindex: "0" }, made);
  const when = h("span");
  const element = h(
    "div.note.once",
    { role: "status" },
    h("p", "The key of ", h("b", name), ". It is shown this once, and ", when),
    key,
    h(
      "div.buttons",
      copyButton(made),
      button("Done", () => element.remove()),
    ),
  );
  const update = () =>
    setText(
      when,
      store.inForce([...KEYS, name, "hashes"])?.includes(hash)
        ? "works now:"
        : "works as soon as the change below is applied:",
    );
  return { element, update, focus: () => key.focus() };
}

/** Where new keys are shown, once: a second one leaves the first in sight. */
function shownOnce() {
  const element = h("div");
  let shown = [];
  const update = () => {
    shown = shown.filter((one) => one.element.isConnected);
    for (const one of shown) one.update();
  };
  return {
    element,
    update,
    show: (name, made) => {
      const one = shownKey(name, made);
      element.append(one.element);
      shown.push(one);
      update();
      one.focus();
      return true;
    },
  };
}

/** A form for a new holder. */
function newHolder(once) {
  const more = { required: true, placeholder: "my-dapp", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", maxlength: "64" };
  const name = input("Name of the holder", more);
  const word = h("span.isbad", { role: "alert" });
  const submit = async () => {
    if (store.value([...KEYS, name.value])) return setText(word, `There is a client ${name.value} already.`);
    try {
      return once.show(name.value, await collect(name.value));
    } catch (problem) {
      return setText(word, problem.message);
    }
  };
  return foldedForm({
    title: "Make a key",
    fields: h("label", "for", name),
    send: "Make",
    after: [quiet("the name is what metrics and this page show"), word],
    submit,
    left: () => setText(word, ""),
  });
}

/** What can be done to a holder: another key, keys off and on, removal. */
function holderButtons(name, once) {
  const path = [...KEYS, name];
  const word = h("span.isbad", { role: "alert" });
  const more = button("Another key", async () => {
    try {
      once.show(name, await collect(name));
    } catch (problem) {
      setText(word, problem.message);
    }
  });
  const toggle = button("", () => store.set([...path, "enabled"], store.value([...path, "enabled"]) === false));
  const remove = button("", () => store.set(path, store.value(path) === null ? store.inForce(path) : null), {
    class: "plain danger",
  });
  const element = h("div.buttons", more, toggle, remove, word);
  return {
    element,
    update: () => {
      element.hidden = !store.writable || !store.inForce(path);
      setText(toggle, store.value([...path, "enabled"]) === false ? "Enable its keys" : "Disable its keys");
      setText(remove, store.value(path) === null ? "Do not remove" : "Remove");
      toggle.classList.toggle("drafted", store.changed([...path, "enabled"]));
      more.disabled = toggle.disabled = store.value(path) === null;
    },
  };
}

const LIMITS = ["rate", "burst", "concurrency", "batch", "allow", "deny", "directives"];
const OPEN = [
  ...LIMITS.map((name) => ["clients", "anonymous", name]),
  ["clients", "require_key"],
  ["clients", "heavy_cost"],
  ["clients", "trusted_proxies"],
  ["clients", "forwarded_header"],
];
const ANONYMOUS = "anonymous";

function limits(client) {
  if (!client.limits) return client.name === ANONYMOUS ? "as below" : "not in the settings any more";
  const { rate: perSecond, burst, concurrency, batch, allow, deny, directives, cache, tag } = client.limits;
  return (
    [
      perSecond ? `${perSecond}/s${burst ? `, at once ${burst}` : ""}` : null,
      concurrency ? `${concurrency} in flight` : null,
      batch ? `${batch} a batch` : null,
      allow?.length ? `only ${allow.join(", ")}` : null,
      deny?.length ? `not ${deny.join(", ")}` : null,
      directives?.length ? `may say ${directives.join(", ")}` : null,
      cache ? "nothing kept" : null,
      tag ? `nodes with the tag ${tag}` : null,
    ]
      .filter(Boolean)
      .join(" · ") || "no limits"
  );
}

/** "disabled" matters more than that it has a key. */
function stateOf(client) {
  if (client.name === ANONYMOUS) return ["idle", "no key"];
  if (!client.limits) return ["idle", "removed"];
  return client.enabled ? ["good", "enabled"] : ["warn", "disabled"];
}

function holder(once) {
  return ({ name, limits: known }) => {
    const may =
      known && name !== ANONYMOUS && store.current
        ? groupSoon(
            "What it may do",
            "0: no limit of its own",
            [...LIMITS, "cache", "tag"].map((limit) => ["clients", "keys", name, limit]),
          )
        : null;
    const buttons = holderButtons(name, once);
    const past = clientDetail(name);
    return {
      element: h("div", past, may, buttons),
      update: () => {
        past.update();
        may?.update();
        buttons.update();
      },
    };
  };
}

function clientTable(once) {
  return new Table({
    label: "Clients",
    key: (client) => client.name,
    sort: 2,
    detail: holder(once),
    columns: [
      words("Client", (client) => client.name),
      { title: "State", cell: (client) => state(...stateOf(client)) },
      numbers("Calls", (client) => client.calls_per_second, rate),
      numbers("In all", (client) => client.calls_total, count, {
        hint: "since the start; without a key, since callers are told apart: from the first key or limit on",
      }),
      numbers("Hit ratio", (client) => client.hit_ratio, percent, { hint: "since the start" }),
      numbers("Failed since the start", (client) => client.errors_total, count, {
        hint: "what the proxy or its nodes failed at",
      }),
      numbers("Its mistakes", (client) => client.client_errors_total, count, {
        hint: "since the start: errors by its own doing",
      }),
      numbers("In flight", (client) => client.in_flight, count),
      numbers("Refused", (client) => client.limited_per_second, rate, { hint: "by its limits" }),
      {
        title: "Last seen",
        right: true,
        sort: (client) => client.seen,
        cell: (client) => (client.seen === null ? "never" : [span(client.seen), h("span.unit", " ago")]),
      },
      { title: "May", cell: (client) => h("span.words", limits(client)) },
    ],
  });
}

export const clients = {
  title: "Clients",
  needs: { clients: { path: "clients", optional: true } },
  build: (documents) => {
    const once = shownOnce();
    const table = clientTable(once);
    const made = newHolder(once);
    const note = quiet();
    const empty = hint(
      "No API key is in use; everybody who reaches the proxy may call. Make a key here, or with a command for the config file:",
      "rpcaccel key NAME",
    );
    const element = section("Clients", [note, atEnd(made.open)], made.form, once, table, empty);
    made.open.hidden = !store.writable;
    const open = documents.settings
      ? groupSoon("Calls without a key", "limits of each address (IPv6: of each /64); 0: no limit", OPEN)
      : null;
    return {
      elements: [element, open],
      update: ({ clients: now }) => {
        const all = now?.clients ?? [];
        setText(note, now?.require_key ? "a key is required" : "calls without a key are allowed");
        table.update(all);
        table.element.hidden = !all.length;
        empty.hidden = all.length > 0;
        open?.update();
        once.update();
      },
    };
  },
};
