"""Training data as an endless, exact, resumable stream of lines.

    shards → Source → blocks → transforms ─┐
    shards → Source → blocks → transforms ─┴─ Mixture → Stream → lines

The words of this package:

    line        one sample: fields with tabs between them
    field       a part of a line; fields count from 1, by convention 1 is the source side and 2 the target side
    shard       one file of a source
    piece       a run of lines of a shard that can be read by itself
    source      shards that are read under one name, with one weight
    epoch       one pass over all lines of a source
    block       the lines of a source that are read, shuffled and transformed together
    transform   what changes, drops or makes lines; a filter is a transform that only drops lines
    mixture     whose turn it is: which source gives each line of the stream
    turn        one line of the stream, as the mixture deals them out to the sources
    unfit line  a line that cannot be used: not UTF-8, too few fields, or refused by a transform
    fault       the note of an unfit line: its file, its number and the reason
    policy      what to do with unfit lines: stop, skip them, or write them to a file
    worker      a process that computes blocks ahead of the time when they are needed
    rank, world one of several processes that train together, and how many there are
    cursor      how far a source has been read
    state       where a whole stream stands: its cursors, the mixture, and the configuration that it belongs to

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"low\\nnew\\n") and file.flush()
...     sorted(Stream([Source("words", (file.name,), epochs=1)], seed=1))
['low', 'new']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volt.stream.auditing import Audit as Audit
    from volt.stream.auditing import audit as audit
    from volt.stream.batch import Batch as Batch
    from volt.stream.batch import LineFault as LineFault
    from volt.stream.batch import Transform as Transform
    from volt.stream.checks import Checks as Checks
    from volt.stream.mixture import Mixture as Mixture
    from volt.stream.planning import Plan as Plan
    from volt.stream.planning import plan as plan
    from volt.stream.policy import Policy as Policy
    from volt.stream.ranks import from_environment as from_environment
    from volt.stream.schedule import Schedule as Schedule
    from volt.stream.source import Source as Source
    from volt.stream.state import load_state as load_state
    from volt.stream.state import save_state as save_state
    from volt.stream.stream import Stream as Stream
    from volt.stream.summary import Summary as Summary
    from volt.stream.tracing import Trace as Trace
    from volt.stream.tracing import traces as traces

_HOMES = {
    "auditing": ("Audit", "audit"),
    "batch": ("Batch", "LineFault", "Transform"),
    "checks": ("Checks",),
    "mixture": ("Mixture",),
    "planning": ("Plan", "plan"),
    "policy": ("Policy",),
    "ranks": ("from_environment",),
    "schedule": ("Schedule",),
    "source": ("Source",),
    "state": ("load_state", "save_state"),
    "stream": ("Stream",),
    "summary": ("Summary",),
    "tracing": ("Trace", "traces"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import a public name's module when the name is first used, as `volt` does."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'volt.stream' has no attribute {name!r}")
    value = getattr(import_module(f"volt.stream.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
