"""Distributions of this environment put into another one, so that pip finds them there and fetches nothing."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement


def needed(name: str, *extras: str) -> set[str]:
    """The distributions that one needs, and those that these need."""
    found: set[str] = set()
    left = [Requirement(f"{name}[{','.join(extras)}]")]
    while left:
        one = left.pop()
        for text in metadata.requires(one.name) or ():
            further = Requirement(text)
            marker = further.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
                if str(further) not in found:
                    left.append(further)
                found.add(str(further))
    return {Requirement(text).name for text in found}


def put_beforehand(site: Path, *names: str) -> None:
    """Copy these distributions, installed here from constraints.txt, into the folder `site`. Pip then has them neither
    to fetch nor to unpack again, and holds their versions against the constraints all the same."""
    for name in names:
        distribution = metadata.distribution(name)
        for file in distribution.files or ():
            source = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and source.exists():
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, site / file)
