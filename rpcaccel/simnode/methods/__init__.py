"""The JSON-RPC methods of simulated nodes, a file for each kind of method, in the tables of `registry`."""
