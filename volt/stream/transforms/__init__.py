"""Transforms of the lines of a batch, which change, filter, join, choose or encode lines."""
