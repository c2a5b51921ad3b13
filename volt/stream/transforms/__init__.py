"""Transforms of the lines of a batch: change, filter, join, choose, encode."""
