// Mutes: webhooks are told nothing of some alerts for a while, and the page shows them all the same.

import { change } from "./api.js";
import { confirm } from "./dialog.js";
import { h, setText } from "./dom.js";
import { moment } from "./format.js";
import { button, quiet } from "./parts.js";
import { store } from "./store.js";

const HOUR = 3600;
const SPANS = [
  [HOUR / 2, "half an hour"],
  [HOUR, "an hour"],
  [4 * HOUR, "4 hours"],
  [24 * HOUR, "a day"],
  [168 * HOUR, "a week"],
  [720 * HOUR, "30 days"],
];
const ALL = "all";

export const mutedName = (what) => (what === ALL ? "all alerts" : what);
export const endMute = ({ what }) => change("POST", "alerts/mutes", { what, seconds: 0 });

/** What a mute may be about, the narrowest first; a network stands for its nodes as well. */
function choices({ id, subject }) {
  const [network, node] = subject.split("/");
  return [
    [id, "this alert alone"],
    [subject, `everything about ${subject}`],
    ...(node ? [[network, `${network} and its nodes`]] : []),
    [ALL, "all alerts"],
  ];
}

/** Ask what is to be muted, for how long and why, and mute it. */
async function ask(notice) {
  const select = (all, chosen) =>
    h(
      "select",
      { class: "field" },
      all.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
    );
  const [what, span] = [select(choices(notice), notice.subject), select(SPANS, HOUR)];
  const reason = h("input", { class: "field", maxlength: "200", autocomplete: "off", placeholder: "shown to others" });
  const text = "Webhooks are told nothing of them for a while; this page goes on showing them.";
  const agreed = await confirm({
    title: "Mute alerts",
    text,
    fields: [
      ["what", what],
      ["for", span],
      ["reason", reason],
    ],
    yes: "Mute",
  });
  if (agreed)
    await change("POST", "alerts/mutes", { what: what.value, seconds: Number(span.value), reason: reason.value });
}

/** End the mute that covers an alert; one that covers more than it is asked about. */
async function end({ id, subject, muted }) {
  const narrow = [id, subject].includes(muted.what);
  if (
    narrow ||
    (await confirm({
      title: "End the mute?",
      text: `It is about ${mutedName(muted.what)}: webhooks are told of all of that again.`,
      yes: "End it",
    }))
  )
    await endMute(muted);
}

/** What stands behind a sentence of Attention: until when it is muted, and the way to mute it or to end that. */
export function muteControl(changed) {
  const until = quiet();
  const word = h("span", { class: "isbad", role: "alert" });
  let last = null;
  const act = (text, doing) =>
    button(
      text,
      async () => {
        setText(
          word,
          await doing(last).then(
            () => "",
            (problem) => problem.message,
          ),
        );
        changed();
      },
      { class: "link" },
    );
  const [begin, over] = [act("Mute", ask), act("End mute", end)];
  return {
    element: h("span", { class: "mute-end" }, until, begin, over, word),
    update: (notice) => {
      last = notice;
      const told = Object.keys(store.inForce(["alerts", "webhooks"]) ?? {}).length > 0;
      setText(until, notice.muted ? `muted until ${moment(notice.muted.until)}` : "");
      until.hidden = !notice.muted;
      begin.hidden = !store.writable || !told || Boolean(notice.muted);
      over.hidden = !store.writable || !notice.muted;
      begin.setAttribute("aria-label", `Mute: ${notice.subject}`);
      over.setAttribute("aria-label", `End mute: ${notice.subject}`);
    },
  };
}
