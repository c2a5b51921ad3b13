"""Laws of batches: in chunks, threads and processes, ids and text equal those of single lines."""

import gzip
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.batches import (
    ENCODERS,
    HARD,
    PRETOKENIZERS,
    SPACED,
    TEXT,
    any_lines,
    ids_of,
    plain_ids,
)
from support.drawn import DRAWS_ALL, examples
from support.golden import check
from support.limits import refused

from volt.encode.arrays import EncodedPart
from volt.encode.batch_encoder import BatchEncoder, Encoded, expand_rows
from volt.encode.chunks import Chunk, chunks_of, file_chunks
from volt.encode.encoder import Encoder
from volt.encode.merge_tables import MergeTables
from volt.encode.rendering import Rendering, mark_unfinished_words
from volt.encode.segmentation_sampling import SegmentationSampling
from volt.errors import ConfigError, CorpusError
from volt.text.byte_alphabet import ALPHABET, to_characters
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN
from volt.vocabulary import Vocabulary

MANY = settings(
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
FEW = settings(MANY, max_examples=examples(60))
which_ = st.integers(0, len(ENCODERS) - 1)
spaced_lines = st.lists(st.lists(st.sampled_from(SPACED), max_size=9).map("".join), max_size=12)


def text_of(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def bare(lines):
    return [line.replace("\n", "") for line in lines]


def assert_batch_equals_lines(encoder, lines):
    """Check that lines, alone and in a batch, have the ids and pieces that Python finds."""
    expected = plain_ids(encoder, lines)
    assert ids_of(encoder.encode_batch(lines, n_threads=1)) == expected
    assert [encoder.encode_ids(line).tolist() for line in lines] == expected
    assert list(map(encoder.count, lines)) == list(map(len, expected))
    assert list(map(encoder.encode, lines)) == encoder.encode_lines(lines)


@MANY
@given(which=which_, lines=any_lines)
def test_a_batch_has_the_ids_of_its_lines(which, lines):
    """`encode_batch` gives each line the ids of `encode_ids`, for any vocabulary and any lines.

    Units that occur again, and are then copied from the cache, have equal ids.
    """
    for batch in (lines, lines + lines[::-1]):
        assert_batch_equals_lines(ENCODERS[which], batch)


@FEW
@given(which=which_, lines=spaced_lines)
def test_cached_spaces_do_not_depend_on_their_place(which, lines):
    """The cached values of a run of spaces are not used where its neighbours change them."""
    assert_batch_equals_lines(Encoder(ENCODERS[which].vocabulary), lines)


@pytest.mark.parametrize(
    "pretokenizer", ["unicode", "gpt2", "metaspace", "metaspace-runs", "metaspace-line", "bytes"]
)
@settings(max_examples=examples(50))
@given(lines=spaced_lines)
def test_runs_of_spaces_are_cut_as_in_lines(pretokenizer, lines):
    """A batch cuts a run of white space where a single line cuts it.

    Any two characters of white space merge in this vocabulary, so the ids show the cut.
    """
    spaces = list("▁\t\xa0\u3000")
    if pretokenizer == "bytes":
        spaces = [ALPHABET[byte] for byte in " \t\xa0\u3000".encode()]
    merges = tuple(product(dict.fromkeys(spaces), repeat=2))
    tokens = dict.fromkeys((*"a.1lows'", *spaces, *map("".join, merges)))
    cut = PreTokenizer.parse(pretokenizer)
    vocabulary = Vocabulary(merges, tuple(tokens), marker="none", pretokenizer=cut)
    assert_batch_equals_lines(Encoder(vocabulary), lines)


@MANY
@given(which=which_, lines=any_lines, n_slots=st.sampled_from([8, 16, 32]))
def test_tables_may_fill_at_any_unit(monkeypatch, which, lines, n_slots):
    """A unit cache that starts with 8 to 32 slots grows at any unit, and ids do not change."""
    monkeypatch.setattr("volt.encode.unit_cache._N_SLOTS", n_slots)
    others = [
        "a",
        "ab",
        "abc",
        *(f"{line}\u00bf" for line in lines),
        "j\u00bf",
        "a" * 500 + "\u00bf",
    ]
    assert_batch_equals_lines(Encoder(ENCODERS[which].vocabulary), lines + others)


def test_a_private_character_is_a_word_at_the_level_of_bytes():
    """In GPT-2's byte alphabet, no merge joins a private character to its neighbours.

    This holds when the character is new to a batch encoder, and when its class is known.
    """
    private = chr(FIRST_HIDDEN)
    first, *_, last = to_characters(private.encode())
    merges = (("!", first), (last, "!"))
    tokens = (*ALPHABET, *map("".join, merges))
    cut = PreTokenizer("bytes")
    encoder = Encoder(Vocabulary(merges, tokens, marker="none", pretokenizer=cut))
    for line in (f"a!{private}!", f"?!{private}!", f"!{private}{private}!"):
        assert_batch_equals_lines(encoder, [line])


@MANY
@given(which=which_, lines=any_lines, separator=st.sampled_from(["", "@@"]))
def test_text_has_the_pieces_and_ids_of_its_lines(which, lines, separator):
    """`encode_text` writes the pieces, or ids, of `encode_lines` with spaces between them."""
    encoder = ENCODERS[which]
    lines = bare(lines)
    rows = encoder.encode_lines(lines)
    if encoder.vocabulary.marker != "suffix":
        separator = ""
    if separator:
        rows = [mark_unfinished_words(row, separator) for row in rows]
    pieces = encoder.encode_text(text_of(lines), separator=separator, n_threads=1)
    ids = encoder.encode_text(text_of(lines), form="ids", n_threads=1)
    assert pieces == text_of([" ".join(row) for row in rows])
    assert ids == text_of([" ".join(map(str, row)) for row in plain_ids(encoder, lines)])


@MANY
@given(
    which=which_,
    lines=any_lines,
    seed=st.integers(0, 2**70),
    dropout=st.sampled_from([0.1, 0.5, 1.0]),
    cut=st.integers(0, 6),
)
def test_dropout_depends_only_on_the_seed_and_the_number_of_the_line(
    which, lines, seed, dropout, cut
):
    """With dropout, a line with a given number has equal pieces in `encode_lines`, in one batch and
    in two.
    """
    encoder = ENCODERS[which]
    lines = bare(lines)
    drops = {"dropout": dropout, "seed": seed}
    expected = encoder.encode_lines(lines, **drops)
    batch = encoder.encode_batch(lines, n_threads=1, **drops)
    assert ids_of(batch) == [encoder.ids(row).tolist() for row in expected]
    start = encoder.encode_text(text_of(lines[:cut]), n_threads=1, **drops)
    first = min(cut, len(lines))
    rest = encoder.encode_text(text_of(lines[cut:]), first=first, n_threads=1, **drops)
    assert start + rest == text_of([" ".join(row) for row in expected])


@FEW
@given(
    lines=st.lists(st.sampled_from(["low lowest", "", "newest widest", None]), max_size=12),
    errors=st.sampled_from(["skip", "replace"]),
    size=st.integers(1, 60),
    first=st.integers(0, 3),
)
def test_dropout_numbers_the_remaining_lines(tmp_path, lines, errors, size, first):
    """For dropout, `errors="skip"` does not number an invalid line, and "replace" numbers it.

    In `lines`, None stands for an invalid line.
    """
    path = tmp_path / "a.txt"
    path.write_bytes(
        b"".join(b"lo\xffw\n" if line is None else line.encode() + b"\n" for line in lines)
    )
    remaining = [line for line in lines if line is not None]
    if errors == "replace":
        remaining = ["lo\ufffdw" if line is None else line for line in lines]
    rows = ENCODERS[0].encode_lines(remaining, dropout=0.5, seed=3, first=first)
    chunks = file_chunks(str(path), errors=errors, first=first, size=size)
    parts = ENCODERS[0].encode_parts(chunks, dropout=0.5, seed=3, n_threads=1)
    ids = ENCODERS[0].ids(chain.from_iterable(rows))
    assert Encoded.of(parts).ids.tolist() == ids.tolist()


def test_seeds_and_limits_of_dropout():
    """`SegmentationSampling.of` and the calls with dropout accept seeds and line numbers at their limits, and
    refuse those beyond.
    """
    encoder = ENCODERS[0]
    seeds = [SegmentationSampling.of(1.0, seed) for seed in (0, 1, 2**64, 2**70)]
    check("encode seeds", [str(one and one.seed) for one in seeds])
    assert [SegmentationSampling.of(0, seed) for seed in (None, -1)] == [None, None]
    for probability, seed, fault in (
        (0.1, None, "0 or more; encode with seed=1"),
        (0.1, -1, "not -1"),
        (1.01, 1, "dropout is 1.01"),
        (-0.1, 1, "dropout is -0.1"),
        (float("nan"), 1, "dropout is nan"),
    ):
        with pytest.raises(ConfigError, match=fault):
            SegmentationSampling.of(probability, seed)

    text = b"low low\n"
    for first in (2**62, -(2**62)):
        by_number = encoder.encode_text(text, numbers=np.array([first]), dropout=0.5, seed=1)
        assert encoder.encode_text(text, first=first, dropout=0.5, seed=1) == by_number
        beyond = first + first // 2**62
        assert "first is" in refused(lambda beyond=beyond: encoder.encode_text(text, first=beyond))
    for wrong in ([1, 2], [2**63]):
        with pytest.raises(ConfigError, match=r"^numbers "):
            encoder.encode_bytes(text, numbers=wrong)
    several = [None, range(9), np.arange(9, dtype=np.uint8)]
    ways = [
        encoder.encode_bytes(text * 9, dropout=0.5, seed=1, numbers=numbers).ids.tolist()
        for numbers in several
    ]
    assert ways[0] == ways[1] == ways[2] != encoder.encode_bytes(text * 9).ids.tolist()


def test_a_file_has_the_ids_of_its_lines(tmp_path):
    """`encode_file` gives the ids of the lines of a file, plain or compressed, with any line ends."""
    lines = [TEXT, "", "low  lower ", "est"]
    expected = plain_ids(ENCODERS[3], lines)
    for ending, last in (("\n", "\n"), ("\r\n", ""), ("\n", "")):
        data = (ending.join(lines) + last).encode()
        for name, content in (("a.txt", data), ("a.gz", gzip.compress(data))):
            (tmp_path / name).write_bytes(content)
            assert ids_of(ENCODERS[3].encode_file(tmp_path / name)) == expected


def test_invalid_utf8_is_reported_with_file_and_line(tmp_path):
    """An invalid line raises an error with file and line, or is replaced or skipped, as `errors`
    says.
    """
    encoder = Encoder(ENCODERS[0].vocabulary)
    path = tmp_path / "bad.txt"
    path.write_bytes(b"low\nlo\xffw\nest\n")
    with pytest.raises(CorpusError, match=r"bad\.txt:2: invalid UTF-8 byte 0xff at column 3"):
        encoder.encode_file(path)
    with pytest.raises(CorpusError, match=r"text:2: invalid UTF-8"):
        encoder.encode_bytes(path.read_bytes())
    for errors, lines in (("skip", ["low", "est"]), ("replace", ["low", "lo\ufffdw", "est"])):
        assert ids_of(encoder.encode_file(path, errors=errors)) == plain_ids(encoder, lines)


@pytest.mark.parametrize("which", range(len(ENCODERS)))
def test_a_space_inside_a_character_is_an_error(which):
    """A space between the two bytes of a character makes the line invalid UTF-8."""
    with pytest.raises(CorpusError, match="text:1: invalid UTF-8"):
        Encoder(ENCODERS[which].vocabulary).encode_bytes(b"low \xc3 \xa9 low\n")


def test_empty_input_has_no_ids():
    """`encode_batch` and `encode_text` return no ids for no lines and for empty lines."""
    encoder = ENCODERS[0]
    assert encoder.encode_batch([]).offsets.tolist() == [0]
    assert encoder.encode_batch(["", ""]).offsets.tolist() == [0, 0, 0]
    assert encoder.encode_batch(["", ""], dropout=0.5, seed=1).ids.tolist() == []
    assert [encoder.encode_text(text) for text in (b"", b"\n\n")] == [b"", b"\n\n"]


@pytest.mark.parametrize(
    "name", ["multi30k/train.de.gz", "ted/Georgian.txt.gz", "ted/Cantonese.txt.gz"]
)
def test_real_corpora_have_the_ids_of_their_lines(name, lines):
    """For real text and every pre-tokenizer, a batch and single lines have equal ids."""
    text = lines(name, 3_000)
    for encoder in ENCODERS:
        assert ids_of(encoder.encode_batch(text)) == plain_ids(encoder, text)


# ---- threads and caches


@pytest.mark.parametrize(
    "encoder", ENCODERS, ids=lambda encoder: encoder.vocabulary.pretokenizer.name
)
def test_chunks_and_threads_change_nothing(encoder):
    """`BatchEncoder` gives equal ids for chunks of any size, any number of threads and any limit of
    its caches.
    """
    lines = bare([TEXT, "", *HARD, TEXT[::-1], "".join(HARD), " ".join(HARD)])
    lines *= 3 if DRAWS_ALL else 1
    expected = plain_ids(encoder, lines)
    tables = MergeTables.of(encoder.vocabulary)
    for size, n_threads, limit in ((1, 1, 1), (7, 2, 10), (100, 16, 5), (1 << 20, 3, 1 << 20)):
        batches = BatchEncoder(tables, Rendering("ids", tables), limit=limit)
        parts = batches.encode(chunks_of(text_of(lines), size=size), n_threads=n_threads)
        assert ids_of(Encoded.of(parts)) == expected


def test_every_unit_has_a_row_of_its_own(monkeypatch):
    """A unit and the words that it consists of have different rows in the table: as many rows as
    units are in use.
    """
    monkeypatch.setattr("volt.encode.unit_cache._N_SLOTS", 8)
    encoder = Encoder(ENCODERS[PRETOKENIZERS.index("gpt2")].vocabulary)
    words = [f"{i:b}".replace("0", "o").replace("1", "l") for i in range(1_000)]
    encoder.encode_batch([" ".join(f"{word}-{word[::-1]}w." for word in words)], n_threads=1)
    [cache] = caches_of(encoder)
    assert cache.n_units > 3_000
    assert int((cache._loop.table.rows[2::4] > 0).sum()) == cache.n_units


def caches_of(encoder):
    [batches] = encoder._batch_encoders.values()
    return batches._idle_caches


@pytest.mark.slow
@pytest.mark.parametrize(
    "which", [0, 2, 4, len(PRETOKENIZERS) + 1], ids=["whitespace", "gpt2", "bytes", "user tokens"]
)
def test_thousands_of_batches_share_encoders(monkeypatch, which):
    """16 threads that share an encoder get the ids of single lines, while caches grow and are
    emptied.
    """
    monkeypatch.setattr("volt.encode.unit_cache._N_SLOTS", 256)
    rng = np.random.default_rng(which)
    pool = [
        " ".join(rng.choice(HARD, 8)).replace("\n", "") + f" low{i % 300}"
        for i in range(examples(2_000))
    ]
    ids = plain_ids(ENCODERS[which], pool)
    batches = [rng.integers(0, len(pool), rng.integers(1, 9)) for _ in range(examples(1_000))]
    encoder = Encoder(ENCODERS[which].vocabulary, cache_words=20)

    def agrees(batch):
        encoded = encoder.encode_batch([pool[i] for i in batch], n_threads=1)
        return ids_of(encoded) == [ids[i] for i in batch]

    with ThreadPoolExecutor(16) as executor:
        assert all(executor.map(agrees, batches))


def test_caches_are_emptied_beyond_their_limit():
    """Before a text, a cache with more units than `cache_words` is emptied."""
    encoder = Encoder(ENCODERS[0].vocabulary, cache_words=20)
    for start in range(0, 300, 30):
        encoder.encode_batch([" ".join(f"w{i}" for i in range(start, start + 30))], n_threads=1)
        assert [cache.n_units for cache in caches_of(encoder)] == [30]
    encoder.encode_batch(["w270 w299"] * 20, n_threads=1)  # the cache is emptied first
    encoder.encode_batch(["w0 w1 w270"], n_threads=1)
    assert [cache.n_units for cache in caches_of(encoder)] == [4]


def test_the_end_of_a_file_empties_no_cache():
    """A chunk without text, as it follows each file, gives no lines and leaves the cache as it is."""
    encoder = Encoder(ENCODERS[0].vocabulary)
    chunks = [Chunk(b"w0 w1"), Chunk(b""), Chunk(b"w2"), Chunk(b"")]
    parts = encoder.encode_parts(chunks, n_threads=1)
    assert [len(part.ends) for part in parts] == [1, 0, 1, 0]
    assert [cache.n_units for cache in caches_of(encoder)] == [3]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_other_processes_have_equal_ids(method):
    """A forked or spawned process gives equal ids, even after threads have run in its parent."""
    lines = [TEXT] * 10
    expected = ids_of(ENCODERS[0].encode_batch(lines, n_threads=2))
    with multiprocessing.get_context(method).Pool(2) as pool:
        task = pool.apply_async(_ids_in_one_thread, (ENCODERS[0], lines))
        assert task.get(timeout=120) == expected


def _ids_in_one_thread(encoder, lines):
    return ids_of(encoder.encode_batch(lines, n_threads=1))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_refuses_new_words():
    """In a forked process, encoding that needs Polars raises an error, because Polars would wait
    for its threads forever.
    """
    vocabulary = ENCODERS[PRETOKENIZERS.index("unicode")].vocabulary
    encoder = Encoder(replace(vocabulary, normalizer=Normalizer("nfkc")))
    encoder.encode("low")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        task = pool.apply_async(encoder.encode, ("new words",))
        with pytest.raises(ConfigError, match="processes with multiprocessing"):
            task.get(timeout=120)


# ---- flat ids


@given(
    parts=st.lists(st.lists(st.lists(st.integers(0, 99), max_size=3), max_size=3)),
    n_bytes=st.integers(0, 40),
)
def test_parts_are_concatenated(parts, n_bytes):
    """`Encoded.of` has the lines of all parts in order, for any estimate of their size."""
    encoded = Encoded.of(map(_part, parts), n_bytes=n_bytes)
    assert ids_of(encoded) == list(chain(*parts))
    assert encoded.offsets[-1] == len(encoded.ids)
    assert repr(encoded).endswith(f"of {len(encoded)} line{'' if len(encoded) == 1 else 's'}>")
    if len(encoded):
        assert encoded[-1].tolist() == encoded[len(encoded) - 1].tolist()
    for place in (len(encoded), -1 - len(encoded)):
        with pytest.raises(
            IndexError, match=f"line {place} is out of range for {len(encoded)} line"
        ):
            encoded[place]


def _part(lines):
    ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
    return EncodedPart(np.array(list(chain(*lines)), np.int32), ends)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
@given(lines=st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=4))
def test_numbers_become_their_values(dtype, lines):
    """`expand_rows` replaces each row number by the row's values; in text, a line end replaces a
    line's last space.
    """
    rows = ["", "a ", "bc ", "d "]
    starts = np.cumsum([0, *map(len, rows)])
    values = np.frombuffer("".join(rows).encode(), np.uint8).astype(dtype)
    expected = ["".join(rows[number] for number in line) for line in lines]
    if dtype is np.uint8:
        expected = [line[:-1] + "\n" for line in expected]
    numbers = np.array(list(chain(*lines)), np.int32)
    part = expand_rows(numbers, np.cumsum(list(map(len, lines)), dtype=np.int64), starts, values)
    assert bytes(part.values.astype(np.uint8)).decode() == "".join(expected)
    assert part.ends.tolist() == np.cumsum(list(map(len, expected))).tolist()
