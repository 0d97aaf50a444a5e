// The tiers of the cache, as the settings have them.

import { store } from "./store.js";

const SWITCH = { disk: ["disk", "path"], redis: ["redis", "url"] };

/** Is there this tier? */
export const has = (tier) => tier === "memory" || Boolean(store.inForce(SWITCH[tier]));

/** The names of the tiers, in the order in which a call asks them. */
export const tiers = () => ["memory", "disk", "redis"].filter(has);

/** "a", "a and b", "a, b and c" */
export const listed = (words, last = "and") =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`;
