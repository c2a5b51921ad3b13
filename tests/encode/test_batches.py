"""Bytes in, ids or text out, by chunks and threads: always what the plain path gives, line by line."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volt.count.word_counts import WordCounts
from volt.encode.batches import BatchEncoder
from volt.encode.chunks import chunks_of, file_chunks
from volt.encode.encoder import Encoder
from volt.encode.merge_tables import MergeTables
from volt.encode.rendering import as_ids, joined
from volt.errors import ConfigError, CorpusError, VocabularyError
from volt.files.blocks import Errors
from volt.learn.bpe import learn_bpe
from volt.text.byte_alphabet import ALPHABET, to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, SpecialTokens
from volt.vocabulary import Vocabulary

PRETOKENIZERS = ("whitespace", "unicode", "gpt2", "metaspace", "bytes", r"regex:\w+|\s", r"regex:[a-z]+")
MARKERS = {"whitespace": "suffix", r"regex:[a-z]+": "prefix"}
TEXT = "low lower newest widest slow-lowest «est» <url> ab ba ae\u0301 über ΣΑΣ it's 42 20 ... // naïve 中文"
# What is hard: spaces of all kinds, marks, what normal forms turn into spaces, the marker, user tokens, final sigma.
HARD = (
    *" \t\r\x0b\x0c\x1c\x1f\x01\x00\x85\xa0\u2003\u2028\u3000\u200b", "▁", "\u0301", "´", "¨", "ﬁ", "Σ", "ς", "İ",
    "</w>", "<url>", "<ur", chr(FIRST_HIDDEN), "\U0010ffff", "it's", "'ll", "12", "!?", "é", "中", "😀", "a", "b",
    "est", "lo", "w", "x" * 17, "lowestlowestlowest",
)  # fmt: skip
SPACED = (*"aa  \t\xa0\xa0\u3000.1", "  ", "low", "'s", chr(FIRST_HIDDEN))


def _vocabulary(pretokenizer: str, normalizer: str, *, user: bool, byte_fallback: bool, pruned: bool) -> Vocabulary:
    special = SpecialTokens(user=("<url>",) if user else ())
    empty = Vocabulary((), (), pretokenizer=_parsed(pretokenizer), normalizer=_normal(normalizer), special=special)
    from volt.encode.pretokens import split_lines

    words = [
        word for word in chain.from_iterable(split_lines(empty, [TEXT] * 3)) if not word.startswith(chr(FIRST_HIDDEN))
    ]
    counts = WordCounts.from_pairs({word: words.count(word) for word in set(words)}, pretokenizer=pretokenizer)
    candidates = learn_bpe(counts, 40, marker=MARKERS.get(pretokenizer, "none"), min_pair_count=1)
    tokens = candidates.tokens[:: 2 if pruned else 1] + candidates.tokens[: candidates.n_atoms]
    return Vocabulary(
        tuple(candidates.merges), tuple(dict.fromkeys(tokens)), marker=candidates.marker, special=special,
        pretokenizer=_parsed(pretokenizer), normalizer=_normal(normalizer),
        byte_fallback=byte_fallback and pretokenizer != "bytes",
    )  # fmt: skip


def _parsed(name: str):
    from volt.text.pretokenizer import PreTokenizer

    return PreTokenizer.parse(name)


def _normal(name: str):
    from volt.text.normalizer import Normalizer

    return Normalizer.parse(name)


def _encoders() -> list[Encoder]:
    plain = [
        Encoder(_vocabulary(name, "none", user=False, byte_fallback=False, pruned=False)) for name in PRETOKENIZERS
    ]
    others = [
        Encoder(_vocabulary(name, normal, user=True, byte_fallback=True, pruned=True))
        for name, normal in zip(
            PRETOKENIZERS, ("nfkc+lowercase", "nfkc", "nfkc+lowercase", "nfc", "lowercase", "nfkc", "nfc"), strict=True
        )
    ]
    return plain + others


ENCODERS = _encoders()
lines_of_text = st.lists(st.lists(st.sampled_from(HARD), max_size=12).map("".join), max_size=6)
any_lines = lines_of_text | st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=4)


def _ids(encoder: Encoder, lines: Sequence[str]) -> list[list[int]]:
    return [encoder.ids(pieces).tolist() for pieces in encoder.encode_lines(lines)]


@settings(max_examples=300, deadline=None)
@given(which=st.integers(0, len(ENCODERS) - 1), lines=any_lines)
def test_batch_gives_the_ids_of_the_plain_path(which: int, lines: list[str]) -> None:
    """Whatever the text, pre-tokeniser, normaliser, pruning and special tokens: the same ids; also when met again."""
    encoder = ENCODERS[which]
    for batch in (lines, lines + lines[::-1]):
        encoded = encoder.encode_batch(batch, n_threads=1)
        assert [encoded[i].tolist() for i in range(len(encoded))] == _ids(encoder, batch)


def test_a_private_character_stands_alone_at_byte_level() -> None:
    """As the pattern has it, also once the character's class is known: no merge crosses its start or end."""
    private = chr(FIRST_HIDDEN)
    spelled = to_characters(private.encode())
    merges = (("!", spelled[0]), (spelled[-1], "!"))
    vocabulary = Vocabulary(
        merges, (*ALPHABET, *map("".join, merges)), marker="none", pretokenizer=PreTokenizer("bytes")
    )
    encoder = Encoder(vocabulary)
    for line in (f"a!{private}!", f"?!{private}!", f"!{private}{private}!"):
        assert encoder.encode_bytes(line.encode())[0].tolist() == encoder.encode_ids(line).tolist()


@settings(max_examples=300, deadline=None)
@given(
    which=st.integers(0, len(ENCODERS) - 1),
    lines=st.lists(st.lists(st.sampled_from(SPACED), max_size=9).map("".join), max_size=12),
)
def test_spaces_of_all_kinds_meet(which: int, lines: list[str]) -> None:
    """What is remembered of a run of spaces in one place is not taken for true in another."""
    encoder = Encoder(ENCODERS[which].vocabulary)
    encoded = encoder.encode_batch(lines, n_threads=1)
    assert [encoded[i].tolist() for i in range(len(encoded))] == _ids(encoder, lines)


@pytest.mark.parametrize("pretokenizer", ["unicode", "gpt2", "metaspace", "bytes"])
@settings(max_examples=50, deadline=None)
@given(lines=st.lists(st.lists(st.sampled_from(SPACED), max_size=9).map("".join), max_size=12))
def test_runs_of_spaces_are_cut_where_the_pattern_cuts(pretokenizer: str, lines: list[str]) -> None:
    """The same where every two characters of white space are merged, so that ids show where a run of them is cut."""
    spaces = "▁\t\xa0\u3000" if pretokenizer != "bytes" else [ALPHABET[byte] for byte in " \t\xa0\u3000".encode()]
    merges = tuple(product(dict.fromkeys(spaces), repeat=2))
    tokens = dict.fromkeys((*"a.1lows'", *spaces, *map("".join, merges)))
    encoder = Encoder(Vocabulary(merges, tuple(tokens), marker="none", pretokenizer=_parsed(pretokenizer)))
    encoded = encoder.encode_batch(lines, n_threads=1)
    assert [encoded[i].tolist() for i in range(len(encoded))] == _ids(encoder, lines)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.integers(0, len(ENCODERS) - 1), lines=any_lines, n_slots=st.sampled_from([8, 16, 32]))
def test_tables_may_fill_at_any_unit(
    monkeypatch: pytest.MonkeyPatch, which: int, lines: list[str], n_slots: int
) -> None:
    """However small a table starts, and in the middle of whatever it must grow."""
    monkeypatch.setattr("volt.encode.unit_cache._N_SLOTS", n_slots)
    encoder = Encoder(ENCODERS[which].vocabulary)
    lines = [*lines, "a", "ab", "abc", *(line + "\u00bf" for line in lines), "j\u00bf", "a" * 500 + "\u00bf"]
    encoded = encoder.encode_batch(lines, n_threads=1)
    assert [encoded[i].tolist() for i in range(len(encoded))] == _ids(encoder, lines)


@settings(max_examples=200, deadline=None)
@given(which=st.integers(0, len(ENCODERS) - 1), lines=any_lines, separator=st.sampled_from(["", "@@"]))
def test_text_gives_the_pieces_of_the_plain_path(which: int, lines: list[str], separator: str) -> None:
    """Pieces as text and ids as text are what the plain path's pieces and ids are when joined by spaces."""
    encoder, lines = ENCODERS[which], [line.replace("\n", "") for line in lines]
    separator = separator if encoder.vocabulary.marker == "suffix" else ""
    text = "".join(line + "\n" for line in lines).encode()
    pieces = [joined(row, separator) if separator else row for row in encoder.encode_lines(lines)]
    expected = "".join(" ".join(row) + "\n" for row in pieces)
    assert encoder.encode_text(text, separator=separator, n_threads=1).decode() == expected
    numbers = "".join(" ".join(map(str, row)) + "\n" for row in _ids(encoder, lines))
    assert encoder.encode_text(text, form="ids", n_threads=1).decode() == numbers


@settings(max_examples=150, deadline=None)
@given(
    which=st.integers(0, len(ENCODERS) - 1), lines=any_lines, seed=st.integers(0, 2**70),
    dropout=st.sampled_from([0.1, 0.5, 1.0]), cut=st.integers(0, 6),
)  # fmt: skip
def test_dropout_depends_on_seed_and_line_alone(
    which: int, lines: list[str], seed: int, dropout: float, cut: int
) -> None:
    """With dropout too: line i has the same pieces in a batch, in two batches, and on the plain path."""
    encoder, lines = ENCODERS[which], [line.replace("\n", "") for line in lines]
    expected = encoder.encode_lines(lines, dropout=dropout, seed=seed)
    encoded = encoder.encode_batch(lines, dropout=dropout, seed=seed, n_threads=1)
    assert [encoded[i].tolist() for i in range(len(lines))] == [encoder.ids(row).tolist() for row in expected]
    parts = [
        encoder.encode_text(
            "".join(line + "\n" for line in part).encode(), dropout=dropout, seed=seed, first=first, n_threads=1
        )
        for part, first in ((lines[:cut], 0), (lines[cut:], min(cut, len(lines))))
    ]
    assert b"".join(parts).decode() == "".join(" ".join(row) + "\n" for row in expected)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.sampled_from(["low lowest", "", "newest widest", None]), max_size=12),
    errors=st.sampled_from(["skip", "replace"]), size=st.integers(1, 60), first=st.integers(0, 3),
)  # fmt: skip
def test_dropout_numbers_the_lines_that_are_left(
    tmp_path: Path, lines: list[str | None], errors: Errors, size: int, first: int
) -> None:
    """Line i of a file draws from (seed, i) however the file is cut into chunks; a line that is left out has no number,
    one that is repaired has."""
    path, encoder = tmp_path / "a.txt", ENCODERS[0]
    path.write_bytes(b"".join(b"lo\xffw\n" if line is None else line.encode() + b"\n" for line in lines))
    kept = [line or "lo\ufffdw" * (line is None) for line in lines if line is not None or errors == "replace"]
    expected = encoder.encode_lines(kept, dropout=0.5, seed=3, first=first)
    chunks = file_chunks(str(path), errors=errors, first=first, size=size)
    parts = list(encoder.encode_parts(chunks, dropout=0.5, seed=3, n_threads=1))
    assert [number for part in parts for number in part.values.tolist()] == [
        number for row in expected for number in encoder.ids(row).tolist()
    ]


@settings(max_examples=200, deadline=None)
@given(which=st.integers(0, len(ENCODERS) - 1), lines=any_lines)
def test_decode_batch_is_decode_of_each_line(which: int, lines: list[str]) -> None:
    """Decoding a batch gives what decoding each line's pieces gives, where all are in the vocabulary."""
    encoder = ENCODERS[which]
    encoded = encoder.encode_batch(lines, n_threads=1)
    assert encoder.decode_batch(encoded) == [encoder.decode_ids(encoded[i]) for i in range(len(encoded))]


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda encoder: encoder.vocabulary.pretokenizer.name)
def test_chunks_and_threads_change_nothing(encoder: Encoder) -> None:
    """Chunks of any size on any number of threads, with tables that forget, give the same."""
    lines = [TEXT, "", *HARD, TEXT[::-1], "".join(HARD), " ".join(HARD).replace("\n", "")] * 3
    lines = [line.replace("\n", "") for line in lines]
    text = "".join(line + "\n" for line in lines).encode()
    expected = list(chain.from_iterable(_ids(encoder, lines)))
    tables = MergeTables.of(encoder.vocabulary)
    for size, n_threads, limit in ((1, 1, 1), (7, 2, 10), (100, 16, 5), (1 << 20, 3, 1 << 20)):
        batches = BatchEncoder(tables, as_ids(tables), limit=limit)
        parts = batches.encode(chunks_of(text, size=size), n_threads=n_threads)
        assert np.concatenate([part.values for part in parts]).tolist() == expected


def test_every_unit_has_a_row_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit whose words are entered with it takes no row from them: there are as many rows in use as units."""
    monkeypatch.setattr("volt.encode.unit_cache._N_SLOTS", 8)
    encoder = Encoder(ENCODERS[PRETOKENIZERS.index("gpt2")].vocabulary)
    words = [f"{i:b}".replace("0", "o").replace("1", "l") for i in range(1_000)]
    encoder.encode_batch([" ".join(f"{word}-{word[::-1]}w." for word in words)], n_threads=1)
    [batches] = encoder._batches.values()
    [table] = batches._idle
    assert table.n_units > 3_000
    assert int((table._table.rows[2::4] > 0).sum()) == table.n_units


def test_threads_share_an_encoder() -> None:
    """Sixteen threads on one encoder give what one gives."""
    encoder = Encoder(ENCODERS[0].vocabulary, cache_words=20)
    rng = np.random.default_rng(0)
    batches = [
        [" ".join(rng.choice(list(HARD[18:]), 8)).replace("\n", "") for _ in range(5)] + [f"low{i}"] for i in range(400)
    ]
    expected = [list(chain.from_iterable(_ids(ENCODERS[0], batch))) for batch in batches]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda batch: encoder.encode_batch(batch, n_threads=1).ids.tolist(), batches))
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 2, 4, len(PRETOKENIZERS) + 1], ids=["whitespace", "gpt2", "bytes", "user tokens"])
def test_thousands_of_batches_share_encoders(monkeypatch: pytest.MonkeyPatch, which: int) -> None:
    """However batches meet in sixteen threads, while caches grow, forget and fill: each gives what it gives alone."""
    monkeypatch.setattr("volt.encode.unit_cache._N_SLOTS", 256)
    rng = np.random.default_rng(which)
    pool = [" ".join(rng.choice(HARD, 8)).replace("\n", "") + f" low{i % 300}" for i in range(2_000)]
    ids = _ids(ENCODERS[which], pool)
    batches = [rng.integers(0, len(pool), rng.integers(1, 9)) for _ in range(1_000)]
    encoder = Encoder(ENCODERS[which].vocabulary, cache_words=20)

    def agrees(batch: np.ndarray) -> bool:
        found = encoder.encode_batch([pool[i] for i in batch], n_threads=1)
        return found.ids.tolist() == [number for i in batch for number in ids[i]]

    with ThreadPoolExecutor(16) as executor:
        assert all(executor.map(agrees, batches))


def test_pickled_encoder_gives_the_same() -> None:
    """An encoder survives pickling, with its limit."""
    encoder = pickle.loads(pickle.dumps(Encoder(ENCODERS[0].vocabulary, cache_words=7)))
    assert encoder.encode_batch([TEXT]).ids.tolist() == _ids(ENCODERS[0], [TEXT])[0]
    assert _forgets(encoder, 7)
    assert not _forgets(Encoder(encoder.vocabulary, cache_words=8), 7)


def _forgets(encoder: Encoder, n: int) -> bool:
    """Whether an encoder that knows n words must encode one of them again once it has met another."""
    asked, encode_words = list[str](), encoder.encode_words
    encoder.encode_words = lambda words: asked.extend(words) or encode_words(words)  # type: ignore[method-assign]
    for word in [*(f"w{i}" for i in range(n)), "another", "w0"]:
        encoder.encode(word)
    return asked.count("w0") == 2


def test_tables_keep_to_their_limit() -> None:
    """A thread remembers no more units than its limit and those of the text that it has just met."""
    encoder = Encoder(ENCODERS[0].vocabulary, cache_words=20)
    for start in range(0, 300, 30):
        encoder.encode_batch([" ".join(f"w{i}" for i in range(start, start + 30))], n_threads=1)
        [batches] = encoder._batches.values()
        assert [table.n_units for table in batches._idle] == [30]
    encoder.encode_batch(["w270 w299"] * 20, n_threads=1)  # above the limit, so forgotten first
    encoder.encode_batch(["w0 w1 w270"], n_threads=1)
    assert [table.n_units for table in batches._idle] == [4]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_other_processes_give_the_same(method: str) -> None:
    """A process that was forked or spawned, after threads have run here, gives the same."""
    import multiprocessing

    encoder = ENCODERS[0]
    lines = [TEXT] * 10
    expected = encoder.encode_batch(lines, n_threads=2).ids.tolist()
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.apply_async(_encode_elsewhere, (encoder, lines)).get(timeout=120) == expected


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_that_cannot_read_new_words_says_so() -> None:
    """Polars' threads stay behind when a process is forked: there is an error, not a wait for them without end."""
    import multiprocessing

    encoder = Encoder(ENCODERS[0].vocabulary)
    encoder.encode("low")
    with multiprocessing.get_context("fork").Pool(1) as pool, pytest.raises(ConfigError, match="processes by 'spawn'"):
        pool.apply_async(encoder.encode, ("new words",)).get(timeout=120)


def _encode_elsewhere(encoder: Encoder, lines: list[str]) -> list[int]:
    return encoder.encode_batch(lines, n_threads=1).ids.tolist()


def test_file_gives_what_its_lines_give(tmp_path: Path) -> None:
    """A file, plain or compressed, with or without carriage returns and a last line end."""
    import gzip

    encoder, lines = ENCODERS[3], [TEXT, "", "low  lower ", "est"]
    expected = _ids(encoder, lines)
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
    assert encoder.encode_file(path, errors="skip").ids.tolist() == list(chain(*_ids(encoder, ["low", "est"])))
    replaced = list(chain(*_ids(encoder, ["low", "lo\ufffdw", "est"])))
    assert encoder.encode_file(path, errors="replace").ids.tolist() == replaced


@pytest.mark.parametrize("which", range(len(ENCODERS)))
def test_a_space_within_a_character_is_an_error(which: int) -> None:
    """The bytes of a character that stand in two words are no text, though together they would be."""
    with pytest.raises(CorpusError, match="text:1: invalid UTF-8"):
        Encoder(ENCODERS[which].vocabulary).encode_bytes(b"low \xc3 \xa9 low\n")


def test_lone_surrogate_is_an_error() -> None:
    """What is no text is refused with its place, in batches as elsewhere."""
    with pytest.raises(CorpusError, match=r"lone surrogate U\+D800 at character 1"):
        ENCODERS[0].encode_batch(["low", "x\ud800"])


def test_bad_arguments_are_told() -> None:
    """Dropout without a seed, a probability that is none, an unknown form, ids out of range, an empty cache."""
    encoder = ENCODERS[0]
    for options in ({"dropout": 0.1}, {"dropout": 1.5, "seed": 1}, {"dropout": 0.1, "seed": -1}):
        with pytest.raises(ConfigError):
            encoder.encode_batch(["low"], **options)
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
    """A word of a hundred thousand characters is encoded as the plain path does."""
    line = "lowest" * 17_000
    assert ENCODERS[0].encode_batch([line]).ids.tolist() == _ids(ENCODERS[0], [line])[0]


@pytest.mark.parametrize("name", ["multi30k/train.de.gz", "ted/Georgian.txt.gz", "ted/Cantonese.txt.gz"])
def test_real_corpora_agree_with_the_plain_path(name: str, lines) -> None:
    """On real text, every pre-tokeniser gives the plain path's ids."""
    text = lines(name, 3_000)
    for encoder in ENCODERS:
        encoded = encoder.encode_batch(text)
        assert encoded.ids.tolist() == list(chain.from_iterable(_ids(encoder, text)))
