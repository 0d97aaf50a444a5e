from pathlib import Path

import pytest

from rpcaccel.controlplane.admin.admin_app import dashboard_home, page_files


def written(home: Path, *names: str) -> Path:
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    return home


@pytest.mark.parametrize(
    ("files", "home"),
    [
        (("rpcaccel/__init__.py", "dashboard/index.html"), "dashboard"),
        (("rpcaccel/dashboard/index.html", "dashboard/index.html"), "rpcaccel/dashboard"),
        ((), None),
    ],
    ids=["beside the package in a checkout", "inside an installed package first", "nowhere"],
)
def test_the_page_is_found(tmp_path: Path, files: tuple[str, ...], home: str | None) -> None:
    written(tmp_path, *files)
    assert dashboard_home(tmp_path / "rpcaccel") == (None if home is None else tmp_path / home)


def test_only_files_of_known_types_are_served(tmp_path: Path) -> None:
    home = written(tmp_path, "index.html", "src/app.js", "style.css", "notes.md", "key.pem", ".hidden")
    (home / "link.js").symlink_to("/etc/hostname")
    files = page_files(home)
    assert set(files) == {"index.html", "src/app.js", "style.css"}
    assert files["src/app.js"].content_type == "text/javascript; charset=utf-8"
    assert files["index.html"].body == b"index.html"
