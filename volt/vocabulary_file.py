"""The vocabulary file: JSON, versioned first, one token or merge per line; checked from top to bottom when it is read.

{"volt": 1,
 "fingerprint": "…", "marker": …, "normalizer": …, "pretokenizer": …, "special": …, "byte_fallback": …, "provenance": …,
 "tokens": [
 ["the</w>", 1234],
 …],
 "merges": [
 ["t", "h"],
 …]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt.errors import ConfigError, VocabularyError
from volt.special import SpecialTokens
from volt.text import Normalizer, PreTokenizer

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary

FORMAT = 1
_HINT = "; make one with: volt search CORPUS -o NAME.volt"
_TYPES = {
    "tokens": list, "merges": list, "special": dict, "provenance": dict,
    "marker": str, "normalizer": str, "pretokenizer": str, "byte_fallback": bool,
}  # fmt: skip
_FOREIGN = {
    "#version:": "subword-nmt codes", "{": "JSON of another program", "---": "a YAML vocabulary",
    "<unk>\t": "a sentencepiece .vocab file",
}  # fmt: skip


def dump(vocabulary: Vocabulary) -> str:
    """The file's text; the same vocabulary always gives the same text."""
    special = vocabulary.special
    head = {
        "volt": FORMAT,
        "fingerprint": vocabulary.fingerprint,
        "marker": vocabulary.marker,
        "normalizer": vocabulary.normalizer.name,
        "pretokenizer": vocabulary.pretokenizer.name,
        "special": {name: getattr(special, name) for name in ("unk", "bos", "eos", "pad", "user")},
        "byte_fallback": vocabulary.byte_fallback,
        "provenance": vocabulary.provenance,
    }
    lines = [f"{_json(key)}: {_json(value)}" for key, value in head.items()]
    rows = (
        zip(vocabulary.tokens, vocabulary.counts, strict=True)
        if vocabulary.counts
        else ((t,) for t in vocabulary.tokens)
    )
    lines += [f'"tokens": {_rows(rows)}', f'"merges": {_rows(vocabulary.merges)}']
    return "{" + ",\n".join(lines) + "}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _rows(rows: Iterable[Sequence[object]]) -> str:
    return "[\n" + ",\n".join(map(_json, rows)) + "]"


def load(path: Path) -> Vocabulary:
    """Read and check a vocabulary file. Raises VocabularyError that names file and line and what to do."""
    from volt.vocabulary import Vocabulary

    text = _text(path)
    data = _parsed(path, text)
    try:
        vocabulary = Vocabulary(**_fields(data))
    except (VocabularyError, ConfigError) as error:
        place = error.place if isinstance(error, VocabularyError) else None
        message = error.message if isinstance(error, VocabularyError) else str(error)
        raise VocabularyError(f"{_where(path, text, place)}: {message}") from None
    stated = data.get("fingerprint", vocabulary.fingerprint)
    if stated != vocabulary.fingerprint:
        raise VocabularyError(
            f"{path}:2: the fingerprint {stated!r} does not match the content: the file was edited or damaged. "
            "Restore it, or delete this line to accept the content as it is"
        )
    return vocabulary


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise VocabularyError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise VocabularyError(f"{path}:{line}: not UTF-8 text, so not a VOLT vocabulary{_HINT}") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    """The JSON object in the text, if it is a vocabulary of a version that we can read."""
    if not text.lstrip().startswith('{"volt"'):
        raise VocabularyError(f"{path}:1: not a VOLT vocabulary, but {_looks_like(text)}{_HINT}")
    try:
        data = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise VocabularyError(f"{path}:{line}: the file is damaged or cut short here ({error}); restore it") from None
    version = data["volt"]
    if not isinstance(version, int) or version < 1:
        raise VocabularyError(f"{path}:1: no valid format version, but {version!r}; restore the file")
    if version > FORMAT:
        raise VocabularyError(
            f"{path}:1: format {version} of a newer VOLT; this one reads {FORMAT}: pip install -U volt-vocab"
        )
    return dict(data)


def _looks_like(text: str) -> str:
    found = (what for start, what in _FOREIGN.items() if text.lstrip().startswith(start))
    return next(found, "an empty file" if not text.strip() else "some other text")


def _fields(data: dict[str, Any]) -> dict[str, Any]:
    """The arguments of Vocabulary. Raises VocabularyError where a value has the wrong type."""
    for name, kind in _TYPES.items():
        if not isinstance(data.get(name), kind):
            raise VocabularyError(f"{name!r} is missing or not a JSON {kind.__name__}; restore it", place=(name, -1))
    tokens, merges, special = data["tokens"], data["merges"], data["special"]
    counted = bool(tokens) and isinstance(tokens[0], list) and len(tokens[0]) == 2
    _check_rows("tokens", tokens, (str, int) if counted else (str,))
    _check_rows("merges", merges, (str, str))
    if set(special) != {"unk", "bos", "eos", "pad", "user"} or not isinstance(special["user"], list):
        raise VocabularyError("'special' must hold unk, bos, eos, pad and the list user", place=("special", -1))
    return {
        "merges": tuple(map(tuple, merges)),
        "tokens": tuple(row[0] for row in tokens),
        "counts": tuple(row[1] for row in tokens) if counted else (),
        "marker": data["marker"],
        "normalizer": Normalizer.parse(data["normalizer"]),
        "pretokenizer": PreTokenizer.parse(data["pretokenizer"]),
        "special": SpecialTokens(**{**special, "user": tuple(special["user"])}),
        "byte_fallback": data["byte_fallback"],
        "provenance": data["provenance"],
    }


def _check_rows(section: str, rows: list[Any], kinds: tuple[type, ...]) -> None:
    """Each row must be a list of values of these types, and strings text that is not empty."""
    for index, row in enumerate(rows):
        fits = isinstance(row, list) and len(row) == len(kinds)
        if not fits or not all(type(value) is kind and value != "" for value, kind in zip(row, kinds, strict=True)):
            shape = ", ".join(kind.__name__ for kind in kinds)
            raise VocabularyError(f"found {_json(row)} where [{shape}] belongs; restore it", place=(section, index))


def _where(path: Path, text: str, place: tuple[str, int] | None) -> str:
    """path:line of an entry, as long as the file keeps one entry a line; otherwise path and entry."""
    if place is None:
        return str(path)
    section, index = place
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.lstrip(" {").startswith(f'"{section}"'):
            return f"{path}:{number + 2 + index}" if number + 1 + index < len(lines) else str(path)
    return f"{path}: {section}, entry {index + 1}"
