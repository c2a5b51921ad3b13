"""The kinds of pieces, and the checks of a vocabulary's merges, tokens and order.

>>> next(merge_faults([("l", "o"), ("lo", "wer")], {"lo", "lower"}, "none"))
('merges', 1, "'wer' is neither a character nor made by an earlier merge; add that merge")
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence, Set
from itertools import chain, count, pairwise, repeat
from operator import ge
from typing import Any, Literal, TypeAlias, get_args

from volt import arguments
from volt.errors import VocabularyError, VoltError, quoted, shown
from volt.text.atoms import SUFFIX, Marker, atom_code
from volt.text.special_tokens import SpecialTokens

Kind: TypeAlias = Literal[
    "token", "unk", "bos", "eos", "pad", "control", "user", "byte", "marker", "unused"
]
KINDS = get_args(Kind)
UNUSED = ""  # the piece of an unused id
MOST_IDS = 1 << 21
_SURROGATE = re.compile("[\ud800-\udfff]")

Pairs: TypeAlias = Sequence[tuple[str, str]]
Fault: TypeAlias = tuple[str, int, str]  # the list, the index in it, and what is wrong


def as_pairs(
    merges: Any, *, kind: type[VoltError] = VocabularyError
) -> tuple[tuple[str, str], ...]:
    """Return merges as pairs of strings. Raises `kind` if a merge does not have exactly two parts.

    >>> as_pairs([["l", "o"]])
    (('l', 'o'),)
    """
    merges = arguments.several(merges, "merges")
    are_pairs = set(map(type, merges)) <= {tuple} and set(map(len, merges)) <= {2}
    if are_pairs and set(map(type, chain.from_iterable(merges))) <= {
        str
    }:  # ten times as fast as a loop
        return tuple(merges)
    pairs = [
        arguments.texts(pair, f"merges[{rank}]", one="give a pair of strings")
        for rank, pair in enumerate(merges)
    ]
    for rank, pair in enumerate(pairs):
        if len(pair) != 2:
            raise kind(f"merges[{rank}] has {len(pair)} parts; give a pair of strings")
    return tuple((left, right) for left, right in pairs)


def kinds_of(
    pieces: Sequence[str], special: SpecialTokens, others: Sequence[str]
) -> tuple[Kind, ...]:
    """Return the kind of each piece; a user token with a role is "user". others: byte tokens and the token "</w>"

    >>> kinds_of(("a", "", "<url>"), SpecialTokens(user=("<url>",)), ())
    ('token', 'unused', 'user')
    """
    kinds: dict[str, Kind] = {UNUSED: "unused"}
    kinds |= {piece: "marker" if piece == SUFFIX else "byte" for piece in others}
    kinds |= dict.fromkeys(special.control, "control")
    kinds |= {token: role for role, token in reversed(special.roles.items())}
    kinds |= dict.fromkeys(special.user, "user")
    return tuple(kinds.get(piece, "token") for piece in pieces)


def order_faults(
    order: Sequence[str], reserved: Sequence[str], tokens: Sequence[str]
) -> Iterator[Fault]:
    """Yield the faults of an order of pieces. reserved: special and byte tokens;  tokens: all others, by id"""
    known = {*reserved, *tokens}
    places = dict[str, int]()
    for number, piece in enumerate(order):
        if piece == UNUSED:
            continue
        if piece not in known:
            message = f"id {number} belongs to {quoted(piece)}, which is not a piece; add the token or remove the id"
            yield "pieces", number, message
        elif piece in places:
            yield (
                "pieces",
                number,
                f"{quoted(piece)} has the ids {places[piece]} and {number}; leave one unused",
            )
        places.setdefault(piece, number)
    if missing := next((piece for piece in (*reserved, *tokens) if piece not in places), None):
        yield "pieces", len(order) - 1, f"no id for {quoted(missing)}; give it one"
    elif len(order) > MOST_IDS:
        yield (
            "pieces",
            MOST_IDS,
            f"{len(order):,} ids, but the limit is {MOST_IDS:,}; remove unused ones",
        )
    else:
        for token, following in pairwise(tokens):
            if places[following] < places[token]:
                message = f"{quoted(following)} follows tokens of higher ids; list tokens in the order of their ids"
                yield "pieces", places[following], message
                return


def joins_later(merges: Pairs) -> bool:
    """Check whether some merge joins a part that only a later merge makes."""
    first = dict(zip(map("".join, reversed(merges)), range(len(merges) - 1, -1, -1), strict=True))
    return any(
        any(map(ge, map(first.get, parts, repeat(-1)), count()))
        for parts in zip(*merges, strict=True)
    )


def merge_faults(
    merges: Pairs, results: Set[str], marker: Marker, *, in_any_order: bool = False
) -> Iterator[Fault]:
    """Yield the faults of merges. results: of merges;  in_any_order: whether later merges may make earlier parts"""
    is_text = _is_text("".join(set(chain.from_iterable(merges))))
    output = set(results) if in_any_order else set[str]()
    which = "a merge" if in_any_order else "an earlier merge"
    for rank, (left, right) in enumerate(merges):
        for part in (left, right):
            if not is_text and not _is_text(part):
                yield (
                    "merges",
                    rank,
                    f"{quoted(part)} contains a lone surrogate, which is not text; remove the merge",
                )
            if part not in output and atom_code(part, marker=marker) is None:
                yield (
                    "merges",
                    rank,
                    f"{quoted(part)} is neither a character nor made by {which}; add that merge",
                )
        output.add(left + right)


def token_faults(
    tokens: Sequence[str],
    counts: Sequence[int],
    results: Set[str],
    marker: Marker,
    *,
    reserved: Collection[str],
    whole_words: bool,
) -> Iterator[Fault]:
    """Yield the faults of tokens and of their counts. results: of merges;  reserved: special and byte tokens"""
    first = dict[str, int]()
    taken = set(reserved)
    if counts and len(counts) != len(tokens):
        yield (
            "tokens",
            len(tokens) - 1,
            f"{len(tokens)} tokens but {len(counts)} counts; give one count for each",
        )
    is_text = _is_text("".join(tokens))
    for index, token in enumerate(tokens):
        if not is_text and not _is_text(token):
            yield (
                "tokens",
                index,
                f"token {quoted(token)} contains a lone surrogate, which is not text; remove it",
            )
        elif token in first:
            yield (
                "tokens",
                index,
                f"token {quoted(token)} repeats token {first[token] + 1}; remove one",
            )
        elif token in taken:
            yield (
                "tokens",
                index,
                f"token {quoted(token)} is spelled like a special token; rename the special token",
            )
        elif token not in results and not whole_words and atom_code(token, marker=marker) is None:
            yield (
                "tokens",
                index,
                f"no merge makes {quoted(token)}; add the merge or remove the token",
            )
        elif counts and counts[index] < 0:
            yield (
                "tokens",
                index,
                f"token {quoted(token)} has the count {shown(counts[index])}; give 0 or more",
            )
        first.setdefault(token, index)


def _is_text(token: str) -> bool:
    return token.isascii() or not _SURROGATE.search(token)
