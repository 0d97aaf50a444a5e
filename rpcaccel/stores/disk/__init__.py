"""The tier on disk: final answers in a SQLite file, read and written by a thread each, shared by a host's workers."""
