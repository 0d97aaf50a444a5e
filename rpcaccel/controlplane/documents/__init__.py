"""The JSON documents that are made of the figures: each is a Struct, and a function makes it of a frame, the history or
a log."""
