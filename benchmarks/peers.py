"""The programs of the side-by-side runs: ours, nginx, HAProxy, a static responder, Redis; each with its core.

A program that is not installed is left out, with a word.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import ProxyHandler, Request, build_opener

from tests.support.services import Process, Program, RedisServer, free_port, wait_until

_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
TESTED = _CORES[0] if len(_CORES) > 1 else None
"""The core of what is measured."""
LOADING = _CORES[-1] if len(_CORES) > 1 else None
"""The core of the load generator and of the node behind."""

NGINX = """
{user} daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; client_body_buffer_size 64k; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  proxy_cache_path {folder}/cache keys_zone=micro:64m max_size=512m;
  upstream node {{ server {node}; keepalive 256; keepalive_requests 100000000; }}
  proxy_http_version 1.1; proxy_set_header Connection "";
  server {{
    listen 127.0.0.1:{caching} backlog=1024;
    location / {{
      proxy_pass http://node; proxy_cache micro; proxy_cache_methods POST; proxy_cache_key $request_body;
      proxy_cache_valid 200 10m;
    }}
  }}
  server {{ listen 127.0.0.1:{plain} backlog=1024; location / {{ proxy_pass http://node; }} }}
}}
"""
HAPROXY = """
global
  nbthread 1
  maxconn 8192
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend front
  bind 127.0.0.1:{port}
  default_backend node
backend node
  server node {node}
"""


def on_core(core: int | None) -> tuple[str, ...]:
    """The prefix that gives a command a core; nothing where there is one core only, or no taskset."""
    return ("taskset", "-c", str(core)) if core is not None and shutil.which("taskset") else ()


def pin(pid: int, core: int | None) -> None:
    """Give a running process, with all its threads, a core."""
    if core is not None and (taskset := shutil.which("taskset")):
        subprocess.run([taskset, "-a", "-p", "-c", str(core), str(pid)], check=True, capture_output=True)


@contextmanager
def as_generator() -> Iterator[None]:
    """Pin this process, which generates the load, to the core of the generator."""
    if LOADING is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {LOADING})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Bench:
    """Programs started for one round of runs, with a folder for their files."""

    def __init__(self, folder: Path, started: ExitStack) -> None:
        """`started` ends the programs."""
        self.folder = folder
        self.missing: list[str] = []
        """The programs that were left out, in sentences."""
        self._started = started

    def responder(self, *options: str, core: int | None = LOADING) -> str:
        """The URL of a static node."""
        process = self._start([*on_core(core), sys.executable, "-m", "benchmarks.responder", *options])
        return process.wait_for(r"listening on (\S+)")[1]

    def simnode(self, knobs: dict[str, object], *options: str) -> str:
        """The URL of a simulated node with these knobs. The node has a lower priority than the generator, which shares
        its core: a node that is some milliseconds late does no harm, and a late generator does."""
        behind = ("nice", "-n", "10") if shutil.which("nice") else ()
        process = self._start([*behind, *on_core(LOADING), sys.executable, "-m", "rpcaccel", "simnode", *options])
        url = process.wait_for(r"at (https?://[^,\s]+)")[1]
        post(f"{url}/simnode/knobs", json.dumps(knobs))
        return url

    def rpcaccel(self, *arguments: str | Path, core: int | None = TESTED) -> Running:
        """A proxy over nodes that is started, pinned to a core, and ready."""
        program = Program(
            "serve", *arguments, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", measured=False, apart=True
        )
        self._started.callback(program.stop)
        pin(program.pid, core)
        url = program.wait_for(r"(http://[^/\s]+)/\S*  <-")[1]
        program.wait_ready(f"{url}/readyz")
        return Running(program, url)

    def nginx(self, node: str) -> tuple[str, str] | None:
        """nginx over a node: the URL of its micro-cache for POST, and of plain proxying. None: it is not installed."""
        nginx = self._find("nginx", "/usr/sbin/nginx")
        if nginx is None:
            return None
        caching, plain = free_port(), free_port()
        folder = self.folder / "nginx"
        folder.mkdir(exist_ok=True)
        file = folder / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""  # or its worker may not enter the folder
        file.write_text(
            NGINX.format(user=user, folder=folder, node=node.removeprefix("http://"), caching=caching, plain=plain)
        )
        self._start([*on_core(TESTED), nginx, "-c", str(file), "-p", str(folder)])
        urls = (f"http://127.0.0.1:{caching}", f"http://127.0.0.1:{plain}")
        _answers(urls[1])
        return urls

    def haproxy(self, node: str) -> str | None:
        """HAProxy over a node. None: it is not installed."""
        haproxy = self._find("haproxy", "/usr/sbin/haproxy")
        if haproxy is None:
            return None
        port = free_port()
        file = self.folder / "haproxy.cfg"
        file.write_text(HAPROXY.format(port=port, node=node.removeprefix("http://")))
        self._start([*on_core(TESTED), haproxy, "-f", str(file), "-db"])
        _answers(f"http://127.0.0.1:{port}")
        return f"http://127.0.0.1:{port}"

    def redis(self) -> RedisServer:
        """A Redis of its own, on the generator's core."""
        server = RedisServer(self.folder)
        self._started.callback(server.kill)
        pin(server.process.pid, LOADING)
        return server

    def _find(self, name: str, usual: str) -> str | None:
        found = shutil.which(name) or (usual if os.access(usual, os.X_OK) else None)
        if found is None:
            self.missing.append(f"{name} is not installed: left out")
        return found

    def _start(self, command: Sequence[str]) -> Process:
        process = Process(command, apart=True)
        self._started.callback(process.stop)
        return process


class Running(NamedTuple):
    """The proxy while it runs."""

    program: Program
    url: str


@contextmanager
def bench() -> Iterator[Bench]:
    """A round of runs in a folder of its own; its programs are ended with it."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as started:
        yield Bench(Path(folder), started)


def post(url: str, body: str) -> tuple[bytes, str]:
    """The body of the answer to one call, and the tier that the answer came from. Raises OSError."""
    request = Request(url, body.encode(), {"Content-Type": "application/json"})
    with build_opener(ProxyHandler({})).open(request, timeout=10.0) as reply:
        return reply.read(), reply.headers.get("X-Rpcaccel-Cache", "")


def refused(url: str, body: str) -> str:
    """The reason why not every call of a body is answered with a result; empty when all are. wrk sees statuses only."""
    try:
        said = json.loads(post(url, body)[0])
    except (OSError, ValueError) as error:
        return str(error)
    wrong = (reply for reply in (said if isinstance(said, list) else [said]) if "result" not in reply)
    return next((str(reply.get("error", "neither result nor error")) for reply in wrong), "")


def get(url: str) -> bytes:
    """The body of the answer to a GET. Raises OSError."""
    with build_opener(ProxyHandler({})).open(url, timeout=10.0) as reply:
        body: bytes = reply.read()
        return body


def _answers(url: str) -> None:
    """Wait until calls through a peer are answered."""

    def passed() -> bool:
        try:
            post(url, '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}')
        except OSError:
            return False
        return True

    wait_until(f"an answer through {url}", passed)
