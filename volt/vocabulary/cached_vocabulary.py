"""Cache a vocabulary as arrays in the user's folder, because large files take long to parse.

`cached_vocabulary` looks in `volt.array_cache` for a vocabulary that was read from files with the
present contents. If there is none, it calls `read`, and stores the result. Values from the cache
are not validated again, because `read` validated them.

The vocabulary holds the arrays, as `StoredLists`. Its strings, such as `tokens` and `merges`, are
built when they are first used: encoding ids needs none of them. `cached_with` stores further arrays
that depend only on the vocabulary.

Each string of the vocabulary is stored once. Merges and tokens become indices of these strings:

>>> from volt.vocabulary import Vocabulary
>>> numbering = numbering_of(Vocabulary((("l", "o"), ("lo", "w")), ("lo", "low"), marker="none"))
>>> numbering.strings, numbering.lefts.tolist(), numbering.rights.tolist(), numbering.tokens.tolist()
(('l', 'o', 'w', 'lo', 'low'), [0, 3], [1, 2], [3, 4])
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import file_digest, sha256
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from volt.array_cache import Arrays, cached_arrays
from volt.array_types import Array, Bytes, Floats, Ints, Longs
from volt.vocabulary.file_format import (
    VocabularyFile,
    arguments_of,
    garbage_collection_paused,
    text_of,
)

# Bytes of the files that are cached. Smaller files parse as fast; larger ones are not vocabularies.
SIZES = range(1 << 16, 1 << 28)
_STRING_END = "\udcff"  # separates strings; encoded as the byte 0xFF, which no UTF-8 text contains
_MOST_COUNT = (1 << 63) - 1
LISTS = (
    "merges",
    "tokens",
    "counts",
    "order",
    "scores",
)  # the fields of `Vocabulary` that may be long


class IndexedStrings(NamedTuple):
    """The strings of a vocabulary, each once, and its merges and tokens as indices of these
    strings.

    strings: the atoms, then the results of merges, by rank, then the other tokens
    lefts, rights, results: (n_merges,) the parts and the result of each merge
    tokens: (n_tokens,) the tokens, in the order of their ids
    """

    strings: tuple[str, ...]
    lefts: Ints
    rights: Ints
    results: Ints
    tokens: Ints


def numbering_of(vocabulary: Any) -> IndexedStrings:
    """Return the strings of a `Vocabulary`, and its merges and tokens as indices of these."""
    strings = tuple(dict.fromkeys(chain(vocabulary.atoms, vocabulary.made, vocabulary.tokens)))
    index_of = dict(zip(strings, count()))
    parts = zip(*vocabulary.merges, strict=True) if vocabulary.merges else ((), ())
    columns = (*parts, vocabulary.made, vocabulary.tokens)
    return IndexedStrings(
        strings, *(np.fromiter(map(index_of.__getitem__, column), np.int32) for column in columns)
    )


@dataclass(frozen=True, eq=False)
class StoredLists:
    """The lists of a vocabulary as arrays. A list of Python objects is built when it is first used.

    key: identifies the contents of the vocabulary's files, and the options with which they were read
    n_atoms: the first of the strings are atoms
    n_strings: the other strings after these occur only in `order`
    text: all strings, as UTF-8
    lefts, rights, results, tokens, order: indices of strings
    counts, scores: the count and the score of each token; may be empty
    reserved_ids: the ids of special tokens, byte tokens and "</w>"
    """

    key: Sequence[object]
    n_atoms: int
    n_strings: int
    text: Bytes
    lefts: Ints
    rights: Ints
    results: Ints
    tokens: Ints
    order: Ints
    counts: Longs
    scores: Floats
    reserved_ids: Ints

    @cached_property
    def strings(self) -> tuple[str, ...]:
        return tuple(self.text.tobytes().decode(errors="surrogateescape").split(_STRING_END))

    @property
    def atoms(self) -> tuple[str, ...]:
        return self.strings[: self.n_atoms]

    @property
    def numbering(self) -> IndexedStrings:
        strings = self.strings[: self.n_strings]
        return IndexedStrings(strings, self.lefts, self.rights, self.results, self.tokens)

    @garbage_collection_paused()
    def build(self, name: str) -> tuple[Any, ...]:
        """Return one of the fields `LISTS` of the vocabulary."""
        if name == "merges":
            return tuple(zip(self._pick(self.lefts), self._pick(self.rights), strict=True))
        if name in ("counts", "scores"):
            return tuple(getattr(self, name).tolist())
        return tuple(self._pick(getattr(self, name)))

    def _pick(self, indices: Ints) -> Iterable[str]:
        return map(self.strings.__getitem__, indices.tolist())


def cached_with(vocabulary: Any, name: Sequence[object], make: Callable[[], Arrays]) -> Arrays:
    """Return arrays that depend only on a vocabulary: from the cache, if it holds the vocabulary.

    name: what the arrays are;  make: returns the arrays
    """
    if vocabulary.stored is None:
        return make()
    return cached_arrays([*name, *vocabulary.stored.key], make)


def cached_vocabulary(
    kind: type[Any], paths: Sequence[Path], read: Callable[[], Any], *key: object
) -> Any:
    """Return the vocabulary that `read` returns, from the cache if the contents of the files are
    known.

    kind: the class Vocabulary, which imports this module
    paths: all files that `read` reads, the main one last
    key: all other values on which the result of `read` depends
    """

    def read_as_arrays() -> Arrays:
        vocabulary = read()
        if max(vocabulary.counts, default=0) > _MOST_COUNT:
            return []
        arrays = _arrays_of(vocabulary)
        if digests != _digest_files(paths):  # a file changed while `read` read it
            return []
        return arrays

    digests = _digest_files(paths)
    full_key = [*key, *digests]
    if digests and (arrays := cached_arrays(full_key, read_as_arrays)):
        return _vocabulary_of(kind, full_key, *arrays)
    return read()


def _digest_files(paths: Sequence[Path]) -> list[tuple[str, str]]:
    """Return the name and a digest of each file.

    Return [] if the files are too small or too large to be cached, or if the last one cannot be
    read twice.
    """
    with suppress(OSError):
        files = sorted({path for path in paths if path.is_file()})
        n_bytes = sum(path.stat().st_size for path in files)
        if files and n_bytes in SIZES and paths[-1] in files:
            return [(path.name, _digest_file(path)) for path in files]
    return []


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, sha256).hexdigest()


def _arrays_of(vocabulary: Any) -> Arrays:
    """Return the arrays that `_vocabulary_of` reads: settings as JSON, strings, and indices of
    strings.
    """
    strings, *columns = vocabulary.numbering
    index_of = dict(zip(dict.fromkeys(chain(strings, vocabulary.order)), count()))
    order = np.array([index_of[piece] for piece in vocabulary.order], np.int32)
    bare = replace(vocabulary, **dict.fromkeys(LISTS, ()), provenance={})
    settings = {
        "file": text_of(bare),
        "n_strings": len(strings),
        "n_atoms": len(vocabulary.atoms),
        "fingerprint": vocabulary.fingerprint,
        "beside": {
            "provenance": vocabulary.provenance,
            "score_sums": vocabulary.score_sums,
            "special_scores": vocabulary.special_scores,
        },
    }
    texts = (json.dumps(settings), _STRING_END.join(index_of))
    data = [np.frombuffer(text.encode(errors="surrogateescape"), np.uint8) for text in texts]
    counts = np.array(vocabulary.counts, np.int64)
    scores = np.array(vocabulary.scores, np.float64)
    reserved_ids = np.array([*vocabulary.reserved_ids.values()], np.int32)
    return [*data, *columns, order, counts, scores, reserved_ids]


def _vocabulary_of(
    kind: type[Any], key: Sequence[object], settings_json: Bytes, *arrays: Array
) -> Any:
    settings = json.loads(settings_json.tobytes())
    file = VocabularyFile(Path("cache"), settings["file"], json.loads(settings["file"]))
    vocabulary = kind(**arguments_of(file) | settings["beside"])
    values = vars(vocabulary)
    for name in (*LISTS, "made"):  # `Vocabulary` builds them when they are used
        del values[name]
    values["_stored"] = StoredLists(key, settings["n_atoms"], settings["n_strings"], *arrays)
    values["fingerprint"] = settings["fingerprint"]
    return vocabulary
