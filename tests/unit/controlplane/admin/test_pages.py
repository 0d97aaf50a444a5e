from pathlib import Path

from rpcaccel.controlplane.admin.admin_app import dashboard_home, page_files


def written(home: Path, *names: str) -> Path:
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    return home


def test_the_page_is_found_beside_the_package_in_a_checkout(tmp_path: Path) -> None:
    written(tmp_path, "rpcaccel/__init__.py", "dashboard/index.html")
    assert dashboard_home(tmp_path / "rpcaccel") == tmp_path / "dashboard"


def test_the_page_inside_an_installed_package_goes_first(tmp_path: Path) -> None:
    written(tmp_path, "rpcaccel/dashboard/index.html", "dashboard/index.html")
    assert dashboard_home(tmp_path / "rpcaccel") == tmp_path / "rpcaccel" / "dashboard"


def test_without_a_page_there_is_no_home(tmp_path: Path) -> None:
    assert dashboard_home(tmp_path / "rpcaccel") is None


def test_only_files_of_known_types_are_served(tmp_path: Path) -> None:
    home = written(tmp_path, "index.html", "src/app.js", "style.css", "notes.md", "key.pem", ".hidden")
    (home / "link.js").symlink_to("/etc/hostname")
    files = page_files(home)
    assert set(files) == {"index.html", "src/app.js", "style.css"}
    assert files["src/app.js"].content_type == "text/javascript; charset=utf-8"
    assert files["index.html"].body == b"index.html"
