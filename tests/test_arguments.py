"""Laws of arguments: sensible values are accepted; others are refused in a line with a remedy."""

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
from scipy import sparse
from support.held import (
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


def signed(state):
    """Return a state with the checksum of its values."""
    return {**state, "checksum": checksum(state)}


# Wrong calls, and how their errors start.
# ruff: noqa: F401  # the calls in texts use these names
WRONG = r"""
ENCODER.encode_batch('abc def')
    lines is 'abc def' (str); did you mean encode(line) or encode_batch([line])?
ENCODER.encode_lines(b'abc')
    lines is b'abc' (bytes); did you mean encode(line) or encode_lines([line])?
ENCODER.encode_batch(['low', b'low'])
    lines[1] is b'low' (bytes); did you mean lines[1].decode()?
ENCODER.encode_batch(['low'], n_threads='2')
    n_threads is '2' (str); give a whole number
ENCODER.encode_batch(['low'], n_threads=0)
    n_threads is 0; give 1 or more
ENCODER.encode_batch(StringIO('low\n'))
    lines is a StringIO; give a list of lines
ENCODER.encode_words('low')
    words is 'low' (str); did you mean encode_words([word])?
ENCODER.encode(b'low')
    line is b'low' (bytes); did you mean line.decode()?
ENCODER.encode(None)
    line is None; give a str; encode takes one line, and encode_batch many
ENCODER.encode(['low'])
    line is a list; give a str; encode takes one line, and encode_batch many
ENCODER.encode_offsets(b'low')
    line is b'low' (bytes); did you mean line.decode()?
ENCODER.encode('low', dropout='0.1', seed=1)
    dropout is '0.1' (str); give a number
ENCODER.encode('low', dropout=NAN, seed=1)
    dropout is nan; give a probability from 0 to 1
ENCODER.encode('low', dropout=0.1, seed=-1)
    dropout needs a seed, a whole number
ENCODER.encode('low', dropout=0.1, seed=1.5)
    seed is 1.5 (float); give a whole number
ENCODER.encode_bytes('low')
    text is 'low' (str); did you mean encode_bytes(text.encode())?
ENCODER.encode_batch(['low'], dropout='0.1')
    dropout is '0.1' (str); give a number
ENCODER.encode_text(b'low', first=2 ** 63)
    first is 9223372036854775808; give 4,611,686,018,427,387,904 or less
ENCODER.encode_lines(['low'] * 2, dropout=0.1, seed=1, first=-2 ** 63)
    first is -9223372036854775808; give -4,611
ENCODER.encode_text(b'low', separator=b'@@')
    separator is b'@@' (bytes); did you mean separator.decode()?
list(ENCODER.text_parts([Chunk(b'low'), b'low']))
    chunks[1] is b'low' (bytes); give chunks of volt.encode.chunks.chunks_of or
ENCODER.text_parts(b'low')
    chunks is b'low' (bytes); give chunks of volt.encode.chunks.chunks_of or file_chunks
list(ENCODER.encode_parts(['low'], n_threads=2))
    chunks[0] is 'low' (str); give chunks of volt.encode.chunks.chunks_of or
ENCODER.encode_parts(Chunk(b'low'))
    chunks is a Chunk; give chunks of volt.encode.chunks.chunks_of or file_chunks
ENCODER.encode_file('a', errors='ignore')
    unknown errors 'ignore'; choose from strict, replace, skip
ENCODER.decode([5, 6])
    pieces[0] is 5 (int); pieces are strings; for ids, call decode_ids
ENCODER.decode(ENCODER.encode_batch(['low']))
    pieces is an Encoded; did you mean decode_batch(encoded)?
ENCODER.decode('lo w</w>')
    pieces is 'lo w</w>' (str); did you mean decode(text.split())?
ENCODER.ids([5])
    pieces[0] is 5 (int); pieces are strings
volt.Encoder(None)
    vocabulary is None; give a volt.Vocabulary: volt.read_vocabulary(path), or the vocabulary of a result of volt.search
volt.Encoder(CANDIDATES)
    vocabulary is a Candidates; give a volt.Vocabulary: volt.read_vocabulary(path), or the vocabulary of a result of volt.search
volt.Encoder(VOCABULARY, cache_words='7')
    cache_words is '7' (str); give a whole number
volt.count_words(None)
    sources is None; give a path, or a list of paths
volt.count_words([])
    no corpus was given; give a file, a directory, a pattern or - for stdin
volt.count_words({'low': 5})
    sources is a dict; did you mean volt.WordCounts.from_pairs(counts)?
volt.count_words('a', fields=True)
    fields=True: give distinct column numbers
volt.count_words('a', special='<url>')
    special is '<url>' (str); give special tokens, such as volt.SpecialTokens(user=('<url>',))
volt.count_words('a', min_count='2')
    min_count is '2' (str); give a whole number
volt.count_words('a', normalizer=5)
    normalizer is 5 (int); give a name, such as 'nfkc', or a Normalizer
volt.WordCounts.from_pairs(['low'])
    a pair is 'low' (str); did you mean WordCounts.from_pairs(collections.Counter(words))?
volt.WordCounts({'low': 5})
    table is a dict; did you mean WordCounts.from_pairs(…)?
volt.mix([COUNTS])
    named is a list; give the counts of each source by its name
volt.mix({'a': COUNTS}, temperature='2')
    temperature is '2' (str); give a number
volt.mix({'a': COUNTS}, temperature=NAN)
    1 source, temperature nan
volt.learn_bpe('corpus.txt')
    counts is 'corpus.txt' (str); give a volt.WordCounts: the result of volt.count_words(path)
volt.learn_bpe(CANDIDATES)
    counts is a Candidates; give a volt.WordCounts: the result of volt.count_words(path)
volt.learn_bpe(COUNTS, n_merges=1.5)
    n_merges is 1.5 (float); give a whole number
volt.learn_bpe(COUNTS, n_merges=-1)
    n_merges is -1; give 0 or more
volt.learn_bpe(COUNTS, n_merges=10 ** 30)
    n_merges is 1000000000000000000000000000000; give
volt.learn_bpe(COUNTS, min_pair_count=0)
    min_pair_count is 0; give 1 or more
volt.learn_bpe(COUNTS, report=5)
    report is 5 (int); give a function, or None
volt.learn_parity([COUNTS])
    sources is a list; give the counts of each source by its name
volt.learn_parity({'a': COUNTS})
    parity compares sources, but there is only 'a'; give two or more
volt.learn_parity(SOURCES, unit='word')
    unknown unit 'word'; choose from character, byte, line
volt.measure_parity(SOURCES, COUNTS, size=14)
    candidates is a WordCounts; give a volt.Candidates: the result of volt.learn_bpe(counts)
volt.search(COUNTS)
    candidates is a WordCounts; give a volt.Candidates: the result of volt.learn_bpe(counts)
volt.search('c.txt')
    candidates is 'c.txt' (str); give a volt.Candidates: the result of volt.learn_bpe(counts)
volt.search(RESULT)
    candidates is a SearchResult; give a volt.Candidates: the result of volt.learn_bpe(counts)
volt.search(CANDIDATES, sizes=[14.0, 16.5])
    sizes[1] is 16.5 (float); give a whole number
volt.search(CANDIDATES, sizes='14:18:2')
    sizes is '14:18:2' (str); give a list of sizes
volt.search(CANDIDATES, sizes=16)
    sizes is 16 (int); did you mean sizes=[16], or select=16?
volt.search(CANDIDATES, select=None)
    select is None; choose from trained, balanced
volt.search(CANDIDATES, select='best')
    unknown rule 'best'; choose from trained, balanced
volt.search(CANDIDATES, parameters={'epsilon': 1})
    parameters is a dict; give an object such as volt.SearchParameters(epsilon=0.5)
volt.search(CANDIDATES, special=('<url>',))
    special is a tuple; give special tokens, such as volt.SpecialTokens(user=('<url>',))
volt.muv_search(RESULT)
    candidates is a SearchResult; give a volt.Candidates: the result of volt.learn_bpe(counts)
volt.muv_search(CANDIDATES, length=['type'])
    length is a list; choose from type, occurrence
volt.SearchParameters(epsilon='1')
    epsilon is '1' (str); give a number
volt.SearchParameters(epsilon=NAN)
    epsilon is nan; give a number above 0
volt.SearchParameters(max_iters=2.5)
    max_iters is 2.5 (float); give a whole number
volt.TransportProblem(np.eye(2), [1, 1], [1, 1])
    cost is a ndarray; pass a two-dimensional
volt.TransportProblem(sparse.csr_array(np.eye(1)), ['a'], [1])
    row_mass is a list; give a numpy array of numbers
volt.Vocabulary(merges=(), tokens='abc')
    tokens is 'abc' (str); did you mean tokens=(token,)?
volt.Vocabulary(merges=('ab',), tokens=())
    merges[0] is 'ab' (str); give a pair of strings
volt.Vocabulary(merges=(), tokens=('a',), counts=(1.5,))
    counts[0] is 1.5 (float); give a whole number
volt.Vocabulary(merges=(), tokens=('a',), special='<url>')
    special is '<url>' (str); give special tokens
volt.SpecialTokens(user='<url>')
    user is '<url>' (str); did you mean user=(token,)?
volt.SpecialTokens(unk=5)
    unk is 5 (int); give a str
volt.write_vocabulary(VOCABULARY, 'x', to=None)
    to is None; choose from subword-nmt
volt.write_vocabulary(RESULT, 'x', to='tokens')
    vocabulary is a SearchResult; give a volt.Vocabulary: volt.read_vocabulary(path), or the vocabulary of a result of volt.search
volt.read_vocabulary('x', merges=5)
    merges is 5 (int); give the path of a file
volt.compare(COUNTS)
    sources[0] is a WordCounts; give NAME=FILE, or volt.comparison.NamedText('name', counts)
volt.compare([COUNTS])
    sources[0] is a WordCounts; give NAME=FILE, or volt.comparison.NamedText('name', counts)
volt.compare('a', systems=5)
    systems is 5 (int); give a list of systems
volt.compare('a', temperature=None)
    temperature is None; give a number
NamedText('en', 'corpus.txt')
    counts is 'corpus.txt' (str); give a volt.WordCounts: the result of volt.count_words(path)
volt.Stream('stream.yaml')
    sources is 'stream.yaml' (str); did you mean volt.Stream.from_config(path)?
volt.Stream(Source('a', ('a',)))
    sources is a Source; did you mean [source]?
volt.Stream(['a.tsv'])
    sources[0] is 'a.tsv' (str); give volt.stream.Source(name, paths)
volt.Stream([Source('a', ('a',))], seed='1')
    seed is '1' (str); give a whole number
volt.Stream([Source('a', ('a',))], n_workers=1.5)
    n_workers is 1.5 (float); give a whole number
Source(None, ('a',))
    name is None; did you mean Source('name', paths)?
Source('a', ('a',), transforms='lower')
    transforms is 'lower' (str); give a tuple of transforms
Source('a', ('a',), transforms=('lower',))
    transforms[0] is 'lower' (str); give a tuple of transforms
Source('a', ('a',), transforms=(Lower,))
    transforms[0] is a type; give a tuple of transforms
Source('a', ('a',), weight='1')
    weight is '1' (str); give a number
Source('a', ('a',), epochs='1')
    epochs is '1' (str); give a whole number
Checks(min_fields='2')
    min_fields is '2' (str); give a whole number
ErrorPolicy('skip', max_share='0.1')
    max_share is '0.1' (str); give a number
Schedule([(0,)])
    points[0] has 1 parts; give a sample and a weight
Mixture(5)
    weights is 5 (int); give a list of numbers or schedules
Batch.of('abc')
    lines is 'abc' (str); did you mean Batch.of([line])?
Column.of('abc')
    values is 'abc' (str); did you mean Column.of([value])?
LineRng(-1, 0)
    first is -1; give 0 or more
LineFault({})
    reasons is empty; give the problem of at least one line
Lower(fields=5)
    fields is 5 (int); give a tuple of numbers, such as (1, 2)
Lower(fields=('1',))
    fields is '1' (str); give a whole number
Encode(vocabulary=5)
    vocabulary is 5 (int); give the path of a file
volt.stream.save_state(None, 'x')
    state is None; give the result of Stream.state or volt.stream.load_state
volt.stream.save_state({**STATE, 'seeds': 1}, 'x')
    the state has an unknown key, seeds; use a state
State.from_json({**STATE, 'sources': {'a': {'line': 3}}})
    the state's checksum does not match its values: 
State.from_json(signed({**STATE, 'sources': {'a': {'line': 3}}}))
    the state contains values that no stream writes 
State.from_json(signed({**STATE, 'sources': 5}))
    the state's sources is 5, not a mapping
volt.stream.plan('a.yaml', at=5)
    stream is 'a.yaml' (str); give a volt.Stream
"""


@pytest.mark.parametrize(("call", "start"), re.findall(r"(\S.*)\n    (.*)\n", WRONG))
def test_a_wrong_call_is_reported_in_one_line(call, start):
    """A wrong call raises a VoltError of one line, which says what was passed and what to do."""
    with pytest.raises(VoltError) as caught:
        eval(call)
    message = str(caught.value)
    assert message.startswith(start)
    assert "\n" not in message
    assert len(message) < 300


def test_checks_accept_values_at_their_limits():
    """Functions of volt.arguments accept values at their limits, and turn numbers beyond floats
    into infinity; errors show 40 characters of a text."""
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


LIMITS = """
arguments.whole(1, 'n', low=2)
    n is 1; give 2 or more
arguments.whole(1000, 'n', high=999)
    n is 1000; give 999 or less
arguments.whole(True, 'n')
    n is True (bool); give a whole number
arguments.wholes([1, True], 'n')
    n[1] is True (bool); give a whole number
arguments.parse_bytes(1.5, 'n')
    n is 1.5 (float); give bytes, such as 1000, 64M or 1G
arguments.parse_bytes('1' * 16, 'n')
    n is '1111111111111111'; give bytes
arguments.choice('c', 'n', ('a', 'b'))
    unknown n 'c'; choose from a, b
arguments.function(5, 'n')
    n is 5 (int); give a function, or None
arguments.several(np.array(1), 'n')
    n is a ndarray; give a list of n
arguments.several(5, 'n')
    n is 5 (int); give a list of n
arguments.several(int, 'n', one='x')
    n is a type; give a list of n
arguments.text(b'a' * 41, 'n')
    n is b'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… (bytes); did you mean n.decode()?
arguments.flag(1, 'n')
    n is 1 (int); give True or False
arguments.instance('a' * 38, volt.WordCounts, 'n')
    n is 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' (str); give a volt.WordCounts: the result of volt.count_words(path)
arguments.instance('a' * 39, volt.WordCounts, 'n')
    n is 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… (str); give a volt.WordCounts: the result of volt.count_words(path)
arguments.instance(COUNTS, volt.Encoder, 'n')
    n is a WordCounts; give a volt.Encoder: volt.Encoder(vocabulary)
arguments.instance(5, Path, 'n')
    n is 5 (int); give a Path
"""


@pytest.mark.parametrize(("call", "start"), re.findall(r"(\S.*)\n    (.*)\n", LIMITS))
def test_checks_refuse_values_beyond_their_limits(call, start):
    """Functions of volt.arguments refuse a value just outside the limits, or of another type, with
    the limit or the type in the message."""
    with pytest.raises(ConfigError) as caught:
        eval(call)
    assert str(caught.value).startswith(start)


def test_argument_error_is_a_type_error_and_a_config_error():
    """An ArgumentError can be caught as TypeError and as ConfigError."""
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
def test_any_iterable_of_lines_is_accepted(lines):
    """Arrays, series, generators and tuples of lines are encoded like lists."""
    assert (
        ENCODER.encode_batch(lines).ids.tolist()
        == ENCODER.encode_batch(["low", "new"]).ids.tolist()
    )


def test_equivalent_arguments_are_accepted(tmp_path):
    """Paths and results stand for vocabularies, mappings for counts, and sizes for rules."""
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


def test_a_vocabulary_is_a_collection_of_pieces():
    """len, in and id_of agree with pieces and ids; other strings have no id; copies are equal."""
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
    """A class that no function accepts."""


NEXT_STEP = re.compile(r".{1,200}[;:] .{4,200}")  # one line
ODD = [
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
REST = {  # what a call needs besides its first argument
    "volt.TransportProblem": {"row_mass": [1.0, 1.0], "column_mass": [1.0, 1.0]},
    "volt.LanguageModel": {"width": 512},
    "volt.extend_bpe": {"counts": COUNTS},
    "volt.shrink": {"counts": COUNTS, "to": 6},
    "volt.certify": {"counts": COUNTS},
    "volt.fewest_pieces": {"size": 14},
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
# Calls of methods, and of functions with other arguments.
METHODS = """
ENCODER.encode(odd)
ENCODER.encode_ids(odd)
ENCODER.encode_lines(odd)
ENCODER.encode_words(odd)
ENCODER.encode_batch(odd)
ENCODER.encode_bytes(odd)
ENCODER.encode_file(odd)
ENCODER.encode_text(odd)
ENCODER.text_parts(odd)
ENCODER.encode_parts(odd)
ENCODER.encode_offsets(odd)
ENCODER.encode_spans(odd)
ENCODER.count(odd)
ENCODER.pad(odd)
ENCODER.token_bytes(odd)
ENCODER.decode_stream(odd)
ENCODER.ids(odd)
ENCODER.decode(odd)
ENCODER.decode_ids(odd)
ENCODER.decode_batch(odd)
ENCODER.decode_bytes(odd)
CANDIDATES.merges_at(odd)
CANDIDATES.tokens_at(odd)
CANDIDATES.counts_at(odd)
volt.Vocabulary.load(odd)
VOCABULARY.id_of(odd)
odd in VOCABULARY
volt.WordCounts.from_pairs(odd)
COUNTS.min_count(odd)
volt.Stream.from_config(odd)
volt.Sinkhorn()(odd)
Batch.of(odd)
Column.of(odd)
LineFault(odd)
volt.text.Normalizer.parse(odd)
volt.text.PreTokenizer().split(odd)
volt.text.Normalizer().normalize(odd)
volt.LanguageModel(1000000000.0, odd)
volt.learn_bpe(COUNTS, 3, coverage=odd)
volt.search(CANDIDATES, sizes=[14], model=odd)
volt.learn_bpe(COUNTS, odd)
volt.learn_bpe(COUNTS, 3, marker=odd)
volt.replay_bpe(COUNTS, odd)
volt.search(CANDIDATES, sizes=odd)
volt.search(CANDIDATES, sizes=[14, 16], select=odd)
volt.mix({'a': COUNTS}, temperature=odd)
volt.extend_bpe(VOCABULARY, odd)
volt.shrink(VOCABULARY, odd, to=6)
volt.extend_bpe(VOCABULARY, COUNTS, odd)
volt.shrink(VOCABULARY, COUNTS, to=odd)
volt.choose_tokens(odd)
volt.certify(VOCABULARY, odd)
volt.certify(VOCABULARY, COUNTS, seconds=odd)
volt.fewest_pieces(COUNTS, odd)
volt.fewest_pieces(COUNTS, 14, least_saving=odd)
volt.learn_parity(SOURCES, 3, unit=odd)
volt.learn_parity(SOURCES, 3, temperature=odd)
volt.measure_parity(SOURCES, odd, size=14)
volt.measure_parity(SOURCES, CANDIDATES, size=odd)
volt.search(CANDIDATES, sizes=[14], special=odd)
ENCODER.encode_ids('low', allowed_special=odd)
ENCODER.encode_batch(['low'], disallowed_special=odd)
ENCODER.encode_batch(['low'], truncate=odd)
ENCODER.decode_ids([0], skip_special=odd)
ENCODER.encode('low', dropout=0.5, seed=odd)
volt.count_words('nowhere.txt', normalizer=odd)
volt.count_words('nowhere.txt', fields=odd)
volt.Vocabulary((), odd)
volt.Vocabulary((), (), special=odd)
volt.Vocabulary((), (), marker=odd)
volt.SpecialTokens(user=odd)
volt.SpecialTokens(skips=odd)
volt.SpecialTokens(lstrip=odd)
volt.SpecialTokens(rstrip=odd)
volt.write_vocabulary(VOCABULARY, 'nowhere/x', to=odd)
Source('a', ('a',), transforms=odd)
Source('a', odd)
Source('a', ('a',), weight=odd)
volt.compare('nowhere.txt', systems=odd)
"""


@pytest.mark.parametrize("name", [*CALLS, *METHODS.split("\n")[1:-1]])
def test_any_object_is_accepted_or_refused(name, tmp_path, monkeypatch):
    """Any object passed to a public function or method is accepted, or refused in one line with a remedy."""
    monkeypatch.chdir(tmp_path)  # which Path() names
    for odd in ODD:
        try:
            if name in CALLS:
                made = CALLS[name](odd, **REST.get(name, {}))
            else:
                made = eval(name)
            if inspect.isgenerator(made):
                next(made, None)
        except VoltError as error:
            message = str(error)
        else:
            continue
        assert NEXT_STEP.fullmatch(message)


def test_every_public_function_is_called():
    """The test of any object leaves out only classes that VOLT itself instantiates."""
    left_out = {name.rpartition(".")[2] for name in PUBLIC if name not in CALLS}
    assert left_out <= {*MADE_BY_VOLT, "VoltError"}
