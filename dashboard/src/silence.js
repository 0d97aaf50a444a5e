// Silences: webhooks are told nothing of some alerts for a while, and the page shows them all the same.

import { change, read } from "./api.js";
import { confirm } from "./dialog.js";
import { h, setText } from "./dom.js";
import { moment } from "./format.js";
import { button, quiet } from "./parts.js";
import { store } from "./store.js";

const HOUR = 3600;
const SPANS = [[HOUR / 2, "half an hour"], [HOUR, "an hour"], [4 * HOUR, "4 hours"], [24 * HOUR, "a day"], [168 * HOUR, "a week"], [720 * HOUR, "30 days"]];
const EVERYTHING = "all";

/** What a silence may be about, the narrowest first; a network stands for its nodes as well. */
function choices({ id, subject }) {
  const network = subject.includes("/") ? subject.split("/")[0] : null;
  return [[id, "this alert alone"], [subject, `everything about ${subject}`], network ? [network, `${network} and its nodes`] : null, [EVERYTHING, "all alerts"]].filter(Boolean);
}

/** The names of what is silenced, in words. */
export const silenced = (what) => (what === EVERYTHING ? "all alerts" : what);

/** Ask what is to be silenced, for how long and why: {what, seconds, reason}, or null. */
function ask(notice) {
  return new Promise((answer) => {
    const options = (all, chosen) => all.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
    const what = h("select", { class: "field" }, options(choices(notice), notice.subject));
    const span = h("select", { class: "field" }, options(SPANS, HOUR));
    const reason = h("input", { class: "field", maxlength: "200", autocomplete: "off", placeholder: "shown to others" });
    const box = h("dialog", { class: "ask", "aria-label": "Silence alerts" },
      h("form", { method: "dialog", class: "silence" }, h("h2", {}, "Silence alerts"), h("p", {}, "Webhooks are told nothing of them for a while; this page goes on showing them."),
        h("label", {}, "what", what), h("label", {}, "for", span), h("label", {}, "reason", reason),
        h("div", { class: "buttons" }, h("button", { type: "button", class: "plain", onclick: () => box.close("no") }, "Cancel"), h("button", { type: "submit", class: "primary", value: "yes" }, "Silence"))));
    box.addEventListener("close", () => {
      box.remove();
      answer(box.returnValue === "yes" ? { what: what.value, seconds: Number(span.value), reason: reason.value } : null);
    });
    document.body.append(box);
    box.showModal();
    what.focus();
  });
}

/** End the silences that cover an alert; one that covers more than it is asked about. */
async function end({ id, subject }) {
  const { silences } = await read("alerts");
  const mine = silences.filter(({ what }) => [EVERYTHING, id, subject].includes(what) || subject.startsWith(`${what}/`));
  const wide = mine.filter(({ what }) => what !== id && what !== subject).map(({ what }) => silenced(what));
  if (wide.length && !(await confirm({ title: "End the silence?", text: `It is about ${wide.join(", ")}: webhooks are told of all of that again.`, yes: "End it" }))) return;
  for (const one of mine) await change("DELETE", `alerts/silences/${encodeURIComponent(one.id)}`, {});
}

/** What stands behind a sentence of Attention: until when it is silenced, and the way to silence it or to end that. */
export function silenceControl(changed) {
  const until = quiet();
  const word = h("span", { class: "isbad", role: "alert" });
  const act = (doing) => async () => {
    setText(word, "");
    try {
      await doing(last);
    } catch (problem) {
      setText(word, problem.message);
    }
    changed();
  };
  const begin = button("Silence", act(async (notice) => {
    const wanted = await ask(notice);
    if (wanted) await change("POST", "alerts/silences", wanted);
  }), { class: "link" });
  const over = button("End silence", act(end), { class: "link" });
  let last = null;
  return { element: h("span", { class: "silence-end" }, until, begin, over, word), update: (notice) => {
    last = notice;
    const told = Object.keys(store.inForce(["alerts", "webhooks"]) ?? {}).length > 0;
    setText(until, notice.silenced ? `silenced until ${moment(notice.silenced)}` : "");
    until.hidden = !notice.silenced;
    begin.hidden = !store.writable || !told || Boolean(notice.silenced);
    over.hidden = !store.writable || !notice.silenced;
    begin.setAttribute("aria-label", `Silence: ${notice.subject}`);
    over.setAttribute("aria-label", `End silence: ${notice.subject}`);
  } };
}
