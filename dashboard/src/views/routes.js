// Routes of a network: methods that go to tagged nodes and to no others, in the order in which they are tried.

import { dotted } from "../described.js";
import { h, redraw, setText } from "../dom.js";
import { atEnd, button, foldedForm, input, options, quiet, select } from "../parts.js";
import { store } from "../store.js";
import { meant, written } from "../units.js";
import { routeMore } from "../wording.js";

/** The tags that nodes of a network have, or will have once the collected changes are applied. */
function tagsOf(network) {
  const nodes = ["networks", network, "nodes"];
  const stay = Object.keys(store.inForce(nodes) ?? {}).filter((id) => store.value([...nodes, id]) !== null);
  return [...new Set(stay.flatMap((id) => store.value([...nodes, id, "tags"]) ?? []))].sort();
}

const methodsField = (label) =>
  input(label, { class: "field long", spellcheck: "false", placeholder: "*_getLogs, trace_*" });
const fieldsOf = (methods, tag) => [h("label.grow", "methods", methods), h("label", "go to nodes tagged", tag)];

/** Does a signed transaction go this way? */
const sends = ({ methods, broadcast }) =>
  broadcast === false || methods.some((one) => /send|^(eth_|hmy\w*_)?\*$/i.test(one));

/** What a route says besides methods and tag; `change(members)`. */
function moreFields(index, change) {
  const number = (label, least) =>
    input(label, { class: "field few", type: "number", min: String(least), step: "1", inputmode: "numeric" });
  const agree = number(`Agreeing answers of route ${index + 1}`, 1);
  const whom = select(`A transaction of route ${index + 1} goes to`, [
    ["all", "all of them"],
    ["one", "one of them alone"],
  ]);
  const fallback = number(`Blocks after which a transaction of route ${index + 1} goes to others`, 0);
  agree.addEventListener("input", () => change({ agree: meant("whole", agree.value) }));
  whom.addEventListener("change", () =>
    change(whom.value === "all" ? { broadcast: true, fallback: 0 } : { broadcast: false }),
  );
  fallback.addEventListener("input", () => change({ fallback: meant("whole", fallback.value) }));
  const sent = h("label", "a transaction to", whom);
  const later = h("label", "sent as others are after", fallback, "blocks (0: never)");
  return {
    fields: [h("label", { title: "of a read" }, "equal answers wanted", agree), sent, later],
    update: (route) => {
      if (document.activeElement !== agree) agree.value = written("whole", route.agree ?? 1);
      whom.value = route.broadcast === false ? "one" : "all";
      if (document.activeElement !== fallback) fallback.value = written("whole", route.fallback ?? 0);
      sent.hidden = !sends(route);
      later.hidden = route.broadcast !== false;
    },
  };
}

/** One route; `change(index, made)` puts another in its place, null takes it away; `earlier(index)` has it tried before
 *  the one above. */
function routeRow(network, index, { change, earlier }) {
  const place = `${dotted(["networks", network])}.routes[${index}]`;
  const [methods, tag] = [methodsField(`Methods of route ${index + 1}`), select(`Tag of route ${index + 1}`, [])];
  const fault = h("p.isbad.fault", { role: "alert" });
  methods.addEventListener("input", () => change(index, { methods: meant("list", methods.value) }));
  tag.addEventListener("change", () => change(index, { tag: tag.value }));
  const more = moreFields(index, (members) => change(index, members));
  const up = index ? button("Earlier", () => earlier(index), { "aria-label": `Try route ${index + 1} earlier` }) : null;
  const element = h(
    "div.route",
    fieldsOf(methods, tag),
    more.fields,
    h(
      "div.buttons.tight",
      up,
      button("Remove", () => change(index, null), { "aria-label": `Remove route ${index + 1}` }),
    ),
    fault,
  );
  return {
    element,
    update: (route) => {
      if (document.activeElement !== methods) methods.value = written("list", route.methods);
      redraw(tag, options([...new Set([...tagsOf(network), route.tag])]));
      tag.value = route.tag;
      more.update(route);
      const wrong = store.fault(place);
      setText(fault, wrong ?? "");
      methods.setAttribute("aria-invalid", String(wrong !== null));
    },
  };
}

function routeForm(network, add) {
  const [methods, tag] = [methodsField("Methods of a new route"), select("Tag of a new route", [])];
  methods.required = true;
  const submit = () => {
    add({ methods: meant("list", methods.value), tag: tag.value });
    return true;
  };
  const { form, open } = foldedForm({ title: "Add a route", look: "route", fields: fieldsOf(methods, tag), submit });
  return {
    form,
    open,
    update: (tags) => {
      redraw(tag, options(tags));
      open.hidden = !tags.length || !form.hidden;
    },
  };
}

const toldRoute = (route) =>
  h("p.route", h("b.code", route.methods.join(", ")), ` go to nodes tagged ${route.tag}${routeMore(route)}`);

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
  const hold = h("div");
  const { form, open, update: offer } = routeForm(network, (made) => set([...routes(), made]));
  const none = h("p.route.quiet");
  const box = h("div.settings", hold, none, form);
  const element = h(
    "section.group",
    h(
      "div.head",
      h("h3", { tabindex: "-1" }, "Routes"),
      quiet("methods that go to tagged nodes and to no others; the first that fits decides"),
      atEnd(open),
    ),
    box,
  );
  let rows = [];
  const update = () => {
    const [now, tags] = [routes(), tagsOf(network)];
    box.classList.toggle("drafted", store.changed(path));
    if (!store.writable) {
      rows = [];
      redraw(hold, now.map(toldRoute));
    } else if (rows.length !== now.length) {
      rows = now.map((_, index) => routeRow(network, index, acts));
      hold.replaceChildren(...rows.map((row) => row.element));
    }
    rows.forEach((row, index) => row.update(now[index]));
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
