"""Blocks computed by any number of processes → one stream, with a state to resume from."""
