"""The networks of a settings revision: nodes, chain rules, heads and upstream pools."""
