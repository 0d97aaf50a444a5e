// Every setting there is, in groups: what is not tuned elsewhere on the page is tuned here, and nothing is left out.

import { describe } from "../described.js";
import { endWith, h, leave, setAttribute, setText } from "../dom.js";
import { atEnd, choice, filterField, hint, quiet, section } from "../parts.js";
import { store } from "../store.js";
import { routesGroup } from "./routes.js";
import { group } from "./setting.js";
import { alertsGroup } from "./webhooks.js";

const READ = "-30% 0px -60% 0px"; // the part of the window that counts as being read

const slug = (title) => title.toLowerCase().replace(/[^a-z]+/g, "-");

/** `home`: the address of the view; `groups` in `show(groups)`: [{ title, element }], each with a heading that takes
 *  the focus. */
function jumpList(home, label) {
  const element = h("nav.jump", { "aria-label": label });
  let links = new Map();
  const mark = (read) => {
    for (const [group, link] of links) setAttribute(link, "aria-current", group === read ? "location" : null);
    const link = links.get(read);
    if (link)
      element.scrollTo({ left: link.offsetLeft - element.offsetLeft - element.clientWidth / 2 + link.offsetWidth / 2 });
  };
  const reading = new IntersectionObserver(
    (entries) => {
      const seen = entries.find((entry) => entry.isIntersecting);
      if (seen) mark([...links.keys()].find((group) => group.element === seen.target));
    },
    { rootMargin: READ },
  );
  const go = (group) => {
    const covered = document.querySelector(".strip").offsetHeight + element.offsetHeight + 8;
    scrollTo({ top: group.element.getBoundingClientRect().top + scrollY - covered });
    group.element.querySelector("h3").focus({ preventScroll: true });
    mark(group);
  };
  endWith(element, () => reading.disconnect());
  return {
    element,
    show: (groups) => {
      reading.disconnect();
      links = new Map(
        groups.map((group) => [
          group,
          h("a", { href: `${home}/${slug(group.title)}`, onclick: () => go(group) }, group.title),
        ]),
      );
      element.replaceChildren(...links.values());
      for (const { element: one } of groups) reading.observe(one);
    },
    /** Only what is there can be gone to. */
    update: () =>
      links.forEach((link, { element: one }) => {
        link.hidden = one.hidden;
      }),
    /** Go to the group that an address names, if one does. */
    at: (place) => {
      const group = [...links.keys()].find(({ title }) => slug(title) === place);
      if (group) go(group);
    },
  };
}

const ELSEWHERE = /^networks\.\*\.(balancer$|hash_key$|nodes\.)|^clients\.keys\./;
const N = "networks.*.";
const ALERTS = "Alerts";
/** [title, note, beginnings of paths in their order]; the first group that one fits has the setting. */
const GROUPS = [
  [
    "Time, retries and hedges",
    "how far a call is taken",
    [`${N}deadline`, `${N}attempts`, `${N}behind_attempts`, `${N}hedge.`, `${N}budget.`],
  ],
  [
    "Breaker and outliers",
    "when a node gets no calls, and how it comes back",
    [`${N}breaker.`, `${N}outliers.`, `${N}slow_start`],
  ],
  [
    "Examination and agreement",
    "whether nodes are examined, which answers are judged and compared, and what follows when a node is contradicted",
    [`${N}examine`, `${N}prove`, `${N}agreement.`, `${N}on_disagreement`],
  ],
  ["Load on nodes", null, [`${N}concurrency.`, `${N}transactions.`]],
  ["Blocks and ranges", null, [N]],
  ["Memory", "the first tier of the cache", ["memory."]],
  ["Disk", "the tier of the cache that outlives a restart; there is none without a folder", ["disk."]],
  ["Redis", "the tier of the cache that hosts share", ["redis."]],
  ["Clients", "callers without a key; holders of keys are in Clients", ["clients.require_key", "clients."]],
  ["WebSockets", "calls and subscriptions of clients", ["http.websocket."]],
  ["HTTP", "the front that calls come in by", ["http."]],
  [ALERTS, "what needs attention, posted to webhooks", ["alerts."]],
  ["Errors", "the log of errors, and when failed calls need attention", ["errors."]],
  ["Log", "on stderr", ["log."]],
  ["Tracing", "spans of calls, by OpenTelemetry", ["tracing."]],
  ["Program", null, [""]],
];
const BEFORE_ROUTES = 4;
let network = null;

function build(described, feed) {
  const rest = described.filter(
    ({ path }) => !ELSEWHERE.test(path) && (store.inForce(["redis", "url"]) || !path.startsWith("redis.")),
  );
  const groups = GROUPS.map(([title, note, beginnings]) => {
    const mine = beginnings.flatMap((beginning) => {
      const found = rest.filter(({ path }) => path.startsWith(beginning));
      for (const one of found) rest.splice(rest.indexOf(one), 1);
      return found;
    });
    const paths = mine.map(({ path }) => path.split(".").map((name) => (name === "*" ? network : name)));
    if (!mine.length) return null;
    return title === ALERTS
      ? alertsGroup(title, note, paths, () => feed.stale("alerts", "overview"))
      : group(title, note, paths);
  });
  groups.splice(BEFORE_ROUTES, 0, routesGroup(network));
  return groups.filter(Boolean);
}

export const settings = {
  title: "Settings",
  needs: { alerts: { path: "alerts", every: 2000, optional: true } },
  build: (documents, feed) => {
    if (!documents.settings)
      return {
        elements: [
          section(
            "Settings",
            null,
            hint("This server cannot be changed while it runs: change its config file and start it again."),
          ),
        ],
      };
    const networks = Object.keys(documents.settings.document.networks);
    if (!networks.includes(network)) [network] = networks;
    const word = quiet(
      store.writable ? "in force with the next call" : "You may look, not change: your role is “read”.",
    );
    const hold = h("div");
    const jump = jumpList("#/settings", "Groups of settings");
    let wanted = null; // the group that the address names, until it is there
    const none = h("p.note", { hidden: true });
    let groups = [];
    const filter = () => {
      const needle = field.value.trim().toLowerCase();
      const shown = groups.reduce((sum, one) => sum + one.filter(needle), 0);
      none.hidden = shown > 0 || !groups.length;
      setText(
        none,
        `No setting here has “${field.value}” in its name or explanation. What is set for one node, such as its tier and quota, is in its row in Nodes; for one holder of keys in Clients.`,
      );
      jump.update();
    };
    const field = filterField("settings", filter);
    const draw = async () => {
      try {
        leave(hold);
        groups = build(await describe(), feed);
        update();
        hold.replaceChildren(...groups.map((one) => one.element));
        jump.show(groups);
        filter();
        if (wanted) jump.at(wanted);
        wanted = null;
      } catch (problem) {
        setText(none, problem.message);
        none.hidden = false;
      }
    };
    const pick = choice(
      "Network",
      networks.map((name) => [name, name]),
      network,
      (chosen) => {
        network = chosen;
        draw();
      },
    );
    const element = section("Settings", [word, atEnd(networks.length > 1 ? pick : null, field)], jump, hold, none);
    let last = documents;
    const update = (found = last) => {
      last = found;
      groups.forEach((one) => one.update(found));
    };
    draw();
    const at = (place) => {
      if (groups.length) jump.at(place);
      else wanted = place;
    };
    return { elements: [element], update, at };
  },
};
