"""Values that a change of random numbers, chunks, units or trials would move, and naive twins of small helpers."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from drawn import examples
from golden import check
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import least, refused

from volt.encode.batch_encoder import Dropout, Encoded, EncodedPart
from volt.encode.binarize import Binarized, binarize
from volt.encode.chunks import (
    CHUNK_SIZE,
    Chunk,
    chunks_of,
    file_chunks,
    joined_lines,
    split_for_threads,
)
from volt.encode.decoder import Decoder, decode
from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, encode_each, encode_one, encode_stream, outputs_of
from volt.encode.frames import Frame
from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import CharacterClasses, UnitRule, known_classes, unit_words
from volt.encode.reachable import _characters, _completed, _some, neighbours, reach
from volt.encode.rendering import joined, places_of
from volt.kernels import bpe_tables, pretokenize
from volt.kernels import decode as decoding
from volt.kernels.intrinsics import PADDING
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

WORDS = "split:'(?i:s)|[a-z]?\\d+| ?\\p{L}+|\\s+(?!\\S)|\\s"
KINDS = [  # pre-tokenizer, marker, normalizer
    ("whitespace", "suffix", "none"),
    ("whitespace", "prefix", "nfc"),
    ("metaspace", "none", "lowercase"),
    ("metaspace-runs", "none", "none"),
    ("metaspace-line", "none", "none"),
    ("unicode", "none", "none"),
    ("gpt2", "none", "nfkc"),
    ("gpt2", "suffix", "none"),
    ("bytes", "none", "none"),
    (WORDS, "none", "none"),
    ("regex:[a-c]+|[ ]", "none", "none"),
    ("bytes+split: ?\\p{L}+|\\s", "none", "none"),
    ("matches:[^ ]+", "suffix", "none"),
]
LINES = [
    "as1 asas1 'sas  aas",
    "",
    "É e\u0301sa1\xa0▁a x\U0010f000",
    "\ta\u3000 as1as1 ½ a1's",
    "\U0010f000 \xa0 as1 ",
]
LOW = Vocabulary((("l", "o"), ("lo", "w</w>")), ("l", "o", "w", "w</w>", "low</w>", "lo", "e"))
ENCODER = Encoder(LOW)


def vocabulary(cut: str, marker: str, normalizer: str, **options: object) -> Vocabulary:
    """Return a vocabulary of a few merges; one of its tokens is made in two ways, and others are pruned."""
    space, accent = ("Ġ", "Ã©") if cut.startswith("bytes") else ("▁", "éA")
    end = "</w>" if marker == "suffix" else ""
    atoms, others = (
        ["a", "s", "'", "1", space, *accent],
        [("s", "a" + end), ("as", "a" + end), ("a", "sa" + end)],
    )
    merges = [
        ("a", "s"),
        ("'", "s"),
        ("s", "1"),
        (space, "a"),
        ("a", space),
        (space, space),
        ("1", "'"),
        (*accent,),
    ]
    tokens = dict.fromkeys(
        [*atoms, *(atom + end for atom in atoms), *map("".join, merges + others)]
    )
    special = SpecialTokens(user=("as1",))
    return Vocabulary(
        (*merges, *others),
        tuple(tokens)[:-1],
        marker=marker,
        normalizer=normalizer,
        pretokenizer=cut,  # type: ignore[arg-type]
        special=special,
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("kind", KINDS, ids=[" ".join(kind) for kind in KINDS])
def test_texts_have_their_pieces(kind: tuple[str, str, str]) -> None:
    """Pieces, ids, spans, draws of dropout and the rule of units of each kind of vocabulary."""
    made = vocabulary(*kind)
    encoder, fallback = (
        Encoder(made),
        Encoder(vocabulary(*kind, byte_fallback=True, merging="ranks", whole_words=True)),
    )
    silent = Encoder(replace(made, special=SpecialTokens(None, None, None, None, user=("as1",))))
    rule = UnitRule.of(made)
    text = "\n".join(LINES).encode()
    values = {
        "pieces": encoder.encode_text(text).decode(),
        "silent": silent.encode_text(text, form="ids").decode(),
        "fallback": fallback.encode_text(text, form="ids").decode(),
        "dropped": encoder.encode_text(text, dropout=0.4, seed=5, first=2).decode(),
        "ranks": fallback.encode_text(text, dropout=0.3, seed=2**64 + 1).decode(),
        "spans": " ".join(
            f"{start}-{end}" for line in LINES for _, start, end in fallback.encode_offsets(line)
        ),
        "rule": f"{rule.breaks} {rule.clinging} {rule.keeps_breaks} {rule.marks_first} {rule.words}",
    }
    check(f"encode {' '.join(kind)}", {name: ascii(value) for name, value in values.items()})
    for one, form in product((encoder, fallback, silent), ("pieces", "ids")):
        lines = one.encode_lines(LINES) if form == "pieces" else map(one.encode_ids, LINES)
        assert one.encode_text(text, form=form).decode().split("\n")[:-1] == [
            " ".join(map(str, row)) for row in lines
        ]  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS, ids=[" ".join(kind) for kind in KINDS])
def test_tokens_have_their_texts(kind: tuple[str, str, str]) -> None:
    """The first text that is tried with success shows how a token is produced; the others have their reasons."""
    made = vocabulary(*kind)
    found = reach(made)
    texts = " | ".join(f"{token}: {text}" for token, text in found.texts.items())
    lost = " | ".join(
        [*(f"{token}: {why}" for token, why in found.never.items()), *found.undecided]
    )
    check(
        f"encode reach {' '.join(kind)}",
        [ascii("".join(neighbours(made))), ascii(texts), ascii(lost)],
    )


def test_characters_around_bytes() -> None:
    """All characters that contain some bytes at a start, inside or at an end are tried, or 400 of many."""
    parts = [
        (b"\xc3", 1, 0),
        (b"\xa9", 0, 1),
        (b"\xa9", 0, 0),
        (b"\xe4", 1, 0),
        (b"\xed", 1, 0),
        (b"\xf0\x9f", 1, 0),
        (b"\xb8\xad", 0, 1),
        (b"\x9f\x98", 0, 0),
        (b"\xf4", 1, 0),
        (b"\xc2\xa9", 1, 1),
    ]
    rows = {
        ascii(part): _characters(part[0], at_start=part[1] > 0, at_end=part[2] > 0)
        for part in parts
    }
    data = (b"\xc3", b"a\xc3", b"\xa9a", b"\xa9", b"\xa9a\xe4\xb8", b"\xff", b"ab")
    tried = {ascii(one): _completed(one) for one in data}
    check(
        "encode characters",
        {key: ascii(f"{len(row)} {row[:3]} {row[-3:]}") for key, row in (rows | tried).items()},
    )
    assert _some([range(2), range(200)]) == list(product(range(2), range(200)))
    assert (len(_some([range(401)])), _some([range(3)], most=3)) == (400, [(0,), (1,), (2,)])


@settings(max_examples=examples(100), deadline=None)
@given(
    parts=st.lists(st.sampled_from(["\n", "a", "x" * PADDING]), max_size=20),
    size=st.integers(1, 2 * PADDING),
    first=st.integers(0, 3),
    numbered=st.booleans(),
)
def test_chunks_hold_as_many_lines_as_fit(
    parts: list[str], size: int, first: int, numbered: bool
) -> None:
    """A chunk takes whole lines while they fit, at least one, and counts them, or takes as many numbers, for dropout;
    it may be read beyond its end where the text goes on."""
    text = "".join(parts)
    expected, lines = list[str](), text.splitlines(keepends=True)
    for line in lines:
        fits = expected and len(expected[-1]) + len(line) <= size
        expected[len(expected) - bool(fits) :] = [expected[-1] + line if fits else line]
    numbers = np.arange(7, 7 + len(lines)) if numbered and first else None
    chunks = list(
        chunks_of(text.encode(), first=first, size=size, numbered=numbered, numbers=numbers)
    )
    assert [bytes(chunk.text).decode() for chunk in chunks] == expected
    place = 0
    if numbers is not None:
        assert [
            n for chunk in chunks if chunk.numbers is not None for n in chunk.numbers
        ] == numbers.tolist()
    for chunk in chunks:
        n_lines = len(bytes(chunk.text).splitlines())
        assert numbers is None or len(chunk.numbers) == n_lines  # type: ignore[arg-type]
        assert chunk.first == first + text[:place].count("\n") * numbered
        place += len(chunk.text)
        assert chunk.padded == (place + PADDING <= len(text))
        assert chunk.next_line == chunk.first + n_lines


def test_chunks_share_work_and_name_lines(tmp_path: Path) -> None:
    """Sizes at the limits of a chunk; the first line of a chunk's block; what waits for a pipe."""
    sizes = (0, 65535, 65536, 65537, 131073, 10**6, 2**20, 2**20 + 1, 2**22, 2**22 + 1, 10**7)
    check(
        "encode shares",
        {
            str(n): " ".join("{} {}".format(*split_for_threads(n, k)) for k in (1, 2, 3))
            for n in sizes
        },
    )
    assert [CHUNK_SIZE, Chunk(b"", first=4).block.first_line, Chunk(b"a\xff", 255).next_line] == [
        1 << 20,
        5,
        1,
    ]
    assert "text:3: invalid UTF-8" in refused(lambda: ENCODER.encode_bytes(b"low\n" * 2 + b"\xff"))
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\r\n\xff\nb\nc")
    for errors, firsts in (("skip", [7, 8, 8, 9]), ("replace", [7, 8, 9, 10])):
        chunks = list(file_chunks(str(path), errors=errors, first=7, size=2))  # type: ignore[arg-type]
        assert (
            errors == "skip"
            or b"".join(bytes(chunk.text) for chunk in chunks) == "a\r\n\ufffd\nb\nc".encode()
        )
        assert ([chunk.first for chunk in chunks], {chunk.strips_return for chunk in chunks}) == (
            firsts,
            {True},
        )
    assert [joined_lines(lines) for lines in ([], ["a"], ["a\n", ""])] == [
        (b"", 10),
        (b"a\n", 10),
        (b"a\n\xff\xff", 255),
    ]


def test_seeds_and_limits_of_dropout() -> None:
    """A seed of any size starts the same generator for ever; both ends of each range belong to it."""
    seeds = [Dropout.of(1.0, seed) for seed in (0, 1, 2**64, 2**70)]
    check("encode seeds", [str(one and one.seed) for one in seeds])
    assert [Dropout.of(0, seed) for seed in (None, -1)] == [None, None]
    for options, part in (
        ((0.1, None), "not None"),
        ((0.1, -1), "not -1"),
        ((1.01, 1), "dropout is 1.01"),
        ((-0.1, 1), "dropout is -0.1"),
        ((float("nan"), 1), "dropout is nan"),
    ):
        assert part in refused(lambda options=options: Dropout.of(*options))
    text, last = b"low low\n", 2**62
    for first in (last, -last):
        options = {"dropout": 0.5, "seed": 1}
        alone = ENCODER.encode_text(text, numbers=np.array([first]), **options)  # type: ignore[arg-type]
        assert ENCODER.encode_text(text, first=first, **options) == alone  # type: ignore[arg-type]
        assert "first is" in refused(
            lambda first=first: ENCODER.encode_text(text, first=first + first // last)
        )
    for numbers in ([1, 2], [2**63]):
        assert refused(
            lambda numbers=numbers: ENCODER.encode_bytes(text, numbers=numbers)
        ).startswith("numbers ")
    ways = [
        ENCODER.encode_bytes(text * 9, dropout=0.5, seed=1, numbers=numbers).ids.tolist()
        for numbers in (None, range(9), np.arange(9, dtype=np.uint8))
    ]  # type: ignore[arg-type]
    assert ways[0] == ways[1] == ways[2] != ENCODER.encode_bytes(text * 9).ids.tolist()


def test_small_tables() -> None:
    """Rows, separators, lines of flat ids, and tokens of each length at which a table of texts changes."""
    assert [
        places_of(np.array(starts, np.int64), np.array(sizes, np.int64)).tolist()
        for starts, sizes in (([], []), ([3], [0]), ([5, 0, 2], [2, 0, 1]))
    ] == [[], [], [5, 6, 2]]
    rows = [["a", "b</w>"], ["</w>", "a", "</w>"], ["a@@", "</w>"], ["a</w>b", "</w>b</w>"]]
    assert [joined(row, "@@") for row in rows] == [
        ["a@@", "b"],
        ["", "a"],
        ["a@@"],
        ["a</w>b@@", "</w>b"],
    ]
    parts = [EncodedPart(np.arange(n, dtype=np.int32), np.array([0, n])) for n in (0, 3, 1, 5)]
    for n_bytes in (0, 3, 9):
        flat = Encoded.of(parts, n_bytes=n_bytes)
        assert (repr(flat), flat[-1].tolist(), flat[3].tolist()) == (
            "<Encoded: 9 ids of 8 lines>",
            [0, 1, 2, 3, 4],
            [0, 1, 2],
        )
        for place in (8, -9):
            with pytest.raises(IndexError, match=f"line {place} is out of range for 8 lines"):
                flat[place]
    texts = ["é" + "ab" * n for n in range(decoding.SHORT)] + [
        "x" * n for n in range(1, decoding.SHORT + 3)
    ]
    long = Vocabulary(
        (), tuple(dict.fromkeys(texts)), marker="none", pretokenizer="unicode", whole_words=True
    )
    assert Decoder.of(long).decode_lines(
        np.arange(4, 4 + len(texts)), np.array([0, len(texts)])
    ) == ["".join(texts)]
    assert least(bpe_tables, "MOST", lambda: MergeTables.of(LOW)) == len(MergeTables.of(LOW).tokens)
    assert [ENCODER.decode_ids([0, len(LOW.pieces) - 1]), repr(ENCODER)] == [
        "<unk>e",
        f"<Encoder of {LOW!r}>",
    ]
    for bad in (11, -1):
        assert f"id {bad} at position 1: ids go from 0 to 10" in refused(
            lambda bad=bad: ENCODER.decode_ids([1, bad])
        )
    for text in (bytearray(b"low"), memoryview(b"low")):
        assert ENCODER.encode_bytes(text).ids.tolist() == ENCODER.encode_ids("low").tolist()  # type: ignore[arg-type]
    assert decode(LOW, ["lo", "w</w>", "</w>", "l"]) == "low  l"


def test_classes_known_from_the_start() -> None:
    """Blocks of ideographs and syllables are known to their ends, and no character beyond."""
    known = known_classes.__wrapped__()
    assert (known.dtype, CharacterClasses().table.dtype) == (np.uint8, np.uint8)
    for start, end in ((0x3400, 0x4DB5), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3)):
        assert (known[start : end + 1] == pretokenize.LETTER).all()
        assert (known[start - 1] != pretokenize.LETTER, known[end + 1]) == (True, 0)
    assert known[list(map(ord, "a1\u0301! \u3000\u0378"))].tolist() == [
        pretokenize.LETTER,
        pretokenize.NUMBER_CLASS,
        pretokenize.MARK,
        pretokenize.OTHER,
        *[pretokenize.WHITE] * 2,
        0,
    ]
    units = [" a", " b\xa0", "a▁", "\xa0 ", "a\t", " "]
    data, ends = "".join(units).encode(), np.cumsum([len(unit.encode()) for unit in units])
    rows = {}
    for kind in KINDS:
        for first in (0, 1):
            words = unit_words(vocabulary(*kind), data, ends, np.full(len(units), first, np.uint8))
            rows[f"{kind[0]} {kind[1]} {first}"] = ascii(
                f"{words.text} {words.lengths} {words.n_words} {words.irregular * 1}"
            )
    check("encode units", rows)


def test_files_report_what_they_did(tmp_path: Path) -> None:
    """Progress is the text so far after each chunk, in every way of writing; a manifest names all that matters."""
    sources = [str(tmp_path / name) for name in ("a.txt", "b.txt.gz", "c")]
    (tmp_path / "a.txt").write_bytes(b"low low\nlow\r\n")
    (tmp_path / "b.txt.gz").write_bytes(b"")
    (tmp_path / "c").write_bytes(b"e")
    job, seen = EncodeJob("npy", dropout=0.5, seed=3), [list[int]() for _ in range(4)]
    outcomes = list(
        encode_each(ENCODER, sources, tmp_path / "out", job=job, progress=seen[0].append)
    )
    assert [outcome.n_lines for outcome in outcomes] == [2, 0, 1]
    assert encode_one(ENCODER, sources, tmp_path / "one", job=job, progress=seen[1].append) == 3
    stream = b"".join(
        encode_stream(ENCODER, sources, job=EncodeJob("ids"), progress=seen[2].append)
    )
    assert stream == b"8 8\n8\n0\n"
    made = binarize(
        ENCODER,
        sources,
        tmp_path / "two.bin",
        progress=seen[3].append,
        frame=Frame((255,)),
        dtype="u8",
    )
    assert made == Binarized(tmp_path / "two", 3, 7, "u8")
    assert "up to 255" in refused(
        lambda: binarize(ENCODER, sources, tmp_path / "t", frame=Frame((256,)), dtype="u8")
    )
    assert seen == [[13, 13, 13, 14], *[[13, 13, 13, 14, 14]] * 3]
    manifest = json.loads((tmp_path / "out/.volt-encoded.json").read_text())
    fields = "bytes dropout errors files form modified seed separator source vocabulary"
    assert [" ".join(manifest[name]) for name in ("a.txt.npy", "b.txt.npy", "c.npy")] == [
        fields
    ] * 3
    origin = manifest["a.txt.npy"]
    assert (origin["bytes"], origin["source"], origin["seed"]) == (13, sources[0], 3)
    written = [tmp_path / "out" / name for name in ("a.txt.npy", "a.txt.npy.offsets.npy")]
    assert [size for size, *_ in origin["files"]] == [path.stat().st_size for path in written]
    names = [f"x.txt{packed}" for packed in (".gz", ".bz2", ".zst", ".xz", ".lz")]
    assert [str(path) for path in outputs_of(names[-1:], Path("o"), ".ids").values()] == [
        "o/x.txt.lz.ids"
    ]
    assert {
        str(path) for name in names[:4] for path in outputs_of([name], Path("o"), ".ids").values()
    } == {"o/x.txt.ids"}
    assert "has the same output" in refused(lambda: outputs_of(names, Path("o"), ""))
