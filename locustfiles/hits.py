"""Where answers came from (X-Rpcaccel-Cache): collected from all workers, shown in a tab of Locust's page, offered
there as CSV, and written to PREFIX_hits.csv beside Locust's own files.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from flask import Response, request
from locust import events
from locust.env import Environment

from rpcaccel.bench.report.statistics import HITS

_sources: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""By name of the call."""
_unsent: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""What a worker has not told its master yet."""


def count(label: str, cache: str) -> None:
    """An answer came with this header: `memory`, `partial; cached=3; of=4`, or for a batch `memory=3, miss=1`."""
    for part in cache.split(", ") if cache else ():
        word, equals, number = part.partition(";")[0].partition("=")
        answers = int(number) if equals and number.isdigit() else 1
        _sources[label][word] += answers
        _unsent[label][word] += answers


def sources(label: str) -> Counter[str]:
    """Where the answers to calls of this name came from."""
    return _sources[label] if label in _sources else Counter()


def total() -> Counter[str]:
    """Of all calls."""
    found: Counter[str] = Counter()
    for words in _sources.values():
        found.update(words)
    return found


def ratio(words: Counter[str]) -> float | None:
    """0..1; None where nothing says where answers came from."""
    said = sum(words.values())
    return sum(answers for word, answers in words.items() if word in HITS) / said if said else None


def rows() -> list[dict[str, str]]:
    """What is shown: a line for each name, and one for all."""
    return [
        {
            "name": label,
            "hit_ratio": "" if (share := ratio(words)) is None else f"{share:.4f}",
            "sources": ", ".join(f"{word} {answers}" for word, answers in words.most_common()),
        }
        for label, words in [*sorted(_sources.items()), ("Aggregated", total())]
    ]


def as_csv() -> str:
    """The rows as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, ("name", "hit_ratio", "sources"))
    writer.writeheader()
    writer.writerows(rows())
    return out.getvalue()


def write(environment: Environment) -> None:
    """The file, where Locust was told to write files."""
    prefix = getattr(environment.parsed_options, "csv_prefix", None)
    if prefix:
        Path(f"{prefix}_hits.csv").write_text(as_csv(), encoding="utf-8")


@events.report_to_master.add_listener
def _tell(data: dict[str, Any], **_: Any) -> None:
    data["rpcaccel_hits"] = {label: dict(words) for label, words in _unsent.items()}
    _unsent.clear()


@events.worker_report.add_listener
def _hear(data: dict[str, Any], **_: Any) -> None:
    for label, words in data.get("rpcaccel_hits", {}).items():
        _sources[label].update(words)


@events.test_start.add_listener
@events.reset_stats.add_listener
def _forget(**_: Any) -> None:
    _sources.clear()
    _unsent.clear()


@events.init.add_listener
def _extend_page(environment: Environment, **_: Any) -> None:
    page = environment.web_ui
    if page is None:
        return
    columns = (("name", "Name"), ("hit_ratio", "Hit ratio"), ("sources", "Answered from"))
    structure = [{"key": key, "title": title} for key, title in columns]
    page.template_args["extended_tabs"] = [{"title": "Hits", "key": "hits"}]
    page.template_args["extended_tables"] = [{"key": "hits", "structure": structure}]
    page.template_args["extended_csv_files"] = [{"href": "/hits/csv", "title": "Download hit ratios CSV"}]

    @page.app.route("/hits/csv")
    def hits_csv() -> Response:
        return Response(as_csv(), mimetype="text/csv")

    @page.app.after_request
    def with_hits(response: Response) -> Response:
        if request.path == "/stats/requests" and response.is_json:
            document = response.get_json()
            document["extended_stats"] = [{"key": "hits", "data": rows()}]
            response.set_data(json.dumps(document))
        return response
