r"""Texts in memory → blocks of lines, as if each text were written to a file, and a line end after it.

    ["low\nlower", "old\n"]  →  Block("low\nlower\nold\n")

The texts are read once, in the caller's thread, a block at a time. So they may come from a generator
over more text than fits into memory, or from a database whose cursor belongs to the thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any

from volt import arguments
from volt.errors import ConfigError, CorpusError, quoted
from volt.files.blocks import Block, Errors, ReadProgress, checked_block, join_into_blocks
from volt.text.normalizer import check_text

NAME = "texts"  # the argument, and the path of its blocks
_ROWS = 1 << 16  # rows of an Arrow array that become strings of Python together
_BATCH = 64  # texts that are encoded together; they are few, because each may be long
_MISSING = ("None", "nan", "<NA>")
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
    Raises CorpusError, with the index of the text, if a text is bad or missing, or with the number of
    the line, counted over all texts, if it is too long. Raises ArgumentError for an item that is not
    a text, ConfigError if the texts are the names of files.

    >>> blocks = text_blocks(["low", "old\n", ""], block_size=9, errors="strict", max_line=None)
    >>> [(block.first_line, block.data) for block in blocks]
    [(1, b'low\nold\n\n')]
    """
    progress = ReadProgress(NAME)
    lines = _encode_all(_refuse_file_names(_strings(texts)), errors, progress)
    for block in join_into_blocks(lines, progress, block_size=block_size, max_line=max_line):
        yield checked_block(block, errors)


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
    first_texts = list(islice(texts, _BATCH))
    if first_texts and all(isinstance(text, str) and os.path.exists(text) for text in first_texts):
        raise ConfigError(
            f"{NAME} contains names of files, such as {quoted(first_texts[0])}; did you mean sources=? "
            "A text with a line end at its end is not a name"
        )
    return chain(first_texts, texts)


def _encode_all(texts: Iterator[Any], errors: Errors, progress: ReadProgress) -> Iterator[bytes]:
    """Yield the lines of a few texts at a time, as UTF-8, or as other bytes for a later check."""
    n_texts = 0
    while batch := list(islice(texts, _BATCH)):
        has_one_line_each = False
        with suppress(TypeError, UnicodeEncodeError):  # `_encode` raises the error
            joined = "\n".join(batch) + "\n"
            data = joined.encode()
            has_one_line_each = joined.count("\n") == len(batch)
        if not has_one_line_each:
            data = b"".join(_encode(text, n_texts + i, errors) for i, text in enumerate(batch))
        n_texts += len(batch)
        progress.n_raw_bytes += len(data)
        yield data


def _encode(text: Any, index: int, errors: Errors) -> bytes:
    name = f"{NAME}[{index}]"
    if not isinstance(text, str) and str(text) in _MISSING:
        if errors == "skip":
            return _NO_TEXT
        raise CorpusError(f"{name} is {text}; remove it or pass", hint={"errors": "skip"})
    remedy = "give strings; name files by sources=, a column by its name"
    string = arguments.text(text, name, remedy=remedy)
    if errors == "strict":
        try:
            check_text(string)
        except CorpusError as error:
            raise error.reworded(f"{name}: {error.message}") from None
    if not string.endswith("\n"):
        string += "\n"
    return string.encode(errors="surrogatepass")
