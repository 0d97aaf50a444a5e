"""`python -m rpcaccel`: the same program as the `rpcaccel` command."""

from rpcaccel.cli import main

if __name__ == "__main__":
    main()
