"""Data appended to a source, or a source added, in the middle of a run: where a state continues then.

Lines that were given are not given again, and appended lines are given once in the epoch that has begun, after its
other lines; from the next epoch on they are lines like all others. A file may have grown at its end, or files may have
been added that come after the others.

>>> state = State(3, {"wmt": Cursor(3, 0, 0, 3)}, {}, merged=1)
>>> grown_by(state, {"wmt": (10, 12)}).cursors["wmt"].grown
((0, 10),)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

from volt.stream.reading.open_source import OpenSource
from volt.stream.reading.shares import Remains
from volt.stream.running.differences import fingerprint
from volt.stream.running.state import Cursor, State


def n_lines_before(source: OpenSource, stored: Mapping[str, Any]) -> int | None:
    """Return how many lines a source had when a state was taken, if its lines begin with those and there are more.

    stored: what the state's configuration says of the source
    """
    before, digest = stored.get("n_lines"), stored.get("lines")
    if not isinstance(before, int) or not 0 < before < source.n_lines:
        return None
    lines = [[shard.digest, shard.n_lines] for shard in source.shards]
    ends = [*accumulate(shard.n_lines for shard in source.shards)]
    whole = sum(end <= before for end in ends)
    rest = before - (ends[whole - 1] if whole else 0)
    digests = source.shards[whole].digests_of(rest) if rest else ()
    candidates = [[*lines[:whole], [one, rest]] for one in digests] if rest else [lines[:whole]]
    return before if any(fingerprint(one) == digest for one in candidates) else None


def grown_by(state: State, grown: Mapping[str, tuple[int, int]]) -> State:
    """Return the state of all ranks with the lines that were appended to sources.

    state: of which the cursors of these sources are a deal, as those of a merged state are
    grown: name of a source → its lines before, and now
    """
    cursors = {
        name: _grown(cursor, *grown[name]) if name in grown else cursor for name, cursor in state.cursors.items()
    }
    return replace(state, cursors=cursors, ended=tuple(name for name in state.ended if name not in grown))


def _grown(cursor: Cursor, before: int, now: int) -> Cursor:
    if not cursor.lines and not cursor.deal:
        return cursor  # nothing was read, so all lines are alike
    deal = cursor.deal or (Remains(cursor.epoch, ((0, before),)),)
    last = deal[-1]._replace(spans=(*deal[-1].spans, (before, now)))
    return replace(cursor, deal=(*deal[:-1], last), grown=(*cursor.grown, (last.epoch, before)))
