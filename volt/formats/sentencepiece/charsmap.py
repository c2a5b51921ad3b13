r"""Pack text replacements into the "precompiled charsmap" of a sentencepiece model, and unpack
them.

`volt.text.charsmap` describes the table.

>>> table = pack({"\t": " ", "A": "a", "AE": "æ"})
>>> unpack(table) == {"\t": " ", "A": "a", "AE": "æ"}, unpack(table, only=["A", "a"])
(True, {'A': 'a'})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from volt.errors import VocabularyError
from volt.formats.protocol import require_library
from volt.text.charsmap import BYTE_BITS, DAMAGED, END_BIT, LEAF_BIT, bases_of, split_table

_CHILD_BYTES = np.arange(1, 256)  # no replaced string contains the byte 0
# A damaged trie may have loops. No real table exceeds these limits, which end the search.
_MOST_NODES = 1 << 22
_LONGEST = 1000  # bytes of a replaced string
_ERRORS_ONLY = 2  # a log level of the library


def pack(replacements: Mapping[str, str]) -> bytes:
    """Return the charsmap of string → replacement; b"" for an empty mapping.

    No replaced string may be empty, and no string may contain U+0000. The sentencepiece library
    builds the trie.
    """
    if not replacements:
        return b""
    library = load_library()
    library.set_min_log_level(_ERRORS_ONLY)
    with TemporaryDirectory() as folder:
        path = Path(folder, "rules.tsv")
        rules = (f"{_hex_codes(key)}\t{_hex_codes(text)}\n" for key, text in replacements.items())
        path.write_text("".join(rules))
        model = library.SentencePieceNormalizer(rule_tsv=str(path)).serialized_model_proto()
    return bytes(model_class().FromString(model).normalizer_spec.precompiled_charsmap)


def _hex_codes(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


def unpack(table: bytes, *, only: Iterable[str] | None = None) -> dict[str, str]:
    """Return string → replacement of a charsmap.

    only: strings; the result contains only these, and prefixes of these

    Raises VocabularyError for a damaged table.
    """
    units, texts = split_table(table)
    bases = bases_of(units)
    wanted = {b""}
    for key in map(str.encode, only or ()):
        wanted.update(key[:end] for end in range(1, len(key) + 1))

    result = dict[str, str]()
    unvisited = [(b"", 0)] if len(units) else []  # the string that leads to a node, and the node
    n_nodes = 0
    try:
        while unvisited:
            prefix, node = unvisited.pop()
            if only is not None and prefix not in wanted:
                continue
            n_nodes += 1
            if n_nodes > _MOST_NODES or len(prefix) > _LONGEST:
                raise VocabularyError(DAMAGED)
            base = int(bases[node])
            if units[node] & END_BIT:
                start = int(units[base]) & ~LEAF_BIT
                result[prefix.decode()] = texts[start : texts.index(b"\0", start)].decode()
            is_child = (units[base ^ _CHILD_BYTES] & (LEAF_BIT | BYTE_BITS)) == _CHILD_BYTES
            for byte in _CHILD_BYTES[is_child].tolist():
                unvisited.append((prefix + bytes([byte]), base ^ byte))
    except (IndexError, ValueError):  # a position outside the table, or text that is not UTF-8
        raise VocabularyError(DAMAGED) from None
    return result


def load_library() -> Any:
    """Return the sentencepiece package. Raises MissingLibraryError if it is not installed."""
    with require_library("sentencepiece"):
        import sentencepiece
    return sentencepiece


def model_class() -> Any:
    """Return the protobuf class of a sentencepiece model."""
    with require_library("sentencepiece or protobuf"):
        from sentencepiece import sentencepiece_model_pb2 as pb2
    return vars(pb2)["ModelProto"]  # protobuf creates it at run time, so mypy does not know it
