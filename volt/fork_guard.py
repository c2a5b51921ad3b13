"""Raise an error before Polars is used in a forked process.

A forked process lacks its parent's Polars threads, so a call to Polars would wait for them forever.

>>> about_to_use_polars()
"""

from __future__ import annotations

import os

from volt.errors import ConfigError

_users: set[int] = set()  # the process in which Polars was used first


def about_to_use_polars() -> None:
    """Raise ConfigError in a process that was forked from one where Polars was used."""
    process = os.getpid()
    if process in _users:
        return
    if _users:
        raise ConfigError(
            "this process was forked after Polars had read text, so it lacks the threads of Polars; "
            "start processes with multiprocessing.get_context('spawn'), or before any text is read"
        )
    _users.add(process)
