// The strip that never moves: networks with head and age, revision, live or paused, theme; and the word when all is
// lost.

import { h, redraw, setAttribute, setText } from "./dom.js";
import { block, moment, plural, span } from "./format.js";
import { networkState } from "./parts.js";

const byId = (id) => document.getElementById(id);
const THEMES = ["system", "light", "dark"];

/** What sticks below the strip has to know its height. */
export function measureStrip() {
  const strip = document.querySelector(".strip");
  new ResizeObserver(() => document.documentElement.style.setProperty("--strip", `${strip.offsetHeight}px`)).observe(
    strip,
  );
}

export function showNetworks(networks) {
  const list = byId("networks");
  const chips = new Map([...list.children].map((chip) => [chip.dataset.network, chip]));
  const shown = networks.map((network) => {
    const chip = chips.get(network.network) ?? h("li.chip", { "data-network": network.network });
    const late = network.age !== null && network.age > Math.max(10 * (network.block_time ?? 12), 15);
    redraw(chip, [
      h("b", network.network),
      h("span", { title: "served head" }, block(network.head)),
      h(
        "span",
        { class: late ? "iswarn" : "quiet", title: "since the head last moved" },
        network.age === null ? "head not known" : `${span(network.age)} old`,
      ),
      networkState(network),
    ]);
    return chip;
  });
  if (shown.length !== list.children.length || shown.some((chip, index) => chip !== list.children[index]))
    list.replaceChildren(...shown);
}

/** On a phone, the views that have no place in the bar at the bottom. */
export function othersButton() {
  const button = byId("others");
  const rail = button.parentElement;
  const show = (open) => {
    rail.classList.toggle("open", open);
    setAttribute(button, "aria-expanded", String(open));
  };
  button.addEventListener("click", () => show(!rail.classList.contains("open")));
  addEventListener("hashchange", () => show(false));
  addEventListener("pointerdown", (event) => rail.contains(event.target) || show(false));
  rail.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !rail.classList.contains("open")) return;
    show(false);
    button.focus();
  });
}

/** Nobody is logged in: nothing is told about what runs. */
export function showNobody() {
  redraw(byId("revision"));
  byId("revision").hidden = true; // a link without a word says nothing to who listens
  byId("revision").removeAttribute("title");
  byId("leave").hidden = true;
}

export function showRevision({ revision, workers }, settings) {
  const there = settings ? settings.adopted : workers.filter((worker) => worker.revision === revision).length;
  const all = settings ? settings.workers.length : workers.length;
  const line = byId("revision");
  line.hidden = false;
  redraw(
    line,
    workers.length
      ? [
          `revision ${revision}`,
          h("span", { class: there < all ? null : "wide" }, ` · ${there} of ${plural(all, "worker")}`),
        ]
      : "no worker",
  );
  line.classList.toggle("iswarn", there < all);
  setAttribute(
    line,
    "title",
    `The settings have revision ${revision}; ${there} of ${plural(all, "worker")} ${there === 1 ? "has" : "have"} it. Opens the changes.`,
  );
}

/** Whether the figures go on, are held, or cannot: `lost(true)` and `shown(false)` say so, `paused` is what was
 *  chosen. */
export function liveButton(changed) {
  const button = byId("live");
  const now = {
    paused: false,
    away: false,
    lost: (away) => show({ away }),
    shown: (there) => {
      button.hidden = !there;
    },
  };
  const show = (news) => {
    Object.assign(now, news);
    setText(button, now.paused ? "❚❚ Paused" : now.away ? "✖ No answer" : "● Live");
    setAttribute(button, "aria-pressed", String(now.paused));
    setAttribute(button, "title", now.paused ? "Go on with live figures" : "Hold these figures still");
  };
  button.addEventListener("click", () => {
    show({ paused: !now.paused });
    changed(now.paused);
  });
  show({});
  return now;
}

export function themeButton(changed) {
  const button = byId("theme");
  const { theme } = globalThis; // theme.js has set the colours before the first paint
  const show = () => {
    theme.show();
    button.replaceChildren("◐", h("span.wide", ` ${theme.chosen}`));
    setAttribute(button, "aria-label", `Theme: ${theme.chosen}`);
    setAttribute(button, "title", "Colours: as the system has them, light, dark");
    changed();
  };
  button.addEventListener("click", () => {
    theme.choose(THEMES[(THEMES.indexOf(theme.chosen) + 1) % THEMES.length]);
    show();
  });
  theme.dark.addEventListener("change", show);
  show();
}

export function showLost(since, problem) {
  const line = byId("lost");
  line.hidden = problem === null;
  document.documentElement.classList.toggle("stale", problem !== null);
  if (problem === null) return;
  const figures = since === null ? "Nothing has been read yet." : `The figures below are from ${moment(since / 1000)}.`;
  setText(
    line,
    `${problem.status ? `No figures from ${location.host}: ${problem.message}` : `No answer from ${location.host}`}. ${figures} Trying again each second.`,
  );
}
