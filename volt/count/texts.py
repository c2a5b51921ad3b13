r"""Texts in memory → arrays of texts, which are counted like the texts of a table's column.

    ["low\nlower", "old"]  →  an array of two texts, whose first has a line end

The texts are read once, in the caller's thread, a block at a time. So they may come from a generator
over more text than fits into memory, or from a database whose cursor belongs to the thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from volt import arguments
from volt.errors import ConfigError, CorpusError, quoted
from volt.files.blocks import Errors
from volt.text.normalizer import check_text

if TYPE_CHECKING:
    import pyarrow

NAME = "texts"  # the argument, and the path of its blocks
_ROWS = 1 << 16  # rows of an Arrow array that become strings of Python together
_MOST_NAMES = 64  # first texts that may be names of files
_MISSING = ("None", "nan", "<NA>")


def text_arrays(
    texts: Any, *, block_size: int, errors: Errors
) -> Iterator[tuple[pyarrow.Array, int]]:
    r"""Yield texts as arrays, (n,) large_string, each with the number of texts that were skipped.

    texts: strings, in a list, a generator, a Series of pandas or polars, a column of `datasets`, an
        array of Arrow, or any other iterable
    block_size: about how many characters the texts of an array have together
    errors: for texts with lone surrogates, "strict", "replace" or "skip"; "skip" also for missing
        texts (None or NaN)
    Raises CorpusError, with the index of the text, if a text is bad or missing; ArgumentError for an
    item that is not a text; ConfigError if the texts are the names of files.

    >>> [array.to_pylist() for array, _ in text_arrays(["low", "old\n", ""], block_size=7, errors="skip")]
    [['low', 'old\n'], ['']]
    """
    import pyarrow as pa

    waiting = list[str]()
    n_characters = 0
    n_skipped = 0
    for index, text in enumerate(_refuse_file_names(_strings(texts))):
        string = _check(text, index, errors)
        if string is None:
            n_skipped += 1
        else:
            waiting.append(string)
            n_characters += len(string)
        if n_characters >= block_size:
            yield pa.array(waiting, pa.large_string()), n_skipped
            waiting = []
            n_characters = 0
            n_skipped = 0
    yield pa.array(waiting, pa.large_string()), n_skipped


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
    first_texts = list(islice(texts, _MOST_NAMES))
    if first_texts and all(isinstance(text, str) and os.path.exists(text) for text in first_texts):
        raise ConfigError(
            f"{NAME} contains names of files, such as {quoted(first_texts[0])}; did you mean sources=? "
            "A text with a line end at its end is not a name"
        )
    return chain(first_texts, texts)


def _check(text: Any, index: int, errors: Errors) -> str | None:
    """Return a text that is valid Unicode; None to skip it."""
    name = f"{NAME}[{index}]"
    if not isinstance(text, str) and str(text) in _MISSING:
        if errors == "skip":
            return None
        raise CorpusError(f"{name} is {text}; remove it or pass", hint={"errors": "skip"})
    remedy = "give strings; name files by sources=, a column by its name"
    string = arguments.text(text, name, remedy=remedy)
    try:
        return check_text(string)
    except CorpusError as error:
        if errors == "strict":
            raise error.reworded(f"{name}: {error.message}") from None
    if errors == "skip":
        return None
    return string.encode(errors="surrogatepass").decode(errors="replace")
