// Routes of a network: methods that go to tagged nodes and to no others, in the order in which they are tried.

import { dotted } from "../described.js";
import { h, redraw, setText } from "../dom.js";
import { button, quiet } from "../parts.js";
import { store } from "../store.js";
import { meant, written } from "../units.js";

/** The tags that nodes of a network have, or will have once the collected changes are applied. */
function tagsOf(network) {
  const nodes = ["networks", network, "nodes"];
  const stay = Object.keys(store.inForce(nodes) ?? {}).filter((id) => store.value([...nodes, id]) !== null);
  return [...new Set(stay.flatMap((id) => store.value([...nodes, id, "tags"]) ?? []))].sort();
}

function tagField(label) {
  const select = h("select", { class: "field", "aria-label": label });
  const show = (tags) =>
    redraw(select, JSON.stringify(tags), () => tags.map((tag) => h("option", { value: tag }, tag)));
  return { select, show };
}

const methodsField = (label) =>
  h("input", {
    class: "field long",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "*_getLogs, trace_*",
    "aria-label": label,
  });

/** One route; `change(index, made)` puts another in its place, null takes it away; `earlier(index)` has it tried before the one above. */
function routeRow(network, index, { change, earlier }) {
  const place = `${dotted(["networks", network])}.routes[${index}]`;
  const [methods, tag] = [methodsField(`Methods of route ${index + 1}`), tagField(`Tag of route ${index + 1}`)];
  const fault = h("p", { class: "isbad fault", role: "alert" });
  methods.addEventListener("input", () => change(index, { methods: meant("list", methods.value) }));
  tag.select.addEventListener("change", () => change(index, { tag: tag.select.value }));
  const up = index ? button("Earlier", () => earlier(index), { "aria-label": `Try route ${index + 1} earlier` }) : null;
  const element = h(
    "div",
    { class: "route" },
    h("label", { class: "grow" }, "methods", methods),
    h("label", {}, "go to nodes tagged", tag.select),
    h(
      "div",
      { class: "buttons tight" },
      up,
      button("Remove", () => change(index, null), { "aria-label": `Remove route ${index + 1}` }),
    ),
    fault,
  );
  return {
    element,
    update: (route) => {
      if (document.activeElement !== methods) methods.value = written("list", route.methods);
      tag.show([...new Set([...tagsOf(network), route.tag])]);
      tag.select.value = route.tag;
      const wrong = store.fault(place);
      setText(fault, wrong ?? "");
      methods.setAttribute("aria-invalid", String(wrong !== null));
    },
  };
}

function routeForm(network, add) {
  const [methods, tag] = [methodsField("Methods of a new route"), tagField("Tag of a new route")];
  methods.required = true;
  const form = h(
    "form",
    { class: "route", hidden: true },
    h("label", { class: "grow" }, "methods", methods),
    h("label", {}, "go to nodes tagged", tag.select),
    h(
      "div",
      { class: "buttons tight" },
      h("button", { type: "submit", class: "plain" }, "Add to the pending changes"),
      button("Cancel", () => show(false)),
    ),
  );
  const open = button("Add a route", () => show(true));
  const show = (shown) => {
    form.hidden = !shown;
    open.hidden = shown;
    if (shown) methods.focus();
    else form.reset();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    add({ methods: meant("list", methods.value), tag: tag.select.value });
    show(false);
  });
  return {
    form,
    open,
    update: (tags) => {
      tag.show(tags);
      open.hidden = !tags.length || !form.hidden;
    },
  };
}

export function routesGroup(network) {
  const path = ["networks", network, "routes"];
  const routes = () => store.value(path) ?? [];
  const set = (wanted) => {
    store.set(path, wanted);
    store.check();
  };
  const acts = {
    change: (index, made) =>
      set(made === null ? routes().toSpliced(index, 1) : routes().toSpliced(index, 1, { ...routes()[index], ...made })),
    earlier: (index) =>
      set(
        routes()
          .toSpliced(index, 1)
          .toSpliced(index - 1, 0, routes()[index]),
      ),
  };
  const hold = h("div", {});
  const { form, open, update: offer } = routeForm(network, (made) => set([...routes(), made]));
  const none = h("p", { class: "route quiet" });
  const box = h("div", { class: "settings" }, hold, none, form);
  const element = h(
    "section",
    { class: "group" },
    h(
      "div",
      { class: "head" },
      h("h3", { tabindex: "-1" }, "Routes"),
      quiet("methods that go to tagged nodes and to no others; the first that fits decides"),
      h("span", { class: "end" }, open),
    ),
    box,
  );
  let rows = [];
  const draw = () => {
    rows = routes().map((_, index) => routeRow(network, index, acts));
    return rows.map((row) => row.element);
  };
  const update = () => {
    const [now, tags] = [routes(), tagsOf(network)];
    box.classList.toggle("drafted", store.changed(path));
    redraw(hold, store.writable ? String(now.length) : JSON.stringify(now), () =>
      store.writable
        ? draw()
        : now.map(({ methods, tag }) =>
            h("p", { class: "route" }, h("b", { class: "code" }, methods.join(", ")), ` go to nodes tagged ${tag}`),
          ),
    );
    if (store.writable) rows.forEach((row, index) => row.update(now[index]));
    offer(store.writable ? tags : []);
    none.hidden = now.length > 0 || !form.hidden;
    setText(
      none,
      tags.length || !store.writable
        ? "None: every node may be asked for every method."
        : "None: every node may be asked for every method. To make one, give a node a tag first: open it in Nodes.",
    );
  };
  update();
  return {
    title: "Routes",
    element,
    update,
    filter: (needle) => {
      const shown = `routes methods tags ${path.join(".")} ${JSON.stringify(routes())}`.toLowerCase().includes(needle);
      element.hidden = !shown;
      return Number(shown);
    },
  };
}
