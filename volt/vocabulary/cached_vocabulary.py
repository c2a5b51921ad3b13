"""Cache a vocabulary as arrays in the user's folder, because these load ten times as fast as large
files parse.

`cached_vocabulary` looks in `volt.array_cache` for a vocabulary that was read from files with the
present contents. If there is none, it calls `read`, and stores the result. Values from the cache
are not validated again, because `read` validated them.

Each string of the vocabulary is stored once. Merges and tokens become indices of these strings:

>>> from volt.vocabulary import Vocabulary
>>> numbering = numbering_of(Vocabulary((("l", "o"), ("lo", "w")), ("lo", "low"), marker="none"))
>>> numbering.strings, numbering.lefts.tolist(), numbering.rights.tolist(), numbering.tokens.tolist()
(('l', 'o', 'w', 'lo', 'low'), [0, 3], [1, 2], [3, 4])
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volt.array_cache import Arrays, cached_arrays
from volt.vocabulary.file_format import VocabularyFile, arguments_of, text_of

# Bytes of the files that are cached. Smaller files parse as fast; larger ones are not vocabularies.
SIZES = range(1 << 19, 1 << 28)
_STRING_END = "\udcff"  # separates strings; encoded as the byte 0xFF, which no UTF-8 text contains
Indices: TypeAlias = NDArray[np.int32]


class IndexedStrings(NamedTuple):
    """The strings of a vocabulary, each once, and its merges and tokens as indices of these
    strings.

    strings: the atoms, then the results of merges, by rank, then the other tokens
    lefts, rights, results: (n_merges,) the parts and the result of each merge
    tokens: (n_tokens,) the tokens, in the order of their ids
    """

    strings: tuple[str, ...]
    lefts: Indices
    rights: Indices
    results: Indices
    tokens: Indices


def numbering_of(vocabulary: Any) -> IndexedStrings:
    """Return the strings of a `Vocabulary`, and its merges and tokens as indices of these."""
    strings = tuple(dict.fromkeys(chain(vocabulary.atoms, vocabulary.made, vocabulary.tokens)))
    index_of = dict(zip(strings, count()))
    parts = zip(*vocabulary.merges, strict=True) if vocabulary.merges else ((), ())
    columns = (*parts, vocabulary.made, vocabulary.tokens)
    return IndexedStrings(
        strings, *(np.fromiter(map(index_of.__getitem__, column), np.int32) for column in columns)
    )


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
        arrays = _arrays_of(read())
        if digests != _digest_files(paths):  # a file changed while `read` read it
            return []
        return arrays

    digests = _digest_files(paths)
    if digests and (arrays := cached_arrays([*key, *digests], read_as_arrays)):
        return _vocabulary_of(kind, *arrays)
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
            return [(path.name, blake2b(path.read_bytes()).hexdigest()) for path in files]
    return []


def _arrays_of(vocabulary: Any) -> Arrays:
    """Return the arrays that `_vocabulary_of` reads: settings as JSON, strings, and indices of
    strings.
    """
    strings, *columns = vocabulary.numbering
    index_of = dict(zip(dict.fromkeys(chain(strings, vocabulary.order)), count()))
    order = np.array([index_of[piece] for piece in vocabulary.order], np.int32)
    bare = replace(vocabulary, merges=(), tokens=(), counts=(), order=(), provenance={})
    settings = {
        "file": text_of(bare),
        "n_strings": len(strings),
        "n_atoms": len(vocabulary.atoms),
        "counts": vocabulary.counts,
        "fingerprint": vocabulary.fingerprint,
        "provenance": vocabulary.provenance,
    }
    texts = (json.dumps(settings), _STRING_END.join(index_of))
    data = [np.frombuffer(text.encode(errors="surrogateescape"), np.uint8) for text in texts]
    return [*data, *columns, order]


def _vocabulary_of(
    kind: type[Any], settings_json: NDArray[np.uint8], text: NDArray[np.uint8], *columns: Indices
) -> Any:
    settings = json.loads(settings_json.tobytes())
    strings = text.tobytes().decode(errors="surrogateescape").split(_STRING_END)
    lefts, rights, results, tokens, order = (
        tuple(map(strings.__getitem__, column.tolist())) for column in columns
    )
    file = VocabularyFile(Path("cache"), settings["file"], json.loads(settings["file"]))
    vocabulary = kind(**arguments_of(file) | {"provenance": settings["provenance"]})
    vars(vocabulary).update(  # assigned after `__init__`, which would validate these values again
        merges=tuple(zip(lefts, rights, strict=True)),
        tokens=tokens,
        counts=tuple(settings["counts"]),
        order=order,
        made=results,
        atoms=tuple(strings[: settings["n_atoms"]]),
        numbering=IndexedStrings(tuple(strings[: settings["n_strings"]]), *columns[:4]),
        fingerprint=settings["fingerprint"],
    )
    return vocabulary
