"""What is fuzzed: for each kind of file, valid ones that VOLT has made, and what reads them.

>>> sorted(targets(Path("/nowhere")))[:3]
['bz2', 'codes', 'config']
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

N_LINES = 20  # of a stream, that are read
_LINES = "low lower\tx\nnewest wide\ty\nthe cat ▁ sät\tz\n\nslow\n"
_CONFIG = """\
seed: 3
ends: drop
sources:
  one: {path: lines.tsv, epochs: 2, block_lines: 2, transforms: [lower, {tag: "<a>"}]}
  two:
    path: [lines.tsv, lines.tsv]
    weight: {kind: linear, points: [[0, 0.5], [10, 1]]}
    epochs: 1
    split_lines: 2
    transforms:
      - choice: [{weight: 1}, {weight: 2, transforms: [upper: {fields: [1]}]}]
      - length: {max: 100, unit: words}
transforms: [skip_blank]
"""
_MORE = """\
seed: 1
sources:
  a:
    path: lines.tsv
    epochs: 1
    transforms: [{regex: "l.w"}, {repeat: 2}, {ratio: 3}, {keep_fields: [1, 2]}, encode: {vocabulary: vocabulary.volt}]
errors: {on_fault: skip}
"""
Read = Callable[[Path], object]


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of file. seeds: valid ones;  extras: examples that are tried as they are;  read: what takes a path."""

    read: Read
    seeds: Callable[[], Sequence[bytes]]
    extras: Callable[[], Sequence[bytes]] = tuple


def targets(folder: Path) -> Mapping[str, Target]:
    """All of them, by name. folder: where files lie that others need, see `prepare`."""
    from volt.formats import FORMATS

    found = {"volt": Target(_load, _volt_files, _hostile), "codes": Target(_codes, partial(_exported, "subword-nmt"))}
    for name in FORMATS:
        found[f"import-{name}"] = Target(partial(_import, folder, name), partial(_exported, name), _hostile)
    found["import-any"] = Target(partial(_import, folder, None), _every_format, _hostile)
    found["config"] = Target(partial(_stream, folder), _configs, _hostile)
    found["state"] = Target(partial(_restore, folder), partial(_states, folder), _hostile)
    found["text"] = Target(_count, lambda: [_LINES.encode()])
    found["table"] = Target(_count_table, lambda: [b"low\t5\nlower\t2\nnewest\t6\n"])
    found["pieces"] = Target(partial(_decode, folder), lambda: [b"lo w</w>\nn e w est</w>\n"])
    for name, pack in PACKED.items():
        found[name] = Target(_count, partial(_packed, pack), partial(_bombs, pack))
    return found


def prepare(folder: Path) -> None:
    """Write the files that configurations name."""
    (folder / "lines.tsv").write_text(_LINES)
    _vocabularies()[0].save(folder / "vocabulary.volt")


def _zst(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=1, write_checksum=True).compress(data)


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": partial(gzip.compress, mtime=0), "bz2": bz2.compress, "xz": lzma.compress, "zst": _zst
}  # fmt: skip


# what reads


def _load(path: Path) -> None:
    """Read a vocabulary, write it, read it again, cut a line with it."""
    from volt.encode.encoder import Encoder
    from volt.vocabulary import Vocabulary

    found = Vocabulary.load(path)
    again = path.with_name("again.volt")
    found.save(again)
    if Vocabulary.load(again) != found:
        raise AssertionError("a vocabulary that was saved is another one")
    Encoder(found).encode("low the newest <unk> ▁x")


def _codes(path: Path) -> None:
    from volt.formats.merges import read_merges

    read_merges(path)


def _import(folder: Path, name: str | None, path: Path) -> None:
    from volt.formats.registry import read_vocabulary

    lists = name in ("fairseq", "marian", "opennmt", "tokens")
    read_vocabulary(path, format=name, merges=folder / "vocabulary.volt" if lists else None)


def _stream(folder: Path, path: Path) -> None:
    """Open a stream, and read its first lines here."""
    from volt.stream import Stream

    with Stream.from_config(path, n_workers=0, cache=folder / "cache") as stream:
        list(islice(stream, N_LINES))


def _restore(folder: Path, path: Path) -> None:
    from volt.stream.running.state_file import load_state

    stream = _opened(folder)
    stream.restore(load_state(path))
    list(islice(stream, N_LINES))


def _count(path: Path) -> None:
    from volt.count.corpus import count_words

    count_words(str(path))


def _count_table(path: Path) -> None:
    from volt.count.corpus import count_words

    count_words(str(path), word_counts=True)


def _decode(folder: Path, path: Path) -> None:
    """Back to text, as pieces and as ids."""
    from volt.encode.decoder import Decoder, decode
    from volt.errors import VoltError
    from volt.files.blocks import read_blocks
    from volt.vocabulary import Vocabulary

    vocabulary = Vocabulary.load(folder / "vocabulary.volt")
    for block in read_blocks(str(path), errors="replace"):
        with suppress(VoltError):
            Decoder.of(vocabulary).decode_text(block.data, place=block.place)
        for line in block.data.decode().split("\n"):
            decode(vocabulary, [piece for piece in line.split(" ") if piece])


# what is valid


@cache
def _vocabularies() -> list[Any]:
    """Small vocabularies of several kinds."""
    import volt
    from volt.choose.search import default_sizes

    counts = volt.WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "widest": 3, "the": 9, "cät": 2})
    special = volt.SpecialTokens(user=("<url>", "<ab>"))
    found = [
        volt.search(volt.learn_bpe(counts, n_merges=9, marker=marker), sizes=[18, 20], select="fixed:20").vocabulary
        for marker in ("suffix", "prefix")
    ]
    found.append(
        volt.search(
            volt.learn_bpe(counts, n_merges=9), sizes=[18, 20], select="fixed:20", special=special, byte_fallback=True
        ).vocabulary
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text")
        path.write_text(_LINES * 3)
        for options in ({"pretokenizer": "bytes"}, {"pretokenizer": "metaspace"}):
            learned = volt.learn_bpe(volt.count_words(path, **options), n_merges=8, marker="none")  # type: ignore[arg-type]
            size = int(default_sizes(learned)[0])
            found.append(volt.search(learned, sizes=[size], select=f"fixed:{size}").vocabulary)
    return found


def _volt_files() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a")
        found = []
        for vocabulary in _vocabularies():
            vocabulary.save(path)
            found.append(path.read_bytes())
    return found


def _exported(name: str) -> list[bytes]:
    """A format's files, of every vocabulary that it can hold."""
    from volt.errors import VoltError
    from volt.formats.registry import closing_order, write_vocabulary

    found = []
    for vocabulary in _vocabularies():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a")
            try:
                write_vocabulary(vocabulary.closed(order=closing_order(name)), path, to=name)
            except VoltError:
                continue
            found += [
                file.read_bytes() for file in sorted(path.parent.rglob("*")) if file.is_file() and file.name in _MAIN
            ]
    assert found, f"no vocabulary can be exported to {name}"
    return found


_MAIN = ("a", "a.model", "tokenizer.json")


def _every_format() -> list[bytes]:
    from volt.formats import FORMATS

    return [*_volt_files(), *(data for name in FORMATS for data in _exported(name)[:2])]


def _configs() -> list[bytes]:
    from volt.stream.examples.recipes import RECIPES

    recipes = [file for recipe in RECIPES.values() for file in recipe.files.values() if isinstance(file, str)]
    known = [re.sub(r"\w+\.tsv(\.gz)?", "lines.tsv", text) for text in recipes if "sources:" in text]
    return [text.encode() for text in (_CONFIG, _MORE, *known)]


@cache
def _opened(folder: Path) -> Any:
    from volt.stream import Stream

    path = folder / "opened.yaml"
    path.write_text(_CONFIG)
    return Stream.from_config(path, n_workers=0, cache=folder / "cache")


def _states(folder: Path) -> list[bytes]:
    from volt.stream import Stream

    with Stream.from_config(_opened(folder) and folder / "opened.yaml", n_workers=0, cache=folder / "cache") as stream:
        list(islice(stream, 7))
        return [json.dumps(stream.state(), indent=indent).encode() for indent in (None, 1)]


def _packed(pack: Callable[[bytes], bytes]) -> list[bytes]:
    return [pack(_LINES.encode()), pack(b"") + pack(_LINES.encode() * 50), pack(b"low\n") * 3 + pack(b"er")]


def _hostile() -> list[bytes]:
    """Files of any kind that nobody has made in good faith."""
    return [
        b"", b"\xef\xbb\xbf", b"\n" * 1000, b"\0" * 100, b"[" * 100_000, b'{"a":' * 100_000,
        b'{"volt": 1, "a": ' * 9999,
        b'{"volt": ' + b"9" * 9999 + b"}", b'{"model": {"type": "BPE", "vocab": {}, "merges": ' + b"[" * 99_999,
        b"a: " * 9999, b"- " * 9999, b"{" * 9999, b"&a [*a, *a]", b"x" * 300_000, b"\xff" * 5000,
        b'{"format": "volt.stream", "version": 2, "n": 0, "sources": ' + b"[" * 99_999,
        b"a0: &a0 [x, x]\n" + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 50)),
    ]  # fmt: skip


def _bombs(pack: Callable[[bytes], bytes]) -> list[bytes]:
    """Much out of little, in members of 1 MB, which all of these formats allow: a line of 300 MB, 32 MB of ends."""
    return [pack(b" " * (1 << 20)) * 300, pack(b"\n" * (1 << 20)) * 32]
