"""A worker: takes calls over HTTP, answers what it can at once, fetches the rest from the nodes."""
