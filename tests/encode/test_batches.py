"""Bytes in, ids or text out, by chunks and threads: always what the plain path gives, line by line."""

from __future__ import annotations

from itertools import chain, product
from pathlib import Path

import pytest
from batches import ENCODERS, SPACED, TEXT, any_lines, plain_ids
from drawn import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volt.encode.chunks import file_chunks
from volt.encode.encoder import Encoder
from volt.encode.rendering import joined
from volt.errors import ConfigError, CorpusError, VocabularyError
from volt.files.blocks import Errors
from volt.text.byte_alphabet import ALPHABET, to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN
from volt.vocabulary import Vocabulary


@settings(max_examples=examples(150), deadline=None)
@given(which=st.integers(0, len(ENCODERS) - 1), lines=any_lines)
def test_batch_gives_the_ids_of_the_plain_path(which: int, lines: list[str]) -> None:
    """Whatever the text, pre-tokeniser, normaliser, pruning and special tokens: the same ids; also when met again."""
    encoder = ENCODERS[which]
    for batch in (lines, lines + lines[::-1]):
        encoded = encoder.encode_batch(batch, n_threads=1)
        assert [encoded[i].tolist() for i in range(len(encoded))] == plain_ids(encoder, batch)


def test_a_private_character_stands_alone_at_byte_level() -> None:
    """As the pattern has it, also once the character's class is known: no merge crosses its start or end."""
    private = chr(FIRST_HIDDEN)
    spelled = to_characters(private.encode())
    merges = (("!", spelled[0]), (spelled[-1], "!"))
    vocabulary = Vocabulary(
        merges,
        (*ALPHABET, *map("".join, merges)),
        marker="none",
        pretokenizer=PreTokenizer("bytes"),
    )
    encoder = Encoder(vocabulary)
    for line in (f"a!{private}!", f"?!{private}!", f"!{private}{private}!"):
        assert encoder.encode_bytes(line.encode())[0].tolist() == encoder.encode_ids(line).tolist()


@settings(max_examples=examples(100), deadline=None)  # each makes an encoder
@given(
    which=st.integers(0, len(ENCODERS) - 1),
    lines=st.lists(st.lists(st.sampled_from(SPACED), max_size=9).map("".join), max_size=12),
)
def test_spaces_of_all_kinds_meet(which: int, lines: list[str]) -> None:
    """What is remembered of a run of spaces in one place is not taken for true in another."""
    encoder = Encoder(ENCODERS[which].vocabulary)
    encoded = encoder.encode_batch(lines, n_threads=1)
    assert [encoded[i].tolist() for i in range(len(encoded))] == plain_ids(encoder, lines)


@pytest.mark.parametrize(
    "pretokenizer", ["unicode", "gpt2", "metaspace", "metaspace-runs", "metaspace-line", "bytes"]
)
@settings(max_examples=examples(50), deadline=None)
@given(lines=st.lists(st.lists(st.sampled_from(SPACED), max_size=9).map("".join), max_size=12))
def test_runs_of_spaces_are_cut_where_the_pattern_cuts(pretokenizer: str, lines: list[str]) -> None:
    """The same where every two characters of white space are merged, so that ids show where a run of them is cut."""
    spaces = (
        "▁\t\xa0\u3000"
        if pretokenizer != "bytes"
        else [ALPHABET[byte] for byte in " \t\xa0\u3000".encode()]
    )
    merges = tuple(product(dict.fromkeys(spaces), repeat=2))
    tokens = dict.fromkeys((*"a.1lows'", *spaces, *map("".join, merges)))
    encoder = Encoder(
        Vocabulary(
            merges, tuple(tokens), marker="none", pretokenizer=PreTokenizer.parse(pretokenizer)
        )
    )
    encoded = encoder.encode_batch(lines, n_threads=1)
    assert [encoded[i].tolist() for i in range(len(encoded))] == plain_ids(encoder, lines)


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    which=st.integers(0, len(ENCODERS) - 1), lines=any_lines, n_slots=st.sampled_from([8, 16, 32])
)
def test_tables_may_fill_at_any_unit(
    monkeypatch: pytest.MonkeyPatch, which: int, lines: list[str], n_slots: int
) -> None:
    """However small a table starts, and in the middle of whatever it must grow."""
    monkeypatch.setattr("volt.encode.unit_cache._N_SLOTS", n_slots)
    encoder = Encoder(ENCODERS[which].vocabulary)
    lines = [
        *lines,
        "a",
        "ab",
        "abc",
        *(line + "\u00bf" for line in lines),
        "j\u00bf",
        "a" * 500 + "\u00bf",
    ]
    encoded = encoder.encode_batch(lines, n_threads=1)
    assert [encoded[i].tolist() for i in range(len(encoded))] == plain_ids(encoder, lines)


@settings(max_examples=examples(200), deadline=None)
@given(
    which=st.integers(0, len(ENCODERS) - 1), lines=any_lines, separator=st.sampled_from(["", "@@"])
)
def test_text_gives_the_pieces_of_the_plain_path(
    which: int, lines: list[str], separator: str
) -> None:
    """Pieces as text and ids as text are what the plain path's pieces and ids are when joined by spaces."""
    encoder, lines = ENCODERS[which], [line.replace("\n", "") for line in lines]
    separator = separator if encoder.vocabulary.marker == "suffix" else ""
    text = "".join(line + "\n" for line in lines).encode()
    pieces = [joined(row, separator) if separator else row for row in encoder.encode_lines(lines)]
    expected = "".join(" ".join(row) + "\n" for row in pieces)
    assert encoder.encode_text(text, separator=separator, n_threads=1).decode() == expected
    numbers = "".join(" ".join(map(str, row)) + "\n" for row in plain_ids(encoder, lines))
    assert encoder.encode_text(text, form="ids", n_threads=1).decode() == numbers


@settings(max_examples=examples(150), deadline=None)
@given(
    which=st.integers(0, len(ENCODERS) - 1),
    lines=any_lines,
    seed=st.integers(0, 2**70),
    dropout=st.sampled_from([0.1, 0.5, 1.0]),
    cut=st.integers(0, 6),
)
def test_dropout_depends_on_seed_and_line_alone(
    which: int, lines: list[str], seed: int, dropout: float, cut: int
) -> None:
    """With dropout too: line i has the same pieces in a batch, in two batches, and on the plain path."""
    encoder, lines = ENCODERS[which], [line.replace("\n", "") for line in lines]
    expected = encoder.encode_lines(lines, dropout=dropout, seed=seed)
    encoded = encoder.encode_batch(lines, dropout=dropout, seed=seed, n_threads=1)
    assert [encoded[i].tolist() for i in range(len(lines))] == [
        encoder.ids(row).tolist() for row in expected
    ]
    parts = [
        encoder.encode_text(
            "".join(line + "\n" for line in part).encode(),
            dropout=dropout,
            seed=seed,
            first=first,
            n_threads=1,
        )
        for part, first in ((lines[:cut], 0), (lines[cut:], min(cut, len(lines))))
    ]
    assert b"".join(parts).decode() == "".join(" ".join(row) + "\n" for row in expected)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    lines=st.lists(st.sampled_from(["low lowest", "", "newest widest", None]), max_size=12),
    errors=st.sampled_from(["skip", "replace"]),
    size=st.integers(1, 60),
    first=st.integers(0, 3),
)
def test_dropout_numbers_the_lines_that_are_left(
    tmp_path: Path, lines: list[str | None], errors: Errors, size: int, first: int
) -> None:
    """Line i of a file draws from (seed, i) however the file is cut into chunks; a line that is left out has no number,
    one that is repaired has."""
    path, encoder = tmp_path / "a.txt", ENCODERS[0]
    path.write_bytes(
        b"".join(b"lo\xffw\n" if line is None else line.encode() + b"\n" for line in lines)
    )
    kept = [
        line or "lo\ufffdw" * (line is None)
        for line in lines
        if line is not None or errors == "replace"
    ]
    expected = encoder.encode_lines(kept, dropout=0.5, seed=3, first=first)
    chunks = file_chunks(str(path), errors=errors, first=first, size=size)
    parts = list(encoder.encode_parts(chunks, dropout=0.5, seed=3, n_threads=1))
    assert [number for part in parts for number in part.values.tolist()] == [
        number for row in expected for number in encoder.ids(row).tolist()
    ]


@settings(max_examples=examples(200), deadline=None)
@given(which=st.integers(0, len(ENCODERS) - 1), lines=any_lines)
def test_decode_batch_is_decode_of_each_line(which: int, lines: list[str]) -> None:
    """Decoding a batch gives what decoding each line's pieces gives, where all are in the vocabulary."""
    encoder = ENCODERS[which]
    encoded = encoder.encode_batch(lines, n_threads=1)
    assert encoder.decode_batch(encoded) == [
        encoder.decode_ids(encoded[i]) for i in range(len(encoded))
    ]


def test_file_gives_what_its_lines_give(tmp_path: Path) -> None:
    """A file, plain or compressed, with or without carriage returns and a last line end."""
    import gzip

    encoder, lines = ENCODERS[3], [TEXT, "", "low  lower ", "est"]
    expected = plain_ids(encoder, lines)
    for ending, last in (("\n", "\n"), ("\r\n", ""), ("\n", "")):
        data = (ending.join(lines) + last).encode()
        for name, content in (("a.txt", data), ("a.gz", gzip.compress(data))):
            (tmp_path / name).write_bytes(content)
            encoded = encoder.encode_file(tmp_path / name)
            assert [encoded[i].tolist() for i in range(len(encoded))] == expected


def test_invalid_utf8_names_file_and_line(tmp_path: Path) -> None:
    """Bytes that are no text are an error with their place, or replaced, or dropped; and the encoder works on."""
    encoder = Encoder(ENCODERS[0].vocabulary)
    path = tmp_path / "bad.txt"
    path.write_bytes(b"low\nlo\xffw\nest\n")
    with pytest.raises(CorpusError, match=r"bad\.txt:2: invalid UTF-8 byte 0xff at column 3"):
        encoder.encode_file(path)
    with pytest.raises(CorpusError, match=r"text:2: invalid UTF-8"):
        encoder.encode_bytes(path.read_bytes())
    assert encoder.encode_file(path, errors="skip").ids.tolist() == list(
        chain(*plain_ids(encoder, ["low", "est"]))
    )
    replaced = list(chain(*plain_ids(encoder, ["low", "lo\ufffdw", "est"])))
    assert encoder.encode_file(path, errors="replace").ids.tolist() == replaced


@pytest.mark.parametrize("which", range(len(ENCODERS)))
def test_a_space_within_a_character_is_an_error(which: int) -> None:
    """The bytes of a character that stand in two words are no text, though together they would be."""
    with pytest.raises(CorpusError, match="text:1: invalid UTF-8"):
        Encoder(ENCODERS[which].vocabulary).encode_bytes(b"low \xc3 \xa9 low\n")


def test_bad_arguments_are_reported() -> None:
    """An unknown form, ids out of range, an empty cache."""
    encoder = ENCODERS[0]
    with pytest.raises(ConfigError, match="choose pieces, or ids"):
        encoder.encode_text(b"low", form="ids", separator="@@")
    with pytest.raises(ConfigError, match="cache_words"):
        Encoder(encoder.vocabulary, cache_words=0)
    encoded = encoder.encode_batch(["low"])
    encoded.ids[0] = 10**6
    with pytest.raises(VocabularyError, match="id 1000000 at position 0"):
        encoder.decode_batch(encoded)


def test_empty_input_gives_nothing() -> None:
    """No lines, empty lines, and an empty file."""
    encoder = ENCODERS[0]
    assert encoder.encode_batch([]).offsets.tolist() == [0]
    assert encoder.encode_batch(["", ""]).offsets.tolist() == [0, 0, 0]
    assert encoder.encode_text(b"") == b""
    assert encoder.encode_text(b"\n\n") == b"\n\n"
    assert encoder.encode_batch(["", ""], dropout=0.5, seed=1).ids.tolist() == []


def test_one_word_of_many_characters() -> None:
    """A word of ten thousand characters is encoded as the plain path does."""
    line = "lowest" * 1_700
    assert ENCODERS[0].encode_batch([line]).ids.tolist() == plain_ids(ENCODERS[0], [line])[0]


@pytest.mark.parametrize(
    "name", ["multi30k/train.de.gz", "ted/Georgian.txt.gz", "ted/Cantonese.txt.gz"]
)
def test_real_corpora_agree_with_the_plain_path(name: str, lines) -> None:
    """On real text, every pre-tokeniser gives the plain path's ids."""
    text = lines(name, 3_000)
    for encoder in ENCODERS:
        encoded = encoder.encode_batch(text)
        assert encoded.ids.tolist() == list(chain.from_iterable(plain_ids(encoder, text)))
