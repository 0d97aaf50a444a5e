// What settings are called, and the unit behind the field where the kind does not say it. A setting that is not here is
// called by its own name, so that none is ever missing.

const LABELS = {
  workers: ["Workers", "processes"], worker_timeout: ["A silent worker is replaced after"], drain_timeout: ["Time to finish at shutdown"],
  "memory.size": ["Memory for answers, per worker"], "memory.max_entry": ["Longest answer kept"],
  "redis.prefix": ["Prefix of keys"], "redis.read_timeout": ["Patience for a read"], "redis.write_timeout": ["Patience for a write"],
  "redis.connect_timeout": ["Patience to connect"], "redis.pool_size": ["Connections to each server"], "redis.queue": ["Writes that may wait", "writes"],
  "redis.compress_from": ["Compress values from"],
  "http.max_body": ["Longest request"], "http.max_batch": ["Largest batch", "calls"], "http.max_batch_answer": ["Longest answer to a batch"], "http.max_in_flight": ["Calls at once", "calls"], "http.max_header": ["Longest header"],
  "http.read_timeout": ["Patience for a request"], "http.write_timeout": ["Patience for a slow reader"], "http.max_unsent": ["Unsent answers"],
  "http.batch_at_once": ["Calls of a batch at nodes", "calls"], "http.keepalive": ["Idle connections are kept"], "http.gzip_from": ["Compress answers from"],
  "http.cors_origins": ["Origins of browsers"], "http.headers": ["Headers about the answer"], "http.deny": ["Methods refused"], "http.expose": ["Operators' methods taken"],
  "clients.require_key": ["A key is required"], "clients.heavy_cost": ["A heavy call counts as", "calls"], "clients.trusted_proxies": ["Proxies in front"],
  "clients.forwarded_header": ["Their header"],
  "clients.anonymous.rate": ["Rate", "calls/s"], "clients.anonymous.burst": ["At once after a pause", "calls"], "clients.anonymous.concurrency": ["In flight", "requests"],
  "clients.anonymous.batch": ["Largest batch", "calls"], "clients.anonymous.allow": ["Only these methods"], "clients.anonymous.deny": ["Not these methods"],
  "log.level": ["Level"], "log.format": ["Format"], "log.access": ["A line for each call"], "log.access_share": ["but for a share alone", "of requests"], "log.slow": ["A line for calls slower than"],
  "tracing.endpoint": ["Traces are sent to"], "tracing.sample": ["Requests that are traced", "of all"], "tracing.service": ["Name of the service"],
  "networks.*.attempts": ["Nodes asked for one call", "at most"], "networks.*.behind_attempts": ["More of them when one is behind", "at most"], "networks.*.deadline": ["Time for a call"],
  "networks.*.hedge.quantile": ["Hedge what is slower than", "of answers"], "networks.*.hedge.at_least": ["but not before"],
  "networks.*.budget.share": ["Retries and hedges", "of calls"], "networks.*.budget.floor": ["and in any case", "a second"],
  "networks.*.breaker.failures": ["Breaker opens after", "in a row"], "networks.*.breaker.ratio": ["or at a share of failures", "of calls"], "networks.*.breaker.volume": ["of at least", "calls"],
  "networks.*.breaker.rest": ["First rest"], "networks.*.breaker.rest_max": ["Longest rest"],
  "networks.*.outliers.factor": ["Outlier when slower by", "times"], "networks.*.outliers.by": ["and by at least"], "networks.*.outliers.share": ["Outliers at once", "of nodes"],
  "networks.*.outliers.rest": ["First time out"], "networks.*.slow_start": ["Slow start"],
  "networks.*.concurrency.least": ["Light calls at once on a node", "at least"], "networks.*.concurrency.heavy_wait": ["Wait of a heavy call"], "networks.*.concurrency.wait": ["Wait for a free place"], "networks.*.concurrency.waiting": ["Calls that may wait", "calls"],
  "networks.*.transactions.share": ["Transactions go to", "of nodes"], "networks.*.transactions.at_least": ["and to at least", "nodes"],
  "networks.*.balancer": ["Balancer"], "networks.*.hash_key": ["Hash key"],
  "networks.*.finality_depth": ["Blocks until final", "blocks"], "networks.*.block_time": ["Time between blocks"], "networks.*.hidden_lag": ["Lag a URL may hide"], "networks.*.refresh": ["Fetch again at a new head", "of node calls"],
  "networks.*.price": ["A million calls to nodes cost"],
  "networks.*.uniform_error_codes": ["Codes of nodes' errors made uniform"],
  "networks.*.ranges.enabled": ["Put ranges together"], "networks.*.ranges.segment": ["Logs kept together", "blocks"], "networks.*.ranges.divide_from": ["Divide from", "blocks"],
  "networks.*.nodes.*.weight": ["weight"], "networks.*.nodes.*.drain": ["drain"],
  "networks.*.nodes.*.tier": ["Tier"], "networks.*.nodes.*.tags": ["Tags"], "networks.*.nodes.*.roles": ["Roles"], "networks.*.nodes.*.max_heavy": ["Heavy calls at once", "calls"], "networks.*.nodes.*.gather": ["Light reads in batches"],
  "networks.*.nodes.*.timeout": ["Time for an attempt"], "networks.*.nodes.*.connect_timeout": ["Time to connect"], "networks.*.nodes.*.max_connections": ["Connections at once", "at most"],
  "networks.*.nodes.*.keepalive": ["Idle connections are kept"], "networks.*.nodes.*.warm": ["Opened at start", "connections"], "networks.*.nodes.*.max_answer": ["Longest answer"],
  "networks.*.nodes.*.quota.second": ["Quota of a second", "calls"], "networks.*.nodes.*.quota.day": ["Quota of a day", "calls"], "networks.*.nodes.*.quota.month": ["Quota of a month", "calls"],
  "networks.*.nodes.*.quota.heavy": ["A heavy call counts as", "calls"],
  "networks.*.ranges.max_pieces": ["Pieces of a range", "at most"], "networks.*.ranges.at_once": ["of them at once", "calls"],
};

/** [label, unit] of a path. */
export function label(path) {
  const [name, unit = ""] = LABELS[path] ?? [path.replace(/^networks\.\*\./, "").replaceAll(".", " · ").replaceAll("_", " ")];
  return { name, unit };
}
