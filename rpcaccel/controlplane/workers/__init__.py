"""Worker processes: their sockets, the links to them and their supervision."""
