"""Chains as data: the rules of each network's methods and errors, one TOML file for a chain.

`load("harmony")` reads harmony.toml of this directory; a new chain is one new file here.
"""

from rpcaccel.chains.chain import Chain, Identity, Probe, RangeLimit
from rpcaccel.chains.chain_tables import ChainError, load, names, read

__all__ = ["Chain", "ChainError", "Identity", "Probe", "RangeLimit", "load", "names", "read"]
