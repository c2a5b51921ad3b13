"""An independent writer and reader of fairseq's .bin and .idx, written from the description of the
format.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

CODES = {"u8": (1, "B"), "i8": (2, "b"), "i16": (3, "h"), "i32": (4, "i"), "i64": (5, "q")}
CODES |= {"u16": (8, "H"), "u32": (9, "I"), "u64": (10, "Q")}
Sentences = Sequence[Sequence[int]]


def packed(sentences, dtype, *, documents=None):
    """Return the content of .bin and .idx for sentences of ids.

    documents: the bounds of documents, which only Megatron's .idx contains
    """
    code, letter = CODES[dtype]
    data = b"".join(struct.pack("<" + letter, id_) for sentence in sentences for id_ in sentence)
    index = (
        b"MMIDIDX\0\0"
        + struct.pack("<Q", 1)
        + struct.pack("<B", code)
        + struct.pack("<Q", len(sentences))
    )
    if documents is not None:
        index += struct.pack("<Q", len(documents))
    index += b"".join(struct.pack("<i", len(sentence)) for sentence in sentences)
    place = 0
    for sentence in sentences:
        index += struct.pack("<q", place)
        place += len(sentence) * struct.calcsize("<" + letter)
    return data, index + b"".join(struct.pack("<q", bound) for bound in documents or ())


def unpacked(data, index):
    """Return the sentences of ids in the content of .bin and .idx."""
    magic, version, code, n = struct.unpack("<9sQBQ", index[:26])
    assert (magic, version) == (b"MMIDIDX\0\0", 1)
    (letter,) = (letter for number, letter in CODES.values() if number == code)
    sizes = struct.unpack(f"<{n}i", index[26 : 26 + 4 * n])
    places = struct.unpack(f"<{n}q", index[26 + 4 * n :])
    return [
        list(struct.unpack_from(f"<{size}{letter}", data, place))
        for size, place in zip(sizes, places, strict=True)
    ]


def write_pair(prefix, sentences, dtype, *, documents=None):
    """Write PREFIX.bin and PREFIX.idx, and return the prefix."""
    data, index = packed(sentences, dtype, documents=documents)
    Path(f"{prefix}.bin").write_bytes(data)
    Path(f"{prefix}.idx").write_bytes(index)
    return str(prefix)
