"""Model section and added tokens of a tokenizer.json → valid tokens, ids, merges and roles of a vocabulary.

>>> vocab, scheme = {"l": 0, "o": 1, "lo": 2, "<end>": 4}, Scheme("none", "none", "bytes", users=())
>>> fields = read_tokens(scheme, {}, vocab, [("l", "o")], {"eos": "<end>"}, ["<end>"], is_own=False)
>>> fields["tokens"], fields["order"], fields["special"].all
(('l', 'o', 'lo'), ('l', 'o', 'lo', '', '<end>'), ('<end>',))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, filterfalse
from operator import itemgetter
from pathlib import Path
from typing import Any

from volt.errors import VocabularyError, quoted, shown_path
from volt.files.small_files import decoded, read_bytes
from volt.formats.huggingface.pipeline_reading import flat, remade
from volt.formats.huggingface.pipeline_writing import Json, Scheme
from volt.formats.huggingface.split_patterns import ADDS_SPACE
from volt.formats.protocol import MOST_DIGITS
from volt.text.atoms import PREFIX, SUFFIX, Marker, atom_code
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.special_tokens import LONGEST, ROLES, SpecialTokens
from volt.vocabulary.file_format import parsed_json
from volt.vocabulary.validation import MOST_IDS, joins_later
from volt.vocabulary.vocabulary import Merging

FILE, CONFIG, MAP = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
ADDED, MODEL, TEMPLATE = "added_tokens.json", "config.json", "chat_template.jinja"
_DECODER = "added_tokens_decoder"
FOUND = "found_by_volt"  # false in rows of added tokens that only the library finds in text
_BYTE_TOKENS = frozenset(BYTE_TOKENS)
_REMEDIES = {
    "Unigram": "no merges make its pieces; search with the sentencepiece .model that it comes from as candidates, or "
    "train a BPE tokenizer",
    "WordPiece": "it splits off the longest piece first and has no merges; find a vocabulary on its corpus",
}


def load(path: Path, content: bytes | None = None) -> Json:
    """Return the JSON object in a file. content: the file's bytes, if they have been read already"""
    content = read_bytes(path, kind=VocabularyError) if content is None else content
    text = decoded(
        path, content, kind=VocabularyError, remedy=", so not JSON; download or export it again"
    )
    if not isinstance(data := parsed_json(path, text), dict):
        raise VocabularyError(
            f"{shown_path(path)}:1: contains no JSON object; give the file of a tokenizer"
        )
    return data


def model_section(data: Json) -> Json:
    """Return the model of a tokenizer.json. Raises VocabularyError if VOLT cannot encode as the model does."""
    model, version = data.get("model"), data.get("version", "1.0")
    if not isinstance(model, dict):
        raise VocabularyError("not a tokenizer.json: 'model' is missing; give a tokenizer.json")
    if version != "1.0":
        raise VocabularyError(
            f"the format version is {version!r}, but VOLT reads only '1.0'; export it again"
        )
    if (kind := model.get("type", "BPE" if "merges" in model else None)) != "BPE":
        remedy = _REMEDIES.get(
            str(kind), "train a BPE tokenizer, or find a vocabulary on your corpus"
        )
        raise VocabularyError(
            f"the tokenizer's type is {kind!r}, but VOLT reads only 'BPE': {remedy}"
        )
    if prefix := model.get("continuing_subword_prefix"):
        raise VocabularyError(
            f"tokens inside words start with {prefix!r}; train one without continuing_subword_prefix"
        )
    if model.get("end_of_word_suffix") not in (None, "", SUFFIX):
        raise VocabularyError(
            f"end_of_word_suffix is {model['end_of_word_suffix']!r}; VOLT reads only {SUFFIX!r}"
        )
    if not isinstance(unk := model.get("unk_token"), str | None):
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
    of_id = dict[int, str]()
    for token, number in vocab.items():
        if type(number) is not int or number < 0:
            raise VocabularyError(f"{name}: token {token!r} has the id {number!r}; give 0 or more")
        if (other := of_id.setdefault(number, token)) != token:
            raise VocabularyError(
                f"{name}: {other!r} and {token!r} have the same id {number}; change one"
            )
    return {of_id[number]: number for number in sorted(of_id)}


def model_merges(model: Json) -> Iterator[tuple[str, str]]:
    """Yield the merges. Raises VocabularyError unless both parts and the result of each are tokens."""
    rows, vocab = model.get("merges"), model["vocab"]
    if not isinstance(rows, list):
        raise VocabularyError("model.merges is missing or not a list; download or export it again")
    for number, row in enumerate(rows, 1):
        pair = row.split(" ") if isinstance(row, str) else row
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or {*map(type, pair)} != {str}
            or "" in pair
        ):
            raise VocabularyError(
                f"model.merges, entry {number}: {row!r} is not a pair of strings; fix it"
            )
        left, right = pair
        if left not in vocab or right not in vocab or left + right not in vocab:
            lacking = next(token for token in (left, right, left + right) if token not in vocab)
            what = f"it merges {left!r} and {right!r}, but {lacking!r} is not in model.vocab"
            raise VocabularyError(
                f"model.merges, entry {number}: {what}; fix it, or remove the merge"
            )
        yield left, right


def possible_merges(
    merges: Sequence[tuple[str, str]], *, marker: Marker, unk: str | None = None
) -> list[tuple[str, str]]:
    """Return the merges whose parts are characters or are made by other possible merges; others never apply.

    unk: the unknown token, which the library merges, too

    >>> possible_merges([("ab", "c"), ("a", "b"), ("xy", "z")], marker="none")
    [('ab', 'c'), ('a', 'b')]
    """
    known = {part for part in chain.from_iterable(merges) if part == unk or _is_atom(part, marker)}
    n_before, waiting = -1, list(merges)
    while len(waiting) != n_before:
        n_before, later = len(waiting), list[tuple[str, str]]()
        for left, right in waiting:
            if left in known and right in known:
                known.add(left + right)
            else:
                later.append((left, right))
        waiting = later
    left_out = set(waiting)
    return [pair for pair in merges if pair not in left_out]


def _is_atom(part: str, marker: Marker) -> bool:
    return atom_code(part, marker=marker) is not None or part in _BYTE_TOKENS


def falls_back(model: Json, vocab: Mapping[str, int]) -> bool:
    """Check whether unknown characters become byte tokens. Raises VocabularyError if some byte tokens are missing.

    An ASCII character that is a token needs no byte token.
    """
    n_bytes = sum(token in vocab for token in BYTE_TOKENS)
    needed = (
        token for byte, token in enumerate(BYTE_TOKENS) if byte >= 0x80 or chr(byte) not in vocab
    )
    lacking = next((token for token in needed if token not in vocab), None)
    if model.get("byte_fallback") and n_bytes > 0 and lacking is not None:
        what = f"byte_fallback, but only {n_bytes} of the 256 byte tokens are in model.vocab, and {lacking!r} is not"
        raise VocabularyError(
            f"{what}; add them, or remove them all and set byte_fallback to false"
        )
    return bool(model.get("byte_fallback")) and n_bytes > 0


_ROBERTA: Json = {
    **{
        "bos_token": "<s>",
        "eos_token": "</s>",
        "sep_token": "</s>",
        "cls_token": "<s>",
        "unk_token": "<unk>",
    },
    **{"pad_token": "<pad>", "mask_token": "<mask>"},
}
_CLASSES: dict[
    str, Json
] = {  # by the name of the class without "Tokenizer", or by the type of the model
    **dict.fromkeys(("roberta", "bart", "longformer"), _ROBERTA),
    "gpt2": dict.fromkeys(("unk_token", "bos_token", "eos_token"), "<|endoftext|>"),
}


def added_tokens(data: Json, vocab: Mapping[str, int]) -> list[str]:
    """Return the added tokens, in the order of their ids. Raises VocabularyError if they are damaged."""
    rows = data.get("added_tokens") or []
    for row in rows if isinstance(rows, list) else [None]:
        if not (
            isinstance(row, dict)
            and isinstance(row.get("content"), str)
            and type(row.get("id")) is int
        ):
            raise VocabularyError(
                "added_tokens must be a list of objects with 'id' and 'content'; export it again"
            )
    owners = dict(zip(vocab.values(), vocab, strict=True))
    for token, number in ((row["content"], row["id"]) for row in rows):
        if number < 0 or vocab.get(token, number) != number:
            raise VocabularyError(
                f"added token {token!r} has the id {number}, not its id in model.vocab; fix it"
            )
        if (other := owners.setdefault(number, token)) != token:
            raise VocabularyError(
                f"added token {token!r} has the id {number}, which {other!r} has; change one"
            )
    return list(
        dict.fromkeys(row["content"] for row in sorted(rows, key=lambda row: int(row["id"])))
    )


def with_flags(special: SpecialTokens, rows: Iterable[Json], *, strips: bool) -> SpecialTokens:
    """Return special tokens that decoding skips if their rows say so, and that take the white space around them.

    rows: added tokens with their flags;  strips: whether they may take white space
    """
    known = {*special.all}
    rows = [row for row in rows if row["content"] in known]
    skips = tuple(dict.fromkeys(row["content"] for row in rows if row.get("special")))
    flags: Json = {"skips": skips} if {*skips} != {*special.skipped} else {}
    for flag in ("lstrip", "rstrip") if strips else ():
        flags[flag] = tuple(
            row["content"] for row in rows if row.get(flag) and not row["content"].isspace()
        )
    return replace(special, **flags)


def flagged_rows(path: Path, data: Json) -> list[Json]:
    """Return the added tokens with their flags; a folder's configurations make more of them special."""
    named = _flags(_neighbours(path)).items()
    special = [
        {"content": token, "special": True} for token, flags in named if flags.get("special")
    ]
    return (data.get("added_tokens") or []) + special


def _neighbours(path: Path) -> list[Json]:
    """Return the configurations in the folder of a tokenizer.json."""
    places = [path.with_name(name) for name in (MAP, CONFIG) if path.name == FILE]
    return [load(place) for place in places if place.exists()]


def _flags(configs: Iterable[Json]) -> dict[str, Json]:
    """Return token → flags, as configurations name them; a role makes a token special, whatever others say."""
    result = dict[str, Json]()
    for row in _named(configs):
        known = result.get(row["content"], {})
        result[row["content"]] = (
            known | row | {"special": known.get("special") or row.get("special")}
        )
    return result


def runs_of_spaces(data: Json, merges: Sequence[tuple[str, str]]) -> list[str]:
    """Return added tokens of "▁", found in raw text, that merges make from spaces: they are ordinary tokens in VOLT."""
    output = set(map("".join, merges))
    raw = [row["content"] for row in data.get("added_tokens") or [] if not row.get("normalized")]
    return [token for token in raw if set(token) == {PREFIX} and token in output]


def all_ids(data: Json, vocab: Mapping[str, int]) -> dict[str, int]:
    """Return token → id for the model's tokens and the added tokens, in rising order of ids."""
    result = dict(vocab) | {row["content"]: row["id"] for row in data.get("added_tokens") or []}
    return dict(sorted(result.items(), key=itemgetter(1)))


def role_tokens(path: Path, data: Json) -> dict[str, str]:
    """Return role → token, as named by the model, by other files in the folder, or by the post-processor."""
    result = {"unk": data["model"].get("unk_token")}
    for config in _neighbours(path):
        result |= {role: value for role, value in role_names(config) if not result.get(role)}
    with suppress(
        LookupError, TypeError, AttributeError, VocabularyError
    ):  # damaged sections name no token
        result |= {role: value for role, value in _surrounding(data) if not result.get(role)}
    return {role: token for role, token in result.items() if isinstance(token, str)}


def _surrounding(data: Json) -> Iterator[tuple[str, str]]:
    """Yield the one token that the post-processor puts before a line, as bos, and the one after it, as eos."""
    for step in flat(data.get("post_processor"), "processors"):
        parts = [part.get("SpecialToken", {}).get("id") for part in step.get("single", ())]
        if "cls" in step:  # as in RoBERTa
            parts = [step["cls"][0], None, step["sep"][0]]
        if parts[1:2] == [None]:
            yield "bos", parts[0]
        if parts[-2:-1] == [None]:
            yield "eos", parts[-1]


def role_names(config: Json) -> Iterator[tuple[str, Any]]:
    for role in ROLES:
        value = config.get(f"{role}_token")
        yield role, value.get("content") if isinstance(value, dict) else value


def folder_tokens(folder: Path) -> tuple[dict[str, str], dict[str, int], dict[str, Json]]:
    """Return role → token, token → id, and token → flags from a folder without a tokenizer.json."""
    configs = _neighbours(folder / FILE)
    if any(config.get("add_prefix_space") for config in configs):
        raise VocabularyError(f"{folder / CONFIG}: add_prefix_space {ADDS_SPACE}")
    if _class_of(folder) == "blenderbot" and not any(
        "add_prefix_space" in config for config in configs
    ):
        raise VocabularyError(f"{folder}: Blenderbot's add_prefix_space {ADDS_SPACE}")
    roles, added = dict[str, str](), dict[str, int]()
    configs = [_CLASSES.get(_class_of(folder), {}), *configs[::-1]]
    for config in configs:
        roles |= {role: text for role, text in role_names(config) if isinstance(text, str)}
        decoded = config.get(_DECODER)
        for number, row in decoded.items() if isinstance(decoded, dict) else ():
            is_id = number.isdecimal() and len(number) <= MOST_DIGITS
            if is_id and isinstance(row, dict) and isinstance(row.get("content"), str):
                added[row["content"]] = int(number)
    if (folder / ADDED).exists():
        listed = load(folder / ADDED).items()
        added |= {token: number for token, number in listed if type(number) is int and number >= 0}
    return roles, added, {token: {"content": token} for token in added} | _flags(configs)


def _class_of(folder: Path) -> str:
    """Return the name of the tokenizer's class without "Tokenizer", or the model's type; "" if no file names one."""
    data = {name: load(folder / name) for name in (CONFIG, MODEL) if (folder / name).exists()}
    model = data.get(MODEL, {})
    names = (
        data.get(CONFIG, {}).get("tokenizer_class"),
        model.get("tokenizer_class"),
        model.get("model_type"),
    )
    name = next((one for one in names if isinstance(one, str)), "")
    return name.removesuffix("Fast").removesuffix("Tokenizer").lower()


def _named(configs: Iterable[Json]) -> Iterator[Json]:
    pairs = chain.from_iterable(config.items() for config in configs)
    for key, value in sorted(
        pairs, key=lambda pair: pair[0] == _DECODER
    ):  # its flags override others
        listed = {"additional_special_tokens", "extra_special_tokens", _DECODER}
        several = value if key in listed else [value] if key.endswith("_token") else ()
        for row in several.values() if isinstance(several, dict) else several or ():
            flags = row if isinstance(row, dict) else {"content": row}
            if isinstance(flags.get("content"), str) and flags["content"]:
                yield flags if key == _DECODER else flags | {"special": True}


def can_be_special(token: str) -> bool:
    plain = token.split() == [token] and token.isprintable() and len(token) <= LONGEST
    return plain and token not in BYTE_TOKENS and not token.endswith(SUFFIX)


def can_have_role(token: str) -> bool:
    """Check whether a token with a role may have this spelling: a single character is refused, as it could be text."""
    return len(token) > 1 and can_be_special(token)


def read_tokens(
    scheme: Scheme,
    model: Json,
    ids: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    named: Mapping[str, str],
    added: Sequence[str],
    *,
    is_own: bool,
) -> Json:
    """Return the arguments of Vocabulary.

    ids: token → id, in rising order of ids
    named: role → token
    added: user tokens
    """
    output, fallback = set(map("".join, merges)), falls_back(model, model.get("vocab", ids))
    whole = bool(model.get("ignore_merges"))
    spelling = BYTE_TOKENS * fallback
    if scheme.marker == "suffix" and (fallback or (added and not scheme.cut.isolates_users)):
        spelling += (SUFFIX,)
    others = [token for token in filterfalse(output.__contains__, ids) if token not in spelling]
    unmade = [token for token in others if atom_code(token, marker=scheme.marker) is None]
    special = _special(named, unmade, added, ids, is_own=is_own, whole=whole)
    left_out = {*special.all, *spelling, *(() if whole else unmade)}
    tokens = tuple(filterfalse(left_out.__contains__, ids))
    return {
        "merges": (ordered := last_of_equal(merges)),
        "tokens": tokens,
        "marker": scheme.marker,
        "normalizer": Normalizer.parse(scheme.normalizer),
        "pretokenizer": scheme.cut,
        "special": special,
        "byte_fallback": fallback,
        "merging": merging_of(ordered),
        "whole_words": whole,
        "fuse_unk": bool(model.get("fuse_unk")) and special.unk is not None and not fallback,
        "order": order_of(ids, (*special.all, *spelling), tokens),
    }


def last_of_equal(merges: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the merges without repetition. Of equal merges, `tokenizers` uses the last."""
    return tuple(dict.fromkeys(reversed(merges)))[::-1]


def merging_of(merges: Sequence[tuple[str, str]]) -> Merging:
    """Return how `tokenizers` merges: by "steps" if a merge `joins_later` or is `remade`, otherwise by "pairs"."""
    return "steps" if joins_later(merges) or next(remade(merges), None) else "pairs"


def order_of(
    ids: Mapping[str, int], reserved: Sequence[str], tokens: Sequence[str]
) -> tuple[str, ...]:
    """Return the pieces by id; () if VOLT assigns the same ids by default. Pieces without an id get the next ids.

    >>> order_of({"a": 0, "<s>": 2}, ["<s>"], ["a"]), order_of({"a": 1, "<s>": 0}, ["<s>"], ["a"])
    (('a', '', '<s>'), ())
    """
    for token, number in ids.items():
        if not 0 <= number < MOST_IDS:  # rows of unused ids would fill the memory
            result = str(number) if number.bit_length() < 64 else f"of {number.bit_length():,} bits"
            what = f"the token {quoted(token)} has the id {result}, but ids are below {MOST_IDS:,}"
            raise VocabularyError(f"{what}; download or export the file again")
    retained = {*reserved, *tokens}
    order = [""] * (1 + max(ids.values(), default=-1))
    for token, number in ids.items():
        order[number] = token if token in retained else ""
    order += [piece for piece in reserved if piece not in ids]
    while order and not order[-1]:
        order.pop()
    return () if order == [*reserved, *tokens] else tuple(order)


def _special(
    named: Mapping[str, str],
    unmade: Sequence[str],
    added: Sequence[str],
    ids: Mapping[str, int],
    *,
    is_own: bool,
    whole: bool,
) -> SpecialTokens:
    """Return the special tokens. Other tokens that no merge makes become control tokens, unless words are whole.

    In a file that VOLT wrote, the ids 0 to 3 have roles if the model's unk_token has the id 0.
    """
    users = set(added)
    free = [token for token in unmade if token not in users]
    firsts = [token for token, number in ids.items() if number < 4]
    if is_own and len(firsts) == 4 and firsts == free[:4] and firsts[0] == named.get("unk"):
        named = dict(zip(ROLES, free[:4], strict=True)) | dict(named)
    known = {*unmade, *added}
    roles = {
        role: token for role, token in named.items() if token in known and can_have_role(token)
    }
    control = [
        token
        for token in free
        if token not in roles.values() and can_be_special(token) and not whole
    ]
    unk, bos, eos, pad = map(roles.get, ROLES)
    return SpecialTokens(unk, bos, eos, pad, user=tuple(added), control=tuple(control))
