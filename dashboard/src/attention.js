// What needs attention: how urgent each sentence is, and the view that tells more about it.

import { errorsAt, nodeAt } from "./parts.js";

const STANDS = "has no node that can take calls";
const FAILS = "of the calls failed";
const TIERS = ["disk", "redis"];

const isNode = ({ subject }, networks) => networks.some((network) => subject.startsWith(`${network}/`));

/** The less, the more urgent: a network that stands, calls that fail, then the rest, and nodes last; what is "bad" before all else. */
function urgency(notice, networks) {
  const kind = notice.text.includes(STANDS) ? 0 : notice.text.includes(FAILS) ? 1 : isNode(notice, networks) ? 3 : 2;
  return (notice.level === "bad" ? 0 : 10) + kind;
}

export const mostUrgent = (found, networks) =>
  [...found].sort((one, two) => urgency(one, networks) - urgency(two, networks));

/** The address of the view that tells more, or null. */
export function leadsTo(notice, networks) {
  if (isNode(notice, networks)) return nodeAt(notice.subject);
  if (TIERS.includes(notice.subject) && !networks.includes(notice.subject)) return "#/cache";
  if (notice.subject === "alerts" && !networks.includes("alerts")) return "#/settings/alerts";
  if (!networks.includes(notice.subject)) return null;
  return notice.text.includes(FAILS) ? errorsAt({ network: notice.subject, fault: "service" }) : "#/nodes";
}
