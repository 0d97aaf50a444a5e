// The bar at the bottom: what is collected, to be applied together or discarded; and then who has it, with Undo in
// reach.

import { describe } from "./described.js";
import { h, redraw, setText, state } from "./dom.js";
import { button } from "./parts.js";
import { confirmed } from "./popups.js";
import { store } from "./store.js";
import { leftAfter } from "./weights.js";
import { WAYS, changeText, danger, sentence, stopped } from "./wording.js";

const NOBODY = "local"; // the author of changes where there are no accounts
const STAYS = 20000;

export class Bar {
  /** `newest()`: the documents as last read, for what a dangerous change would do. */
  constructor(newest) {
    this.newest = newest;
    this.text = h("div.bar-text", { role: "status" });
    this.apply = h("button.primary", { type: "button", onclick: () => this.send() }, "Apply");
    this.discard = h("button.plain", { type: "button", onclick: () => store.discard() }, "Discard");
    this.undo = h("button.plain", { type: "button", onclick: () => this.follow(() => store.undo()) }, "Undo");
    this.close = h("button.plain", { type: "button", "aria-label": "Close", onclick: () => this.hide() }, "✕");
    this.element = h(
      "aside.bar",
      { "aria-label": "Changes", hidden: true },
      this.text,
      h("div.buttons", this.discard, this.apply, this.undo, this.close),
    );
    this.timer = null;
    this.described = false;
    this.said = null;
    store.listen(() => this.show());
    addEventListener("keydown", (event) => {
      if (event.defaultPrevented || document.querySelector("dialog[open]")) return; // it was meant for something else
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && store.drafts.size) this.send();
    });
  }

  hide() {
    clearTimeout(this.timer);
    store.letGo();
  }

  async send() {
    const edits = store.edits();
    if (store.busy || store.faults.length) return;
    const { nodes: known, clients: callers } = this.newest();
    const [nodes, clients] = [known?.nodes ?? [], callers?.clients ?? []];
    const dangers = edits.map(([path, , after]) => danger(path, after, { nodes, clients }));
    const lines = [...dangers.filter(Boolean), ...this.stopped(edits)];
    if (
      lines.length &&
      !(await confirmed({ title: "Apply these changes?", lines, yes: `Apply ${edits.length === 1 ? "it" : "them"}` }))
    )
      return;
    await this.follow(() => store.apply());
  }

  /** What becomes of networks that are left without a node, or without those of their lowest tier. */
  stopped(edits) {
    const nodes = this.newest().nodes?.nodes;
    return nodes ? stopped(edits, (network) => leftAfter(store, nodes, network)) : [];
  }

  /** Who came by keyboard goes on at Undo: the button that was pressed is not there any more. */
  async follow(act) {
    const held = this.element.contains(document.activeElement);
    await act();
    if (held && !this.undo.hidden) this.undo.focus();
  }

  /** Values have their units in words once the settings are described. */
  async describe() {
    await describe().catch(() => []); // then they are told without
    this.described = true;
    this.show();
  }

  show() {
    const edits = store.edits();
    if (edits.length && !this.described) this.describe();
    const open =
      store.writable &&
      (edits.length > 0 || store.problem !== null || store.applied !== null || store.others.length > 0);
    this.element.hidden = !open;
    document.body.classList.toggle("barred", open);
    if (!open) return;
    this.apply.hidden = this.discard.hidden = !edits.length;
    this.undo.hidden = edits.length > 0 || store.applied === null;
    this.close.hidden = edits.length > 0 && !store.others.length;
    this.apply.title = "Ctrl+Enter";
    for (const button of [this.apply, this.discard, this.undo]) button.disabled = store.busy;
    if (store.faults.length) this.apply.disabled = true;
    setText(this.apply, store.busy ? "Applying …" : "Apply");
    redraw(this.text, this.words(edits));
    const passing = store.applied ?? store.others[0] ?? null;
    if (passing !== this.said) {
      this.said = passing;
      clearTimeout(this.timer);
      if (passing) this.timer = setTimeout(() => this.pass(), STAYS);
    }
  }

  /** It goes when its time is over, but not from under a pointer or a focus. */
  pass() {
    if (this.element.matches(":hover, :focus-within")) this.timer = setTimeout(() => this.pass(), STAYS);
    else this.hide();
  }

  /** Who changed what, from what to what; and what this page holds against it. */
  byOthers(line) {
    const keys = store.against(line);
    const theirs = button("Take theirs", () => store.yield(store.against(line)));
    return h(
      "p",
      state(keys.length ? "warn" : "idle", ""),
      h("b", line.by && line.by !== NOBODY ? line.by : "Somebody"),
      ` changed ${line.via === "page" ? "on another page" : (WAYS[line.via] ?? `by ${line.via}`)}: `,
      changeText(line),
      h("span.quiet", ` · revision ${line.revision} `),
      keys.length ? ["Your change of it is not applied yet; applied, it replaces theirs. ", theirs] : null,
    );
  }

  words(edits) {
    const said = [];
    if (store.problem) {
      said.push(h("p.isbad", state("bad", ""), refusal(store.problem)));
    }
    for (const line of store.others) said.push(this.byOthers(line));
    for (const { text } of store.faults) said.push(h("p.isbad", text));
    if (edits.length) {
      said.push(
        h(
          "p",
          h("b", `${edits.length} ${edits.length === 1 ? "change" : "changes"}`),
          h("span.quiet", " not applied yet"),
        ),
        h(
          "p.edits",
          edits.map(([path, before, after]) => h("span", sentence(path, before, after))),
        ),
        this.stopped(edits).map((text) => h("p", state("warn", ""), text)),
      );
    } else if (store.applied) {
      const { revision, adopted, workers, note } = store.current;
      const late = workers.filter((worker) => worker.revision < revision).map(({ id }) => id);
      said.push(
        h(
          "p",
          state("good", ""),
          h("b", `Revision ${revision}: `),
          `${changeText(store.applied)} `,
          h(
            "span.quiet",
            `· ${adopted} of ${workers.length} ${workers.length === 1 ? "worker has" : "workers have"} it${late.length ? `, not yet ${late.join(", ")}` : ""}${note ? ` · ${note}` : ""}`,
          ),
        ),
      );
    }
    return said;
  }
}

function refusal(problem) {
  if (problem.code === "changed-meanwhile")
    return "Somebody changed the settings meanwhile, so this was not applied. Look again, and apply once more.";
  if (problem.status === 0) return "The server did not answer; nothing is known to have changed.";
  return `Not applied: ${problem.message}`;
}
