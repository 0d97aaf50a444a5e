"""The data plane: bytes in, bytes out."""
