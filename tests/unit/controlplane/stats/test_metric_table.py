from rpcaccel.controlplane.stats.prometheus import EXPOSED


def test_every_metric_is_named_once_and_explained() -> None:
    assert len({metric.name for metric in EXPOSED}) == len(EXPOSED)
    for metric in EXPOSED:
        assert metric.help.endswith("."), metric.name
        assert metric.name.startswith("rpcaccel_")


def test_names_carry_base_units_and_counters_end_in_total() -> None:
    for metric in EXPOSED:
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name
        assert not any(unit in metric.name for unit in ("millis", "_ms", "minutes", "kilo", "percent")), metric.name
        if metric.kind == "histogram":
            assert metric.name.endswith("_seconds")


def test_no_label_can_hold_what_a_client_sends() -> None:
    allowed = {"version", "python", "reason", "network", "method", "outcome", "source", "class", "step", "tier",
               "result", "node", "kind", "state", "worker", "client", "window", "end", "fault",
               "level", "webhook", "standing"}  # fmt: skip
    assert {label for metric in EXPOSED for label in metric.labels} == allowed
