"""The tier on disk: final answers in a SQLite file, which one thread reads and writes, shared by a host's workers."""
