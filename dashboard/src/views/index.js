// The views: each says which documents it needs, builds its elements once, and is updated each second.

import { cache } from "./cache.js";
import { changes } from "./changes.js";
import { clients } from "./clients.js";
import { errors } from "./errors.js";
import { explain } from "./explain.js";
import { methods } from "./methods.js";
import { nodes } from "./nodes.js";
import { overview } from "./overview.js";
import { settings } from "./settings.js";

/** { title, needs, build(documents, feed) -> { elements, update(documents), drafted?(), at?(place), gone() } } by name. */
export const VIEWS = { overview, methods, nodes, cache, clients, explain, errors, settings, changes };
