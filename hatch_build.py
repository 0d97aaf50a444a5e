"""Makes the readme that a package index shows: README.md, whose relative links would lead nowhere there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"(!\[[^\]]*\]\()(?!https?://|#)")
LINK = re.compile(r"(?<!!)(\[(?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*\]\()(?!https?://|#)")


def absolute(text: str, source: str, version: str) -> str:
    """A Markdown text whose relative links lead to the files of a version on GitHub, at the repository `source`."""
    raw = source.replace("//github.com/", "//raw.githubusercontent.com/")
    text = PICTURE.sub(rf"\g<1>{raw}/v{version}/", text)
    return LINK.sub(rf"\g<1>{source}/blob/v{version}/", text)


class Readme(MetadataHookInterface):
    """Fills in `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme of the version that is built."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = metadata["urls"]["Source"]
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, source, metadata["version"])}
