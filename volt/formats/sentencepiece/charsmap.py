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


_BLOCK, _ENDS, _WIDE, _LEAF = 256, 1 << 8, 1 << 9, 1 << 31
_MOST_UNITS = 1 << 21  # 21 bits of a unit are an offset
_DAMAGED = "its table of replacements is damaged; copy or train it again"
_SIZE = 4  # bytes of the size in front
_LONGEST, _MOST_NODES = 1000, 1 << 22  # bytes of a replaced string; nodes of a table without loops
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
        path.write_text(
            "".join(f"{_codes(key)}\t{_codes(text)}\n" for key, text in replacements.items())
        )
        spec = library.SentencePieceNormalizer(rule_tsv=str(path)).serialized_model_proto()
    return bytes(model_class().FromString(spec).normalizer_spec.precompiled_charsmap)


def _codes(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)


def unpack(table: bytes, *, only: Iterable[str] | None = None) -> dict[str, str]:
    """Return string → replacement, for all strings or only for those in `only` and their prefixes.

    Raises VocabularyError for a damaged table.
    """
    units, texts = _parts(table)
    bases, waiting = _bases(units), [(b"", 0)] * bool(len(units))
    result, n_left = dict[str, str](), _MOST_NODES
    wanted = (
        None
        if only is None
        else {key[:n] for key in map(str.encode, only) for n in range(len(key) + 1)}
    )
    try:
        while waiting:
            key, place = waiting.pop()
            if wanted is not None and key not in wanted:
                continue
            base, n_left = int(bases[place]), n_left - 1
            if n_left < 0 or len(key) > _LONGEST:
                raise ValueError("nodes lead back to themselves")
            if int(units[place]) & _ENDS:
                start = int(units[base]) & ~_LEAF
                result[key.decode()] = texts[start : texts.index(b"\0", start)].decode()
            block = units[base & -_BLOCK :][:_BLOCK][np.arange(_BLOCK) ^ base & _BLOCK - 1]
            fits = np.flatnonzero((block & (_LEAF | 0xFF)) == np.arange(_BLOCK))
            waiting += [(key + bytes([byte]), base ^ byte) for byte in fits.tolist() if byte]
    except (IndexError, ValueError, UnicodeDecodeError):
        raise VocabularyError(_DAMAGED) from None
    return result


def check(table: bytes) -> None:
    """Raise VocabularyError if a unit points outside the trie, or outside the replacements."""
    units, texts = _parts(table)
    outside = np.where(
        units & _LEAF, (units & ~np.uint32(_LEAF)) >= len(texts), _bases(units) >= len(units)
    )
    if outside.any() or (texts and not texts.endswith(b"\0")):
        raise VocabularyError(_DAMAGED)


def _parts(table: bytes) -> tuple[Units, bytes]:
    size = int.from_bytes(table[:_SIZE], "little")
    if not table:
        return np.zeros(0, np.uint32), b""
    if size % _SIZE or not _SIZE * _BLOCK <= size <= len(table) - _SIZE:
        raise VocabularyError(_DAMAGED)
    return np.frombuffer(table, "<u4", size // _SIZE, _SIZE), table[_SIZE + size :]


def _bases(units: Units) -> NDArray[np.int64]:
    offsets = (units >> 10 & _MOST_UNITS - 1).astype(np.int64)
    return np.arange(len(units)) ^ offsets << np.where(units & _WIDE, 8, 0)
