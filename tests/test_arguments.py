"""Laws of Python's boundary: what can be meant is taken, and the rest is refused in a line that names the next step."""

from __future__ import annotations

import inspect
import math
import pickle
import re
from collections import Counter
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from held import (
    CANDIDATES,
    COUNTS,
    ENCODER,
    NAN,
    PUBLIC,
    RESULT,
    SOURCES,
    SPECIAL,
    STATE,
    VOCABULARY,
)
from scipy import sparse

import volt
from volt import arguments
from volt.comparison import NamedText
from volt.encode.chunks import Chunk
from volt.errors import ArgumentError, ConfigError, VoltError
from volt.stream import (
    Batch,
    Checks,
    Column,
    ErrorPolicy,
    LineFault,
    LineRng,
    Mixture,
    Schedule,
    Source,
)
from volt.stream.running.state import State
from volt.stream.running.state_validation import checksum
from volt.stream.transforms.case import Lower
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.subwords import Encode


def signed(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with the checksum of its values."""
    return {**state, "checksum": checksum(state)}


# what is called wrongly → how the error starts
# ruff: noqa: E501
WRONG: list[tuple[Callable[[], object], str]] = [
    (
        lambda: ENCODER.encode_batch("abc def"),
        "lines is 'abc def' (str); did you mean encode(line) or encode_batch([line])?",
    ),
    (
        lambda: ENCODER.encode_lines(b"abc"),
        "lines is b'abc' (bytes); did you mean encode(line) or encode_lines([line])?",
    ),
    (
        lambda: ENCODER.encode_batch(["low", b"low"]),
        "lines[1] is b'low' (bytes); did you mean lines[1].decode()?",
    ),
    (
        lambda: ENCODER.encode_batch(["low"], n_threads="2"),
        "n_threads is '2' (str); give a whole number",
    ),
    (lambda: ENCODER.encode_batch(["low"], n_threads=0), "n_threads is 0; give 1 or more"),
    (lambda: ENCODER.encode_batch(StringIO("low\n")), "lines is a StringIO; give a list of lines"),
    (
        lambda: ENCODER.encode_words("low"),
        "words is 'low' (str); did you mean encode_words([word])?",
    ),
    (lambda: ENCODER.encode(b"low"), "line is b'low' (bytes); did you mean line.decode()?"),
    (
        lambda: ENCODER.encode(None),
        "line is None; give a str; encode takes one line, and encode_batch many",
    ),
    (
        lambda: ENCODER.encode(["low"]),
        "line is a list; give a str; encode takes one line, and encode_batch many",
    ),
    (lambda: ENCODER.encode_offsets(b"low"), "line is b'low' (bytes); did you mean line.decode()?"),
    (lambda: ENCODER.encode("low", dropout="0.1", seed=1), "dropout is '0.1' (str); give a number"),
    (
        lambda: ENCODER.encode("low", dropout=NAN, seed=1),
        "dropout is nan; give a probability from 0 to 1",
    ),
    (lambda: ENCODER.encode("low", dropout=0.1, seed=-1), "dropout needs a seed, a whole number"),
    (
        lambda: ENCODER.encode("low", dropout=0.1, seed=1.5),
        "seed is 1.5 (float); give a whole number",
    ),
    (
        lambda: ENCODER.encode_bytes("low"),
        "text is 'low' (str); did you mean encode_bytes(text.encode())?",
    ),
    (lambda: ENCODER.encode_batch(["low"], dropout="0.1"), "dropout is '0.1' (str); give a number"),
    (
        lambda: ENCODER.encode_text(b"low", first=2**63),
        "first is 9223372036854775808; give 4,611,686,018,427,387,904 or less",
    ),
    (
        lambda: ENCODER.encode_lines(["low"] * 2, dropout=0.1, seed=1, first=-(2**63)),
        "first is -9223372036854775808; give -4,611",
    ),
    (
        lambda: ENCODER.encode_text(b"low", separator=b"@@"),
        "separator is b'@@' (bytes); did you mean separator.decode()?",
    ),
    (
        lambda: list(ENCODER.text_parts([Chunk(b"low"), b"low"])),
        "chunks[1] is b'low' (bytes); give chunks of volt.encode.chunks.chunks_of or",
    ),
    (
        lambda: ENCODER.text_parts(b"low"),
        "chunks is b'low' (bytes); give chunks of volt.encode.chunks.chunks_of or file_chunks",
    ),
    (
        lambda: list(ENCODER.encode_parts(["low"], n_threads=2)),
        "chunks[0] is 'low' (str); give chunks of volt.encode.chunks.chunks_of or",
    ),
    (
        lambda: ENCODER.encode_parts(Chunk(b"low")),
        "chunks is a Chunk; give chunks of volt.encode.chunks.chunks_of or file_chunks",
    ),
    (
        lambda: ENCODER.encode_file("a", errors="ignore"),
        "unknown errors 'ignore'; choose from strict, replace, skip",
    ),
    (
        lambda: ENCODER.decode([5, 6]),
        "pieces[0] is 5 (int); pieces are strings; for ids, call decode_ids",
    ),
    (
        lambda: ENCODER.decode(ENCODER.encode_batch(["low"])),
        "pieces is an Encoded; did you mean decode_batch(encoded)?",
    ),
    (
        lambda: ENCODER.decode("lo w</w>"),
        "pieces is 'lo w</w>' (str); did you mean decode(text.split())?",
    ),
    (lambda: ENCODER.ids([5]), "pieces[0] is 5 (int); pieces are strings"),
    (
        lambda: volt.Encoder(None),
        "vocabulary is None; give a volt.Vocabulary: volt.read_vocabulary(path), or the vocabulary of a result of volt.search",
    ),
    (
        lambda: volt.Encoder(CANDIDATES),
        "vocabulary is a Candidates; give a volt.Vocabulary: volt.read_vocabulary(path), or the vocabulary of a result of volt.search",
    ),
    (
        lambda: volt.Encoder(VOCABULARY, cache_words="7"),
        "cache_words is '7' (str); give a whole number",
    ),
    (lambda: volt.count_words(None), "sources is None; give a path, or a list of paths"),
    (
        lambda: volt.count_words([]),
        "no corpus was given; give a file, a directory, a pattern or - for stdin",
    ),
    (
        lambda: volt.count_words({"low": 5}),
        "sources is a dict; did you mean volt.WordCounts.from_pairs(counts)?",
    ),
    (lambda: volt.count_words("a", fields=True), "fields=True: give distinct column numbers"),
    (
        lambda: volt.count_words("a", special="<url>"),
        "special is '<url>' (str); give special tokens, such as volt.SpecialTokens(user=('<url>',))",
    ),
    (lambda: volt.count_words("a", min_count="2"), "min_count is '2' (str); give a whole number"),
    (
        lambda: volt.count_words("a", normalizer=5),
        "normalizer is 5 (int); give a name, such as 'nfkc', or a Normalizer",
    ),
    (
        lambda: volt.WordCounts.from_pairs(["low"]),
        "a pair is 'low' (str); did you mean WordCounts.from_pairs(collections.Counter(words))?",
    ),
    (
        lambda: volt.WordCounts({"low": 5}),
        "table is a dict; did you mean WordCounts.from_pairs(…)?",
    ),
    (lambda: volt.mix([COUNTS]), "named is a list; give the counts of each source by its name"),
    (lambda: volt.mix({"a": COUNTS}, temperature="2"), "temperature is '2' (str); give a number"),
    (lambda: volt.mix({"a": COUNTS}, temperature=NAN), "1 source, temperature nan"),
    (
        lambda: volt.learn_bpe("corpus.txt"),
        "counts is 'corpus.txt' (str); give a volt.WordCounts: the result of volt.count_words(path)",
    ),
    (
        lambda: volt.learn_bpe(CANDIDATES),
        "counts is a Candidates; give a volt.WordCounts: the result of volt.count_words(path)",
    ),
    (lambda: volt.learn_bpe(COUNTS, n_merges=1.5), "n_merges is 1.5 (float); give a whole number"),
    (lambda: volt.learn_bpe(COUNTS, n_merges=-1), "n_merges is -1; give 0 or more"),
    (
        lambda: volt.learn_bpe(COUNTS, n_merges=10**30),
        "n_merges is 1000000000000000000000000000000; give",
    ),
    (lambda: volt.learn_bpe(COUNTS, min_pair_count=0), "min_pair_count is 0; give 1 or more"),
    (lambda: volt.learn_bpe(COUNTS, report=5), "report is 5 (int); give a function, or None"),
    (
        lambda: volt.learn_parity([COUNTS]),
        "sources is a list; give the counts of each source by its name",
    ),
    (
        lambda: volt.learn_parity({"a": COUNTS}),
        "parity compares sources, but there is only 'a'; give two or more",
    ),
    (
        lambda: volt.learn_parity(SOURCES, unit="word"),
        "unknown unit 'word'; choose from character, byte, line",
    ),
    (
        lambda: volt.measure_parity(SOURCES, COUNTS, size=14),
        "candidates is a WordCounts; give a volt.Candidates: the result of volt.learn_bpe(counts)",
    ),
    (
        lambda: volt.search(COUNTS),
        "candidates is a WordCounts; give a volt.Candidates: the result of volt.learn_bpe(counts)",
    ),
    (
        lambda: volt.search("c.txt"),
        "candidates is 'c.txt' (str); give a volt.Candidates: the result of volt.learn_bpe(counts)",
    ),
    (
        lambda: volt.search(RESULT),
        "candidates is a SearchResult; give a volt.Candidates: the result of volt.learn_bpe(counts)",
    ),
    (
        lambda: volt.search(CANDIDATES, sizes=[14.0, 16.5]),
        "sizes[1] is 16.5 (float); give a whole number",
    ),
    (
        lambda: volt.search(CANDIDATES, sizes="14:18:2"),
        "sizes is '14:18:2' (str); give a list of sizes",
    ),
    (
        lambda: volt.search(CANDIDATES, sizes=16),
        "sizes is 16 (int); did you mean sizes=[16], or select=16?",
    ),
    (lambda: volt.search(CANDIDATES, select=None), "select is None; choose from trained, balanced"),
    (
        lambda: volt.search(CANDIDATES, select="best"),
        "unknown rule 'best'; choose from trained, balanced",
    ),
    (
        lambda: volt.search(CANDIDATES, parameters={"epsilon": 1}),
        "parameters is a dict; give volt.SearchParameters(epsilon=0.5), say",
    ),
    (
        lambda: volt.search(CANDIDATES, special=("<url>",)),
        "special is a tuple; give special tokens, such as volt.SpecialTokens(user=('<url>',))",
    ),
    (
        lambda: volt.muv_search(RESULT),
        "candidates is a SearchResult; give a volt.Candidates: the result of volt.learn_bpe(counts)",
    ),
    (
        lambda: volt.muv_search(CANDIDATES, length=["type"]),
        "length is a list; choose from type, occurrence",
    ),
    (lambda: volt.SearchParameters(epsilon="1"), "epsilon is '1' (str); give a number"),
    (lambda: volt.SearchParameters(epsilon=NAN), "epsilon is nan; give a number above 0"),
    (lambda: volt.SearchParameters(max_iters=2.5), "max_iters is 2.5 (float); give a whole number"),
    (
        lambda: volt.TransportProblem(np.eye(2), [1, 1], [1, 1]),
        "cost is a ndarray; pass a two-dimensional",
    ),
    (
        lambda: volt.TransportProblem(sparse.csr_array(np.eye(1)), ["a"], [1]),
        "row_mass is a list; give a numpy array of numbers",
    ),
    (
        lambda: volt.Vocabulary(merges=(), tokens="abc"),
        "tokens is 'abc' (str); did you mean tokens=(token,)?",
    ),
    (
        lambda: volt.Vocabulary(merges=("ab",), tokens=()),
        "merges[0] is 'ab' (str); give a pair of strings",
    ),
    (
        lambda: volt.Vocabulary(merges=(), tokens=("a",), counts=(1.5,)),
        "counts[0] is 1.5 (float); give a whole number",
    ),
    (
        lambda: volt.Vocabulary(merges=(), tokens=("a",), special="<url>"),
        "special is '<url>' (str); give special tokens",
    ),
    (
        lambda: volt.SpecialTokens(user="<url>"),
        "user is '<url>' (str); did you mean user=(token,)?",
    ),
    (lambda: volt.SpecialTokens(unk=5), "unk is 5 (int); give a str"),
    (
        lambda: volt.write_vocabulary(VOCABULARY, "x", to=None),
        "to is None; choose from subword-nmt",
    ),
    (
        lambda: volt.write_vocabulary(RESULT, "x", to="tokens"),
        "vocabulary is a SearchResult; give a volt.Vocabulary: volt.read_vocabulary(path), or the vocabulary of a result of volt.search",
    ),
    (lambda: volt.read_vocabulary("x", merges=5), "merges is 5 (int); give the path of a file"),
    (
        lambda: volt.compare(COUNTS),
        "sources[0] is a WordCounts; give NAME=FILE, or volt.comparison.NamedText('name', counts)",
    ),
    (
        lambda: volt.compare([COUNTS]),
        "sources[0] is a WordCounts; give NAME=FILE, or volt.comparison.NamedText('name', counts)",
    ),
    (lambda: volt.compare("a", systems=5), "systems is 5 (int); give a list of systems"),
    (lambda: volt.compare("a", temperature=None), "temperature is None; give a number"),
    (
        lambda: NamedText("en", "corpus.txt"),
        "counts is 'corpus.txt' (str); give a volt.WordCounts: the result of volt.count_words(path)",
    ),
    (
        lambda: volt.Stream("stream.yaml"),
        "sources is 'stream.yaml' (str); did you mean volt.Stream.from_config(path)?",
    ),
    (lambda: volt.Stream(Source("a", ("a",))), "sources is a Source; did you mean [source]?"),
    (
        lambda: volt.Stream(["a.tsv"]),
        "sources[0] is 'a.tsv' (str); give volt.stream.Source(name, paths)",
    ),
    (
        lambda: volt.Stream([Source("a", ("a",))], seed="1"),
        "seed is '1' (str); give a whole number",
    ),
    (
        lambda: volt.Stream([Source("a", ("a",))], n_workers=1.5),
        "n_workers is 1.5 (float); give a whole number",
    ),
    (lambda: Source(None, ("a",)), "name is None; did you mean Source('name', paths)?"),
    (
        lambda: Source("a", ("a",), transforms="lower"),
        "transforms is 'lower' (str); give a tuple of transforms",
    ),
    (
        lambda: Source("a", ("a",), transforms=("lower",)),
        "transforms[0] is 'lower' (str); give a tuple of transforms",
    ),
    (
        lambda: Source("a", ("a",), transforms=(Lower,)),
        "transforms[0] is a type; give a tuple of transforms",
    ),
    (lambda: Source("a", ("a",), weight="1"), "weight is '1' (str); give a number"),
    (lambda: Source("a", ("a",), epochs="1"), "epochs is '1' (str); give a whole number"),
    (lambda: Checks(min_fields="2"), "min_fields is '2' (str); give a whole number"),
    (lambda: ErrorPolicy("skip", max_share="0.1"), "max_share is '0.1' (str); give a number"),
    (lambda: Schedule([(0,)]), "points[0] has 1 parts; give a sample and a weight"),
    (lambda: Mixture(5), "weights is 5 (int); give a list of numbers or schedules"),
    (lambda: Batch.of("abc"), "lines is 'abc' (str); did you mean Batch.of([line])?"),
    (lambda: Column.of("abc"), "values is 'abc' (str); did you mean Column.of([value])?"),
    (lambda: LineRng(-1, 0), "first is -1; give 0 or more"),
    (lambda: LineFault({}), "reasons is empty; give the problem of at least one line"),
    (lambda: Lower(fields=5), "fields is 5 (int); give a tuple of numbers, such as (1, 2)"),
    (lambda: Lower(fields=("1",)), "fields is '1' (str); give a whole number"),
    (lambda: Encode(vocabulary=5), "vocabulary is 5 (int); give the path of a file"),
    (
        lambda: volt.stream.save_state(None, "x"),
        "state is None; give the result of Stream.state or volt.stream.load_state",
    ),
    (
        lambda: volt.stream.save_state({**STATE, "seeds": 1}, "x"),
        "the state has an unknown key, seeds; use a state",
    ),
    (
        lambda: State.from_json({**STATE, "sources": {"a": {"line": 3}}}),
        "the state's checksum does not match its values: ",
    ),
    (
        lambda: State.from_json(signed({**STATE, "sources": {"a": {"line": 3}}})),
        "the state contains values that no stream writes ",
    ),
    (
        lambda: State.from_json(signed({**STATE, "sources": 5})),
        "the state's sources is 5, not a mapping",
    ),
    (lambda: volt.stream.plan("a.yaml", at=5), "stream is 'a.yaml' (str); give a volt.Stream"),
]


@pytest.mark.parametrize(("call", "start"), WRONG, ids=[start[:40] for _, start in WRONG])
def test_a_wrong_call_is_reported_in_one_line(
    call: Callable[[], object], start: str, tmp_path: Path
) -> None:
    """What cannot be meant is a VoltError of one line, with what was found and the next step."""
    with pytest.raises(VoltError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(start)
    assert "\n" not in message
    assert len(message) < 300


def test_arguments_at_their_limits() -> None:
    """Limits are inclusive, numbers beyond floats are infinite, and errors show 40 characters of a text."""
    assert [arguments.whole(one, "n", low=2, high=3) for one in (2, 3, 2.0, np.int8(3))] == [
        2,
        3,
        2,
        3,
    ]
    assert [arguments.number(one, "n") for one in (10**400, -(10**400), 2)] == [
        math.inf,
        -math.inf,
        2.0,
    ]
    assert [
        arguments.parse_bytes(one, "n") for one in ("1", "1K", "2mb", " 3G ", "4T", 5, "9" * 15)
    ] == [
        1,
        1 << 10,
        2 << 20,
        3 << 30,
        4 << 40,
        5,
        10**15 - 1,
    ]
    assert [arguments.wholes(one, "n") for one in ([], [1], (1, 2.0), np.array([3]))] == [
        [],
        [1],
        [1, 2],
        [3],
    ]
    assert [arguments.several(one, "n") for one in ([1], (1,), {1: 2}.keys(), np.array([1]))] == [
        [1]
    ] * 4
    assert arguments.texts(("a", "b"), "n") == ["a", "b"]
    assert [arguments.shortened("a" * n) for n in (40, 41)] == ["a" * 40, "a" * 39 + "…"]
    assert arguments.shortened("a\nb") == "a b"
    assert arguments.function(None, "n") is None
    assert arguments.function(len, "n") is len
    assert (arguments.flag(np.True_, "n"), arguments.choice("a", "n", ("a", "b"))) == (True, "a")
    for call, message in {
        lambda: arguments.whole(1, "n", low=2): "n is 1; give 2 or more",
        lambda: arguments.whole(1_000, "n", high=999): "n is 1000; give 999 or less",
        lambda: arguments.whole(True, "n"): "n is True (bool); give a whole number",
        lambda: arguments.wholes([1, True], "n"): "n[1] is True (bool); give a whole number",
        lambda: arguments.parse_bytes(
            1.5, "n"
        ): "n is 1.5 (float); give bytes, such as 1000, 64M or 1G",
        lambda: arguments.parse_bytes("1" * 16, "n"): "n is '1111111111111111'; give bytes",
        lambda: arguments.choice("c", "n", ("a", "b")): "unknown n 'c'; choose from a, b",
        lambda: arguments.function(5, "n"): "n is 5 (int); give a function, or None",
        lambda: arguments.several(np.array(1), "n"): "n is a ndarray; give a list of n",
        lambda: arguments.several(5, "n"): "n is 5 (int); give a list of n",
        lambda: arguments.several(int, "n", one="x"): "n is a type; give a list of n",
        lambda: arguments.text(
            b"a" * 41, "n"
        ): f"n is b'{'a' * 37}… (bytes); did you mean n.decode()?",
        lambda: arguments.flag(1, "n"): "n is 1 (int); give True or False",
        lambda: arguments.instance(
            "a" * 38, volt.WordCounts, "n"
        ): f"n is '{'a' * 38}' (str); give a volt.WordCounts: the result of volt.count_words(path)",
        lambda: arguments.instance(
            "a" * 39, volt.WordCounts, "n"
        ): f"n is '{'a' * 38}… (str); give a volt.WordCounts: the result of volt.count_words(path)",
        lambda: arguments.instance(
            COUNTS, volt.Encoder, "n"
        ): "n is a WordCounts; give a volt.Encoder: volt.Encoder(vocabulary)",
        lambda: arguments.instance(5, Path, "n"): "n is 5 (int); give a Path",
    }.items():
        with pytest.raises(ConfigError) as caught:
            call()
        assert str(caught.value).startswith(message)


def test_a_wrong_type_is_a_type_error_too() -> None:
    """Who expects TypeError of a wrong type catches it; who catches ConfigError does, as well."""
    assert issubclass(ArgumentError, TypeError)
    assert issubclass(ArgumentError, ConfigError)


@pytest.mark.parametrize(
    "lines",
    [
        np.array(["low", "new"]),
        np.array(["low", "new"], object),
        pl.Series(["low", "new"]),
        ("low", "new"),
        (line for line in ("low", "new")),
        {"low": 1, "new": 2}.keys(),
    ],
    ids=lambda lines: type(lines).__name__,
)
def test_any_iterable_of_lines_is_taken(lines: Any) -> None:
    """Arrays, series, generators and tuples of lines are encoded like lists."""
    assert (
        ENCODER.encode_batch(lines).ids.tolist()
        == ENCODER.encode_batch(["low", "new"]).ids.tolist()
    )


def test_what_can_be_meant_is_taken(tmp_path: Path) -> None:
    """A path or a result for a vocabulary, a mapping for counts, numpy's numbers, a size for a rule, one text for many."""
    VOCABULARY.save(path := tmp_path / "a.volt")
    pieces = ENCODER.encode("lowest newer")
    for meant in (str(path), path, RESULT, ENCODER, VOCABULARY):
        assert volt.Encoder(meant).encode("lowest newer") == pieces
    words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    for counts in (words, Counter(words)):
        assert (
            volt.learn_bpe(counts, np.int64(9)).merges
            == CANDIDATES.merges
            == volt.learn_bpe(counts, 9.0).merges
        )
        assert volt.replay_bpe(counts, np.array(CANDIDATES.merges)).merges == CANDIDATES.merges
    for sizes in (
        np.array([14, 16, 18]),
        np.array([14.0, 16, 18]),
        (size for size in (14, 16, 18)),
    ):
        assert (
            volt.search(CANDIDATES, sizes=sizes, select=np.int32(18)).signature == RESULT.signature
        )
    ids = ENCODER.encode_ids("lowest newer")
    for meant in (ids, ids.tolist(), ids.astype(float), iter(ids)):
        assert ENCODER.decode_ids(meant) == "lowest newer"
    assert ENCODER.decode_batch([ids, [], ids]) == ["lowest newer", "", "lowest newer"]
    assert ENCODER.decode_batch([]) == []
    assert (
        ENCODER.encode_bytes(memoryview(b"low\n")).ids.tolist()
        == ENCODER.encode_bytes(b"low\n").ids.tolist()
    )
    listed = volt.Vocabulary(
        merges=[list(pair) for pair in VOCABULARY.merges],
        tokens=list(VOCABULARY.tokens),
        counts=list(VOCABULARY.counts),
        normalizer="none",
        pretokenizer="whitespace",
    )
    assert (listed, listed.fingerprint) == (VOCABULARY, VOCABULARY.fingerprint)
    assert volt.SpecialTokens(user=["<url>"]) == SPECIAL
    (tmp_path / "a.tsv").write_text("low\n")
    with volt.Stream(
        [Source("a", [tmp_path / "a.tsv"], transforms=[Lower()], epochs=1)], seed=np.int64(1)
    ) as stream:
        assert list(stream) == ["low"]


def test_a_vocabulary_is_a_collection_of_what_has_an_id() -> None:
    """len, in and id_of agree with pieces and ids; what is no token has no id; copies are equal and pickle."""
    for vocabulary in (
        VOCABULARY,
        volt.Vocabulary((), ("a",), byte_fallback=True, special=SPECIAL),
    ):
        assert len(vocabulary) == len(vocabulary.pieces) == len(vocabulary.ids)
        assert [vocabulary.id_of(piece) for piece in vocabulary.pieces] == list(
            range(len(vocabulary))
        )
        assert all(piece in vocabulary for piece in vocabulary.pieces)
        assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary
    assert VOCABULARY.id_of("zzz") is None
    assert "zzz" not in VOCABULARY
    assert 5 not in VOCABULARY


# ---- any object whatever


class Quiet:
    """An object that nobody knows."""


NEXT_STEP = re.compile(r".{1,200}[;:] .{4,200}")  # one line
ODD: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    1.5,
    NAN,
    float("inf"),
    10**30,
    2j,
    "",
    "a",
    "low lot",
    "\ud800",
    "a\0b",
    b"",
    b"\xff",
    [],
    (),
    {},
    set(),
    [None],
    [[]],
    ["a"],
    [b"a"],
    [1],
    [1.5],
    [("a", 1)],
    [("a", "b")],
    {"a": 1},
    {"a": None},
    {1: 2},
    Counter("abc"),
    range(3),
    iter(()),
    np.array([]),
    np.array([1, 2]),
    np.array([["a"]]),
    np.array("a"),
    np.float64(2),
    np.array([None], object),
    pl.Series(["a", None]),
    pl.DataFrame({"a": [1]}),
    Path("nowhere.txt"),
    Path(),
    object(),
    object,
    Quiet,
    Quiet(),
    len,
    lambda: None,
    SimpleNamespace(vocabulary=1),
    volt,
    STATE,
    COUNTS,
    CANDIDATES,
    RESULT,
    VOCABULARY,
    ENCODER,
    SPECIAL,
    Source("a", ("nowhere.tsv",)),
    sparse.csr_array(np.eye(2)),
    slice(3),
    Ellipsis,
]
REST: dict[str, dict[str, Any]] = {  # what a call needs besides its first argument
    "volt.TransportProblem": {"row_mass": [1.0, 1.0], "column_mass": [1.0, 1.0]},
    "volt.LanguageModel": {"width": 512},
    "volt.extend_bpe": {"counts": COUNTS},
    "volt.shrink": {"counts": COUNTS, "to": 6},
    "volt.replay_bpe": {"merges": [("l", "o")]},
    "volt.shard": {"folder": "nowhere"},
    "volt.write_vocabulary": {"path": "nowhere/x", "to": "tokens"},
    "volt.comparison.NamedText": {"counts": {"a": 1}},
    "volt.Vocabulary": {"tokens": ("a",)},
    "volt.measure_parity": {"candidates": CANDIDATES, "size": 14},
    "volt.stream.Source": {"paths": ("nowhere.tsv",)},
    "volt.stream.LineRng": {"second": 2},
    "volt.stream.plan": {"at": 1, "seconds": 0.0},
    "volt.stream.save_state": {"path": "nowhere/x"},
    "volt.stream.trace": {"numbers": []},
    "volt.stream.debug": {"n_lines": 1},
    "volt.stream.Translation": {"task": "de_en"},
}
MADE_BY_VOLT = (
    "Audit",
    "StreamBatch",
    "Comparison",
    "Candidates",
    "Encoded",
    "PaddedIds",
    "Spans",
    "Plan",
    "Parity",
    "Reach",
    "SearchResult",
    "SizeStep",
    "Summary",
    "VirtualEpoch",
    "Trace",
    "DebugLine",
    "SubwordCounts",
    "TransportPlan",
    "Batch",
    "Column",
    "Transform",
    "FORMATS",
    "LineFault",
)
CALLS = {
    name: value
    for name, value in PUBLIC.items()
    if not name.endswith((*MADE_BY_VOLT, "Error", "Checks.any"))
}
CALLS |= {
    f"transform {name}": kind for name, kind in TRANSFORMS.items() if name != "duplicate_mono"
}  # it has no options
REST["transform user"] = {"function": "low"}
METHODS: dict[str, Callable[[Any], object]] = {
    **{
        f"Encoder.{name}": getattr(ENCODER, name)
        for name in (
            "encode",
            "encode_ids",
            "encode_lines",
            "encode_words",
            "encode_batch",
            "encode_bytes",
            "encode_file",
            "encode_text",
            "text_parts",
            "encode_parts",
            "encode_offsets",
            "encode_spans",
            "count",
            "pad",
            "token_bytes",
            "decode_stream",
            "ids",
            "decode",
            "decode_ids",
            "decode_batch",
            "decode_bytes",
        )
    },
    **{
        f"Candidates.{name}": getattr(CANDIDATES, name)
        for name in ("merges_at", "tokens_at", "counts_at")
    },
    "Vocabulary.load": volt.Vocabulary.load,
    "Vocabulary.id_of": VOCABULARY.id_of,
    "Vocabulary.in": VOCABULARY.__contains__,
    "WordCounts.from_pairs": volt.WordCounts.from_pairs,
    "WordCounts.min_count": COUNTS.min_count,
    "Stream.from_config": volt.Stream.from_config,
    "Sinkhorn()": volt.Sinkhorn(),
    "Batch.of": Batch.of,
    "Column.of": Column.of,
    "LineFault": LineFault,
    "Normalizer.parse": volt.text.Normalizer.parse,
    "PreTokenizer.split": volt.text.PreTokenizer().split,
    "Normalizer.normalize": volt.text.Normalizer().normalize,
    "LanguageModel width": lambda odd: volt.LanguageModel(1e9, odd),
    "learn_bpe coverage": lambda odd: volt.learn_bpe(COUNTS, 3, coverage=odd),
    "search model": lambda odd: volt.search(CANDIDATES, sizes=[14], model=odd),
    "learn_bpe n_merges": lambda odd: volt.learn_bpe(COUNTS, odd),
    "learn_bpe marker": lambda odd: volt.learn_bpe(COUNTS, 3, marker=odd),
    "replay_bpe merges": lambda odd: volt.replay_bpe(COUNTS, odd),
    "search sizes": lambda odd: volt.search(CANDIDATES, sizes=odd),
    "search select": lambda odd: volt.search(CANDIDATES, sizes=[14, 16], select=odd),
    "mix": lambda odd: volt.mix({"a": COUNTS}, temperature=odd),
    "extend_bpe counts": lambda odd: volt.extend_bpe(VOCABULARY, odd),
    "shrink counts": lambda odd: volt.shrink(VOCABULARY, odd, to=6),
    "extend_bpe n_merges": lambda odd: volt.extend_bpe(VOCABULARY, COUNTS, odd),
    "shrink to": lambda odd: volt.shrink(VOCABULARY, COUNTS, to=odd),
    "learn_parity unit": lambda odd: volt.learn_parity(SOURCES, 3, unit=odd),
    "learn_parity temperature": lambda odd: volt.learn_parity(SOURCES, 3, temperature=odd),
    "measure_parity candidates": lambda odd: volt.measure_parity(SOURCES, odd, size=14),
    "measure_parity size": lambda odd: volt.measure_parity(SOURCES, CANDIDATES, size=odd),
    "search special": lambda odd: volt.search(CANDIDATES, sizes=[14], special=odd),
    "encode_ids allowed_special": lambda odd: ENCODER.encode_ids("low", allowed_special=odd),
    "encode_batch disallowed_special": lambda odd: ENCODER.encode_batch(
        ["low"], disallowed_special=odd
    ),
    "encode_batch truncate": lambda odd: ENCODER.encode_batch(["low"], truncate=odd),
    "decode_ids skip_special": lambda odd: ENCODER.decode_ids([0], skip_special=odd),
    "encode seed": lambda odd: ENCODER.encode("low", dropout=0.5, seed=odd),
    "count_words normalizer": lambda odd: volt.count_words("nowhere.txt", normalizer=odd),
    "count_words fields": lambda odd: volt.count_words("nowhere.txt", fields=odd),
    "Vocabulary tokens": lambda odd: volt.Vocabulary((), odd),
    "Vocabulary special": lambda odd: volt.Vocabulary((), (), special=odd),
    "Vocabulary marker": lambda odd: volt.Vocabulary((), (), marker=odd),
    "SpecialTokens user": lambda odd: volt.SpecialTokens(user=odd),
    "SpecialTokens skips": lambda odd: volt.SpecialTokens(skips=odd),
    "SpecialTokens lstrip": lambda odd: volt.SpecialTokens(lstrip=odd),
    "SpecialTokens rstrip": lambda odd: volt.SpecialTokens(rstrip=odd),
    "write_vocabulary to": lambda odd: volt.write_vocabulary(VOCABULARY, "nowhere/x", to=odd),
    "Source transforms": lambda odd: Source("a", ("a",), transforms=odd),
    "Source paths": lambda odd: Source("a", odd),
    "Source weight": lambda odd: Source("a", ("a",), weight=odd),
    "compare systems": lambda odd: volt.compare("nowhere.txt", systems=odd),
}


@pytest.mark.parametrize("name", [*CALLS, *METHODS])
def test_any_object_is_taken_or_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any object given to any public function, constructor or method is taken, or a line says what to do instead."""
    monkeypatch.chdir(tmp_path)  # which Path() names
    call = CALLS.get(name) or METHODS[name]
    for odd in ODD:
        try:
            made = call(odd, **REST.get(name, {}))
            if inspect.isgenerator(made):
                next(made, None)
        except VoltError as error:
            message = str(error)
        else:
            continue
        assert NEXT_STEP.fullmatch(message)


def test_every_public_function_is_asked() -> None:
    """The law above leaves out what only VOLT itself makes, and nothing else."""
    left_out = {name.rpartition(".")[2] for name in PUBLIC if name not in CALLS}
    assert left_out <= {*MADE_BY_VOLT, "VoltError"}
