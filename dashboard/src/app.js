// The page: which view is open, and the round of asking and showing.

import { Bar } from "./bar.js";
import { recolour, remark } from "./chart.js";
import { h, setAttribute } from "./dom.js";
import { Feed } from "./feed.js";
import { setMarks } from "./marks.js";
import { loginForm, logOut, session } from "./session.js";
import { store } from "./store.js";
import { liveButton, measureStrip, showLost, showNetworks, showRevision, themeButton } from "./strip.js";
import { VIEWS } from "./views/index.js";

const always = () => ({
  overview: { path: "overview", every: feed.streaming ? 4000 : 1000 },
  settings: { path: "settings", every: 10000, optional: true },
  changes: { path: "changes?limit=200", every: 10000, optional: true },
});
const main = document.getElementById("main");
let name = null;
let open = null; // what the view built, once its first documents are there
let user = null;

const chosen = () => {
  const wanted = location.hash.replace(/^#\//, "").split("/")[0];
  return Object.hasOwn(VIEWS, wanted) ? wanted : "overview";
};

const needs = () => ({ ...always(), ...(typeof VIEWS[name].needs === "function" ? VIEWS[name].needs() : VIEWS[name].needs) });

function choose() {
  if (chosen() === name) return;
  name = chosen();
  shut();
  for (const link of document.querySelectorAll(".rail a")) setAttribute(link, "aria-current", link.dataset.view === name ? "page" : null);
  document.querySelector(".rail a[aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  document.title = `${VIEWS[name].title} · rpcaccel`;
  scrollTo(0, 0);
  feed.stale(...Object.keys(needs()));
}

function shut() {
  open?.gone();
  open = null;
}

function show(documents) {
  if (!user || !Object.keys(needs()).every((need) => need in documents)) return; // the view changed while these were on their way
  showNetworks(documents.overview.networks);
  showRevision(documents.overview, documents.settings);
  if (documents.settings && documents.settings.revision < documents.overview.revision) feed.stale("settings", "changes");
  store.adopt(documents.settings);
  if (setMarks(documents.changes?.changes)) remark();
  if (open === null) {
    open = VIEWS[name].build(documents, feed);
    main.replaceChildren(...open.elements);
  }
  open.update(documents);
}

async function lost(since, problem) {
  showLost(since, problem?.status === 401 ? null : problem);
  if (problem?.status === 401) await enter();
}

/** Ask who is looking, and let nobody past who may not read. */
async function enter() {
  let found;
  try {
    found = await session();
  } catch (problem) {
    showLost(null, problem);
    setTimeout(enter, 1000);
    return;
  }
  if (found.required && !found.user) {
    user = null;
    feed.setPaused(true);
    shut();
    const form = loginForm(enter);
    main.replaceChildren(form.element);
    form.focus();
    showLost(null, null);
    return;
  }
  user = found;
  store.role = found.role ?? "read";
  const leave = document.getElementById("leave");
  leave.hidden = !found.required;
  leave.replaceChildren("Log out", h("span", { class: "wide" }, ` ${found.user}`));
  setAttribute(leave, "aria-label", `Log out ${found.user}`);
  if (feed.paused) feed.setPaused(false);
  else feed.wake();
}

const feed = new Feed({
  wanted: needs, told: show, lost,
  happened: (event) => event === "settings" && feed.stale("settings", "changes", "overview"),
});
const bar = new Bar(() => feed.documents);
document.body.append(bar.element);
store.listen(() => open?.drafted?.());

measureStrip();
themeButton(recolour);
liveButton((paused) => feed.setPaused(paused));
document.getElementById("leave").addEventListener("click", () => logOut().then(enter));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash names the view
  main.focus();
});
addEventListener("hashchange", choose);
addEventListener("beforeunload", (event) => store.drafts.size && event.preventDefault());
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.matches("input:not([type=range]), textarea, select")) return;
  const field = document.querySelector(".filter:not([hidden])");
  if (!field) return;
  event.preventDefault();
  field.focus();
});
choose();
enter();
