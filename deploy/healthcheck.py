#!/usr/bin/env python
"""Ends with 0 when the proxy of this container is alive: GET /healthz at the address that RPCACCEL_LISTEN says, over
TLS where RPCACCEL_TLS_CERT names a certificate, which is for other names than this machine's and is not checked.

What is said by flags or in the configuration file is not known here: say it by these variables.
"""

import os
import ssl
import sys
import urllib.request

DEFAULT = "127.0.0.1:8888"
THIS_MACHINE = {"": "127.0.0.1", "*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


def url(listen: str, scheme: str = "http") -> str:
    """Where to ask a proxy that listens at HOST:PORT: on this machine when it listens on every address."""
    host, _, port = (listen.strip() or DEFAULT).rpartition(":")
    return f"{scheme}://{THIS_MACHINE.get(host, host)}:{port}/healthz"


def main() -> int:
    """Ask once, for two seconds at most. The exit code of the check."""
    scheme = "https" if os.environ.get("RPCACCEL_TLS_CERT") else "http"
    asked = url(os.environ.get("RPCACCEL_LISTEN", ""), scheme)
    unchecked = urllib.request.HTTPSHandler(context=ssl._create_unverified_context())
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), unchecked)
    try:
        with direct.open(asked, timeout=2):
            return 0
    except (OSError, ValueError) as error:
        print(f"{asked}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
