"""Model section and added tokens of a tokenizer.json → valid tokens, ids, merges and roles of a vocabulary.

>>> vocab, scheme = {"l": 0, "o": 1, "lo": 2, "<end>": 4}, Scheme("none", "none", "bytes", users=())
>>> fields = read_tokens(scheme, {"vocab": vocab}, vocab, [("l", "o")], {"eos": "<end>"}, ["<end>"], is_own=False)
>>> fields["tokens"], fields["order"], fields["special"].all
(('l', 'o', 'lo'), ('l', 'o', 'lo', '', '<end>'), ('<end>',))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter

from volt.errors import VocabularyError, quoted, shown
from volt.formats.huggingface.pipeline_reading import remade
from volt.formats.huggingface.pipeline_writing import Json, Scheme
from volt.formats.protocol import Pair
from volt.text.atoms import SUFFIX, Marker, atom_code
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.special_tokens import LONGEST, ROLES, SpecialTokens
from volt.vocabulary.validation import MOST_IDS, joins_later
from volt.vocabulary.vocabulary import Merging

FOUND = "found_by_volt"  # false in rows of added tokens that only the library finds in text
_BYTE_TOKENS = frozenset(BYTE_TOKENS)
_REMEDY = "train a BPE tokenizer, or find a vocabulary on your corpus"
_REMEDIES = {
    "Unigram": "no merges make its pieces; search with the sentencepiece .model that it comes from "
    "as candidates, or train a BPE tokenizer",
    "WordPiece": "it splits off the longest piece first and has no merges; "
    "find a vocabulary on its corpus",
}


def model_section(data: Json) -> Json:
    """Return the model of a tokenizer.json. Raises VocabularyError if VOLT cannot encode as the model does."""
    model = data.get("model")
    if not isinstance(model, dict):
        raise VocabularyError("not a tokenizer.json: 'model' is missing; give a tokenizer.json")
    version = data.get("version", "1.0")
    if version != "1.0":
        raise VocabularyError(
            f"the format version is {version!r}, but VOLT reads only '1.0'; export it again"
        )
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind != "BPE":
        raise VocabularyError(
            f"the tokenizer's type is {kind!r}, but VOLT reads only 'BPE': "
            f"{_REMEDIES.get(str(kind), _REMEDY)}"
        )
    prefix = model.get("continuing_subword_prefix")
    if prefix:
        raise VocabularyError(
            f"tokens inside words start with {prefix!r}; "
            "train one without continuing_subword_prefix"
        )
    suffix = model.get("end_of_word_suffix")
    if suffix not in (None, "", SUFFIX):
        raise VocabularyError(f"end_of_word_suffix is {suffix!r}; VOLT reads only {SUFFIX!r}")
    unk = model.get("unk_token")
    if not isinstance(unk, str | None):
        raise VocabularyError(
            f"unk_token is {unk!r} instead of a token; download or export it again"
        )
    return model


def model_vocab(model: Json) -> dict[str, int]:
    """Return token → id of the model, in rising order of ids. Raises VocabularyError if ids are invalid or repeat."""
    vocab = model.get("vocab")
    if not isinstance(vocab, dict) or not vocab:
        raise VocabularyError(
            "model.vocab is missing, empty or not an object; download or export it again"
        )
    return checked_ids(vocab, "model.vocab")


def checked_ids(vocab: Json, name: str) -> dict[str, int]:
    """Sort `vocab` by id. Raises VocabularyError if an id is invalid or repeats. name: what errors call `vocab`"""
    token_of = dict[int, str]()
    for token, number in vocab.items():
        if type(number) is not int or number < 0:
            raise VocabularyError(f"{name}: token {token!r} has the id {number!r}; give 0 or more")
        other = token_of.setdefault(number, token)
        if other != token:
            raise VocabularyError(
                f"{name}: {other!r} and {token!r} have the same id {number}; change one"
            )
    return {token_of[number]: number for number in sorted(token_of)}


def model_merges(model: Json) -> Iterator[Pair]:
    """Yield the merges. Raises VocabularyError unless both parts and the result of each are tokens."""
    entries = model.get("merges")
    vocab = model["vocab"]
    if not isinstance(entries, list):
        raise VocabularyError("model.merges is missing or not a list; download or export it again")
    for number, entry in enumerate(entries, 1):
        pair = entry.split(" ") if isinstance(entry, str) else entry
        is_list = isinstance(pair, list) and len(pair) == 2
        if not is_list or {*map(type, pair)} != {str} or "" in pair:
            raise VocabularyError(
                f"model.merges, entry {number}: {entry!r} is not a pair of strings; fix it"
            )
        left, right = pair
        for token in (left, right, left + right):
            if token not in vocab:
                raise VocabularyError(
                    f"model.merges, entry {number}: it merges {left!r} and {right!r}, but {token!r} "
                    "is not in model.vocab; fix it, or remove the merge"
                )
        yield left, right


def possible_merges(
    merges: Sequence[Pair], *, marker: Marker, unk: str | None = None
) -> list[Pair]:
    """Return the merges whose parts are characters or are made by other possible merges; others never apply.

    unk: the unknown token, which the library merges, too

    >>> possible_merges([("ab", "c"), ("a", "b"), ("xy", "z")], marker="none")
    [('ab', 'c'), ('a', 'b')]
    """
    known = set[str]()
    for part in chain.from_iterable(merges):
        is_atom = part in _BYTE_TOKENS or atom_code(part, marker=marker) is not None
        if is_atom or part == unk:
            known.add(part)
    n_before = -1
    while len(known) != n_before:
        n_before = len(known)
        known.update("".join(pair) for pair in merges if known.issuperset(pair))
    return list(filter(known.issuperset, merges))


def falls_back(model: Json) -> bool:
    """Check whether unknown characters become byte tokens. Raises VocabularyError if some byte tokens are missing.

    An ASCII character that is a token needs no byte token.
    """
    vocab = model["vocab"]
    n_bytes = sum(token in vocab for token in BYTE_TOKENS)
    if not model.get("byte_fallback") or not n_bytes:
        return False
    for byte, token in enumerate(BYTE_TOKENS):
        if token not in vocab and (byte >= 0x80 or chr(byte) not in vocab):
            raise VocabularyError(
                f"byte_fallback, but only {n_bytes} of the 256 byte tokens are in model.vocab, and "
                f"{token!r} is not; add them, or remove them all and set byte_fallback to false"
            )
    return True


def added_tokens(data: Json, vocab: Mapping[str, int]) -> list[Json]:
    """Return a row for each added token, with its id and flags. Raises VocabularyError if they are damaged."""
    rows = data.get("added_tokens") or []
    if not isinstance(rows, list):
        rows = [None]
    for row in rows:
        if not (
            isinstance(row, dict)
            and isinstance(row.get("content"), str)
            and type(row.get("id")) is int
        ):
            raise VocabularyError(
                "added_tokens must be a list of objects with 'id' and 'content'; export it again"
            )
    owners = dict(zip(vocab.values(), vocab, strict=True))
    for token, number in map(itemgetter("content", "id"), rows):
        if number < 0 or vocab.get(token, number) != number:
            raise VocabularyError(
                f"added token {token!r} has the id {number}, not its id in model.vocab; fix it"
            )
        other = owners.setdefault(number, token)
        if other != token:
            raise VocabularyError(
                f"added token {token!r} has the id {number}, which {other!r} has; change one"
            )
    return rows


def with_flags(special: SpecialTokens, rows: Iterable[Json], *, strips: bool) -> SpecialTokens:
    """Return special tokens that decoding skips if their rows say so, and that take the white space around them.

    rows: added tokens with their flags;  strips: whether they may take white space
    """
    known = set(special.all)
    rows = [row for row in rows if row["content"] in known]
    flags: Json = {}
    skips = tuple(dict.fromkeys(row["content"] for row in rows if row.get("special")))
    if set(skips) != set(special.skipped):
        flags["skips"] = skips
    if strips:
        for flag in ("lstrip", "rstrip"):
            names = (row["content"] for row in rows if row.get(flag))
            flags[flag] = tuple(name for name in names if not name.isspace())
    return replace(special, **flags)


def can_be_special(token: str) -> bool:
    is_word = token.split() == [token] and token.isprintable() and len(token) <= LONGEST
    return is_word and token not in _BYTE_TOKENS and not token.endswith(SUFFIX)


def can_have_role(token: str) -> bool:
    """Check whether a token with a role may have this spelling: a single character is refused, as it could be text."""
    return len(token) > 1 and can_be_special(token)


def read_tokens(
    scheme: Scheme,
    model: Json,
    ids: Mapping[str, int],
    merges: Sequence[Pair],
    named: Mapping[str, str],
    users: Sequence[str],
    *,
    is_own: bool,
) -> Json:
    """Return the arguments of Vocabulary.

    ids: token → id, in rising order of ids
    named: role → token
    users: the user tokens
    is_own: whether VOLT wrote the file
    """
    results = set(map("".join, merges))
    fallback = falls_back(model)
    whole = bool(model.get("ignore_merges"))
    spelling = BYTE_TOKENS * fallback
    if scheme.marker == "suffix" and (fallback or (users and not scheme.cut.isolates_users)):
        spelling += (SUFFIX,)
    excluded = results.union(spelling)
    unmade = [
        token
        for token in ids
        if token not in excluded and atom_code(token, marker=scheme.marker) is None
    ]
    special = _special(ids, unmade, users, named, is_own=is_own)
    if whole:
        special = replace(special, control=())

    left_out = {*special.all, *spelling}
    if not whole:
        left_out.update(unmade)
    tokens = tuple(token for token in ids if token not in left_out)
    merges = last_of_equal(merges)
    return {
        "merges": merges,
        "tokens": tokens,
        "marker": scheme.marker,
        "normalizer": Normalizer.parse(scheme.normalizer),
        "pretokenizer": scheme.cut,
        "special": special,
        "byte_fallback": fallback,
        "merging": merging_of(merges),
        "whole_words": whole,
        "fuse_unk": bool(model.get("fuse_unk")) and special.unk is not None and not fallback,
        "order": order_of(ids, (*special.all, *spelling), tokens),
    }


def _special(
    ids: Mapping[str, int],
    unmade: Sequence[str],
    users: Sequence[str],
    named: Mapping[str, str],
    *,
    is_own: bool,
) -> SpecialTokens:
    """Return the special tokens. Other tokens that no merge makes become control tokens.

    In a file that VOLT wrote, the ids 0 to 3 have roles if the model's unk_token has the id 0.
    """
    known = set(users)
    free = [token for token in unmade if token not in known]
    known.update(unmade)
    firsts = [token for token, number in ids.items() if number < 4]
    if is_own and len(firsts) == 4 and firsts == free[:4] and firsts[0] == named.get("unk"):
        named = dict(zip(ROLES, firsts, strict=True)) | dict(named)
    roles = {
        role: token for role, token in named.items() if token in known and can_have_role(token)
    }
    unk, bos, eos, pad = map(roles.get, ROLES)
    control = [token for token in free if token not in roles.values() and can_be_special(token)]
    return SpecialTokens(unk, bos, eos, pad, tuple(users), tuple(control))


def last_of_equal(merges: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the merges without repetition. Of equal merges, `tokenizers` uses the last."""
    return tuple(dict.fromkeys(reversed(merges)))[::-1]


def merging_of(merges: Sequence[Pair]) -> Merging:
    """Return how `tokenizers` merges: by "steps" if a merge `joins_later` or is `remade`, otherwise by "pairs"."""
    if joins_later(merges) or next(remade(merges), None):
        return "steps"
    return "pairs"


def order_of(
    ids: Mapping[str, int], reserved: Sequence[str], tokens: Sequence[str]
) -> tuple[str, ...]:
    """Return the pieces by id; () if VOLT assigns the same ids by default. Pieces without an id get the next ids.

    >>> order_of({"a": 0, "<s>": 2}, ["<s>"], ["a"]), order_of({"a": 1, "<s>": 0}, ["<s>"], ["a"])
    (('a', '', '<s>'), ())
    """
    retained = {*reserved, *tokens}
    order = [""] * (1 + min(max(ids.values(), default=-1), MOST_IDS))
    for token, number in ids.items():
        if not 0 <= number < MOST_IDS:  # rows of unused ids would fill the memory
            raise VocabularyError(
                f"the token {quoted(token)} has the id {shown(number, 20)}, "
                f"but ids are below {MOST_IDS:,}; download or export the file again"
            )
        if token in retained:
            order[number] = token
    order += [piece for piece in reserved if piece not in ids]
    while order and not order[-1]:
        order.pop()
    if order == [*reserved, *tokens]:
        return ()
    return tuple(order)
