"""Sockets and HTTP: from bytes of a client to a call, and from an answer to bytes."""
