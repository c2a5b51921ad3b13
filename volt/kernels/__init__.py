"""Compiled loops over flat arrays; each has a slow, obvious twin in the tests."""
