"""The table of all metrics: their names, kinds, helps, labels, and the members that hold their values."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Exposed(Struct, frozen=True):
    """One metric as Prometheus sees it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    value: str = ""
    """The member that holds the value, of whatever the labels name: a node, a tier, a network, a client; without
    labels, the snapshot. A member that is a table has a sample for each of its keys, which are the last label. Empty
    where the value is not just a member."""


_NODE = ("network", "node")

EXPOSED: tuple[Exposed, ...] = (
    Exposed("rpcaccel_build_info", "gauge", "Always 1; the labels say what runs.", ("version", "python")),
    Exposed("rpcaccel_workers", "gauge", "Worker processes that run."),
    Exposed("rpcaccel_workers_replaced_total", "counter", "Workers replaced because they died or were unresponsive.",
            ("reason",)),
    Exposed("rpcaccel_requests_total", "counter", "HTTP requests that carried JSON-RPC.", value="requests"),
    Exposed("rpcaccel_batches_total", "counter", "Requests that were a batch.", value="batches"),
    Exposed("rpcaccel_request_bytes_total", "counter", "Bytes of JSON-RPC received.", value="bytes_in"),
    Exposed("rpcaccel_refusals_total", "counter", "Refused before it was a call of any method.", ("reason",),
            value="refusals"),
    Exposed("rpcaccel_calls_in_flight", "gauge", "Calls accepted and not yet answered.", value="in_flight"),
    Exposed("rpcaccel_client_connections", "gauge", "Connections of clients that are open.", value="connections"),
    Exposed("rpcaccel_client_calls_total", "counter", "Calls by holder of an API key, refused ones included.",
            ("client",), value="calls"),
    Exposed("rpcaccel_client_errors_total", "counter",
            "Errors of calls of a holder of an API key: by fault of the service, or of the client itself.",
            ("client", "fault")),
    Exposed("rpcaccel_client_limited_total", "counter", "Calls and requests refused to a holder of an API key.",
            ("client", "reason"), value="limited"),
    Exposed("rpcaccel_client_in_flight", "gauge", "Requests of a holder of an API key under way.", ("client",),
            value="in_flight"),
    Exposed("rpcaccel_limits_alone_total", "counter", "Times a worker limited clients without knowing the others.",
            value="limits_alone"),
    Exposed("rpcaccel_calls_total", "counter", "Calls by how they ended: ok, error, client_error, refused.",
            ("network", "method", "outcome")),
    Exposed("rpcaccel_call_seconds", "histogram", "Time to answer a call, by where the answer came from.",
            ("network", "method", "source")),
    Exposed("rpcaccel_result_bytes_total", "counter", "Bytes of results sent to clients.", ("network", "method")),
    Exposed("rpcaccel_cache_answers_total", "counter", "Answers by cache class and where they came from.",
            ("network", "class", "source")),
    Exposed("rpcaccel_cache_misses_total", "counter", "Calls the cache could not answer, by reason.",
            ("network", "class", "reason")),
    Exposed("rpcaccel_cache_skips_total", "counter", "Fetched answers that were not kept, by reason.",
            ("network", "class", "reason")),
    Exposed("rpcaccel_cache_refreshes_total", "counter", "Answers fetched again when the head moved, unasked.",
            ("network", "class")),
    Exposed("rpcaccel_step_seconds", "histogram", "Time spent in one stage of a call.", ("step",),
            value="steps"),
    Exposed("rpcaccel_tier_up", "gauge", "1 when every worker reaches the cache tier.", ("tier",), value="up"),
    Exposed("rpcaccel_tier_entries", "gauge", "Answers held by the cache tier.", ("tier",), value="entries"),
    Exposed("rpcaccel_tier_bytes", "gauge", "Bytes held by the cache tier, keys and overheads included.", ("tier",),
            value="bytes"),
    Exposed("rpcaccel_tier_limit_bytes", "gauge", "Bytes the cache tier may hold; 0 when not limited here.", ("tier",),
            value="limit"),
    Exposed("rpcaccel_tier_lookups_total", "counter", "Lookups in the cache tier: hit or miss.", ("tier", "result")),
    Exposed("rpcaccel_tier_stored_total", "counter", "Answers written to the cache tier.", ("tier",), value="stored"),
    Exposed("rpcaccel_tier_removed_total", "counter", "Answers that left: evicted, expired (memory), purged.",
            ("tier", "reason")),
    Exposed("rpcaccel_tier_failures_total", "counter", "Failures of the tier: too-large, error, timeout, dropped.",
            ("tier", "reason")),
    Exposed("rpcaccel_head_block", "gauge", "Served head of the network.", ("network",)),
    Exposed("rpcaccel_head_age_seconds", "gauge", "Time since the served head moved.", ("network",)),
    Exposed("rpcaccel_forced_calls_total", "counter", "Calls no node was fit for: the least bad was asked.",
            ("network",), value="forced"),
    Exposed("rpcaccel_busy_calls_total", "counter", "Calls refused because every node had as many as it may have.",
            ("network",), value="busy"),
    Exposed("rpcaccel_waiting_calls", "gauge", "Calls that wait for a node to have room.", ("network",),
            value="in_room"),
    Exposed("rpcaccel_unpaid_retries_total", "counter", "Retries that the budget forbade.", ("network",),
            value="unpaid"),
    Exposed("rpcaccel_broadcasts_total", "counter", "Transactions sent: accepted, known, refused or failed.",
            ("network", "end"), value="broadcasts"),
    Exposed("rpcaccel_broadcast_nodes_total", "counter", "Nodes told of a transaction, by the same ends.",
            ("network", "end"), value="told"),
    Exposed("rpcaccel_node_head_block", "gauge", "Newest block of the node.", _NODE),
    Exposed("rpcaccel_node_lag_blocks", "gauge", "Blocks the node lacks now; a new one takes a moment.", _NODE),
    Exposed("rpcaccel_node_weight", "gauge", "Weight of the node in the settings.", _NODE),
    Exposed("rpcaccel_node_eligible", "gauge", "1 when the node takes its share of the calls.", _NODE),
    Exposed("rpcaccel_node_calls_total", "counter", "Attempts sent to the node, repeated ones included.", _NODE,
            value="calls"),
    Exposed("rpcaccel_node_retries_total", "counter", "Attempts that repeated a failed one.", _NODE, value="retries"),
    Exposed("rpcaccel_node_hedges_total", "counter", "Attempts sent because another was slow.", _NODE, value="hedges"),
    Exposed("rpcaccel_node_ejections_total", "counter", "Times the node was left alone for being much slower.", _NODE,
            value="ejections"),
    Exposed("rpcaccel_node_batches_total", "counter", "Batches that calls travelled in to the node.", _NODE,
            value="batches"),
    Exposed("rpcaccel_node_gathered_calls_total", "counter", "Calls that travelled in batches.", _NODE,
            value="gathered"),
    Exposed("rpcaccel_node_failures_total", "counter", "Failed attempts by kind of failure.", (*_NODE, "kind"),
            value="failures"),
    Exposed("rpcaccel_node_concurrency_limit", "gauge", "Light calls it may have at once, as it has shown.", _NODE),
    Exposed("rpcaccel_node_quota_used", "gauge", "Calls used of the node's quota in this window.", (*_NODE, "window")),
    Exposed("rpcaccel_node_quota_limit", "gauge", "Calls in the node's quota.", (*_NODE, "window")),
    Exposed("rpcaccel_node_quota_runs_out_timestamp_seconds", "gauge",
            "Unix time at which the quota runs out at its present pace; no sample when it will last.",
            (*_NODE, "window")),
    Exposed("rpcaccel_node_seconds", "histogram", "Time of the node's answers, failed attempts left out.", _NODE,
            value="latency"),
    Exposed("rpcaccel_node_received_bytes_total", "counter", "Bytes of answers from the node.", _NODE, value="size_in"),
    Exposed("rpcaccel_node_in_flight", "gauge", "Attempts that wait for the node.", _NODE, value="in_flight"),
    Exposed("rpcaccel_node_connections", "gauge", "Connections to the node: open (all) and idle.", (*_NODE, "state")),
    Exposed("rpcaccel_node_connects_total", "counter", "Connections opened to the node.", _NODE, value="connects"),
    Exposed("rpcaccel_node_reuses_total", "counter", "Attempts that found an open connection.", _NODE, value="reused"),
    Exposed("rpcaccel_node_dns_lookups_total", "counter", "Names resolved for the node.", _NODE, value="dns"),
    Exposed("rpcaccel_node_tls_handshakes_total", "counter", "TLS handshakes with the node.", _NODE, value="tls"),
    Exposed("rpcaccel_node_wait_seconds_total", "counter", "Time from request sent to first byte back.", _NODE,
            value="wait_seconds"),
    Exposed("rpcaccel_node_read_seconds_total", "counter", "Time from first to last byte of answers.", _NODE,
            value="read_seconds"),
    Exposed("rpcaccel_process_resident_memory_bytes", "gauge", "Memory of a worker process.", ("worker",)),
    Exposed("rpcaccel_process_cpu_seconds_total", "counter", "CPU time of a worker process.", ("worker",)),
    Exposed("rpcaccel_process_open_fds", "gauge", "Open files of a worker process.", ("worker",)),
)  # fmt: skip
"""Every metric there is. Documentation, dashboards and alerts are compared with it."""
