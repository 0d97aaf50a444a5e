"""What is shown: snapshots, history, events and Prometheus metrics."""
