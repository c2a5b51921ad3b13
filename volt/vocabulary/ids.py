"""The ids and kinds of pieces, and the checks of a vocabulary's merges, tokens and order.

Usually ids are assigned in a fixed order: special tokens, byte tokens, then `tokens`. A vocabulary that was read from
another library keeps its ids: `order` lists the pieces by id, and may leave ids unused.

A part of a merge must be a character or the result of an earlier merge (of any merge, where ranks belong to results). A
token must be a character or the result of a merge, unless the vocabulary holds whole words.

>>> kinds_of(("<unk>", "lo"), SpecialTokens(), ())
('unk', 'token')
>>> next(merge_faults([("l", "o"), ("lo", "wer")], "none"))
('merges', 1, "no character and no earlier merge makes 'wer'; restore that merge")
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence, Set
from itertools import chain
from typing import Literal, TypeAlias, get_args

from volt.errors import quoted, shown
from volt.text.characters import SUFFIX, Marker, atom_code
from volt.text.special_tokens import SpecialTokens

Kind: TypeAlias = Literal["token", "unk", "bos", "eos", "pad", "control", "user", "byte", "marker", "unused"]
KINDS = get_args(Kind)
UNUSED = ""  # the piece of an unused id
MOST_IDS = 1 << 21


def kinds_of(pieces: Sequence[str], special: SpecialTokens, others: Sequence[str]) -> tuple[Kind, ...]:
    """Return the kind of each piece. One that has a role and is a user token has the kind "user".

    pieces: by id;  others: the byte tokens and the lone marker, where the vocabulary has them

    >>> kinds_of(("a", "", "<url>"), SpecialTokens(user=("<url>",)), ())
    ('token', 'unused', 'user')
    """
    kinds: dict[str, Kind] = {UNUSED: "unused"}
    kinds |= {piece: "marker" if piece == SUFFIX else "byte" for piece in others}
    kinds |= dict.fromkeys(special.control, "control")
    kinds |= {token: role for role, token in reversed(special.roles.items())}
    kinds |= dict.fromkeys(special.user, "user")
    return tuple(kinds.get(piece, "token") for piece in pieces)


def order_faults(order: Sequence[str], reserved: Sequence[str], tokens: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the faults of an order of pieces: the id, and what is wrong.

    reserved: special and byte tokens;  tokens: all others, whose order must be kept

    >>> list(order_faults(("a", "<s>", "", "b"), ["<s>"], ["a", "b"])), next(order_faults(("a",), [], ["a", "b"]))
    ([], (0, "no id for 'b'; give it one"))
    """
    known, places = {*reserved, *tokens}, dict[str, int]()
    held, retained = [*filter(None, order)], set(tokens)
    is_complete = len(held) == len(known) and known == {*held} and len(order) <= MOST_IDS
    if is_complete and [*filter(retained.__contains__, held)] == [*tokens]:  # faster than the search for faults
        return
    for number, piece in enumerate(order):
        if piece == UNUSED:
            continue
        if piece not in known:
            yield (
                number,
                f"id {number} belongs to {quoted(piece)}, which is not a piece; add the token or leave the id out",
            )
        elif piece in places:
            yield number, f"{quoted(piece)} has the ids {places[piece]} and {number}; leave one unused"
        places.setdefault(piece, number)
    if missing := next((piece for piece in (*reserved, *tokens) if piece not in places), None):
        yield len(order) - 1, f"no id for {quoted(missing)}; give it one"
    elif len(order) > MOST_IDS:
        yield MOST_IDS, f"{len(order):,} ids; {MOST_IDS:,} are the most; leave out unused ones"
    else:
        yield from _disorder(tokens, places)


def _disorder(tokens: Sequence[str], places: dict[str, int]) -> Iterator[tuple[int, str]]:
    """Yield the first token whose id is lower than its predecessor's."""
    last = -1
    for token in tokens:
        if places[token] < last:
            yield places[token], f"{quoted(token)} follows tokens of higher ids; list tokens in the order of their ids"
            return
        last = places[token]


Pairs: TypeAlias = Sequence[tuple[str, str]]
Fault: TypeAlias = tuple[str, int, str]
_SURROGATE = re.compile("[\ud800-\udfff]")


def merge_faults(merges: Pairs, marker: Marker, *, in_any_order: bool = False) -> Iterator[Fault]:
    """Yield the faults of merges. in_any_order: whether a later merge may make the parts of an earlier one.

    >>> next(merge_faults([("ab", "c"), ("a", "b")], "none", in_any_order=True), None)
    """
    output = set(map("".join, merges)) if in_any_order else set[str]()
    is_text = _is_text("".join(chain.from_iterable(merges)))
    if is_text and in_any_order and _are_atoms(set(chain.from_iterable(merges)) - output, marker):
        return
    which = "merge" if in_any_order else "earlier merge"
    for rank, (left, right) in enumerate(merges):
        for part in (left, right):
            if not is_text and not _is_text(part):
                yield "merges", rank, f"{quoted(part)} holds a lone surrogate, which is not text; remove the merge"
            if part not in output and atom_code(part, marker=marker) is None:
                yield "merges", rank, f"no character and no {which} makes {quoted(part)}; restore that merge"
        output.add(left + right)


def token_faults(
    tokens: Sequence[str], counts: Sequence[int], merges: Pairs, marker: Marker, *, reserved: Collection[str],
    whole_words: bool,
) -> Iterator[Fault]:  # fmt: skip
    """Yield the faults of tokens and of their counts. reserved: special and byte tokens

    >>> next(token_faults(["a", "<s>"], (), [], "none", reserved=["<s>"], whole_words=False))
    ('tokens', 1, "token '<s>' is spelled like a special token; rename the special token")
    """
    first, output, taken = dict[str, int](), set(map("".join, merges)), set(reserved)
    if counts and len(counts) != len(tokens):
        yield "tokens", len(tokens) - 1, f"{len(tokens)} tokens but {len(counts)} counts"
    is_text, retained = _is_text("".join(tokens)), set(tokens)
    is_sound = len(retained) == len(tokens) and taken.isdisjoint(retained) and min(counts, default=0) >= 0
    if is_text and is_sound and (whole_words or _are_atoms(retained - output, marker)):  # faster than a look at each
        return
    for index, token in enumerate(tokens):
        if not is_text and not _is_text(token):
            yield "tokens", index, f"token {quoted(token)} holds a lone surrogate, which is not text; remove it"
        elif token in first:
            yield "tokens", index, f"token {quoted(token)} repeats token {first[token] + 1}; remove one"
        elif token in taken:
            message = f"token {quoted(token)} is spelled like a special token; rename the special token"
            yield "tokens", index, message
        elif token not in output and not whole_words and atom_code(token, marker=marker) is None:
            yield "tokens", index, f"no merge makes {quoted(token)}; add the merge or remove the token"
        elif counts and counts[index] < 0:
            yield "tokens", index, f"token {quoted(token)} has the count {shown(counts[index])}; give 0 or more"
        first.setdefault(token, index)


def _are_atoms(tokens: Set[str], marker: Marker) -> bool:
    return all(atom_code(token, marker=marker) is not None for token in tokens)


def _is_text(token: str) -> bool:
    return token.isascii() or not _SURROGATE.search(token)
