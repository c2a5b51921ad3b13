"""Lines of ids → lines between special tokens, cut to a length, and padded to a rectangle.

    ids [5 6 7], ends [2 3]     the lines [5 6] and [7]
    Frame((1,), (2,)).fit       [1 5 6 2] and [1 7 2]; truncated to 3 ids, [1 5 2] and [1 7 2]
    PaddedIds.of(…, pad=0)      the rows [5 6] and [7 0]

Here and in the functions, lines are one flat array of ids, and an array of where each line ends in
it.

>>> ids, ends = Frame((1,), (2,)).fit(np.array([5, 6, 7], np.int32), np.array([2, 3]), truncate=3)
>>> ids, ends
(array([1, 5, 2, 1, 7, 2], dtype=int32), array([3, 6]))
>>> PaddedIds.of(np.array([5, 6, 7], np.int32), np.array([2, 3]), pad=0).ids
array([[5, 6],
       [7, 0]], dtype=int32)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from volt import arguments
from volt.array_types import Flags, Ints, Longs
from volt.display import counted
from volt.encode.arrays import ends_to_sizes, row_indices
from volt.errors import ConfigError
from volt.text.special_tokens import Role
from volt.vocabulary import Vocabulary

_MOST = np.iinfo(np.int32).max  # the greatest id, and the most ids of a line
Side = Literal["right", "left"]


@dataclass(frozen=True, slots=True)
class Frame:
    """The ids before (front) and after (back) each line."""

    front: tuple[int, ...] = ()
    back: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("front", "back"):
            values = enumerate(arguments.several(getattr(self, name), name))
            ids = tuple(_check_id(value, f"{name}[{index}]") for index, value in values)
            object.__setattr__(self, name, ids)  # the dataclass is frozen

    @classmethod
    def of(
        cls,
        vocabulary: Vocabulary,
        *,
        bos: int | str | None = None,
        prepend: int | str | None = None,
        eos: int | str | None = None,
    ) -> Frame:
        """Return the frame with bos, then prepend, before each line, and eos after it.

        Each argument is an id or a token of the vocabulary; None adds nothing.
        """
        front = [("bos", bos), ("prepend", prepend)]
        return cls(
            tuple(_find_id(vocabulary, token, name) for name, token in front if token is not None),
            () if eos is None else (_find_id(vocabulary, eos, "eos"),),
        )

    @classmethod
    def of_roles(cls, vocabulary: Vocabulary, *, bos: bool = False, eos: bool = False) -> Frame:
        """Return the frame with the vocabulary's bos before each line, and its eos after it.

        bos, eos: whether the frame has this token
        Raises ConfigError if the vocabulary lacks a requested token.
        """
        front = (role_id(vocabulary, "bos"),) if arguments.flag(bos, "add_bos") else ()
        back = (role_id(vocabulary, "eos"),) if arguments.flag(eos, "add_eos") else ()
        return cls(front, back)

    def fit(self, ids: Ints, ends: Longs, *, truncate: int | None = None) -> tuple[Ints, Longs]:
        """Put the special tokens around each line, and return the ids and ends of the new lines.

        ids: (n,) int32;  ends: (n_lines,) int64, where each line ends
        truncate: the maximum number of ids in a line, special tokens included; the last ids of
            longer lines are removed first. None for no limit.

        Raises ConfigError if `truncate` leaves no room for the special tokens.
        """
        n_special = len(self.front) + len(self.back)
        starts = np.append(0, ends)[:-1]
        if truncate is not None:
            length = arguments.whole(truncate, "truncate", low=max(1, n_special), high=_MOST)
            sizes = np.minimum(ends - starts, length - n_special)
            ids = ids[row_indices(starts, sizes)]
            ends = np.cumsum(sizes)
            starts = ends - sizes
        if not n_special:
            return ids, ends
        edges = np.stack([starts, ends], axis=1)
        insert_at = np.repeat(edges, (len(self.front), len(self.back)), axis=1)
        special = np.array(self.front + self.back, np.int32)
        ids = np.insert(ids, insert_at.ravel(), np.tile(special, len(ends)))
        return ids, ends + n_special * np.arange(1, len(ends) + 1)


def role_id(vocabulary: Vocabulary, role: Role) -> int:
    """Return the id of the token with a role. Raises ConfigError if there is no such token."""
    token = getattr(vocabulary.special, role)
    if token is None:
        remedy = f"name one: volt.read_vocabulary(path, {role}=TOKEN)"
        raise ConfigError(f"the vocabulary has no {role} token; {remedy}")
    return vocabulary.ids[token]


def _check_id(value: object, name: str) -> int:
    return arguments.whole(value, name, low=0, high=_MOST)


def _find_id(vocabulary: Vocabulary, token: int | str, name: str) -> int:
    if not isinstance(token, str):
        return _check_id(token, name)
    number = vocabulary.id_of(token)
    if number is None:
        fault = f"{name} {arguments.shortened(token)!r} is not a token of the vocabulary"
        raise ConfigError(f"{fault}; give one of its special tokens, or an id")
    return number


@dataclass(frozen=True, slots=True, eq=False)
class PaddedIds:
    """Lines of ids, padded to one length.

    ids: (n_lines, length) int32
    mask: (n_lines, length) bool, True for ids of the line, False for padding; also known as the
        attention mask

    >>> PaddedIds.of(np.array([5, 6, 7], np.int32), np.array([2, 3]), pad=0, pad_to=3).ids.tolist()
    [[5, 6, 0], [7, 0, 0]]
    """

    ids: Ints
    mask: Flags

    @classmethod
    def of(
        cls,
        ids: Ints,
        ends: Longs,
        *,
        pad: int,
        pad_to: int | None = None,
        side: Side = "right",
        place: Callable[[int], str] | None = None,
    ) -> PaddedIds:
        """Pad lines.

        ids: (n,) int32
        ends: (n_lines,) int64, where each line ends
        pad: the id to pad with
        pad_to: the length; by default, the length of the longest line
        side: where padding goes: "right" or "left"
        place: maps a line's index to the line's name in errors; by default "line N"

        Raises ConfigError if a line is longer than `pad_to`.
        """
        sizes = ends_to_sizes(ends)
        longest = int(sizes.max(initial=0))
        length = longest
        if pad_to is not None:
            length = arguments.whole(pad_to, "pad_to", low=1, high=_MOST)
        if longest > length:
            index = int(sizes.argmax())
            line = place(index) if place else f"line {index + 1}"
            n_ids = counted(longest, "id")
            fault = f"{line}, the longest line, has {n_ids}, more than pad_to, {length}"
            raise ConfigError(f"{fault}; pass", hint={"pad_to": longest, "truncate": length})

        mask = np.arange(length) < sizes[:, None]
        if arguments.choice(side, "side", get_args(Side)) == "left":
            mask = mask[:, ::-1].copy()
        padded = np.full(mask.shape, pad, np.int32)
        padded[mask] = ids
        return cls(padded, mask)
