"""Which piece has which id, and of what kind each piece is.

Usually ids are given out in a fixed order: special tokens, byte tokens, then `tokens`. A vocabulary that was read from
another library keeps the ids that it had there: its `order` says so, and may leave ids unused.

>>> kinds_of(("<unk>", "lo"), SpecialTokens(), ())
('unk', 'token')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, get_args

from volt.errors import quoted
from volt.text.markers import SUFFIX
from volt.text.special_tokens import SpecialTokens

Kind: TypeAlias = Literal["token", "unk", "bos", "eos", "pad", "control", "user", "byte", "marker", "unused"]
KINDS = get_args(Kind)
UNUSED = ""  # the piece of an id that nothing has
MOST_IDS = 1 << 21


def kinds_of(pieces: Sequence[str], special: SpecialTokens, others: Sequence[str]) -> tuple[Kind, ...]:
    """The kind of each piece. One that has a role and is a user token has the kind "user".

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
    """Where an order is not one of these pieces, and what is wrong there.

    reserved: the pieces that are no tokens;  tokens: the others, which must keep their order

    >>> list(order_faults(("a", "<s>", "", "b"), ["<s>"], ["a", "b"])), next(order_faults(("a",), [], ["a", "b"]))
    ([], (0, "no id for 'b'; give it one"))
    """
    known, places = {*reserved, *tokens}, dict[str, int]()
    held, kept = [*filter(None, order)], set(tokens)
    is_complete = len(held) == len(known) and known == {*held} and len(order) <= MOST_IDS
    if is_complete and [*filter(kept.__contains__, held)] == [*tokens]:  # in less time than to look for faults
        return
    for number, piece in enumerate(order):
        if piece == UNUSED:
            continue
        if piece not in known:
            yield (
                number,
                f"id {number} is that of {quoted(piece)}, which is no piece; add the token or leave the id out",
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
    """The first token whose id is lower than that of the token before."""
    last = -1
    for token in tokens:
        if places[token] < last:
            yield places[token], f"{quoted(token)} stands behind tokens of higher ids; list tokens in the order of ids"
            return
        last = places[token]
