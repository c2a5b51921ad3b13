r"""Texts in memory → blocks of lines, as if each text were written to a file, and a line end after it.

    ["low\nlower", "old\n"]  →  Block("low\nlower\nold\n")

The texts are read once, in the caller's thread, a block at a time. So they may come from a generator
over more text than fits into memory, or from a database whose cursor belongs to the thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any

from volt import arguments
from volt.errors import ConfigError, CorpusError, quoted
from volt.files.blocks import Block, Errors, checked_block
from volt.files.text_checks import BYTE_ORDER_MARK, LongLineError, count_lines, find_long_line

NAME = "texts"  # the argument, and the path of its blocks
_ROWS = 1 << 16  # rows of an Arrow array that become strings of Python together
_FIRST = 16  # texts that are compared with the names of files
_BATCH = 64  # texts that are encoded together; they are few, because each may be long
_NO_TEXT = b"\xff\n"  # not UTF-8, so that it is dropped and counted like a bad line of a file


def text_blocks(
    texts: Any, *, block_size: int, errors: Errors, max_line: int | None
) -> Iterator[Block]:
    r"""Yield texts as blocks of whole lines of UTF-8.

    texts: strings, in a list, a generator, a Series of pandas or polars, a column of `datasets`, an
        array of Arrow, or any other iterable
    block_size: about how many bytes a block has; a longer text is a block
    errors: for texts with lone surrogates, "strict", "replace" or "skip"; "skip" also for missing
        texts (None or NaN)
    max_line: the maximum number of bytes in a line; None for no limit
    Raises CorpusError, with the index of the text, if a text is bad or missing; ArgumentError if it
    is not a text; ConfigError if the texts are the names of files.

    >>> blocks = text_blocks(["low", "old\n", ""], block_size=9, errors="strict", max_line=None)
    >>> [(block.first_line, block.data) for block in blocks]
    [(1, b'low\nold\n\n')]
    """
    waiting = list[bytes]()
    n_waiting = n_bytes = n_texts = 0
    first_line = 1
    strings = _refuse_file_names(_strings(texts))
    while batch := list(islice(strings, _BATCH)):
        data = _encode_batch(batch, n_texts, errors, max_line)
        n_texts += len(batch)
        waiting.append(data)
        n_waiting += len(data)
        if n_waiting >= block_size:
            n_bytes += n_waiting
            block = _join(waiting, first_line, n_bytes, errors)
            yield block
            first_line += block.n_lines
            waiting = []
            n_waiting = 0
    if waiting:
        yield _join(waiting, first_line, n_bytes + n_waiting, errors)


def _strings(texts: Any) -> Iterator[Any]:
    remedy = "give strings in a list, a Series, a column or another iterable"
    if isinstance(texts, str | os.PathLike):
        remedy = f"did you mean {NAME}=[text], or sources=path?"
    texts = arguments.iterable(texts, NAME, one=remedy, remedy=remedy)
    if not hasattr(texts, "to_pylist"):
        yield from texts
        return
    for start in range(0, len(texts), _ROWS):  # the items of an array of Arrow are not strings
        yield from texts.slice(start, _ROWS).to_pylist()


def _refuse_file_names(texts: Iterator[Any]) -> Iterator[Any]:
    first_texts = list(islice(texts, _FIRST))
    if first_texts and all(map(_names_file, first_texts)):
        raise ConfigError(
            f"{NAME} contains names of files, such as {quoted(first_texts[0])}; did you mean sources=? "
            "A text with a line end at its end is not a name"
        )
    return chain(first_texts, texts)


def _names_file(text: Any) -> bool:
    return isinstance(text, str) and os.path.exists(text)


def _encode_batch(texts: list[Any], first: int, errors: Errors, max_line: int | None) -> bytes:
    """Return texts as lines of UTF-8. first: the index of the first text"""
    has_one_line_each = False
    with suppress(TypeError, UnicodeEncodeError):  # `_encode` raises the error
        joined = "\n".join(texts) + "\n"
        data = joined.encode()
        has_one_line_each = joined.count("\n") == len(texts)
    if has_one_line_each and (max_line is None or find_long_line(data, max_line) < 0):
        return data
    return b"".join(_encode(text, first + i, errors, max_line) for i, text in enumerate(texts))


def _encode(text: Any, index: int, errors: Errors, max_line: int | None) -> bytes:
    """Return a text as lines of UTF-8, or as bytes that are not UTF-8, for a later check."""
    if _is_missing(text):
        if errors == "skip":
            return _NO_TEXT
        raise CorpusError(f"{NAME}[{index}] is {text}; remove it or pass", hint={"errors": "skip"})
    remedy = "give strings; name files by sources=, a column by its name"
    string = arguments.text(text, f"{NAME}[{index}]", remedy=remedy)
    if not string.endswith("\n"):
        string += "\n"
    if errors == "strict":
        _refuse_surrogate(string, index)
    data = string.encode(errors="surrogatepass")
    if max_line is not None and find_long_line(data, max_line) >= 0:
        raise LongLineError(
            f"{NAME}[{index}]: a line has more than {max_line:,} bytes; cut it, or raise max_line"
        )
    return data


def _refuse_surrogate(text: str, index: int) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise CorpusError(
            f"{NAME}[{index}] contains the lone surrogate U+{code:04X} at character "
            f"{error.start + 1}; repair it or pass",
            hint={"errors": "replace"},
        ) from None


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ == "NAType"


def _join(texts: Iterable[bytes], first_line: int, n_bytes: int, errors: Errors) -> Block:
    data = b"".join(texts)
    if first_line == 1:
        data = data.removeprefix(BYTE_ORDER_MARK)
    return checked_block(Block(NAME, first_line, count_lines(data), data, n_bytes), errors)
