// The hosts that share one Redis: what each does, and who of them is behind. Texts and addresses come from other hosts.

import { h, redraw, setText, state } from "../dom.js";
import { block, count, duration, joined, percent, plural, rate, span } from "../format.js";
import { button, facts, quiet, section } from "../parts.js";
import { Table, numbers } from "../table.js";

const STATES = {
  well: ["good", "well"],
  behind: ["warn", "behind"],
  silent: ["bad", "not heard"],
  draining: ["idle", "draining"],
  "other-version": ["idle", "another version"],
  unknown: ["idle", "not known"],
};
const MANY = 12; // hosts: beyond, those in trouble and the busiest are shown
const TOGETHER = "together";

const stateOf = (host) => state(...(STATES[host.state] ?? ["idle", host.state]));
const whyOf = (host) => host.why || (host.state === "unknown" ? `last heard ${span(host.heard)} ago` : "");
const lagOf = ({ heads }) => Math.max(0, ...heads.map(({ lag }) => lag));

/** A link to the page of a host, where it can be reached. */
const pageOf = (host) =>
  host.page && !host.here
    ? h(
        "a",
        { href: host.page, target: "_blank", rel: "noopener noreferrer", "aria-label": `The page of ${host.name}` },
        "its page",
      )
    : "";

/** The head of one network, or how many there are of several; with what the host lacks. */
function headCell(host) {
  if (!host.heads?.length) return "";
  const lag = lagOf(host);
  const mark = h(
    "span",
    { class: host.state === "behind" ? "lag iswarn" : "lag quiet", title: "blocks that half of the hosts have more" },
    lag ? `−${lag}` : "",
  );
  return [mark, host.heads.length === 1 ? block(host.heads[0].head) : `${host.heads.length} networks`];
}

/** A figure of a host, which has none once it is not heard any more. */
const lately = (value) => (host) => (host.state === "silent" ? null : value(host));

const COLUMNS = [
  {
    title: "Host",
    cell: (host) => [
      h("span.name", { title: host.name }, host.name),
      host.here ? h("span.quiet.of", " (this one)") : "",
    ],
  },
  {
    title: "State",
    look: "elastic",
    cell: (host) =>
      host.state
        ? h("div.line", { title: whyOf(host) || null }, stateOf(host), whyOf(host) ? quiet(` · ${whyOf(host)}`) : "")
        : "",
  },
  numbers(
    "Calls",
    lately((host) => host.calls_per_second),
    rate,
  ),
  numbers(
    "Hit ratio",
    lately((host) => host.hit_ratio),
    percent,
    { fold: 5 },
  ),
  numbers(
    "Errors",
    lately((host) => host.error_ratio),
    percent,
    { fold: 6, hint: "of the calls that the proxy accepted" },
  ),
  { title: "Head", right: true, fold: 4, cell: headCell },
  {
    title: "Settings",
    right: true,
    fold: 2,
    hint: "number of the shared settings that it saw last",
    cell: (host) => (host.heads ? String(host.revision) : ""),
  },
  { title: "Version", right: true, fold: 3, cell: (host) => host.version ?? "" },
  numbers("Workers", (host) => host.workers, count, { fold: 1 }),
  { title: "", name: "Page", fold: 1, cell: pageOf },
];

function detail() {
  const element = h("div");
  const update = (host) =>
    redraw(
      element,
      host.heads
        ? [
            whyOf(host) ? h("p.reason", whyOf(host)) : null,
            h(
              "div.facts",
              facts("This run", [
                ["up for", span(host.uptime)],
                ["id", h("code", host.run)],
                ["miss p99", joined(duration(host.miss_p99))],
                ["page", pageOf(host) || (host.here ? "this one" : "not known")],
              ]),
              facts("Heads", [
                ...host.heads.map(({ network, head, lag }) => [network, `${block(head)}${lag ? ` (−${lag})` : ""}`]),
                host.networks > host.heads.length && [`and ${host.networks - host.heads.length} more, not told`, ""],
              ]),
            ),
          ]
        : facts("All that are heard", [
            ["hosts", String(host.hosts)],
            ["workers", String(host.workers)],
          ]),
    );
  return { element, update };
}

/** All hosts in their order, or those that need a look and then the busiest. */
function looked(hosts, all) {
  if (all || hosts.length <= MANY) return hosts;
  const rank = (host) => (host.here ? 0 : host.state === "well" ? 2 : 1);
  return [...hosts]
    .sort((one, two) => rank(one) - rank(two) || two.calls_per_second - one.calls_per_second)
    .slice(0, MANY);
}

/** What the head says. */
function saidOf({ note, unreadable, hosts, together }) {
  if (note) return state("warn", note);
  const foreign = unreadable ? ` · ${plural(unreadable, "entry", "entries")} of others in Redis not readable` : "";
  if (hosts.length < 2) return quiet(`no other host shares this Redis${foreign}`);
  const well = hosts.filter((host) => host.state === "well").length;
  const many =
    well === hosts.length ? `${plural(well, "host")}, all well` : `${well} of ${plural(hosts.length, "host")} well`;
  return quiet(`${many} · together ${joined(rate(together.calls_per_second))}${foreign}`);
}

/** The section takes no room where no Redis is shared, and a line where no other host is known. */
export function hostsSection() {
  const said = h("span");
  const table = new Table({ label: "Hosts", sortable: false, key: (host) => host.run, columns: COLUMNS, detail });
  let [all, last] = [false, null];
  const more = button("", () => {
    all = !all;
    update(last);
  });
  const element = section("Hosts", [said, more], table);
  element.classList.add("hosts");
  element.hidden = true;
  const update = (found) => {
    last = found;
    element.hidden = !found?.shared;
    if (!found?.shared) return;
    const { hosts, together } = found;
    redraw(said, saidOf(found));
    more.hidden = hosts.length <= MANY;
    setText(more, all ? "Those to look at" : `Show all ${hosts.length}`);
    table.element.hidden = hosts.length < 2;
    table.update(
      hosts.length < 2
        ? []
        : [
            ...looked(hosts, all),
            {
              ...together,
              run: TOGETHER,
              name: together.hosts === 1 ? "1 heard" : `${together.hosts} together`,
              here: false,
              revision: "",
            },
          ],
    );
  };
  return { element, update };
}
