// Who calls: the holders of API keys, what each may, and what was refused to them.

import { h, setText, state } from "../dom.js";
import { count, percent, rate, span } from "../format.js";
import { hint, quiet, section } from "../parts.js";
import { store } from "../store.js";
import { Table, numbers } from "../table.js";
import { clientDetail } from "./client_detail.js";
import { holderButtons, newHolder, shownOnce } from "./keys.js";
import { groupSoon } from "./setting.js";

const LIMITS = ["rate", "burst", "concurrency", "batch", "allow", "deny"];
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
  const { rate: perSecond, burst, concurrency, batch, allow, deny } = client.limits;
  return (
    [
      perSecond ? `${perSecond}/s${burst ? `, at once ${burst}` : ""}` : null,
      concurrency ? `${concurrency} in flight` : null,
      batch ? `${batch} a batch` : null,
      allow?.length ? `only ${allow.join(", ")}` : null,
      deny?.length ? `not ${deny.join(", ")}` : null,
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
            LIMITS.map((limit) => ["clients", "keys", name, limit]),
          )
        : null;
    const buttons = holderButtons(name, once);
    const past = clientDetail(name);
    return {
      element: h("div", {}, past.element, may?.element ?? "", buttons.element),
      update: () => {
        past.update();
        may?.update();
        buttons.update();
      },
      gone: past.gone,
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
      { title: "Client", sort: (client) => client.name, text: (client) => client.name, cell: (client) => client.name },
      { title: "State", text: (client) => stateOf(client).join(), cell: (client) => state(...stateOf(client)) },
      numbers("Calls", (client) => client.calls_per_second, rate),
      numbers("Since the start", (client) => client.calls_total, count),
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
        text: (client) => span(client.seen),
        cell: (client) => (client.seen === null ? "never" : [span(client.seen), h("span", { class: "unit" }, " ago")]),
      },
      { title: "May", text: limits, cell: (client) => h("span", { class: "words" }, limits(client)) },
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
    const element = section("Clients", note, made.form, once.element, table.element, empty);
    element.querySelector(".head").append(h("span", { class: "end" }, made.open));
    made.open.hidden = !store.writable;
    const open = documents.settings
      ? groupSoon("Calls without a key", "limits of each address (IPv6: of each /64)", OPEN)
      : null;
    let last = [];
    const show = () => {
      table.update(last);
      open?.update();
      once.update();
    };
    return {
      elements: [element, open?.element ?? ""],
      update: ({ clients: now }) => {
        last = now?.clients ?? [];
        setText(note, now?.require_key ? "a key is required" : "calls without a key are allowed");
        table.element.hidden = !last.length;
        empty.hidden = last.length > 0;
        show();
      },
      drafted: show,
      gone: () => table.gone(),
    };
  },
};
