"""A folder → its tokenizer files and their formats, recognised by content.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = Path(folder, "x").write_bytes(b"IQ== 0\\nIg== 1\\n")
...     [(found.path.name, found.kind) for found in find(Path(folder))]
[('x', 'tiktoken')]
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Kind = str  # a key of `originals.LOADERS`
_LARGEST = 1 << 28  # bytes: no published tokenizer is larger
_FOLDERS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
_FIRST_PIECE = re.compile(
    rb"\n.{1,2}\n", re.DOTALL
)  # the first field of a model of sentencepiece holds a string


@dataclass(frozen=True, slots=True)
class Found:
    """A tokenizer: a file, or a folder of two. name: derived from the folder that was searched."""

    name: str
    path: Path
    kind: Kind


def find(folder: Path) -> Iterator[Found]:
    """Yield the tokenizers in a folder, or in a single file, by name."""
    if folder.is_file():
        yield from _kinds(folder, folder.name)
    for path in sorted(folder.rglob("*")):
        yield from _kinds(path, str(path.relative_to(folder)))


def content(path: Path) -> bytes:
    """Return the uncompressed content of a file."""
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def _kinds(path: Path, name: str) -> Iterator[Found]:
    if path.is_dir():
        if any(all((path / part).is_file() for part in parts) for parts in _FOLDERS):
            yield Found(f"{name}/", path, "vocab + merges")
    elif path.is_file() and path.stat().st_size <= _LARGEST and (kind := kind_of(path)):
        yield Found(name, path, kind)


def kind_of(path: Path) -> Kind | None:
    """Return the format of a tokenizer's file; None for any other file."""
    with path.open("rb") as file:
        head = file.read(64)
    if head.startswith(b"\x1f\x8b"):
        with gzip.open(path) as unpacked:
            head = unpacked.read(64)
    if head.lstrip().startswith(b"{"):
        return _kind_of_json(path)
    if _is_ranks(head):
        return "tiktoken"
    if b"#version" in head.split(b"\n")[0]:
        return "clip merges" if b"bpe_simple_vocab" in head else "merges"
    return "sentencepiece" if _FIRST_PIECE.match(head) else None


def _is_ranks(head: bytes) -> bool:
    row = head.split(b"\n")[0].split()
    try:
        return len(row) == 2 and row[1].isdigit() and bool(base64.b64decode(row[0], validate=True))
    except binascii.Error:
        return False


def _kind_of_json(path: Path) -> Kind | None:
    try:
        found: Any = json.loads(content(path))
    except ValueError:
        return None
    if isinstance(found.get("model"), dict) and "vocab" in found["model"]:
        return "tokenizer.json"
    return "tekken" if "vocab" in found and "pattern" in found.get("config", {}) else None
