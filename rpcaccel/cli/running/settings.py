"""`rpcaccel settings get|set|undo|history|export`: the settings of a running proxy."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from rpcaccel.cli.admin_client import AdminClient, RemoteError
from rpcaccel.cli.command import CommandResult, asks_proxy, changed
from rpcaccel.config.patch import compose

settings = typer.Typer(
    name="settings", help="See and change the settings of a running proxy.", no_args_is_help=True, add_completion=False
)


@settings.command()
@asks_proxy
def get(
    proxy: AdminClient,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Such as memory.size; everything when empty.")] = "",
    difference: Annotated[bool, typer.Option("--difference", help="What differs from the config file.")] = False,
) -> CommandResult:
    """Print the settings in force, or one of them. Secrets are hidden.

    Examples:
    rpcaccel settings get networks.harmony-s0.nodes
    rpcaccel settings get --difference
    """
    if difference:
        return CommandResult(_below(proxy.get("settings/difference")["difference"], path))
    return CommandResult(_at(proxy.get("settings")["document"], path))


@settings.command(name="set")
@asks_proxy
def set_(
    proxy: AdminClient,
    changes: Annotated[list[str], typer.Argument(metavar="PATH=VALUE…", help="Written as in the config file.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
) -> CommandResult:
    """Change settings of a running proxy, all together or none; PATH= puts a setting back to its default.

    Examples:
    rpcaccel settings set memory.size=512MB log.level=debug
    rpcaccel settings set networks.harmony-s0.balancer=peak_ewma
    rpcaccel settings set 'networks.harmony-s0.nodes."a:9500".weight=3'
    """
    patch: Any = {}
    for change in changes:
        patch = compose(patch, parse(change))
    if dry_run:
        return CommandResult(proxy.change("settings?dry_run=1", patch, revision=None)["difference"])
    return changed(proxy.change("settings", patch, revision=proxy.get("settings")["revision"]))


@settings.command()
@asks_proxy
def undo(
    proxy: AdminClient,
    to: Annotated[int | None, typer.Option(metavar="REVISION", help="To this one, over all changes since.")] = None,
) -> CommandResult:
    """Go back to the settings before the last change, or to those of a revision.

    Examples:
    rpcaccel settings undo
    rpcaccel settings undo --to 12
    """
    revision = proxy.get("settings")["revision"]
    return changed(proxy.change("settings/undo", {"to": to}, revision=revision, method="POST"))


@settings.command()
@asks_proxy
def history(
    proxy: AdminClient,
    limit: Annotated[int, typer.Option("-n", min=1, max=1000, metavar="N", help="Changes at the most.")] = 20,
) -> CommandResult:
    """List the changes of the settings, newest first: when, by whom, from what to what.

    Examples:
    rpcaccel settings history
    rpcaccel settings history -n 100 --json
    """
    found = proxy.get(f"changes?limit={limit}")
    return CommandResult(found, map(_line, found["changes"]))


def _line(change: dict[str, Any]) -> str:
    """A change in one line: "17  2026-01-31 12:00:05Z  ops (page)  networks.harmony-s0.nodes.a.weight: 1 -> 5"."""
    at = datetime.fromtimestamp(change["at"], UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    by = f"{change['by'] or 'local'} ({change['via']})" if change["via"] else change["by"]
    outcome = "" if change["outcome"] == "adopted" else f"{change['outcome']}: {change['reason']}: "
    why = f" ({change['why']})" if change.get("why") else ""
    return f"{change['revision']}  {at}  {by}  {outcome}{change['text']}{why}"


@settings.command()
@asks_proxy
def export(proxy: AdminClient) -> int:
    """Print the settings in force as a config file, secrets hidden and listed.

    Examples:
    rpcaccel settings export > rpcaccel.toml
    """
    typer.echo(proxy.text("/api/v1/settings/export", begins="# rpcaccel"), nl=False)
    return 0


def parse(change: str) -> dict[str, Any]:
    """The merge patch of PATH=VALUE; the value is TOML, or a text without quotes. Raises typer.BadParameter."""
    path, value = _parted(change)
    for written in (value, json.dumps(value)):
        try:
            found: dict[str, Any] = tomllib.loads(f"{path} = {written}")
        except tomllib.TOMLDecodeError:
            continue
        try:
            json.dumps(found, allow_nan=False)
        except (TypeError, ValueError):
            raise typer.BadParameter(f"found a date, a time or no finite number in {change!r}") from None
        return found if value else _emptied(found)
    raise typer.BadParameter(f"{change!r} is not PATH=VALUE, such as memory.size=512MB")


def _parted(change: str) -> tuple[str, str]:
    """Split at the first = outside of quotes: an id in a path may hold one."""
    quoted = False
    for place, char in enumerate(change):
        quoted ^= char == '"'
        if char == "=" and not quoted:
            return change[:place].strip(), change[place + 1 :].strip()
    return "", ""


def _emptied(found: Any) -> Any:
    """The document with null for every value, which puts a setting back to its default."""
    return {key: _emptied(inner) for key, inner in found.items()} if isinstance(found, dict) else None


def _at(document: Any, path: str) -> Any:
    """The value at a dotted path of a document. Raises RemoteError where there is none."""
    for key in _keys(path):
        if not isinstance(document, dict) or key not in document:
            raise RemoteError(f"there is no setting {path}")
        document = document[key]
    return document


def _below(edits: list[dict[str, Any]], path: str) -> list[dict[str, Any]]:
    """The edits at a dotted path or below it. Raises RemoteError for a text that is no path."""
    keys = _keys(path)
    return [edit for edit in edits if _keys(edit["path"])[: len(keys)] == keys]


def _keys(path: str) -> list[str]:
    if not path:
        return []
    keys: list[str] = []
    try:
        here: Any = tomllib.loads(f"{path} = 0")
    except tomllib.TOMLDecodeError:
        raise RemoteError(f"there is no setting {path}") from None
    while isinstance(here, dict):
        ((key, here),) = here.items()
        keys.append(key)
    return keys
