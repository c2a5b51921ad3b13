r"""Pack replacements of text into the "precompiled charsmap" of a sentencepiece model, and unpack them.

    charsmap = size of the trie, 4 bytes | trie | replacements, each followed by a zero byte

The trie is a double array (Aoe 1989) of 32-bit units. A node's child for a byte is at `base ^ byte`; the child's bits
0–7 are that byte.

    bits 0–7   the byte       bits 10–30  the node's own index ^ base; without its lowest 8 bits if bit 9 is set
    bit 8      a string ends here: the unit at `base` has bit 31 set and contains the start of its replacement

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
from volt.formats.protocol import needs


def model_class() -> Any:
    """Return the protobuf class of a sentencepiece model."""
    with needs("sentencepiece or protobuf"):
        from sentencepiece import sentencepiece_model_pb2 as pb2
    return vars(pb2)["ModelProto"]  # made at run time, so unknown to type checkers


def load_library() -> Any:
    """Return the sentencepiece package."""
    with needs("sentencepiece"):
        import sentencepiece
    return sentencepiece


_BLOCK = 256
_ENDS = 1 << 8
_WIDE = 1 << 9
_LEAF = 1 << 31
_CHILDREN = np.arange(1, _BLOCK)  # the bytes that lead to a node's children
_MOST_UNITS = 1 << 21  # 21 bits of a unit are an offset
_DAMAGED = "its table of replacements is damaged; copy or train it again"
_SIZE = 4  # bytes of the size in front
_LONGEST = 1000  # bytes of a replaced string
_MOST_NODES = 1 << 22  # of a table without loops
_ERRORS = 2  # the library's log level

Units = NDArray[np.uint32]


def pack(replacements: Mapping[str, str]) -> bytes:
    """Return the table of replacements; b"" if there are none. No string may be empty or contain U+0000."""
    if not replacements:
        return b""
    library = load_library()
    library.set_min_log_level(_ERRORS)
    with TemporaryDirectory() as folder:
        path = Path(folder, "rules.tsv")
        rules = (f"{_codes(key)}\t{_codes(text)}\n" for key, text in replacements.items())
        path.write_text("".join(rules))
        spec = library.SentencePieceNormalizer(rule_tsv=str(path)).serialized_model_proto()
    return bytes(model_class().FromString(spec).normalizer_spec.precompiled_charsmap)


def _codes(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


def unpack(table: bytes, *, only: Iterable[str] | None = None) -> dict[str, str]:
    """Return string → replacement, for all strings or only for those in `only` and their prefixes.

    Raises VocabularyError for a damaged table.
    """
    units, texts = _parts(table)
    bases = _bases(units)
    wanted = {b""}
    for key in map(str.encode, only or ()):
        wanted.update(key[:end] for end in range(1, len(key) + 1))

    result = dict[str, str]()
    waiting = [(b"", 0)] if len(units) else []
    n_nodes = 0
    try:
        while waiting:
            prefix, place = waiting.pop()
            if only is not None and prefix not in wanted:
                continue
            n_nodes += 1
            if n_nodes > _MOST_NODES or len(prefix) > _LONGEST:
                raise ValueError("nodes lead back to themselves")
            base = int(bases[place])
            if units[place] & _ENDS:
                start = int(units[base]) & ~_LEAF
                result[prefix.decode()] = texts[start : texts.index(b"\0", start)].decode()
            is_child = (units[base ^ _CHILDREN] & (_LEAF | 0xFF)) == _CHILDREN
            for byte in _CHILDREN[is_child].tolist():
                waiting.append((prefix + bytes([byte]), base ^ byte))
    except (IndexError, ValueError, UnicodeDecodeError):
        raise VocabularyError(_DAMAGED) from None
    return result


def check(table: bytes) -> None:
    """Raise VocabularyError if a unit points outside the trie, or outside the replacements."""
    units, texts = _parts(table)
    is_outside_texts = (units & ~np.uint32(_LEAF)) >= len(texts)
    is_outside_trie = _bases(units) >= len(units)
    is_outside = np.where(units & _LEAF, is_outside_texts, is_outside_trie)
    if is_outside.any() or (texts and not texts.endswith(b"\0")):
        raise VocabularyError(_DAMAGED)


def _parts(table: bytes) -> tuple[Units, bytes]:
    if not table:
        return np.zeros(0, np.uint32), b""
    size = int.from_bytes(table[:_SIZE], "little")
    if size % _SIZE or not _SIZE * _BLOCK <= size <= len(table) - _SIZE:
        raise VocabularyError(_DAMAGED)
    return np.frombuffer(table, "<u4", size // _SIZE, _SIZE), table[_SIZE + size :]


def _bases(units: Units) -> NDArray[np.int64]:
    offsets = (units >> 10 & _MOST_UNITS - 1).astype(np.int64)
    return np.arange(len(units)) ^ offsets << np.where(units & _WIDE, 8, 0)
