// API keys: a new one is shown once, and lets its holder in when the change is applied.

import { change } from "../api.js";
import { h, setText } from "../dom.js";
import { button, copyButton, quiet } from "../parts.js";
import { store } from "../store.js";

const KEYS = ["clients", "keys"];

/** Ask for a key, and collect its hash for `name`: {key, hash}; the key itself is for the holder alone. */
async function collect(name) {
  const made = await change("POST", "keys", {});
  const { hash } = made;
  const path = [...KEYS, name];
  if (store.inForce(path)) store.set([...path, "hashes"], [...(store.value([...path, "hashes"]) ?? []), hash]);
  else store.set(path, { ...(store.value(path) ?? {}), hashes: [...(store.value(path)?.hashes ?? []), hash] });
  return made;
}

/** One new key, until it is done with. */
function shownKey(name, { key: made, hash }) {
  const key = h("code", { tabindex: "0" }, made);
  const when = h("span");
  const element = h(
    "div",
    { class: "note once", role: "status" },
    h("p", {}, "The key of ", h("b", {}, name), ". It is shown this once, and ", when),
    key,
    h(
      "div",
      { class: "buttons" },
      copyButton(made),
      button("Done", () => element.remove()),
    ),
  );
  const update = () =>
    setText(
      when,
      store.inForce([...KEYS, name, "hashes"])?.includes(hash)
        ? "works now:"
        : "works as soon as the change below is applied:",
    );
  return { element, update, focus: () => key.focus() };
}

/** Where new keys are shown, once: a second one leaves the first in sight. */
export function shownOnce() {
  const element = h("div");
  let shown = [];
  const update = () => {
    shown = shown.filter((one) => one.element.isConnected);
    for (const one of shown) one.update();
  };
  return {
    element,
    update,
    show: (name, made) => {
      const one = shownKey(name, made);
      element.append(one.element);
      shown.push(one);
      update();
      one.focus();
    },
  };
}

/** A form for a new holder. */
export function newHolder(once) {
  const name = h("input", {
    class: "field",
    required: true,
    placeholder: "my-dapp",
    pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*",
    maxlength: "64",
    autocomplete: "off",
    "aria-label": "Name of the holder",
  });
  const word = h("span", { class: "isbad", role: "alert" });
  const open = button("Make a key", () => {
    form.hidden = false;
    open.hidden = true;
    name.focus();
  });
  const shut = () => {
    form.hidden = true;
    open.hidden = false;
    form.reset();
    setText(word, "");
  };
  const form = h(
    "form",
    { class: "inline", hidden: true },
    h("label", {}, "for", name),
    h("button", { type: "submit", class: "plain" }, "Make"),
    button("Cancel", shut),
    quiet("the name is what metrics and this page show"),
    word,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (store.value([...KEYS, name.value])) return setText(word, `There is a client ${name.value} already.`);
    try {
      once.show(name.value, await collect(name.value));
      return shut();
    } catch (problem) {
      return setText(word, problem.message);
    }
  });
  return { open, form };
}

/** What can be done to a holder: another key, keys off and on, removal. */
export function holderButtons(name, once) {
  const path = [...KEYS, name];
  const word = h("span", { class: "isbad", role: "alert" });
  const more = button("Another key", async () => {
    try {
      once.show(name, await collect(name));
    } catch (problem) {
      setText(word, problem.message);
    }
  });
  const toggle = button("", () => store.set([...path, "enabled"], store.value([...path, "enabled"]) === false));
  const remove = button("", () => store.set(path, store.value(path) === null ? store.inForce(path) : null), {
    class: "plain danger",
  });
  const element = h("div", { class: "buttons" }, more, toggle, remove, word);
  return {
    element,
    update: () => {
      element.hidden = !store.writable || !store.inForce(path);
      setText(toggle, store.value([...path, "enabled"]) === false ? "Enable its keys" : "Disable its keys");
      setText(remove, store.value(path) === null ? "Do not remove" : "Remove");
      toggle.classList.toggle("drafted", store.changed([...path, "enabled"]));
      more.disabled = toggle.disabled = store.value(path) === null;
    },
  };
}
