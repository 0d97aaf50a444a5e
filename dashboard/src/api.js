// Questions to the admin API, and changes by it. Whatever goes wrong comes back as a Problem with a sentence.

const PATIENCE = 5000;
const EMPTY = 204;

/** What went wrong: `status` (0: no answer at all), `code` and `errors` as the API says them, `retryAfter` in seconds
 *  (0: the server says none), `message` for the eye. */
export class Problem extends Error {
  constructor(status, body = {}, retryAfter = 0) {
    super(body.detail || body.title || (status ? `the server answered ${status}` : "the server did not answer"));
    Object.assign(this, {
      status,
      code: body.code ?? "",
      errors: body.errors ?? [],
      revision: body.revision ?? null,
      retryAfter,
    });
  }
}

async function ask(path, options = {}) {
  let reply;
  try {
    reply = await fetch(`/api/v1/${path}`, {
      cache: "no-store",
      credentials: "same-origin",
      signal: AbortSignal.timeout(options.patience ?? PATIENCE),
      ...options,
      headers: { accept: "application/json", ...options.headers },
    });
  } catch {
    throw new Problem(0); // nothing came back at all: the page says so
  }
  const json = reply.headers.get("content-type")?.includes("json");
  const body = json ? await reply.json().catch(() => null) : {};
  if (!reply.ok) throw new Problem(reply.status, body ?? {}, Number(reply.headers.get("retry-after")) || 0);
  if (body === null) throw new Problem(0); // it broke off
  if (!json && reply.status !== EMPTY) throw new Problem(reply.status, { title: "what came is no answer of rpcaccel" });
  return body;
}

export const read = (path, options) => ask(path, options);

/** A change; `expected` is the revision it was made for. `text` is sent as it is.
 *  The header proves that a page of ours asks, and no other. */
export function change(method, path, body, { expected = null, patience = 15000, text = JSON.stringify(body) } = {}) {
  const headers = { "content-type": "application/json", "x-rpcaccel-request": "page" };
  if (expected !== null) headers["if-match"] = `"${expected}"`;
  return ask(path, { method, headers, patience, body: text });
}
