"""rpcaccel: one fast, cached, balanced JSON-RPC endpoint in front of the nodes a team has."""

__version__ = "0.2.0"
