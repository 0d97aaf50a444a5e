"""A simulated node, shipped: the demo, `rpcaccel simnode` and the tests stand on it."""
