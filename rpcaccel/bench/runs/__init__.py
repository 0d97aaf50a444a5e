"""The measurements of `rpcaccel bench` and `rpcaccel replay`: what is run against which endpoint, and its report."""
