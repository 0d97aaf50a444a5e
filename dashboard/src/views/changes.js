// What was changed, by whom, and the way back.

import { change, read } from "../api.js";
import { about, describe, inWords, named } from "../described.js";
import { h, redraw, setText, state } from "../dom.js";
import { NONE, moment, plural } from "../format.js";
import { button, hint, quiet, section } from "../parts.js";
import { confirmed } from "../popups.js";
import { store } from "../store.js";
import { Table } from "../table.js";
import { WAYS, changeText, routesText } from "../wording.js";

const SHORT = 40;
const empty = (value) =>
  value === null || value === "" || value === 0 || (typeof value === "object" && !Object.keys(value).length);

/** Hashes say nothing to anybody; how many there are does. */
const keys = (hashes) => plural(hashes.length, "key");

const usual = (path, value) => JSON.stringify(about(path)?.default) === JSON.stringify(value);

/** A table as its members that say something else than usual, anything else as its setting is written. */
function shown(path, value) {
  if (path.endsWith(".routes") && Array.isArray(value)) return routesText(value);
  if (path.endsWith(".hashes") && Array.isArray(value)) return keys(value);
  if (value === null || value === undefined || typeof value !== "object" || Array.isArray(value))
    return inWords(named(path), value);
  return (
    Object.entries(value)
      .filter(([name, member]) => !empty(member) && !usual([...named(path), name], member))
      .map(([name, member]) =>
        name === "hashes"
          ? keys(member)
          : `${name.replaceAll("_", " ")} ${typeof member === "object" ? JSON.stringify(member) : member}`,
      )
      .join(", ") || "all as usual"
  );
}

function code(text) {
  return h("code", { class: text.length <= SHORT ? "whole" : null }, text);
}

/** [{path, before, after}] as a table. */
function differenceTable(edits) {
  if (!edits) return quiet(NONE);
  if (!edits.length) return quiet("Nothing differs.");
  return h(
    "table.diff",
    h(
      "thead",
      h(
        "tr",
        ["setting", "before", "after"].map((word) => h("th", { scope: "col" }, h("span", word))),
      ),
    ),
    h(
      "tbody",
      edits.map(({ path, before, after }) =>
        h("tr", h("td", code(path)), h("td", code(shown(path, before))), h("td", code(shown(path, after)))),
      ),
    ),
  );
}

function detail() {
  const element = h("div");
  let line = null;
  const back = button("Go back to before this change", async () => {
    const to = line.before ?? line.revision - 1;
    const agreed = await confirmed({
      title: `Go back to revision ${to}?`,
      text: `The settings as they were before “${changeText(line)}” come into force as a new revision; every change made since is taken back.`,
      yes: "Go back",
    });
    if (agreed) await store.undo(to);
  });
  const hold = h("div");
  element.append(hold, h("div.buttons", back));
  return {
    element,
    update: (now) => {
      line = now;
      back.hidden = !now.undo || !store.writable;
      redraw(hold, [now.reason ? h("p.isbad", now.reason) : null, differenceTable(now.difference)]);
    },
  };
}

function changesTable() {
  return new Table({
    label: "Changes",
    key: (line) => `${line.at} ${line.revision} ${line.action}`,
    detail,
    columns: [
      {
        title: "What",
        cell: (line) => h("span.words", changeText(line), line.why ? h("span.quiet", ` · ${line.why}`) : ""),
      },
      {
        title: "When",
        sort: (line) => line.at,
        cell: (line) => h("time", { datetime: new Date(line.at * 1000).toISOString() }, moment(line.at)),
      },
      {
        title: "Who",
        fold: 2,
        sort: (line) => line.by,
        cell: (line) => [line.by, h("span.quiet", line.via ? ` ${WAYS[line.via] ?? `by ${line.via}`}` : "")],
      },
      { title: "Revision", right: true, fold: 1, cell: (line) => String(line.revision) },
      { title: "Outcome", cell: (line) => state(line.outcome === "adopted" ? "good" : "bad", line.outcome) },
    ],
  });
}

function settingsSection() {
  const hold = h("div");
  const word = quiet();
  const undo = button("Undo the last change", () => store.undo());
  const exported = h("a.plain", { href: "/api/v1/settings/export", download: "rpcaccel.toml" }, "Export as TOML");
  const reload = button("Read the config file again", async () => {
    try {
      const { change: line, revision } = await change("POST", "reload", {}, { expected: store.current.revision });
      store.mine.add(revision);
      setText(word, line ? "Read: it differed, and is in force now." : "Read: nothing changes by it.");
      asked = null;
    } catch (problem) {
      setText(word, problem.message);
    }
  });
  const element = section("Settings in force", word, hold, h("div.buttons", undo, exported, reload));
  let asked = null;
  let base = { difference: null, base: null }; // until it is known
  return {
    element,
    update: (settings, newest) => {
      const now = `${settings.revision} ${newest?.at}`; // the file may be another, though no change came of it
      if (asked !== now) {
        asked = now;
        read("settings/difference")
          .then((found) => {
            base = found;
          })
          .catch(() => {
            asked = null;
          });
      }
      undo.hidden = settings.undo === null || !store.writable;
      reload.hidden = !store.writable || base.base === null;
      redraw(hold, [
        h(
          "p",
          h("b", `Revision ${settings.revision}`),
          ` · ${settings.adopted} of ${settings.workers.length} ${settings.workers.length === 1 ? "worker has" : "workers have"} it · `,
          settings.persisted ? ["kept in ", h("code", settings.persisted)] : settings.note || "lost at a restart",
        ),
        settings.shared
          ? h(
              "p",
              state(
                settings.shared.up ? "good" : "warn",
                settings.shared.up
                  ? "shared with the other hosts through Redis"
                  : "Redis cannot be reached: changes stay on this host until it can",
              ),
            )
          : null,
        settings.waiting.length
          ? h(
              "p",
              state("warn", ""),
              "These wait for a restart: ",
              settings.waiting.map((path) => h("code", `${path} `)),
            )
          : null,
        h("h3", `What differs${base.difference ? ` from ${base.base ?? "the start"}` : ""}`),
        differenceTable(base.difference),
      ]);
    },
  };
}

export const changes = {
  title: "Changes",
  needs: {},
  build: (documents) => {
    describe().catch(() => {}); // values are then shown as they are
    if (!documents.changes)
      return {
        elements: [section("Changes", null, hint("This server cannot be changed while it runs, so nothing was."))],
      };
    const table = changesTable();
    const now = settingsSection();
    const note = quiet();
    return {
      elements: [now, section("Record of changes", note, table)],
      update: ({ changes: { changes: lines }, settings }) => {
        table.update(lines);
        setText(note, `${plural(lines.length, "line")}, newest first`);
        if (settings) now.update(settings, lines[0]);
      },
    };
  },
};
