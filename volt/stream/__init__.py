"""Training data as an endless, exact, resumable stream of lines.

    shards → Source → blocks → transforms ─┐
    shards → Source → blocks → transforms ─┴─ Mixture → Stream → lines

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"low\\nnew\\n") and file.flush()
...     sorted(Stream([Source("words", (file.name,), epochs=1)], seed=1))
['low', 'new']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

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

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
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
    },
)
