"""A vocabulary ⇄ arrays in the user's cache, for large files: reading them again takes a tenth of the time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volt.array_cache import Arrays, cached_arrays
from volt.vocabulary.file_format import VocabularyFile, arguments_of, text_of

# bytes of cached files; smaller ones are read as fast, larger ones are not vocabularies
SIZES = range(1 << 19, 1 << 28)
_END = "\udcff"  # in no token
Numbering: TypeAlias = tuple[tuple[str, ...], Arrays]


def numbering_of(vocabulary: Any) -> Numbering:
    """Return the atoms, the tokens that merges make, in the order of the merges, and the vocabulary's other tokens.

    Also return arrays of numbers of these tokens: the left parts, right parts and results of merges; the vocabulary's.
    """
    tokens = tuple(dict.fromkeys(chain(vocabulary.atoms, vocabulary.made, vocabulary.tokens)))
    numbers = dict(zip(tokens, count()))
    parts = zip(*vocabulary.merges, strict=True) if vocabulary.merges else ((), ())
    lists = (*parts, vocabulary.made, vocabulary.tokens)
    return tokens, [np.fromiter(map(numbers.__getitem__, one), np.int32) for one in lists]


def cached_vocabulary(
    kind: type[Any], paths: Sequence[Path], read: Callable[[], Any], *key: object
) -> Any:
    """Return the vocabulary that `read` reads.

    kind: the class Vocabulary
    paths: all files that it reads
    key: all else on which it depends
    """

    def arrays() -> Arrays:
        result = _arrays_of(read())
        if contents != _contents(paths):  # a file has changed meanwhile
            return []
        return result

    contents = _contents(paths)
    if contents and (result := cached_arrays([*key, *contents], arrays)):
        return _vocabulary_of(kind, *result)
    return read()


def _contents(paths: Sequence[Path]) -> list[tuple[str, str]]:
    """Return digests of files; nothing if they are small, or the last is not a file that can be read twice."""
    with suppress(OSError):
        files = sorted({path for path in paths if path.is_file()})
        n_bytes = sum(path.stat().st_size for path in files)
        if files and n_bytes in SIZES and paths[-1] in files:
            return [(path.name, blake2b(path.read_bytes()).hexdigest()) for path in files]
    return []


def _arrays_of(vocabulary: Any) -> Arrays:
    tokens, columns = vocabulary.numbering
    numbers = dict(zip(dict.fromkeys(chain(tokens, vocabulary.order)), count()))
    order = np.array([numbers[piece] for piece in vocabulary.order], np.int32)
    bare = text_of(replace(vocabulary, merges=(), tokens=(), counts=(), order=(), provenance={}))
    head = (
        bare,
        len(tokens),
        len(vocabulary.atoms),
        vocabulary.counts,
        vocabulary.fingerprint,
        vocabulary.provenance,
    )
    texts = (json.dumps(head), _END.join(numbers))
    data = [np.frombuffer(text.encode(errors="surrogateescape"), np.uint8) for text in texts]
    return [*data, *columns, order]


def _vocabulary_of(
    kind: type[Any], head: NDArray[np.uint8], text: NDArray[np.uint8], *columns: NDArray[np.int32]
) -> Any:
    bare, n_tokens, n_atoms, counts, fingerprint, provenance = json.loads(head.tobytes())
    strings = text.tobytes().decode(errors="surrogateescape").split(_END)
    lefts, rights, results, tokens, order = (
        tuple(map(strings.__getitem__, column.tolist())) for column in columns
    )
    file = VocabularyFile(Path("cache"), bare, json.loads(bare))
    vocabulary = kind(**arguments_of(file) | {"provenance": provenance})
    vars(vocabulary).update(  # without the checks, which `read` has made
        merges=tuple(zip(lefts, rights, strict=True)),
        tokens=tokens,
        counts=tuple(counts),
        order=order,
        made=results,
        atoms=tuple(strings[:n_atoms]),
        numbering=(tuple(strings[:n_tokens]), [*columns[:4]]),
        fingerprint=fingerprint,
    )
    return vocabulary
