"""A writer that writes its next part only when its reader waits for more.

So a test is in one thread, and knows what had come each time when the reader found nothing more.
"""

import os
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


class Writer:
    """A replacement for `volt.files.blocks.is_ready`."""

    def __init__(self, parts, message=lambda _: None):
        self._parts, self._report, self.n_written = list(parts), message, 0
        self._reader, self._writer = os.pipe()
        self.path = f"/dev/fd/{self._reader}"

    def __call__(self, descriptor, seconds=None):
        """Whether something is there; if the reader is ready to wait for it, then the next part, or the end."""
        from volt.files.blocks import is_ready

        if seconds is not None:
            return is_ready(descriptor, 0)
        self._report(self.n_written)
        if self.n_written < len(self._parts):
            os.write(self._writer, self._parts[self.n_written])
            self.n_written += 1
        else:
            self.close_writer()
        return True

    def close_writer(self):
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def close(self):
        self.close_writer()
        os.close(self._reader)


@contextmanager
def writing(parts, message=lambda _: None):
    """Make a pipe into which these parts, each of 1 to 65,536 bytes, are written one by one."""
    writer = Writer(parts, message)
    try:
        yield writer
    finally:
        writer.close()


def cut(data, places):
    """The parts of data between these places.

    >>> cut(b"abcd", [3, 1, 9])
    [b'a', b'bc', b'd']
    """
    bounds = [0, *sorted({place for place in places if 0 < place < len(data)}), len(data)]
    return [data[start:end] for start, end in pairwise(bounds) if start < end]


def check_answers(
    text,
    places,
    answers,
    expected,
):
    """Write text cut at these places: whenever more is waited for, all whole lines that have come are answered.

    answers: the path of a pipe, and how it is waited for, to what its lines become
    expected: what the whole text becomes
    """
    parts, got = cut(text, places), []

    def message(n_written):
        n_lines = b"".join(parts[:n_written]).count(b"\n")
        assert b"".join(got) == b"".join(expected.splitlines(keepends=True)[:n_lines])

    with writing(parts, message) as writer:
        for answer in answers(writer.path, writer):
            got.append(answer)
    assert b"".join(got) == expected
