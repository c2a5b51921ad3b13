"""A vocabulary ⇄ its file: JSON with the version first, and each token and merge on its own line,
so that errors name lines.

    {"volt": 1,
    "fingerprint": "…",
    "tokens": [
    ["the</w>", 1234],
    …],
    "merges": [
    ["t", "h"],
    …]}

Version 1, above, is for plain vocabularies (`Vocabulary.is_plain`), whose ids follow from the
tokens. Version 2 has, instead of "tokens", "pieces": a row for each id, with its string, its kind
and, for tokens, its count. Version 3 is for unigram models: the row of a token has its score, then
its count.

    text_of: vocabulary → text            arguments_of: VocabularyFile → arguments of `Vocabulary`
"""

from __future__ import annotations

import gc
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from volt import arguments
from volt.errors import VocabularyError, quoted, shown, shown_path
from volt.files.small_files import read_text
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FLAGS, ROLES, SpecialTokens
from volt.vocabulary.validation import KINDS, UNUSED

PLAIN = 1  # the version of a plain vocabulary's file
RANKED = 2  # the version of other vocabularies with merges
FORMAT = 3  # the newest version, of vocabularies with scores
MOST_BYTES = 64 << 20  # of a file
MOST_ROWS = 1 << 20  # of the list of tokens, pieces or merges
_MOST_SEPARATORS = 8 << 20  # JSON's separators in a file, counted before it is parsed
_DEEPEST = 100  # nested lists or dicts of a provenance
_MOST_BITS = 1_024  # of a number in a provenance
_NO_PIECE = "unused"  # the string and the kind in the row of an unused id
_HINT = "; read another library's file by volt.read_vocabulary, or find one on your corpus"
_FOREIGN = {
    "#version:": "subword-nmt codes",
    "{": "the JSON of another program",
    "<unk>\t": "a sentencepiece .vocab file",
}


def dump(
    head: Mapping[str, Any], *, version: int = PLAIN, **lists: Sequence[Sequence[object]]
) -> str:
    r"""Return the text of a file: the version, the head's entries, then the lists with one row a
    line.

    Raises VocabularyError if a list is too long to be read back.

    >>> dump({"marker": "none"}, tokens=[("lo", 7)])
    '{"volt": 1,\n"marker": "none",\n"tokens": [\n["lo", 7]]}\n'
    """
    for name, rows in lists.items():
        if len(rows) > MOST_ROWS:
            raise VocabularyError(
                f"{len(rows):,} {name}: at most {MOST_ROWS:,} can be saved; choose a smaller size"
            )
    entries = {"volt": version, **head}
    lines = [f"{_json(key)}: {_json(value)}" for key, value in entries.items()]
    for name, rows in lists.items():
        lines.append(f"{_json(name)}: [\n" + ",\n".join(map(_json, rows)) + "]")
    return "{" + ",\n".join(lines) + "}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class VocabularyFile:
    """A file of a known version: its path, its text and the JSON object in it, whose values are
    unchecked.
    """

    path: Path
    text: str
    data: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> VocabularyFile:
        """Read a file.

        Raises VocabularyError with file and line if it is damaged, too new or not a VOLT file.
        """
        name = shown_path(path)
        remedy = f", so not a VOLT vocabulary{_HINT}"
        text = read_text(path, kind=VocabularyError, remedy=remedy, most=MOST_BYTES)
        if not text.startswith('{"volt"'):
            content = "some other text"
            for start, program in _FOREIGN.items():
                if text.lstrip().startswith(start):
                    content = program
            if not text.strip():
                content = "an empty file"
            raise VocabularyError(f"{name}:1: not a VOLT vocabulary, but {content}{_HINT}")
        if sum(map(text.count, ",[{:")) > _MOST_SEPARATORS:
            raise VocabularyError(
                f"{name}: more than {MOST_ROWS:,} tokens or merges; choose a smaller vocabulary"
            )

        data = parsed_json(path, text)
        version = data["volt"]
        if type(version) is not int or version < 1:
            raise VocabularyError(
                f"{name}:1: the format version is {shown(version)}; save it again"
            )
        if version > FORMAT:
            raise VocabularyError(
                f"{name}:1: only a newer VOLT reads format {shown(version)}; pip install -U volt-vocab"
            )
        return cls(path, text, data)

    def value(self, name: str, kind: type) -> Any:
        """Return the entry with this name and JSON type."""
        if not isinstance(self.data.get(name), kind):
            raise VocabularyError(
                f"{self.where(name)}: {name!r} is missing or not a {kind.__name__}; save it again"
            )
        return self.data[name]

    def rows(self, name: str, *kinds: type) -> list[list[Any]]:
        """Return the rows of a list.

        Raises VocabularyError for the first row that does not pass `check_row`.
        """
        rows = self.value(name, list)
        if not _fit(rows, kinds):  # which is faster than the search for the damaged row
            for index in range(len(rows)):
                self.check_row(name, index, *kinds)
        return list(rows)

    def check_row(self, name: str, index: int, *kinds: type) -> None:
        """Raise VocabularyError, with the line, if a row's values are not of these types, or a
        string is empty.
        """
        row = self.data[name][index]
        if not _fit([row], kinds):
            place = self.where(name, index)
            shape = ", ".join(kind.__name__ for kind in kinds)
            raise VocabularyError(
                f"{place}: found {shown(_json(row))} instead of [{shape}]; fix it"
            )

    def where(self, name: str, index: int | None = None) -> str:
        """Return "path:line" of an entry, or of row `index` of a list.

        If another program formatted the file, so that the line is unknown, the result names only
        path and row.
        """
        path = shown_path(self.path)
        if name == "tokens" and name not in self.data and index is not None:
            rows = enumerate(self.data["pieces"])
            token_rows = [number for number, (_, kind, *_) in rows if kind == "token"]
            name = "pieces"
            index = token_rows[index]
        entry = re.search(f'^[{{ ]*"{re.escape(name)}"', self.text, re.MULTILINE)
        if entry:
            number = self.text.count("\n", 0, entry.start()) + 1
            if index is not None:
                number += 1 + index
            return f"{path}:{number}"
        if index is None:
            return path
        return f"{path}: {name}, row {index + 1}"


def _fit(rows: list[Any], kinds: Sequence[type]) -> bool:
    """Check whether every row is a list of values of these types, without an empty string."""
    if {*map(type, rows)} - {list} or {*map(len, rows)} - {len(kinds)}:
        return False
    columns = zip(kinds, zip(*rows, strict=True), strict=False)
    return all({*map(type, column)} == {kind} and "" not in column for kind, column in columns)


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause Python's garbage collection, which would search the growing lists of a large vocabulary
    many times.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def parsed_json(path: Path, text: str, parse_float: Callable[[str], float] = float) -> Any:
    """Return the JSON value of a text.

    parse_float: returns the value of a number that is not whole

    Raises VocabularyError with file and line if it is damaged or repeats a key.
    """
    try:
        return json.loads(text, object_pairs_hook=_refuse_repeated_keys, parse_float=parse_float)
    except (ValueError, RecursionError) as error:
        place = f"{shown_path(path)}:{getattr(error, 'lineno', 1)}"
        raise VocabularyError(
            f"{place}: damaged or cut short here ({error}); save it again"
        ) from None


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object.

    Raises ValueError if a key repeats: readers differ in which value they use.
    """
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = Counter(key for key, _ in pairs)
        raise ValueError(f"key {quoted(keys.most_common(1)[0][0])} occurs twice")
    return result


def text_of(vocabulary: Any) -> str:
    """Return the text of a Vocabulary's file.

    Raises VocabularyError if the file could not be read back.
    """
    special = vocabulary.special
    is_plain = vocabulary.is_plain
    counts = vocabulary.counts
    special_tokens: dict[str, Any] = {role: getattr(special, role) for role in ROLES}
    special_tokens["user"] = list(special.user)
    if not is_plain:
        special_tokens |= {"control": list(special.control)} | special.flags
    head = {
        "fingerprint": vocabulary.fingerprint,
        "marker": vocabulary.marker,
        "normalizer": vocabulary.normalizer.name,
        "pretokenizer": vocabulary.pretokenizer.name,
        "special": special_tokens,
        "byte_fallback": vocabulary.byte_fallback,
    }
    if not is_plain:
        head["merging"] = vocabulary.merging
        head["whole_words"] = vocabulary.whole_words
        head["numbered"] = bool(vocabulary.order)
        if vocabulary.fuse_unk:
            head["fuse_unk"] = True
    head["provenance"] = json_of(vocabulary.provenance, "provenance")
    if is_plain:
        columns = filter(None, (vocabulary.tokens, counts))
        return dump(head, tokens=list(zip(*columns, strict=True)), merges=vocabulary.merges)

    if vocabulary.is_unigram:
        head["score_sums"] = vocabulary.score_sums
        if vocabulary.special_scores:
            head["special_scores"] = dict(vocabulary.special_scores)
    values = zip(*filter(None, (vocabulary.scores, counts)), strict=True)
    pieces = list[tuple[object, ...]]()
    for piece, kind in zip(vocabulary.pieces, vocabulary.kinds, strict=True):
        row = (piece or _NO_PIECE, kind)
        pieces.append((*row, *next(values, ())) if kind == "token" else row)
    if vocabulary.is_unigram:
        return dump(head, version=FORMAT, pieces=pieces)
    return dump(head, version=RANKED, pieces=pieces, merges=vocabulary.merges)


def json_of(value: Any, name: str, *, deepest: int = _DEEPEST) -> Any:
    """Return a value as JSON data.

    Raises VocabularyError, with the value's name, if JSON cannot store it.
    """
    if deepest < 0:
        raise VocabularyError(
            f"the provenance nests more than {_DEEPEST} lists or dicts; make it flatter"
        )
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                refusal = arguments.refusal(key, f"a key of {name}", "give texts as keys")
                raise VocabularyError(str(refusal))
        return {
            key: json_of(entry, f"{name}[{quoted(key)}]", deepest=deepest - 1)
            for key, entry in value.items()
        }
    if isinstance(value, list | tuple):
        items = enumerate(value)
        return [json_of(item, f"{name}[{place}]", deepest=deepest - 1) for place, item in items]
    if isinstance(value, float) and not isfinite(value):
        raise VocabularyError(
            f"{name} is {value}, which is not a number in JSON; give None, or remove it"
        )
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise VocabularyError(f"{name} has more than {_MOST_BITS:,} bits; give it as a text")
    if value is not None and not isinstance(value, str | int | float):
        refusal = arguments.refusal(value, name, "give texts, numbers, lists or dicts")
        raise VocabularyError(str(refusal))
    return value


def arguments_of(file: VocabularyFile) -> dict[str, Any]:
    """Return the arguments of `Vocabulary` that a file contains.

    Raises VocabularyError with the damaged line.
    """
    version = file.data["volt"]
    is_plain = version == PLAIN
    merges = list[list[str]]()
    if version != FORMAT:
        merges = file.rows("merges", str, str)
    return {
        **(_read_tokens(file) if is_plain else _read_pieces(file)),
        "merges": tuple((left, right) for left, right in merges),
        "marker": file.value("marker", str),
        "normalizer": Normalizer.parse(file.value("normalizer", str)),
        "pretokenizer": PreTokenizer.parse(file.value("pretokenizer", str)),
        "special": _read_special(file, is_plain=is_plain),
        "byte_fallback": file.value("byte_fallback", bool),
        "provenance": file.value("provenance", dict),
    }


def _read_tokens(file: VocabularyFile) -> dict[str, Any]:
    first = file.value("tokens", list)[:1]
    is_counted = bool(first) and isinstance(first[0], list) and len(first[0]) == 2
    rows = file.rows("tokens", *(str, int)[: 1 + is_counted])
    return {
        "tokens": tuple(row[0] for row in rows),
        "counts": tuple(row[1] for row in rows if is_counted),
    }


def _read_pieces(file: VocabularyFile) -> dict[str, Any]:
    rows = file.value("pieces", list)
    is_unigram = file.data["volt"] == FORMAT
    columns: list[type] = [str, str]  # of a token's row
    if is_unigram:
        columns.append(float)
    if any(isinstance(row, list) and len(row) > len(columns) for row in rows):
        columns.append(int)  # the count
    if len(columns) > 2 or not _fit(rows, columns) or {row[1] for row in rows} - {*KINDS}:
        for index, row in enumerate(rows):
            n_columns = 2
            if isinstance(row, list) and row[1:2] == ["token"]:
                n_columns = len(columns)
            file.check_row("pieces", index, *columns[:n_columns])
            if row[1] not in KINDS:
                raise VocabularyError(
                    f"{file.where('pieces', index)}: unknown kind {quoted(row[1])}; fix it"
                )
    tokens = [row for row in rows if row[1] == "token"]
    pieces = (UNUSED if row[1] == _NO_PIECE else row[0] for row in rows)
    result = {
        "tokens": tuple(row[0] for row in tokens),
        "counts": tuple(row[-1] for row in tokens if columns[-1] is int),
        "order": tuple(pieces) if file.value("numbered", bool) else (),
        "merging": file.value("merging", str),
        "whole_words": file.value("whole_words", bool),
        "fuse_unk": "fuse_unk" in file.data and file.value("fuse_unk", bool),
    }
    if is_unigram:
        result["scores"] = tuple(row[2] for row in tokens)
        result["score_sums"] = file.value("score_sums", str)
        if "special_scores" in file.data:
            result["special_scores"] = tuple(file.value("special_scores", dict).items())
    return result


def _read_special(file: VocabularyFile, *, is_plain: bool) -> SpecialTokens:
    values = file.value("special", dict)
    lists = ["user"]
    if not is_plain:
        lists += ["control", *filter(values.__contains__, FLAGS)]
    is_valid = values.keys() == {*ROLES, *lists}
    for role in ROLES:
        token = values.get(role)
        is_valid &= isinstance(token, str) or (token is None and not is_plain)
    for name in lists:
        tokens = values.get(name)
        is_valid &= isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
    if not is_valid:
        shape = "the lists user and control, and may contain skips, lstrip and rstrip"
        if is_plain:
            shape = "the list user"
        raise VocabularyError(
            f"{file.where('special')}: 'special' must contain unk, bos, eos, pad and {shape}; fix it"
        )
    special = SpecialTokens(**values)
    if is_plain and not special.has_four_roles:
        raise VocabularyError(
            f"{file.where('special')}: a special token is given twice; save it again"
        )
    return special
