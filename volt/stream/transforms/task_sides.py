r"""Transforms of a task's two sides: copy the source as target, tag the languages, drop long lines.

>>> tags = LangPrefixBoth(src_lang="de", tgt_lang="en", extra_prefix="<BT>")
>>> tags(Batch.of(["ein Haus\ta house"]), LineRng(1, 2)).lines
['<FROM_de> <TO_en> <BT> ein Haus\ta house']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column
from volt.stream.transforms.edits import surrounded
from volt.stream.transforms.fields import (
    ConfiguredTransform,
    Fields,
    check_fields,
    check_text_option,
    map_columns,
    with_fields,
)
from volt.stream.transforms.filters import Filter, kept
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.tokens import token_counts
from volt.stream.transforms.transform import LineFault


@dataclass(frozen=True, slots=True)
class DuplicateMono(ConfiguredTransform):
    """Copy field 1 to field 2, so that a monolingual line has two sides; a line that has two already is unfit."""

    name: ClassVar[str] = "duplicate_mono"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        batch = batch.split(2)
        result = np.flatnonzero(batch.columns[1].present)
        if len(result):
            raise LineFault(dict.fromkeys(result.tolist(), "has a second field already; duplicate_mono makes one"))
        return batch.with_columns({2: batch.columns[0]})


@dataclass(frozen=True, slots=True)
class LangPrefixBoth(ConfiguredTransform):
    """Put both languages before field 1, as "<FROM_de> <TO_en> "; a task that names its languages gives them."""

    name: ClassVar[str] = "lang_prefix_both"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    from_task: ClassVar[tuple[str, ...]] = ("src_lang", "tgt_lang", "extra_prefix")
    src_lang: str | None = None
    """The language of field 1; by default the task's."""
    tgt_lang: str | None = None
    """The language of field 2; by default the task's."""
    extra_prefix: str | None = None
    """A further tag before field 1, after the languages, such as <BT>; by default the task's, if it has one."""

    def __post_init__(self) -> None:
        for option in ("src_lang", "tgt_lang"):
            if getattr(self, option) is None:
                raise ConfigError(f"{option}: is missing; give it here, or as {option} of the task")
            _check_token(getattr(self, option), option)
        if self.extra_prefix is not None:
            check_text_option(self.extra_prefix, option="extra_prefix")

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        before = "".join(f"{token} " for token in self.special_tokens())
        return map_columns(batch, lambda column: _prefixed(column, before), fields=(1,))

    def special_tokens(self) -> tuple[str, ...]:
        """Return the tokens that it puts before lines, which a vocabulary of them needs."""
        return f"<FROM_{self.src_lang}>", f"<TO_{self.tgt_lang}>", *filter(None, (self.extra_prefix or "").split(" "))


@dataclass(frozen=True, slots=True)
class FilterTooLong(Filter):
    """Drop lines in which a field has more than so many tokens: what spaces separate, or ids."""

    name: ClassVar[str] = "filter_too_long"
    max_len: int
    """The most tokens that pass."""
    fields: Fields | None = None
    """The fields to measure; by default 1 and, where a line has it, 2."""

    def __post_init__(self) -> None:
        if arguments.whole(self.max_len, "max_len") < 0:
            raise ConfigError(f"max_len: {self.max_len}; give a number of tokens, from 0 up")
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        batch, numbers = with_fields(batch, self.fields)
        counts = [token_counts(batch.columns[number - 1]) for number in numbers]
        return kept(batch, np.logical_and.reduce([count <= self.max_len for count in counts]))

    def deterministic(self) -> None:
        """Return None: at validation and translation no line is lost."""


def _prefixed(column: Column, before: str) -> Column:
    """Return the values after tokens; an empty one leaves no space after them.

    >>> _prefixed(Column.of(["a", ""]), "<TO_en> ").strings()
    ['<TO_en> a', '<TO_en>']
    """
    output, empty = surrounded(column, before, ""), np.flatnonzero(column.sizes == 0)
    return output.replaced(empty, Column.repeated(before.rstrip(" "), len(empty))) if len(empty) else output


def _check_token(text: str, option: str) -> None:
    """Raise ConfigError if a text cannot be part of a token."""
    check_text_option(text, option=option)
    if not text or " " in text:
        raise ConfigError(f"{option}: {text!r}; give a language's name without spaces, such as de")
