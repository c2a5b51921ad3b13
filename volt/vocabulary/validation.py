"""Check a vocabulary's merges, tokens and order of ids, and name the kind of each piece.

Each check yields `Fault`s: the name of a list of the vocabulary, the index of a bad entry in this
list, and a message with a remedy. `Vocabulary` raises the first one as a VocabularyError. Here,
merge 1 joins "lo" and "wer", but nothing makes "wer":

>>> next(find_merge_faults([("l", "o"), ("lo", "wer")], {"lo", "lower"}, "none"))
('merges', 1, "'wer' is neither a character nor made by an earlier merge; add that merge")
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from itertools import chain, pairwise
from typing import Any, Literal, TypeAlias, get_args

from volt import arguments
from volt.errors import VocabularyError, VoltError, quoted, shown
from volt.text.atoms import SUFFIX, Marker, atom_code
from volt.text.special_tokens import SpecialTokens

Kind: TypeAlias = Literal[
    "token", "unk", "bos", "eos", "pad", "control", "user", "byte", "marker", "unused"
]
Pairs: TypeAlias = Sequence[tuple[str, str]]
Fault: TypeAlias = tuple[str, int, str]  # name of a list, index in the list, message

KINDS = get_args(Kind)
UNUSED = ""  # the piece of an unused id
MOST_IDS = 1 << 21
_LARGEST_SCORE = 3.4028234663852886e38  # in single precision
_SURROGATE = re.compile("[\ud800-\udfff]")


def as_pairs(
    merges: Any, *, kind: type[VoltError] = VocabularyError
) -> tuple[tuple[str, str], ...]:
    """Return merges as pairs of strings.

    kind: the class of the error to raise if a merge does not have exactly two parts

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


def assign_kinds(
    pieces: Sequence[str], special: SpecialTokens, spelling: Sequence[str]
) -> tuple[Kind, ...]:
    """Return the kind of each piece.

    A user token that also has a role is "user". A token with several roles has the first one's
    name.

    spelling: the byte tokens, and perhaps the token "</w>", whose kind is "marker"

    >>> assign_kinds(("a", "", "<url>"), SpecialTokens(user=("<url>",)), ())
    ('token', 'unused', 'user')
    """
    kinds: dict[str, Kind] = {UNUSED: "unused"}
    kinds |= dict.fromkeys(spelling, "byte")
    if SUFFIX in spelling:
        kinds[SUFFIX] = "marker"
    kinds |= dict.fromkeys(special.control, "control")
    kinds |= {token: role for role, token in reversed(special.roles.items())}
    kinds |= dict.fromkeys(special.user, "user")
    return tuple(kinds.get(piece, "token") for piece in pieces)


def find_order_faults(
    order: Sequence[str], reserved: Sequence[str], tokens: Sequence[str]
) -> Iterator[Fault]:
    """Yield the faults of an order of ids.

    order: the piece of each id, "" for an unused one. It must contain every reserved piece and
        every token once, and the tokens in the order of `tokens`.
    reserved: the special tokens, byte tokens and "</w>" of the vocabulary
    """
    known = {*reserved, *tokens}
    id_of_piece = dict[str, int]()
    for number, piece in enumerate(order):
        if piece == UNUSED:
            continue
        if piece not in known:
            message = f"id {number} belongs to {quoted(piece)}, which is not a piece"
            yield "pieces", number, f"{message}; add the token or remove the id"
        elif piece in id_of_piece:
            message = f"{quoted(piece)} has the ids {id_of_piece[piece]} and {number}"
            yield "pieces", number, f"{message}; leave one unused"
        id_of_piece.setdefault(piece, number)

    for piece in (*reserved, *tokens):
        if piece not in id_of_piece:
            yield "pieces", len(order) - 1, f"no id for {quoted(piece)}; give it one"
            return
    if len(order) > MOST_IDS:
        message = f"{len(order):,} ids, but the limit is {MOST_IDS:,}; remove unused ones"
        yield "pieces", MOST_IDS, message
        return
    for token, following in pairwise(tokens):
        if id_of_piece[following] < id_of_piece[token]:
            message = f"{quoted(following)} follows tokens of higher ids"
            remedy = "list tokens in the order of their ids"
            yield "pieces", id_of_piece[following], f"{message}; {remedy}"
            return


def joins_later(merges: Pairs) -> bool:
    """Check whether some merge joins a part that only a later merge makes.

    >>> joins_later([("l", "o"), ("lo", "w")]), joins_later([("lo", "w"), ("l", "o")])
    (False, True)
    """
    made_later = set(map("".join, merges))
    for left, right in merges:
        if left in made_later or right in made_later:
            return True
        made_later.discard(left + right)
    return False


def find_merge_faults(
    merges: Pairs, results: Set[str], marker: Marker, *, in_any_order: bool = False
) -> Iterator[Fault]:
    """Yield the faults of merges: parts that are not text, and parts that are neither an atom nor
    made.

    results: the results of all merges
    in_any_order: whether a later merge may make the part of an earlier one
    """
    not_text = _find_surrogates(chain.from_iterable(merges))
    known = set(results) if in_any_order else set[str]()
    maker = "a merge" if in_any_order else "an earlier merge"
    for rank, (left, right) in enumerate(merges):
        for part in (left, right):
            if part in not_text:
                message = f"{quoted(part)} contains a lone surrogate, which is not text"
                yield "merges", rank, f"{message}; remove the merge"
            if part not in known and atom_code(part, marker=marker) is None:
                message = f"{quoted(part)} is neither a character nor made by {maker}"
                yield "merges", rank, f"{message}; add that merge"
        known.add(left + right)


def find_token_faults(
    tokens: Sequence[str],
    counts: Sequence[int],
    results: Set[str],
    marker: Marker,
    *,
    reserved: Collection[str],
    needs_merges: bool,
) -> Iterator[Fault]:
    """Yield the faults of tokens and of their counts.

    results: the results of all merges
    reserved: the special tokens, byte tokens and "</w>" of the vocabulary
    needs_merges: whether each token must be an atom or the result of a merge
    """
    if counts and len(counts) != len(tokens):
        message = f"{len(tokens)} tokens but {len(counts)} counts; give one count for each"
        yield "tokens", len(tokens) - 1, message
    not_text = _find_surrogates(tokens)
    reserved = set(reserved)
    first_index = dict[str, int]()
    for index, token in enumerate(tokens):
        fault = ""
        if token in not_text:
            fault = "contains a lone surrogate, which is not text; remove it"
        elif token in first_index:
            fault = f"repeats token {first_index[token] + 1}; remove one"
        elif token in reserved:
            fault = "is spelled like a special token; rename the special token"
        elif needs_merges and token not in results and atom_code(token, marker=marker) is None:
            message = f"no merge makes {quoted(token)}; add the merge or remove the token"
            yield "tokens", index, message
        elif counts and counts[index] < 0:
            fault = f"has the count {shown(counts[index])}; give 0 or more"
        if fault:
            yield "tokens", index, f"token {quoted(token)} {fault}"
        first_index.setdefault(token, index)


def as_scores(scores: Any) -> tuple[float, ...]:
    """Return scores as floats. Raises ArgumentError for a value that is not a number.

    >>> as_scores([-1, -2.5])
    (-1.0, -2.5)
    """
    scores = arguments.several(scores, "scores")
    if set(map(type, scores)) <= {float}:
        return tuple(scores)
    return tuple(arguments.number(score, f"scores[{n}]") for n, score in enumerate(scores))


def as_special_scores(pairs: Any) -> tuple[tuple[str, float], ...]:
    """Return pairs of a token and its score, the score as a float.

    >>> as_special_scores([("<s>", 0)])
    (('<s>', 0.0),)
    """
    pairs = arguments.several(pairs, "special_scores")
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise VocabularyError("special_scores must be pairs of a token and its score; fix them")
    tokens = arguments.texts([token for token, _ in pairs], "special_scores")
    scores = as_scores([score for _, score in pairs])
    return tuple(zip(tokens, scores, strict=True))


def find_score_faults(vocabulary: Any, reserved: Collection[str]) -> Iterator[Fault]:
    """Yield the faults of the scores of a `Vocabulary`, if it has any.

    reserved: its special tokens and byte tokens
    """
    scores = vocabulary.scores
    if not scores:
        return
    tokens = vocabulary.tokens
    last = len(tokens) - 1
    if vocabulary.merges:
        message = "a vocabulary has merges or scores, not both; remove one of them"
        yield "merges", 0, message
    if vocabulary.marker != "none":
        yield (
            "tokens",
            last,
            f"scores need words without the marker {vocabulary.marker}; set 'none'",
        )
    if len(scores) != len(tokens):
        message = f"{len(tokens)} tokens but {len(scores)} scores; give one score for each"
        yield "tokens", last, message
    remedy = f"give a number of at most {_LARGEST_SCORE:g}"
    for index, (token, score) in enumerate(zip(tokens, scores, strict=False)):
        if not token:
            yield "tokens", index, "a token is empty; remove it"
        if " " in token:
            yield "tokens", index, f"token {quoted(token)} contains a space; write it as ▁"
        if not abs(score) <= _LARGEST_SCORE:  # NaN is refused, too
            message = f"token {quoted(token)} has the score {score}; {remedy}"
            yield "tokens", index, message
    special_tokens = [token for token, _ in vocabulary.special_scores]
    for token, score in vocabulary.special_scores:
        if token not in reserved or special_tokens.count(token) > 1:
            message = f"special_scores: {quoted(token)}"
            yield "tokens", last, f"{message}: name each special or byte token once"
        if not abs(score) <= _LARGEST_SCORE:
            yield "tokens", last, f"special_scores: {quoted(token)} has {score}; {remedy}"


def _find_surrogates(texts: Iterable[str]) -> set[str]:
    """Return the texts with a lone surrogate.

    One search in all texts together finds that there are none.
    """
    distinct = set(texts)
    joined = "".join(distinct)
    if joined.isascii() or not _SURROGATE.search(joined):
        return set()
    return set(filter(_SURROGATE.search, distinct))
