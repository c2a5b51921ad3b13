"""Limits inside transforms: the last value that fits and the first that does not; every character; every scheme."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from volt.errors import ConfigError, StreamError, VocabularyError, VoltError
from volt.kernels.bpe_tables import MOST
from volt.stream.transforms import case
from volt.stream.transforms.case import Lower, Title, Upper, has_case, titled
from volt.stream.transforms.column import Column, blank, lengths, line_ends_of
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.nbest_segmenters import check_size
from volt.stream.transforms.taboo_segmentation import read_encoder
from volt.stream.transforms.transform import LineFault, LoadedFiles, SharedCache, signature
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

RNG = LineRng(1, 2)


def test_case_of_every_character() -> None:
    """Each character with a case, alone, inside a word and before a mark, changes as the methods of str say."""
    for table in (case._tables, case._cased):
        table.cache_clear()  # made anew here, whichever test came first
    cased = [
        chr(code)
        for code in range(0x10FFFF)
        if {chr(code).lower(), chr(code).upper()} != {chr(code)}
    ]
    some = [
        *cased[::7],
        *"ΣσςßŉǰİıſKÅⅷⓐﬁﬀ𐐀",
        "\x7f",
        "\x80",
        "\u07ff",
        "\u0800",
        "\uffff",
        "\U00010000",
    ]
    lines = [text for one in some for text in (one, f"a{one}b", f"{one}.", f"aΣ {one}")]
    for kind, function in ((Lower, str.lower), (Upper, str.upper), (Title, titled)):
        assert kind(fields=(1,))(Batch.of(lines), RNG).lines == [function(line) for line in lines]
    changed = Upper(fields=(2,), if_cased=1)(
        Batch.of([f"{line}\ta" for line in [*lines, "中", "1", ""]]), RNG
    )
    assert changed.column(2).strings() == [
        "A" if has_case(line) else "a" for line in [*lines, "中", "1", ""]
    ]


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 18, 40])
def test_lines_of_any_number_are_found(n: int) -> None:
    """Also if there are more than a first guess has room for."""
    for line in (b"", b"a", b"a" * 40):
        text = (line + b"\n") * n
        assert line_ends_of(np.frombuffer(text, np.uint8)).tolist() == [
            k for k, byte in enumerate(text) if byte == 10
        ]
        assert Column.cut(text).strings() == [line.decode()] * n


def test_values_are_measured_in_each_unit() -> None:
    """Missing values have no length and are blank; ids are words, and characters with spaces between them."""
    column = Column.of(["", None, " \u3000", "é 中 𐐀"])
    assert [lengths(column, unit).tolist() for unit in ("words", "characters", "bytes")] == [
        [0, 0, 0, 3],
        [0, 0, 2, 5],
        [0, 0, 4, 11],
    ]
    assert blank(column).tolist() == [True, True, True, False]
    ids = Column.of_ids(np.array([7, -10, 0], np.int32), np.array([0, 0, 1, 3]))
    assert [lengths(ids, unit).tolist() for unit in ("words", "bytes")] == [[0, 1, 2], [0, 1, 5]]
    assert (blank(ids).tolist(), ids.strings()) == ([True, False, False], ["", "7", "-10 0"])
    assert (repr(column), repr(ids)) == ("<Column: 4 values of text>", "<Column: 3 values of ids>")


def test_columns_survive_arrow() -> None:
    """Text and ids, missing values, parts of an array, several chunks and none at all."""
    pa = pytest.importorskip("pyarrow")
    text, ids = (
        pa.array(["a", None, "", "é b"]),
        pa.array([[1, 2], None, [], [3]], pa.list_(pa.int32())),
    )
    for array in (
        text,
        ids,
        text.slice(1, 2),
        ids.slice(1),
        pa.chunked_array([text, text.slice(2)]),
        text.slice(4),
    ):
        column = Column.from_arrow(array)
        assert column.to_arrow().to_pylist() == array.to_pylist()
        assert (
            column.take(np.arange(len(column))[::-1]).to_arrow().to_pylist()
            == array.to_pylist()[::-1]
        )
    assert len(Column.from_arrow(pa.chunked_array([], pa.string()))) == 0
    table = Batch.of(["a\tb", "c"]).to_arrow(["src", "tgt", "more"])
    assert table.to_pydict() == {"src": ["a", "c"], "tgt": ["b", None], "row": [0, 1]}
    assert Batch.of(["a\tb"]).to_arrow(["src"]).schema.names == ["src", "2", "row"]


def test_keys_of_random_numbers() -> None:
    """A key has 64 bits; a name, number or draw of another line gives other numbers; bounds are included."""
    most = (1 << 64) - 1
    origins = np.arange(40)
    words = [
        LineRng(*key).words(origins).tolist()
        for key in ((0, 0), (most, most), (0, most), (most, 0))
    ]
    words += [
        LineRng.of(*place).words(origins).tolist() for place in ((1,), ("1",), (1, 0), (1, "0"))
    ]
    words.append(RNG.at("limit").words(origins).tolist())
    assert len({word for row in words for word in row}) == 9 * 40
    assert set(RNG.integers(origins, 4, 6).tolist()) == {4, 5, 6}
    for key, message in (
        ((-1, 0), "first is -1; give 0 or more"),
        ((0, most + 1), "second is 18446744073709551616"),
    ):
        with pytest.raises(ConfigError, match=message):
            LineRng(*key)


def test_faults_name_the_first_line() -> None:
    """Whatever their order; they have a reason at least, and keep their result when they are pickled."""
    fault = LineFault({5: "b", 3: "a"}, result=Batch.of(["x"]))
    assert str(fault) == "2 unfit lines, the first at index 3: a"
    copy = pickle.loads(pickle.dumps(fault))
    assert (copy.reasons, copy.result.lines) == ({5: "b", 3: "a"}, ["x"])
    for reasons, message in (
        ({}, "reasons is empty; give the problem of at least one line"),
        ([1], "give a dict"),
    ):
        with pytest.raises(VoltError, match=message):
            LineFault(reasons)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"did you mean Column.of\(\[value\]\)"):
        Column.of("low")
    with pytest.raises(
        StreamError, match=r"1 lines were made from 2; first drop or repeat lines with take\(\)"
    ):
        Batch.of(["a", "b"]).with_lines(["a"])


def test_tables_have_a_limit() -> None:
    """As many rows as it says, and not one more."""
    check_size(MOST)
    with pytest.raises(
        VocabularyError,
        match=rf"^its table would have {MOST + 1:,} rows, and the limit is {MOST:,}; ",
    ):
        check_size(MOST + 1)


def test_the_oldest_value_leaves_a_full_cache(tmp_path: Path) -> None:
    """A value is computed once while it is in the cache; a file is read again after a change, and in a copy."""
    cache = SharedCache(most=2)
    assert [cache.get(key, lambda n=n: n) for n, key in enumerate("aabcba")] == [0, 0, 2, 3, 2, 5]
    assert pickle.loads(pickle.dumps(cache)).get("c", lambda: 9) == 9
    files, path = LoadedFiles(), tmp_path / "a"
    path.write_text("a")
    assert files.load(path, Path.read_text) == "a"
    assert (files.load(path, lambda _: "b"), files.load(path, Path.read_text)) == ("b", "a")
    path.write_text("longer")
    assert files.load(path, Path.read_text) == "longer"


def test_signatures_of_anything() -> None:
    """Functions and objects have their names, mappings and sequences their items."""
    values = {"f": has_case, 3: (1, 2.5, None, True), "o": object()}
    assert signature(values) == {
        "f": f"{has_case.__module__}.has_case",
        "3": [1, 2.5, None, True],
        "o": "object",
    }


@pytest.mark.parametrize(
    ("name", "marker", "is_taken"),
    [
        ("whitespace", "suffix", True),
        ("whitespace", "prefix", True),
        ("metaspace", "none", True),
        ("bytes", "none", 0),
    ],
)
def test_taboo_takes_vocabularies_of_words(
    tmp_path: Path, name: str, marker: str, is_taken: bool
) -> None:
    """A vocabulary must cut text at spaces and mark words."""
    path = tmp_path / "v.volt"
    Vocabulary(merges=(), tokens=("l",), marker=marker, pretokenizer=PreTokenizer(name)).save(path)  # type: ignore[arg-type]
    if is_taken:
        assert read_encoder(path).encode("l")
    else:
        with pytest.raises(
            ConfigError,
            match=r"v.volt: splits text with 'bytes' and marks words with 'none'; give a v",
        ):
            read_encoder(path)
