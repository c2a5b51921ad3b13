r"""Pack text replacements into the "precompiled charsmap" of a sentencepiece model, and unpack
them.

    charsmap = number of bytes of the trie (4 bytes, little-endian) | trie | replacements

Each replacement is UTF-8 text followed by a zero byte. The trie contains the replaced strings, one
byte an edge. It is a double array (Aoe 1989): an array of 32-bit units, in which a node is the
index of a unit, and node 0 is the root. With `unit = units[node]`:

    offset    bits 10–30 of unit; times 256 if bit 9 of unit is set
    base      node ^ offset
    child     node ^ offset ^ byte, for one of the bytes 1–255. The child exists if bits 0–7 of its
              unit are this byte, and bit 31 is not set.
    end       if bit 8 of unit is set, a replaced string ends at this node. Then units[base] has bit
              31 set, and its other bits are the position of the replacement's first byte.

So the string "AE" ends at node `n2`, where n1 = base(0) ^ 0x41, and n2 = base(n1) ^ 0x45.

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
from numpy.typing import NDArray

from volt.errors import VocabularyError
from volt.formats.protocol import require_library

Units = NDArray[np.uint32]

_N_SIZE_BYTES = 4  # before the trie; also the bytes of a unit
_LEAST_UNITS = 256  # a node has room for a child for every byte
_BYTE_BITS = 0xFF
_END_BIT = 1 << 8
_WIDE_BIT = 1 << 9
_OFFSET_SHIFT = 10
_OFFSET_BITS = (1 << 21) - 1
_LEAF_BIT = 1 << 31
_CHILD_BYTES = np.arange(1, 256)  # no replaced string contains the byte 0
# A damaged trie may have loops. No real table exceeds these limits, which end the search.
_MOST_NODES = 1 << 22
_LONGEST = 1000  # bytes of a replaced string
_DAMAGED = "its table of replacements is damaged; copy or train it again"
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
    units, texts = _split_table(table)
    bases = _bases(units)
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
                raise VocabularyError(_DAMAGED)
            base = int(bases[node])
            if units[node] & _END_BIT:
                start = int(units[base]) & ~_LEAF_BIT
                result[prefix.decode()] = texts[start : texts.index(b"\0", start)].decode()
            is_child = (units[base ^ _CHILD_BYTES] & (_LEAF_BIT | _BYTE_BITS)) == _CHILD_BYTES
            for byte in _CHILD_BYTES[is_child].tolist():
                unvisited.append((prefix + bytes([byte]), base ^ byte))
    except (IndexError, ValueError):  # a position outside the table, or text that is not UTF-8
        raise VocabularyError(_DAMAGED) from None
    return result


def check(table: bytes) -> None:
    """Raise VocabularyError if a unit of a charsmap points outside the trie or the replacements."""
    units, texts = _split_table(table)
    is_outside_texts = (units & ~np.uint32(_LEAF_BIT)) >= len(texts)
    is_outside_trie = _bases(units) >= len(units)
    is_outside = np.where(units & _LEAF_BIT, is_outside_texts, is_outside_trie)
    if is_outside.any() or (texts and not texts.endswith(b"\0")):
        raise VocabularyError(_DAMAGED)


def _split_table(table: bytes) -> tuple[Units, bytes]:
    """Return the units of the trie, and the replacements."""
    if not table:
        return np.zeros(0, np.uint32), b""
    n_bytes = int.from_bytes(table[:_N_SIZE_BYTES], "little")
    unit_size = np.dtype("<u4").itemsize
    is_whole = unit_size * _LEAST_UNITS <= n_bytes <= len(table) - _N_SIZE_BYTES
    if n_bytes % unit_size or not is_whole:
        raise VocabularyError(_DAMAGED)
    units = np.frombuffer(table, "<u4", n_bytes // unit_size, _N_SIZE_BYTES)
    return units, table[_N_SIZE_BYTES + n_bytes :]


def _bases(units: Units) -> NDArray[np.int64]:
    offsets = (units >> _OFFSET_SHIFT & _OFFSET_BITS).astype(np.int64)
    return np.arange(len(units)) ^ offsets << np.where(units & _WIDE_BIT, 8, 0)


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
