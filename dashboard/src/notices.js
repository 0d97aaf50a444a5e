// What needs attention: sentences, the most urgent first, each with the view that tells more, and the way to mute it.

import { change } from "./api.js";
import { h, redraw, setAttribute, setText, state } from "./dom.js";
import { moment } from "./format.js";
import { button, errorsAt, input, nodeAt, quiet, select } from "./parts.js";
import { confirmed } from "./popups.js";
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
    node && [network, `${network} and its nodes`],
    [ALL, "all alerts"],
  ].filter(Boolean);
}

/** Ask what is to be muted, for how long and why, and mute it. */
async function ask(notice) {
  const [what, span] = [select("what", choices(notice)), select("for", SPANS)];
  span.value = HOUR;
  const reason = input("reason", { maxlength: "200", placeholder: "shown to others" });
  const text = "Webhooks are told nothing of them for a while; this page goes on showing them.";
  const agreed = await confirmed({ title: "Mute alerts", text, fields: [what, span, reason], yes: "Mute" });
  if (agreed)
    await change("POST", "alerts/mutes", { what: what.value, seconds: Number(span.value), reason: reason.value });
}

/** End the mute that covers an alert; one that covers more than it is asked about. */
async function end({ id, subject, muted }) {
  const narrow = [id, subject].includes(muted.what);
  if (
    narrow ||
    (await confirmed({
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
  const word = h("span.isbad", { role: "alert" });
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
    element: h("span.mute-end", until, begin, over, word),
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

/** What needs attention, in sentences, a line each that stays while its sentence changes. `leadsTo(notice)`: the
 *  address that tells more, or null; `control()`: { element, update(notice) } of what stands behind a sentence. */
export function notices(leadsTo = () => null, control = null) {
  const list = h("ul.notices");
  const well = h("li", state("good", ""), h("span.quiet", "Nothing needs attention."));
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
  const link = h("a"); // without an address it is text
  return {
    element: h("li", level, h("span.sentence", link), control),
    update: (notice, href) => {
      redraw(level, state(notice.level, ""));
      setAttribute(link, "href", href);
      setAttribute(link, "title", notice.text);
      setText(link, notice.text);
      control?.update(notice);
    },
  };
}

const TIERS = ["disk", "redis"];

const isNode = ({ subject }, networks) => networks.some((network) => subject.startsWith(`${network}/`));

/** The less, the more urgent: a network that stands, calls that fail, then what is "bad" before what is not, and nodes
 *  last. */
function urgency(notice, networks) {
  const first = ["no node", "failing"].indexOf(notice.kind);
  if (isNode(notice, networks)) return notice.level === "bad" ? 3 : 13;
  return first >= 0 ? first : notice.level === "bad" ? 2 : 12;
}

export const mostUrgent = (found, networks) =>
  [...found].sort((one, two) => urgency(one, networks) - urgency(two, networks));

/** The address of the view that tells more, or null. */
export function leadsTo(notice, networks) {
  if (isNode(notice, networks)) return nodeAt(notice.subject);
  if (TIERS.includes(notice.subject) && !networks.includes(notice.subject)) return "#/cache";
  if (notice.subject === "alerts" && !networks.includes("alerts")) return "#/settings/alerts";
  if (!networks.includes(notice.subject)) return null;
  return notice.kind === "failing" ? errorsAt({ network: notice.subject, fault: "service" }) : "#/nodes";
}
