// Who is looking: nobody needs to log in where there are no accounts.

import { change, read } from "./api.js";
import { h, setText } from "./dom.js";

const PATIENCE = 90000; // the server may hold the answer to a wrong password for 45 s when many come

/** {required, user, role}; where the server knows no accounts, whoever looks may change. */
export async function session() {
  try {
    const found = await read("session");
    return { ...found, known: true };
  } catch (problem) {
    if (problem.status === 404) return { required: false, user: null, role: "admin", known: false };
    throw problem;
  }
}

/** A form to log in; `entered()` when it went well. */
export function loginForm(entered) {
  const user = h("input.field", { name: "user", autocomplete: "username", required: true });
  const password = h("input.field", {
    name: "password",
    type: "password",
    autocomplete: "current-password",
    required: true,
  });
  const word = h("p.isbad", { role: "alert" });
  const button = h("button.primary", { type: "submit" }, "Log in");
  const form = h(
    "form.login",
    h("h1", "Log in"),
    h("label", "User", user),
    h("label", "Password", password),
    word,
    button,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await change("POST", "session", { user: user.value, password: password.value }, { patience: PATIENCE });
      entered();
    } catch (problem) {
      setText(word, refusal(problem));
      password.select();
    } finally {
      button.disabled = false;
    }
  });
  return { element: form, focus: () => user.focus() };
}

function refusal({ status, message, retryAfter }) {
  if (status === 401) return "User or password is wrong.";
  if (status === 429) return `Not tried: too many others are logging in. Try again in ${retryAfter || 1} s.`;
  return message;
}

export const logOut = () => change("DELETE", "session");
