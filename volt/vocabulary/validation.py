"""The kinds of pieces, and the checks of a vocabulary's merges, tokens and order.

>>> next(merge_faults([("l", "o"), ("lo", "wer")], {"lo", "lower"}, "none"))
('merges', 1, "'wer' is neither a character nor made by an earlier merge; add that merge")
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence, Set
from itertools import chain, pairwise
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
    if are_pairs and set(map(type, chain.from_iterable(merges))) <= {str}:  # ten times as fast
        return tuple(merges)
    pairs = []
    for rank, merge in enumerate(merges):
        parts = arguments.texts(merge, f"merges[{rank}]", one="give a pair of strings")
        if len(parts) != 2:
            raise kind(f"merges[{rank}] has {len(parts)} parts; give a pair of strings")
        pairs.append((parts[0], parts[1]))
    return tuple(pairs)


def kinds_of(
    pieces: Sequence[str], special: SpecialTokens, others: Sequence[str]
) -> tuple[Kind, ...]:
    """Return the kind of each piece; a user token with a role is "user". others: byte tokens and the token "</w>"

    >>> kinds_of(("a", "", "<url>"), SpecialTokens(user=("<url>",)), ())
    ('token', 'unused', 'user')
    """
    kinds: dict[str, Kind] = {UNUSED: "unused"}
    kinds |= dict.fromkeys(others, "byte")
    if SUFFIX in others:
        kinds[SUFFIX] = "marker"
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
            message = f"id {number} belongs to {quoted(piece)}, which is not a piece"
            yield "pieces", number, f"{message}; add the token or remove the id"
        elif piece in places:
            message = f"{quoted(piece)} has the ids {places[piece]} and {number}"
            yield "pieces", number, f"{message}; leave one unused"
        places.setdefault(piece, number)

    for piece in (*reserved, *tokens):
        if piece not in places:
            yield "pieces", len(order) - 1, f"no id for {quoted(piece)}; give it one"
            return
    if len(order) > MOST_IDS:
        message = f"{len(order):,} ids, but the limit is {MOST_IDS:,}; remove unused ones"
        yield "pieces", MOST_IDS, message
        return
    for token, following in pairwise(tokens):
        if places[following] < places[token]:
            message = f"{quoted(following)} follows tokens of higher ids"
            yield "pieces", places[following], f"{message}; list tokens in the order of their ids"
            return


def joins_later(merges: Pairs) -> bool:
    """Check whether some merge joins a part that only a later merge makes."""
    later = set(map("".join, merges))
    for left, right in merges:
        if left in later or right in later:
            return True
        later.discard(left + right)
    return False


def merge_faults(
    merges: Pairs, results: Set[str], marker: Marker, *, in_any_order: bool = False
) -> Iterator[Fault]:
    """Yield the faults of merges. results: of merges;  in_any_order: whether later merges may make earlier parts"""
    is_text = _is_text("".join(set(chain.from_iterable(merges))))
    known = set(results) if in_any_order else set[str]()
    which = "a merge" if in_any_order else "an earlier merge"
    for rank, (left, right) in enumerate(merges):
        for part in (left, right):
            if not is_text and not _is_text(part):
                message = f"{quoted(part)} contains a lone surrogate, which is not text"
                yield "merges", rank, f"{message}; remove the merge"
            if part not in known and atom_code(part, marker=marker) is None:
                message = f"{quoted(part)} is neither a character nor made by {which}"
                yield "merges", rank, f"{message}; add that merge"
        known.add(left + right)


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
    if counts and len(counts) != len(tokens):
        message = f"{len(tokens)} tokens but {len(counts)} counts; give one count for each"
        yield "tokens", len(tokens) - 1, message
    is_text = _is_text("".join(tokens))
    taken = set(reserved)
    first = dict[str, int]()
    for index, token in enumerate(tokens):
        fault = ""
        if not is_text and not _is_text(token):
            fault = "contains a lone surrogate, which is not text; remove it"
        elif token in first:
            fault = f"repeats token {first[token] + 1}; remove one"
        elif token in taken:
            fault = "is spelled like a special token; rename the special token"
        elif token not in results and not whole_words and atom_code(token, marker=marker) is None:
            message = f"no merge makes {quoted(token)}; add the merge or remove the token"
            yield "tokens", index, message
        elif counts and counts[index] < 0:
            fault = f"has the count {shown(counts[index])}; give 0 or more"
        if fault:
            yield "tokens", index, f"token {quoted(token)} {fault}"
        first.setdefault(token, index)


def _is_text(token: str) -> bool:
    return token.isascii() or not _SURROGATE.search(token)
