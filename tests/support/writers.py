"""A pipe whose writer writes its next part only when its reader waits for more.

So a test needs only one thread, and knows the bytes that the reader had at each wait.
"""

import os
from contextlib import contextmanager
from itertools import pairwise


class Writer:
    """A replacement for `volt.files.blocks.is_ready`, which a reader calls when it waits.

    parts: the bytes to write, one part for each wait
    message: a function to call before each part with the number of parts written
    """

    def __init__(self, parts, message=lambda _: None):
        self._parts = list(parts)
        self._report = message
        self.n_written = 0
        self._reader, self._writer = os.pipe()
        self.path = f"/dev/fd/{self._reader}"

    def __call__(self, descriptor, seconds=None):
        """Return whether the pipe can be read.

        If the reader waits without a limit, write the next part first.
        """
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
    """Cut data at these indices, and return the parts.

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
    """Check that a reader of a pipe answers all whole lines that it has before it waits for more.

    text, places: the text to write, and the indices at which it is cut into parts
    answers: a function from the path of a pipe, and a replacement for `is_ready`, to the reader's
        answers
    expected: the answers to the whole text
    """
    parts = cut(text, places)
    got = []

    def message(n_written):
        n_lines = b"".join(parts[:n_written]).count(b"\n")
        assert b"".join(got) == b"".join(expected.splitlines(keepends=True)[:n_lines])

    with writing(parts, message) as writer:
        for answer in answers(writer.path, writer):
            got.append(answer)
    assert b"".join(got) == expected
