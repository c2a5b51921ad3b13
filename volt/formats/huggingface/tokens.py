"""Tokens of a tokenizer.json, with their ids, as the arguments of a vocabulary.

>>> vocab, scheme = {"l": 0, "o": 1, "lo": 2, "<end>": 4}, Scheme("none", "none", "bytes", users=())
>>> found = read_tokens(scheme, {}, vocab, [("l", "o")], {"eos": "<end>"}, ["<end>"], is_own=False)
>>> found["tokens"], found["order"], found["special"].all
(('l', 'o', 'lo'), ('l', 'o', 'lo', '', '<end>'), ('<end>',))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from volt.errors import VocabularyError, quoted
from volt.formats.huggingface.added import can_be_special
from volt.formats.huggingface.losses import remade
from volt.formats.huggingface.model import Json, falls_back
from volt.formats.huggingface.pipeline import Scheme
from volt.text.atoms import atom_code
from volt.text.markers import BYTE_TOKENS, SUFFIX
from volt.text.normalizer import Normalizer
from volt.text.special_tokens import ROLES, SpecialTokens
from volt.vocabulary.numbering import MOST_IDS
from volt.vocabulary.vocabulary import Merging


def read_tokens(
    scheme: Scheme, model: Json, ids: Mapping[str, int], merges: Sequence[tuple[str, str]], named: Mapping[str, str],
    added: Sequence[str], *, is_own: bool,
) -> Json:  # fmt: skip
    """The arguments of Vocabulary.

    ids: of all tokens, rising;  named: tokens by their roles;  added: the user tokens
    is_own: whether VOLT wrote the file
    """
    made, fallback = set(map("".join, merges)), falls_back(model, model.get("vocab", ids))
    whole = bool(model.get("ignore_merges")) and not scheme.takes_users_as_words
    atoms = {token for token in ids if atom_code(token, marker=scheme.marker) is not None}
    spelling = BYTE_TOKENS * fallback
    if scheme.marker == "suffix" and (fallback or (added and not scheme.cut.isolates_users)):
        spelling += (SUFFIX,)
    unmade = [token for token in ids if token not in made and token not in atoms and token not in spelling]
    special = _special(named, unmade, added, ids, is_own=is_own, whole=whole)
    reserved = {*special.all, *spelling}
    tokens = tuple(token for token in ids if (whole or token in made or token in atoms) and token not in reserved)
    last = {pair: rank for rank, pair in enumerate(merges)}  # of equal merges tokenizers takes the last
    return {
        "merges": (ordered := tuple(sorted(last, key=last.__getitem__))),
        "tokens": tokens,
        "marker": scheme.marker,
        "normalizer": Normalizer.parse(scheme.normalizer),
        "pretokenizer": scheme.cut,
        "special": special,
        "byte_fallback": fallback,
        "merging": merging_of(ordered),
        "whole_words": whole,
        "order": order_of(ids, (*special.all, *spelling), tokens),
    }


def merging_of(merges: Sequence[tuple[str, str]]) -> Merging:
    """How tokenizers merges, which is by pairs, as subword-nmt does, unless some token is made in two ways, or joined
    by a merge that stands before the one that makes it.

    >>> merging_of([("l", "o")]), merging_of([("lo", "w"), ("l", "o")])
    ('pairs', 'steps')
    """
    return "steps" if joins_later(merges) or next(remade(merges), None) else "pairs"


def joins_later(merges: Sequence[tuple[str, str]]) -> bool:
    """Whether a merge joins what a later one makes.

    >>> joins_later([("lo", "w"), ("l", "o")])
    True
    """
    first = {token: rank for rank, token in reversed(list(enumerate(map("".join, merges))))}
    return any(first.get(left, -1) >= rank or first.get(right, -1) >= rank for rank, (left, right) in enumerate(merges))


def order_of(ids: Mapping[str, int], reserved: Sequence[str], tokens: Sequence[str]) -> tuple[str, ...]:
    """The pieces by id; none if ids are those that VOLT gives. Pieces that have no id get the next ones.

    reserved: the pieces that are no tokens

    >>> order_of({"a": 0, "<s>": 2}, ["<s>"], ["a"]), order_of({"a": 1, "<s>": 0}, ["<s>"], ["a"])
    (('a', '', '<s>'), ())

    Raises VocabularyError, before any room is taken, for an id that is none.
    """
    _check_ids(ids)
    kept = {*reserved, *tokens}
    order = [""] * (1 + max(ids.values(), default=-1))
    for token, number in ids.items():
        order[number] = token if token in kept else ""
    order += [piece for piece in reserved if piece not in ids]
    while order and not order[-1]:
        order.pop()
    return () if order == [*reserved, *tokens] else tuple(order)


def _check_ids(ids: Mapping[str, int]) -> None:
    """Raise VocabularyError for an id below 0, or one so high that rows of unused ids would fill the memory."""
    wrong = next((token for token, number in ids.items() if not 0 <= number < MOST_IDS), None)
    if wrong is not None:
        found = str(ids[wrong]) if ids[wrong].bit_length() < 64 else f"of {ids[wrong].bit_length():,} bits"
        raise VocabularyError(
            f"the token {quoted(wrong)} has the id {found}, and ids are 0 to {MOST_IDS - 1:,}; restore its id"
        )


def _special(
    named: Mapping[str, str], unmade: Sequence[str], added: Sequence[str], ids: Mapping[str, int], *, is_own: bool,
    whole: bool,
) -> SpecialTokens:  # fmt: skip
    """Roles: those named; in a file of VOLT's alone those of ids 0 to 3, if the first of them is what its model names
    for unknown characters. Tokens that nothing makes are control tokens.

    whole: whether words are taken whole, so that such a token may be one
    """
    free = [token for token in unmade if token not in added]
    firsts = [token for token, number in ids.items() if number < 4]
    if is_own and len(firsts) == 4 and firsts == free[:4] and firsts[0] == named.get("unk"):
        named = dict(zip(ROLES, free[:4], strict=True)) | dict(named)
    known = {*unmade, *added}
    roles = {role: named[role] if named.get(role) in known else None for role in ROLES}
    roles = {
        role: token if token and can_be_special(token) and len(token) > 1 else None for role, token in roles.items()
    }
    control = [token for token in free if token not in roles.values() and can_be_special(token) and not whole]
    return SpecialTokens(**roles, user=tuple(added), control=tuple(control))
