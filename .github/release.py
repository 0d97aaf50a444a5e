"""`python .github/release.py TAG`: is this tag the release that the source is? Prints what CHANGELOG.md says of it.

Ends with 1 and the reason when TAG is not "v" and the version in rpcaccel/__init__.py, or when the CHANGELOG has no
section of that version with a date, or one that says nothing.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def notes(tag: str, source: str, changelog: str) -> str:
    """The section of the release in the changelog. Raises ValueError with the reason when the tag is no release.

    `source` is the text of the module that has `__version__`.
    """
    (version,) = re.findall(r'^__version__ = "([^"]+)"$', source, re.MULTILINE)
    if tag != f"v{version}":
        raise ValueError(
            f"the tag is {tag!r}, and the version of the source is {version!r}: expected the tag 'v{version}'"
        )
    head, *_ = re.findall(rf"^## \[{re.escape(version)}\](.*)$", changelog, re.MULTILINE) or [None]
    if head is None:
        raise ValueError(f"CHANGELOG.md has no section [{version}]")
    if not re.fullmatch(r" - \d{4}-\d\d-\d\d", head):
        raise ValueError(f"the section [{version}] of CHANGELOG.md has no date: expected '## [{version}] - YYYY-MM-DD'")
    section = changelog.partition(f"## [{version}]{head}\n")[2]
    told = re.split(r"^(?:## |\[[^\]]+\]: )", section, maxsplit=1, flags=re.MULTILINE)[0].strip()
    if not told:
        raise ValueError(f"the section [{version}] of CHANGELOG.md says nothing")
    return told


def main(arguments: list[str]) -> int:
    """Print the notes of the release that the one argument names."""
    if len(arguments) != 1:
        print("expected one argument: the tag, such as v1.2.3", file=sys.stderr)
        return 1
    source = (ROOT / "rpcaccel" / "__init__.py").read_text(encoding="utf-8")
    try:
        print(notes(arguments[0], source, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    except ValueError as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
