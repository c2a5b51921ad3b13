"""Lines of ids → lines between special tokens, cut to a length, and padded to a rectangle.

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
from volt.display import counted
from volt.encode.arrays import Flags, Ints, Longs, sizes_of
from volt.encode.rendering import places_of
from volt.errors import ConfigError
from volt.text.special_tokens import Role
from volt.vocabulary import Vocabulary

_MOST = np.iinfo(np.int32).max
Side = Literal["right", "left"]


@dataclass(frozen=True, slots=True)
class Frame:
    """The ids before (front) and after (back) each line."""

    front: tuple[int, ...] = ()
    back: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("front", "back"):
            values = enumerate(arguments.several(getattr(self, name), name))
            ids = tuple(_checked_id(value, f"{name}[{place}]") for place, value in values)
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
        """Return the frame. Each argument is an id or a token of the vocabulary; None adds nothing."""
        ids = {
            name: (_id_of(vocabulary, token, name),)
            for name, token in (("bos", bos), ("prepend", prepend), ("eos", eos))
            if token is not None
        }
        front = ids.get("bos", ()) + ids.get("prepend", ())
        return cls(front, ids.get("eos", ()))

    @classmethod
    def of_roles(cls, vocabulary: Vocabulary, *, bos: bool = False, eos: bool = False) -> Frame:
        """Return the frame of the vocabulary's own bos and eos. Raises ConfigError if it lacks a requested one."""
        roles = {}
        if arguments.flag(bos, "add_bos"):
            roles["bos"] = role_id(vocabulary, "bos")
        if arguments.flag(eos, "add_eos"):
            roles["eos"] = role_id(vocabulary, "eos")
        return cls.of(vocabulary, **roles)

    def around(self, ids: Ints, ends: Longs) -> tuple[Ints, Longs]:
        """Put the special tokens around each line. Return the ids, and each line's new length, (n_lines,)."""
        starts = _starts(ends)
        edges = np.stack([starts, ends], axis=1)
        places = np.repeat(edges, (len(self.front), len(self.back)), axis=1)
        own = np.array(self.front + self.back, np.int32)
        ids = np.insert(ids, places.ravel(), np.tile(own, len(ends)))
        return ids, ends - starts + len(own)

    def fit(self, ids: Ints, ends: Longs, *, truncate: int | None) -> tuple[Ints, Longs]:
        """Put the special tokens around each line, after removing the last ids of lines longer than `truncate`.

        truncate: the maximum number of ids in a line, special tokens included; None for no limit
        Return the ids, and where each line ends, (n_lines,).
        """
        if truncate is not None:
            starts = _starts(ends)
            sizes = np.minimum(ends - starts, self.room(truncate))
            ids = ids[places_of(starts, sizes)]
            ends = np.cumsum(sizes)
        if not self.front + self.back:
            return ids, ends
        ids, sizes = self.around(ids, ends)
        return ids, np.cumsum(sizes)

    def room(self, truncate: int) -> int:
        """Return the number of ids of text in a line of `truncate` ids. Raises ConfigError if there is no room."""
        n_own = len(self.front) + len(self.back)
        low = max(1, n_own)
        return arguments.whole(truncate, "truncate", low=low, high=_MOST) - n_own


def _starts(ends: Longs) -> Longs:
    return np.append(0, ends)[:-1]


def role_id(vocabulary: Vocabulary, role: Role) -> int:
    """Return the id of the token with a role. Raises ConfigError if the vocabulary has no such token."""
    token = getattr(vocabulary.special, role)
    if token is None:
        remedy = f"name one: volt.read_vocabulary(path, {role}=TOKEN)"
        raise ConfigError(f"the vocabulary has no {role} token; {remedy}")
    return vocabulary.ids[token]


@dataclass(frozen=True, slots=True, eq=False)
class PaddedIds:
    """Lines of ids, padded to one length.

    ids: (n_lines, length) int32
    mask: (n_lines, length) bool, True for ids of the line, False for padding; also known as the attention mask

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
        sizes = sizes_of(ends)
        longest = int(sizes.max(initial=0))
        length = longest
        if pad_to is not None:
            length = arguments.whole(pad_to, "pad_to", low=1, high=_MOST)
        if longest > length:
            index = int(sizes.argmax())
            line = place(index) if place else f"line {index + 1}"
            fault = f"{line}, the longest line, has {counted(longest, 'id')}, more than pad_to, {length}"
            raise ConfigError(f"{fault}; pass", hint={"pad_to": longest, "truncate": length})

        mask = np.arange(length) < sizes[:, None]
        if arguments.choice(side, "side", get_args(Side)) == "left":
            mask = mask[:, ::-1].copy()
        padded = np.full(mask.shape, pad, np.int32)
        padded[mask] = ids
        return cls(padded, mask)


def _checked_id(value: object, name: str) -> int:
    return arguments.whole(value, name, low=0, high=_MOST)


def _id_of(vocabulary: Vocabulary, token: int | str, name: str) -> int:
    if not isinstance(token, str):
        return _checked_id(token, name)
    number = vocabulary.id_of(token)
    if number is None:
        fault = f"{name} {arguments.shortened(token)!r} is not a token of the vocabulary"
        raise ConfigError(f"{fault}; give one of its special tokens, or an id")
    return number
