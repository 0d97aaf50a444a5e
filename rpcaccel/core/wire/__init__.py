"""Bytes on the wire: JSON-RPC bodies, raw JSON text, HTTP heads and the spellings that peers use."""
