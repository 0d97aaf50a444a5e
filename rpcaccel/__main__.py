"""The `rpcaccel` command, and `python -m rpcaccel`: loads the program, which takes long enough to press Ctrl-C."""

import sys
from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    """Run the program and exit as `rpcaccel.cli.app.main` does."""
    try:
        from rpcaccel.cli.main import main as run  # noqa: PLC0415 -- this is what may be interrupted
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
