"""Reading what others still write: from a pipe or a terminal comes a little now, and more later, or never.

Whoever answers lines as they come must know when nothing more is there yet, and give what he has before he waits.

>>> import os
>>> reader, writer = os.pipe()
>>> pieces = pieces_as_they_come(lambda: os.read(reader, 100), reader)
>>> [os.write(writer, b"low\\n"), next(pieces), next(pieces), os.close(writer), list(pieces)]
[4, b'low\\n', b'', None, []]
>>> os.close(reader)
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator

Wait = Callable[[int, float | None], bool]  # descriptor, seconds → whether reading returns at once: see `is_ready`

_MUCH = 1 << 14  # bytes of a read behind which more is about to come: more than people and programs ask at once
_MOMENT = 0.02  # seconds that are waited for it, so that blocks become long and threads have work
_LONGEST = 0.03  # seconds of such waiting until what has come is given


def is_ready(descriptor: int, seconds: float | None = None, *, outlet: int | None = None) -> bool:
    """Whether a read returns at once, with bytes or at the end. Waits for it so many seconds, or as long as it takes.

    outlet: the descriptor of a pipe that is written to. Raises BrokenPipeError if its reader goes away meanwhile.

    >>> import os
    >>> reader, writer = os.pipe()
    >>> is_ready(reader, 0), os.close(writer), is_ready(reader)
    (False, None, True)
    >>> os.close(reader)
    """
    if not hasattr(select, "poll"):  # Windows cannot tell: nothing is there yet, until the read says so
        return seconds is None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if outlet is not None:
        poll.register(outlet, 0)
    found = dict(poll.poll(None if seconds is None else 1000 * seconds))
    if outlet in found:
        raise BrokenPipeError
    return descriptor in found


def pieces_as_they_come(read: Callable[[], bytes], descriptor: int, *, wait: Wait = is_ready) -> Iterator[bytes]:
    """What reads return, up to the end, and b"" wherever nothing more is there yet, before it is waited for.

    Behind a long read that comes a moment later: who writes much writes more. Nobody waits for long, though, for a
    writer that has stopped.
    """
    size, left = 0, _LONGEST
    while True:
        start = time.monotonic()
        if wait(descriptor, min(_MOMENT, left) if size >= _MUCH else 0.0):
            left = max(0.0, left - (time.monotonic() - start))
        else:
            yield b""
            wait(descriptor, None)
            left = _LONGEST
        if not (piece := read()):
            return
        size = len(piece)
        yield piece
