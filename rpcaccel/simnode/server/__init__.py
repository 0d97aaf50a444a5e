"""The sockets of a simulated node: HTTP and WebSocket, answers, pushes, faults, limiters and counts."""
