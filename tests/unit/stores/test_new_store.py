"""A store is one new file: what names no store but Redis knows its addresses, and asks it for no more than it has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.services import ROOT

FILE = '''
from rpcaccel.stores.base import Driver, Store

class NullStore(Store):
    """It is asked, and has nothing."""

class NullDriver(Driver):
    schemes = ("null",)
    forms = ("null://",)

    def build(self, settings):
        return NullStore()

DRIVER = NullDriver()
'''
PROGRAM = """
import json, sys
from rpcaccel import stores
stores.__path__.append(sys.argv[1])
from rpcaccel.config.model import Settings
from rpcaccel.config.validate import misfits
from rpcaccel.controlplane.settings.hindrances import hindrances
network = {"chain": "harmony", "nodes": ["http://127.0.0.1:1"]}
settings = Settings.model_validate(
    {"redis": {"url": "null://:s3cret@h", "replicas": ["redis://h"]}, "networks": {"n": network}}
)
store, driver = stores.driver(settings.redis).build(settings.redis), stores.driver(settings.redis)
told = {
    "store": type(store).__name__,
    "asked": store.holds,
    "shown": str(settings.redis.url),
    "expected": type(settings.redis.url).expected,
    "shared": [driver.board(settings.redis), driver.quota_sums(settings.redis, "host"), store.shares_limits],
    "misfits": [misfit.expected for misfit in misfits(settings) if misfit.path[0] == "redis"],
    "hindrances": [misfit.path for misfit in hindrances(settings) if misfit.path[0] == "redis"],
}
print(json.dumps(told))
"""


def test_a_store_is_one_new_file(tmp_path: Path) -> None:
    (tmp_path / "null.py").write_text(FILE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "null://" in told.pop("expected")
    assert told == {
        "store": "NullStore",
        "asked": True,
        "shown": "null://",
        "shared": [None, None, False],
        "misfits": ["none: this store takes no replicas"],
        "hindrances": [],
    }
