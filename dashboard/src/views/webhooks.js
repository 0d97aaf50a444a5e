// Webhooks that are told of what needs attention: how it goes with each, a test, and what is muted.

import { change } from "../api.js";
import { h, redraw, setText, state } from "../dom.js";
import { NONE, count, duration, joined, moment } from "../format.js";
import { endMute, mutedName } from "../notices.js";
import { atEnd, button, foldedForm, hint, input, labelled, quiet, select } from "../parts.js";
import { store } from "../store.js";
import { Table } from "../table.js";
import { group } from "./setting.js";

const WEBHOOKS = ["alerts", "webhooks"];
const PATIENCE = 75000; // milliseconds: longer than a webhook may take to answer
const LEVELS = { untried: "idle", well: "good", retrying: "warn", failing: "bad" };
const STATES = {
  untried: "nothing to tell yet",
  well: "takes messages",
  retrying: "is tried again",
  failing: "does not take messages",
};
const FORMS = [
  ["slack", "Slack, Mattermost, Discord"],
  ["json", "JSON"],
];
const TELLS = [
  ["warn", "everything"],
  ["bad", "what is red"],
];

const tells = ({ least, networks }) =>
  `${least === "bad" ? "what is red" : "everything"}${networks.length ? ` of ${networks.join(", ")}` : ""}`;
const time = (at) => (at === null ? NONE : moment(at));

function stateCell({ state: word, error, next_try: next }) {
  const why = [error, next === null ? "" : `again at ${moment(next)}`].filter(Boolean).join(" · ");
  return [state(LEVELS[word], STATES[word]), why ? h("span.why", why) : ""];
}

/** Buttons of a webhook: a test, and removal. `said(text, well)` tells what became of a test. */
function acts({ name }, said) {
  const path = [...WEBHOOKS, name];
  const test = button(
    "Send a test",
    async () => {
      test.disabled = true;
      said(`${name}: sending …`);
      try {
        const { tests } = await change("POST", "alerts/test", { webhook: name }, { patience: PATIENCE });
        for (const one of tests) said(verdict(one), one.ok);
      } catch (problem) {
        said(`${name}: ${problem.message}`, false);
      }
      test.disabled = false;
    },
    { "aria-label": `Send a test to ${name}` },
  );
  const remove = button("", () => store.set(path, store.value(path) === null ? store.inForce(path) : null));
  return {
    element: h("div.buttons.tight", test, remove),
    update: () => {
      const going = store.value(path) === null;
      setText(remove, going ? "Keep" : "Remove");
      remove.setAttribute("aria-label", `${going ? "Keep" : "Remove"} ${name}`);
      remove.classList.toggle("drafted", going);
    },
  };
}

function verdict({ webhook, ok, status, error, seconds }) {
  return ok
    ? `${webhook} took the test after ${joined(duration(seconds))} (HTTP ${status})`
    : `${webhook} did not take the test: ${error}`;
}

function webhookTable(said) {
  return new Table({
    label: "Webhooks",
    key: ({ name }) => name,
    columns: [
      { title: "Webhook", cell: ({ name, address }) => [h("b", name), h("span.why", address)] },
      { title: "State", cell: stateCell },
      { title: "Tells", cell: tells, fold: 2 },
      { title: "Form", cell: ({ format }) => format, fold: 1 },
      { title: "Last taken", cell: ({ taken_at: at }) => time(at), fold: 4 },
      {
        title: "Taken, failed",
        right: true,
        fold: 3,
        hint: "messages since the start; those that failed are tried again",
        cell: ({ sent }) => `${joined(count(sent.ok))}, ${joined(count(sent.failed))}`,
      },
      store.writable && { title: "", name: "Actions", look: "acts", build: (one) => acts(one, said) },
    ],
  });
}

/** A form for a new webhook, which is collected like every other change. */
function addForm() {
  const named = { required: true, placeholder: "ops", pattern: "[a-z0-9][a-z0-9._\\-]*", maxlength: "64" };
  const [name, form, least] = [input("name", named), select("form", FORMS), select("tells", TELLS)];
  const url = input("address", {
    class: "field wide",
    required: true,
    type: "url",
    placeholder: "https://hooks.example/…",
  });
  const word = h("span.isbad", { role: "alert" });
  const submit = () => {
    const path = [...WEBHOOKS, name.value];
    if (store.value(path)) return setText(word, `There is a webhook ${name.value} already.`);
    store.set(path, { url: url.value, format: form.value, least: least.value });
    store.check();
    return true;
  };
  const fields = [name, url, form, least].map(labelled);
  return foldedForm({ title: "Add a webhook", fields, after: word, submit, left: () => setText(word, "") });
}

/** The mutes in force, each with a way to end it. */
function muteList(said) {
  const list = h("ul.notices.below");
  const line = (one) =>
    h(
      "li",
      state("idle", ""),
      h(
        "span.words",
        h("b", mutedName(one.what)),
        ` muted until ${moment(one.until)}`,
        quiet(`${one.by ? ` by ${one.by}` : ""}${one.reason ? `: ${one.reason}` : ""}`),
      ),
      store.writable
        ? button(
            "End",
            () =>
              endMute(one).then(
                () => said(`${mutedName(one.what)}: not muted any more`),
                (problem) => said(problem.message, false),
              ),
            { class: "link", "aria-label": `End the mute of ${mutedName(one.what)}` },
          )
        : null,
    );
  return {
    element: list,
    update: (mutes) => {
      list.hidden = !mutes.length;
      redraw(list, mutes.map(line));
    },
  };
}

/** The group of settings about alerts, with webhooks and mutes below. `refresh()` asks for them again. */
export function alertsGroup(title, note, paths, refresh) {
  const inner = group(title, note, paths);
  const word = h("p.said", { role: "status" });
  const said = (text, well = true) => {
    setText(word, text);
    word.classList.toggle("isbad", !well);
    refresh();
  };
  const [table, form, mutes] = [webhookTable(said), addForm(), muteList(said)];
  table.element.classList.add("cards", "webhooks");
  const none = hint(
    "Nobody is told: there is no webhook.",
    "rpcaccel settings set alerts.webhooks.ops.url=https://hooks.example/…",
  );
  inner.element.append(h("div.below", form.form, table, none, word, mutes));
  if (store.writable) inner.element.querySelector(".head").append(atEnd(form.open));
  let last = null;
  const update = (documents) => {
    inner.update();
    last = documents?.alerts ?? last;
    if (!last) return;
    table.update(last.webhooks);
    table.element.hidden = !last.webhooks.length;
    none.hidden = last.webhooks.length > 0 || !form.form.hidden;
    mutes.update(last.mutes);
  };
  return {
    ...inner,
    update,
    filter: (needle) => {
      const shown = inner.filter(needle);
      const here = "alerts webhooks mutes test".includes(needle);
      inner.element.hidden = !shown && !here;
      return shown || Number(here);
    },
  };
}
