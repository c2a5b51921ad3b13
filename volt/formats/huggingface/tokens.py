"""Model section and added tokens of a tokenizer.json → tokens, ids, merges and special tokens of a
vocabulary.

    model.vocab     token → id            model.merges    pairs of tokens, by rank
    added_tokens    rows with an id, a content and flags; `tokenizers` finds these tokens in text

`model_section`, `model_vocab`, `model_merges` and `added_tokens` read and check these parts.
`read_tokens` turns them into arguments of `Vocabulary`. A token of the file becomes one of these:

    user token      `users` contains it: usually, an added token
    role token      `token_of_role` contains it: a token that the model or another file names as eos …
    token           it is an atom, or a merge makes it
    control token   no merge makes it. If it cannot be a special token, it is left out, its id unused

>>> vocab, scheme = {"l": 0, "o": 1, "lo": 2, "<end>": 4}, Scheme("none", "none", "bytes", users=())
>>> special = {"token_of_role": {"eos": "<end>"}, "users": ["<end>"], "is_own": False}
>>> fields = read_tokens(scheme, {"vocab": vocab}, ids=vocab, merges=[("l", "o")], **special)
>>> fields["tokens"], fields["order"], fields["special"].all
(('l', 'o', 'lo'), ('l', 'o', 'lo', '', '<end>'), ('<end>',))
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter

from volt.errors import VocabularyError, quoted, shown
from volt.formats.huggingface.pipeline_writing import Json, Scheme, as_object
from volt.formats.protocol import Pair
from volt.text.atoms import SUFFIX, Marker, atom_code
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.special_tokens import LONGEST, ROLES, SpecialTokens
from volt.vocabulary.validation import MOST_IDS, joins_later
from volt.vocabulary.vocabulary import Merging

# A key that VOLT writes, with the value false, to rows of added tokens that `tokenizers` finds in text and VOLT does not.
FOUND = "found_by_volt"
_ADDED_ROW = {  # the keys of an added token → the types of their values
    "id": int,
    "content": str,
    "single_word": bool,
    "lstrip": bool,
    "rstrip": bool,
    "normalized": bool,
    "special": bool,
}
_BYTE_TOKENS = frozenset(BYTE_TOKENS)


def check_version(data: Json) -> None:
    """Raise VocabularyError if a tokenizer.json has no model, or another version than 1.0."""
    if not isinstance(data.get("model"), dict):
        raise VocabularyError("not a tokenizer.json: 'model' is missing; give a tokenizer.json")
    version = data.get("version", "1.0")
    if version != "1.0":
        raise VocabularyError(
            f"the format version is {version!r}, but VOLT reads only '1.0'; export it again"
        )


def model_section(data: Json) -> Json:
    """Return the model of a tokenizer.json with merges.

    Raises VocabularyError if VOLT cannot encode as the model does.
    """
    model: Json = data["model"]
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind != "BPE":
        raise VocabularyError(
            f"the tokenizer's type is {shown(kind, 20)}, but VOLT reads only 'BPE' and 'Unigram'; "
            "encode with tokenizers, or find a vocabulary on its corpus"
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
    """Return token → id of the model, sorted by id.

    Raises VocabularyError if ids are invalid or repeat.
    """
    vocab = model.get("vocab")
    if not isinstance(vocab, dict) or not vocab:
        raise VocabularyError(
            "model.vocab is missing, empty or not an object; download or export it again"
        )
    return checked_ids(vocab, "model.vocab")


def checked_ids(vocab: Json, name: str) -> dict[str, int]:
    """Return token → id, sorted by id. Raises VocabularyError if an id is invalid or repeats.

    name: the name of `vocab` in errors
    """
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
    """Yield the merges.

    Raises VocabularyError if a merge's part or result is not a token of the model.
    """
    entries = model.get("merges")
    vocab = model["vocab"]
    if not isinstance(entries, list):
        raise VocabularyError("model.merges is missing or not a list; download or export it again")
    for number, entry in enumerate(entries, 1):
        pair = entry.split(" ") if isinstance(entry, str) else entry
        is_pair = isinstance(pair, list) and len(pair) == 2
        if not is_pair or {*map(type, pair)} != {str} or "" in pair:
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
    """Return the merges whose parts are characters or are made by other possible merges; others
    never apply.

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
    """Check whether unknown characters become byte tokens.

    Raises VocabularyError if some byte tokens are missing.

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
    """Return the rows of added tokens.

    Raises VocabularyError if a row is damaged, or has an id of another token.
    """
    rows = data.get("added_tokens", [])
    if not isinstance(rows, list):
        raise VocabularyError("added_tokens is not a list; export it again")
    for number, row in enumerate(rows, 1):
        for key, kind in _ADDED_ROW.items():
            if type(as_object(row).get(key)) is not kind:
                raise VocabularyError(
                    f"added_tokens, entry {number}: {key!r} is missing or not a {kind.__name__}; "
                    "export it again"
                )
    token_of_id = dict(zip(vocab.values(), vocab, strict=True))
    for token, number in map(itemgetter("content", "id"), rows):
        if number < 0 or vocab.get(token, number) != number:
            raise VocabularyError(
                f"added token {token!r} has the id {number}, not its id in model.vocab; fix it"
            )
        other = token_of_id.setdefault(number, token)
        if other != token:
            raise VocabularyError(
                f"added token {token!r} has the id {number}, which {other!r} has; change one"
            )
    return rows


def set_flags(special: SpecialTokens, rows: Iterable[Json], *, may_strip: bool) -> SpecialTokens:
    """Return special tokens with the flags `special` (decoding skips the token), `lstrip` and
    `rstrip` of added tokens.

    rows: added tokens
    may_strip: whether tokens may take the white space before (`lstrip`) or after them (`rstrip`)
    """
    known = set(special.all)
    rows = [row for row in rows if row["content"] in known]
    changes: Json = {}
    skips = tuple(dict.fromkeys(row["content"] for row in rows if row.get("special")))
    if set(skips) != set(special.skipped):
        changes["skips"] = skips
    if may_strip:
        for flag in ("lstrip", "rstrip"):
            flagged = (row["content"] for row in rows if row.get(flag))
            changes[flag] = tuple(token for token in flagged if not token.isspace())
    return replace(special, **changes)


def read_tokens(
    scheme: Scheme,
    model: Json,
    *,
    ids: Mapping[str, int],
    merges: Sequence[Pair],
    token_of_role: Mapping[str, str],
    users: Sequence[str],
    is_own: bool,
) -> Json:
    """Return the arguments of Vocabulary.

    ids: token → id of the model's and the added tokens, sorted by id
    users: the tokens that become user tokens
    is_own: whether VOLT wrote the file
    """
    results = set(map("".join, merges))
    fallback = falls_back(model)
    whole_words = bool(model.get("ignore_merges"))
    spelling = BYTE_TOKENS * fallback
    if scheme.marker == "suffix" and (fallback or (users and not scheme.cut.isolates_users)):
        spelling += (SUFFIX,)
    not_unmade = results.union(spelling)
    unmade = [
        token
        for token in ids
        if token not in not_unmade and atom_code(token, marker=scheme.marker) is None
    ]
    special = _choose_special(ids, unmade, users, token_of_role, is_own=is_own)
    if whole_words:
        special = replace(special, control=())

    left_out = {*special.all, *spelling}
    if not whole_words:
        left_out.update(unmade)
    tokens = tuple(token for token in ids if token not in left_out)
    merges = tuple(dict.fromkeys(reversed(merges)))[
        ::-1
    ]  # of equal merges, the library uses the last
    return {
        "merges": merges,
        "tokens": tokens,
        "marker": scheme.marker,
        "normalizer": Normalizer.parse(scheme.normalizer),
        "pretokenizer": scheme.cut,
        "special": special,
        "byte_fallback": fallback,
        "merging": find_merging(merges),
        "whole_words": whole_words,
        "fuse_unk": bool(model.get("fuse_unk")) and special.unk is not None and not fallback,
        "order": find_order(ids, (*special.all, *spelling), tokens),
    }


def _choose_special(
    ids: Mapping[str, int],
    unmade: Sequence[str],
    users: Sequence[str],
    token_of_role: Mapping[str, str],
    *,
    is_own: bool,
) -> SpecialTokens:
    """Return the special tokens. Tokens that no merge makes become control tokens, if possible.

    In a file that VOLT wrote, the ids 0 to 3 have the roles unk, bos, eos and pad if the model's
    unk_token has id 0.

    unmade: tokens that are neither atoms nor made by merges
    """
    user_set = set(users)
    candidates = [token for token in unmade if token not in user_set]
    first_four = [token for token, number in ids.items() if number < 4]
    is_usual = len(first_four) == 4 and first_four == candidates[:4]
    if is_own and is_usual and first_four[0] == token_of_role.get("unk"):
        token_of_role = dict(zip(ROLES, first_four, strict=True)) | dict(token_of_role)
    known = user_set.union(unmade)
    # A role token of one character is refused, because it could be text.
    roles = {
        role: token
        for role, token in token_of_role.items()
        if token in known and len(token) > 1 and _can_be_special(token)
    }
    unk, bos, eos, pad = map(roles.get, ROLES)
    role_tokens = roles.values()
    control = [token for token in candidates if token not in role_tokens and _can_be_special(token)]
    return SpecialTokens(unk, bos, eos, pad, tuple(users), tuple(control))


def _can_be_special(token: str) -> bool:
    is_word = token.split() == [token] and token.isprintable() and len(token) <= LONGEST
    return is_word and token not in _BYTE_TOKENS and not token.endswith(SUFFIX)


def find_merging(merges: Sequence[Pair]) -> Merging:
    """Return how `tokenizers` merges: by "steps" if a merge `joins_later` or is remade, otherwise
    by "pairs".
    """
    if joins_later(merges) or next(find_remade(merges), None):
        return "steps"
    return "pairs"


def find_remade(merges: Sequence[Pair]) -> Iterator[Pair]:
    """Yield each merge whose second use may fail, because a merge of lower rank joins its result
    with its left part.

    In "x y x y", the merge (x, y) makes "xy x y". If "xy" and "x" merge at a lower rank, they join
    before the second x and y do. This requires that an earlier merge makes the same token "xy".
    """
    if len(set(map("".join, merges))) == len(merges):  # saves the search below
        return
    results = set[str]()
    merges_with = defaultdict[str, list[Pair]](list)  # part → the earlier merges that have it
    for left, right in merges:
        result = left + right
        reached = {result}
        unvisited = list(results & reached)
        while unvisited:
            part = unvisited.pop()
            if (part, left) in merges_with[part]:
                yield left, right
                break
            new = {"".join(pair) for pair in merges_with[part]} - reached
            reached |= new
            unvisited += new
        results.add(result)
        for part in {left, right}:
            merges_with[part].append((left, right))


def find_order(
    ids: Mapping[str, int], reserved: Sequence[str], tokens: Sequence[str]
) -> tuple[str, ...]:
    """Return the piece of each id, "" for an unused one; () if these are the ids that VOLT assigns
    by default.

    ids: token → id in the file; reserved pieces without an id get the next ones

    >>> find_order({"a": 0, "<s>": 2}, ["<s>"], ["a"])
    ('a', '', '<s>')
    >>> find_order({"a": 1, "<s>": 0}, ["<s>"], ["a"])
    ()
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
