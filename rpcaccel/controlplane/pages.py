"""The files of the dashboard, found in a checkout and in an installed wheel alike."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

import rpcaccel

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""What is served, and as what; other files in the folder are not."""


class Page(Struct, frozen=True):
    """One file."""

    body: bytes
    content_type: str


def dashboard_home(package: Path | None = None) -> Path | None:
    """The folder of the page: inside the installed package, or beside it in a checkout; None when it is in neither."""
    package = package or Path(rpcaccel.__file__).parent
    for folder in (package / "dashboard", package.parent / "dashboard"):
        if (folder / "index.html").is_file():
            return folder
    return None


def page_files(home: Path | None = None) -> dict[str, Page]:
    """Every file to be served, by its path below the folder; none when there is no folder."""
    home = home or dashboard_home()
    if home is None:
        return {}
    return {
        path.relative_to(home).as_posix(): Page(path.read_bytes(), TYPES[path.suffix])
        for path in sorted(home.rglob("*"))
        if path.suffix in TYPES and path.is_file() and not path.is_symlink()
    }
