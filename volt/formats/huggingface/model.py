"""A tokenizer.json and its model section, each part checked: the ids of its tokens, and its merges.

>>> vocab = {"l": 0, "o": 1, "w": 2, "lo": 3, "low": 4}
>>> list(model_merges(Path("tokenizer.json"), {"vocab": vocab, "merges": ["l o", ["lo", "w"]]}))
[('l', 'o'), ('lo', 'w')]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from volt.errors import VocabularyError
from volt.files.whole import read_text
from volt.text.markers import BYTE_TOKENS, SUFFIX

Json = dict[str, Any]
FILE, CONFIG, MAP = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
ADDED = "added_tokens.json"


def load(path: Path) -> Json:
    """The JSON object in a file."""
    text = read_text(path, kind=VocabularyError, remedy=", so no JSON; restore the file")
    try:
        data = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise VocabularyError(f"{path}:{line}: damaged or cut short ({error}); restore the file") from None
    if not isinstance(data, dict):
        raise VocabularyError(f"{path}:1: no tokenizer.json: it holds no JSON object; give the file of a tokenizer")
    return data


def _without_repeats(pairs: list[tuple[str, Any]]) -> Json:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for number, name in enumerate(names) if name in names[:number])
        raise ValueError(f"{repeated!r} occurs twice in one object")
    return data


def model_section(path: Path, data: Json) -> Json:
    """The model of the file. Raises VocabularyError if it is not one that VOLT can be.

    >>> model_section(Path("a.json"), {"model": {"type": "WordPiece"}})
    Traceback (most recent call last):
        ...
    volt.errors.VocabularyError: a.json: a tokenizer of type 'WordPiece'; VOLT reads those of type 'BPE': it cuts off
    the longest piece first and has no merges; find a vocabulary on its corpus with volt.search
    """
    model, version = data.get("model"), data.get("version", "1.0")
    if not isinstance(model, dict):
        raise VocabularyError(f"{path}: no tokenizer.json: 'model' is missing; give the tokenizer.json of a tokenizer")
    if version != "1.0":
        raise VocabularyError(f"{path}: version {version!r} of the format, and VOLT reads '1.0'; restore the file")
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind != "BPE":
        raise VocabularyError(f"{path}: a tokenizer of type {kind!r}; VOLT reads those of type 'BPE': {_remedy(kind)}")
    if model.get("continuing_subword_prefix"):
        raise VocabularyError(
            f"{path}: tokens inside words start with {model['continuing_subword_prefix']!r}, which VOLT cannot do; "
            "train one without continuing_subword_prefix"
        )
    if model.get("end_of_word_suffix") not in (None, "", SUFFIX):
        raise VocabularyError(f"{path}: words end in {model['end_of_word_suffix']!r}, and VOLT reads {SUFFIX!r} only")
    return model


def _remedy(kind: object) -> str:
    """What to do with a tokenizer whose pieces no merges make."""
    if kind == "Unigram":
        return (
            "no merges make its pieces; give the merges of the sentencepiece .model that it comes from to "
            "volt.replay_bpe, or train a BPE tokenizer"
        )
    if kind == "WordPiece":
        return "it cuts off the longest piece first and has no merges; find a vocabulary on its corpus with volt.search"
    return "train a BPE tokenizer, or find a vocabulary with volt.search"


def model_vocab(path: Path, model: Json) -> dict[str, int]:
    """The ids of the model's tokens, in their order. Raises VocabularyError if they are no ids, or repeat.

    >>> model_vocab(Path("a.json"), {"vocab": {"lo": 1, "l": 0}})
    {'l': 0, 'lo': 1}
    """
    vocab, of_id = model.get("vocab"), dict[int, str]()
    if not isinstance(vocab, dict) or not vocab:
        raise VocabularyError(f"{path}: model.vocab is missing, empty or no object; restore the file")
    numbers = {*vocab.values()} if {*map(type, vocab.values())} == {int} else set()
    if len(numbers) == len(vocab) and min(numbers) >= 0:  # found in less time than to look at each
        return dict(sorted(vocab.items(), key=itemgetter(1)))
    for token, number in vocab.items():
        if type(number) is not int or number < 0:
            raise VocabularyError(f"{path}: model.vocab: token {token!r} has the id {number!r}; give 0 or more")
        if number in of_id:
            raise VocabularyError(
                f"{path}: model.vocab: tokens {of_id[number]!r} and {token!r} have the same id {number}; restore one"
            )
        of_id[number] = token
    return {of_id[number]: number for number in sorted(of_id)}


def model_merges(path: Path, model: Json) -> Iterator[tuple[str, str]]:
    """The merges, each of two strings that are tokens and make a token. Raises VocabularyError for others.

    >>> list(model_merges(Path("a.json"), {"vocab": {"l": 0, "o": 1, "lo": 2}, "merges": ["l o"]}))
    [('l', 'o')]
    """
    rows, vocab = model.get("merges"), model["vocab"]
    if not isinstance(rows, list):
        raise VocabularyError(f"{path}: model.merges is missing or no list; restore the file")
    if (pairs := _sound_pairs(rows, vocab)) is not None:
        yield from pairs
        return
    for number, row in enumerate(rows, 1):
        pair = row.split(" ") if isinstance(row, str) else row
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) and part for part in pair):
            raise VocabularyError(f"{path}: model.merges, entry {number}: {row!r} is no pair of strings; restore it")
        for token in (*pair, "".join(pair)):
            if token not in vocab:
                raise VocabularyError(
                    f"{path}: model.merges, entry {number}: {pair[0]!r} + {pair[1]!r}, but {token!r} is not in "
                    "model.vocab; restore it, or remove the merge"
                )
        yield pair[0], pair[1]


def _sound_pairs(rows: Sequence[Any], vocab: Mapping[str, int]) -> list[tuple[str, str]] | None:
    """The merges, if all are as they must be, in less time than to look at each; otherwise None."""
    kinds = {*map(type, rows)}
    if not kinds <= {str} and not kinds <= {list}:
        return None
    pairs = [tuple(row.split(" ")) for row in rows] if kinds == {str} else [*map(tuple, rows)]
    parts = [*chain.from_iterable(pairs)]
    are_pairs = {*map(len, pairs)} <= {2} and {*map(type, parts)} <= {str} and "" not in parts
    return pairs if are_pairs and vocab.keys() >= {*parts, *map("".join, pairs)} else None


def falls_back(model: Json, vocab: Mapping[str, int]) -> bool:
    """Whether unknown characters become bytes. Raises VocabularyError if only some of the bytes are tokens."""
    n_bytes = sum(token in vocab for token in BYTE_TOKENS)
    if model.get("byte_fallback") and 0 < n_bytes < len(BYTE_TOKENS):
        lacking = next(token for token in BYTE_TOKENS if token not in vocab)
        raise VocabularyError(
            f"byte_fallback, but only {n_bytes} of the 256 byte tokens are in model.vocab, and {lacking!r} is not; "
            "restore them, or remove them all and set byte_fallback to false"
        )
    return bool(model.get("byte_fallback")) and n_bytes > 0
