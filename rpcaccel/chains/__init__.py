"""Chains as data: the rules of methods and errors, in one TOML file for each chain.

`load("harmony")` reads harmony.toml in this folder. A new chain is one new file.
"""

from rpcaccel.chains.chain import Chain, Identity, Probe, PublicNetwork, RangeLimit
from rpcaccel.chains.chain_tables import ChainError, load, names, of_chain_id, read

__all__ = [
    "Chain",
    "ChainError",
    "Identity",
    "Probe",
    "PublicNetwork",
    "RangeLimit",
    "load",
    "names",
    "of_chain_id",
    "read",
]
