// The page: which view is open, and the round of asking and showing.

import { Bar } from "./bar.js";
import { recolour, remark, setMarks } from "./chart.js";
import { h, leave, present, setAttribute } from "./dom.js";
import { Feed } from "./feed.js";
import { logOut, loginForm, session } from "./session.js";
import { store } from "./store.js";
import {
  liveButton,
  measureStrip,
  othersButton,
  showLost,
  showNetworks,
  showNobody,
  showRevision,
  themeButton,
} from "./strip.js";
import { cache } from "./views/cache.js";
import { changes } from "./views/changes.js";
import { clients } from "./views/clients.js";
import { errors } from "./views/errors.js";
import { explain } from "./views/explain.js";
import { methods } from "./views/methods.js";
import { nodes } from "./views/nodes.js";
import { overview } from "./views/overview.js";
import { settings } from "./views/settings.js";
import { forgetNodes, start } from "./views/start.js";

/** { title, needs, build(documents, feed) -> { elements, update?(documents), at?(place) } } by name; `update` is called
 *  each second, and when something was collected for the settings or applied. */
const VIEWS = { overview, methods, nodes, cache, clients, explain, errors, settings, changes, start };

const always = () => ({
  overview: { path: "overview", every: feed.streaming ? 4000 : 1000 },
  settings: { path: "settings", every: 10000, optional: true },
  changes: { path: "changes?limit=200", every: 10000, optional: true },
});
const main = document.getElementById("main");
let name = null;
let open = null; // what the view built, once its first documents are there
let made = null; // and what for
let user = null;

/** Without a network, the first steps stand in the place of every view. */
const chosen = () => {
  if (feed.documents.overview?.networks.length === 0) return "start";
  const wanted = location.hash.replace(/^#\//, "").split("/")[0];
  return Object.hasOwn(VIEWS, wanted) ? wanted : "overview";
};

/** What the address names within its view: #/settings/log */
const place = () => location.hash.split("/")[2] ?? null;

const needs = () => ({
  ...always(),
  ...(typeof VIEWS[name].needs === "function" ? VIEWS[name].needs() : VIEWS[name].needs),
});

function choose() {
  if (chosen() === name) {
    if (place()) open?.at?.(place());
    return;
  }
  name = chosen();
  shut();
  for (const link of document.querySelectorAll(".rail a"))
    setAttribute(link, "aria-current", link.dataset.view === (name === "start" ? "overview" : name) ? "page" : null);
  document.title = `${VIEWS[name].title} · rpcaccel`;
  scrollTo(0, 0);
  if (user || !feed.paused) feed.turn(...Object.keys(needs())); // nothing is asked for while somebody logs in
}

function shut() {
  leave(main);
  open = null;
}

/** What a view is built for: another server may serve other networks at the same address, or let nothing be changed. */
function servedBy({ overview, settings }) {
  const inForce = settings?.document;
  return JSON.stringify([
    overview.networks.map(({ network }) => network),
    inForce && Object.keys(inForce.networks),
    Boolean(inForce?.disk?.path),
    Boolean(inForce?.redis?.url),
    overview.settings.listen,
    store.role,
  ]);
}

function show(documents) {
  if (!user || !Object.keys(needs()).every((need) => need in documents)) return; // the view changed while these were on their way
  showNetworks(documents.overview.networks);
  showRevision(documents.overview, documents.settings);
  if (chosen() !== name) return choose();
  if (documents.settings && documents.settings.revision < documents.overview.revision)
    feed.stale("settings", "changes");
  if (made !== servedBy(documents)) shut(); // before the settings are adopted, of which the view hears
  store.adopt(documents.settings, feed.readAt.settings);
  store.hear(documents.changes?.changes);
  if (setMarks(documents.changes?.changes)) remark();
  if (open === null) {
    made = servedBy(documents);
    open = VIEWS[name].build(documents, feed);
    main.replaceChildren(h("h1.unseen", VIEWS[name].title), ...present(open.elements)); // its sections stand below it
    if (place()) open.at?.(place());
  }
  open.update?.(documents);
}

async function lost(since, problem) {
  if (!user && problem === null) return; // it is not known yet who looks
  tellLost(since, problem?.status === 401 ? null : problem);
  if (problem?.status === 401) await enter();
}

function tellLost(since, problem) {
  showLost(since, problem);
  live.lost(problem !== null);
}

/** Ask who is looking, and let nobody past who may not read. */
async function enter() {
  let found;
  try {
    found = await session();
  } catch (problem) {
    tellLost(null, problem);
    setTimeout(enter, 1000);
    return;
  }
  if (found.required && !found.user) {
    user = null;
    feed.setPaused(true);
    live.shown(false);
    forgetNodes();
    shut();
    showNetworks([]);
    showNobody();
    store.become("read"); // nobody may change anything until it is known who looks
    if (!main.querySelector("form.login")) {
      // what somebody types stays, whichever question was answered late
      const form = loginForm(enter);
      main.replaceChildren(form.element);
      form.focus();
    }
    tellLost(null, null);
    return;
  }
  user = found;
  store.become(found.role ?? "read");
  const leave = document.getElementById("leave");
  leave.hidden = !found.required;
  leave.replaceChildren("Log out", h("span.wide", ` ${found.user}`));
  setAttribute(leave, "aria-label", `Log out ${found.user}`);
  live.shown(true);
  if (feed.paused && !live.paused) feed.setPaused(false);
  else feed.wake();
}

const feed = new Feed({
  wanted: needs,
  told: show,
  lost,
  happened: (event) => event === "settings" && feed.stale("settings", "changes", "overview"),
});
const live = liveButton((paused) => feed.setPaused(paused));
const bar = new Bar(() => feed.documents);
document.body.append(bar.element);
store.listen(() => open?.update?.(feed.documents));
store.answered = () => feed.stale("settings", "changes", "overview"); // whoever has changed them, and with or without a stream

measureStrip();
othersButton();
themeButton(recolour);
document.getElementById("leave").addEventListener("click", () => {
  store.discard();
  logOut()
    .catch(() => {})
    .then(enter); // whether it was heard, the session says
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash names the view
  main.focus();
});
addEventListener("hashchange", choose);
addEventListener("beforeunload", (event) => store.drafts.size && event.preventDefault());
addEventListener("keydown", (event) => {
  if (
    event.key !== "/" ||
    event.ctrlKey ||
    event.metaKey ||
    event.target.matches("input:not([type=range]), textarea, select")
  )
    return;
  const field = document.querySelector(".filter:not([hidden])");
  if (!field) return;
  event.preventDefault();
  field.focus();
});
feed.setPaused(true); // until it is known who looks
choose();
enter();
