"""Laws of encoded tables: the texts are replaced by what the encoder returns for each, or have a
column of their own, and all other values stay."""

import gc
import gzip

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from support.drawn import examples
from support.encoders import vocabulary
from support.tables import CASES, COLUMNS, HAS_LISTS, read_table, rows_of, write_table

from volt.encode.binarize import binarize
from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, encode_each, encode_one, encode_stream, encode_to_parts
from volt.errors import ConfigError, CorpusError
from volt.files.column_paths import steps_of
from volt.files.indexed_dataset import open_ids

ENCODER = Encoder(vocabulary())
words = st.text(st.sampled_from("ab é,\"'\n low"), max_size=8)
TABLES = [(ending, column) for ending, column in CASES if ending != "txt"]


def replaced(value, steps, encode):
    """Return a value of a row whose texts at a path are encoded."""
    if not steps:
        return value if value is None else encode(value)
    first, *others = steps
    if value is None:
        return None
    if first == "[]":
        return [replaced(item, others, encode) for item in value]
    return value | {first: replaced(value[first], others, encode)}


def encode_as(form, *, as_text=False):
    if form == "pieces":
        return lambda text: " ".join(ENCODER.encode(text))
    if as_text:
        return lambda text: " ".join(map(str, ENCODER.encode_ids(text)))
    return lambda text: ENCODER.encode_ids(text).tolist()


@pytest.mark.parametrize(("ending", "column"), TABLES)
@given(data=st.data())
@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_only_the_texts_of_a_table_change(tmp_path, ending, column, data):
    """The output of a table has its rows and columns, with the encoder's pieces or ids of each
    text; null stays null. With `to_column`, the texts stay, too."""
    has_nulls = ending not in ("csv", "tsv")
    value = words | st.none() if has_nulls else words
    if column in HAS_LISTS:
        value = st.lists(value, min_size=1, max_size=3)
    texts = data.draw(st.lists(value, min_size=1, max_size=5))
    form = data.draw(st.sampled_from(["pieces", "ids"]))
    to_column = data.draw(st.sampled_from([None, "new"]))
    texts.append(["low"] if column in HAS_LISTS else "low")
    rows = rows_of(texts, column)
    path = write_table(tmp_path / f"t.{ending}", rows, column)
    output = tmp_path / f"out.{ending.removesuffix('.gz')}"
    job = EncodeJob(form, column=COLUMNS[column], to_column=to_column, errors="replace")
    assert encode_one(ENCODER, [path], output, job=job) == len(rows)

    is_csv = ending in ("csv", "tsv")
    encode = encode_as(form, as_text=is_csv)
    steps = steps_of(COLUMNS[column], [*rows[0]])
    if to_column is None:
        expected = [replaced(row, steps, encode) for row in rows]
    elif column in HAS_LISTS:
        flat = [list(np.ravel(np.array(row, object))) for row in texts]
        new = [[encode(text) for text in row if text is not None] for row in flat]
        expected = [row | {"new": own} for row, own in zip(rows, new, strict=True)]
    else:
        new = [None if text is None else encode(text) for text in texts]
        expected = [row | {"new": own} for row, own in zip(rows, new, strict=True)]
    if is_csv:
        expected = [{key: str(value) for key, value in row.items()} for row in expected]
    assert read_table(output) == expected


@pytest.mark.parametrize(("ending", "column"), CASES)
def test_lines_of_a_table_are_those_of_its_texts(tmp_path, ending, column):
    """Without the name of a table, the output has one line for each text, even if the text has
    several lines; so does `Encoder.encode_file`, and `binarize`."""
    texts = ["low lower", "new\nest", "", "é"]
    if column in HAS_LISTS:
        texts = [texts, [], ["low"]]
    path = write_table(tmp_path / f"t.{ending}", rows_of(texts, column), column)
    flat = texts
    if column in HAS_LISTS:
        flat = [text for row in texts for text in row]
    name = COLUMNS[column]
    expected = [" ".join(ENCODER.encode(text)) for text in flat]
    lines = b"".join(encode_stream(ENCODER, [path], job=EncodeJob(column=name)))
    assert lines.decode() == "".join(line + "\n" for line in expected)
    batch = ENCODER.encode_batch(flat)
    encoded = ENCODER.encode_file(path, column=name)
    assert np.array_equal(encoded.ids, batch.ids)
    assert np.array_equal(encoded.offsets, batch.offsets)
    binarize(ENCODER, [path], tmp_path / "pair", job=EncodeJob("bin", column=name))
    assert len(open_ids(tmp_path / "pair")) == len(flat)


@given(
    rows=st.lists(
        st.lists(st.sampled_from(["low", "a b", "", 'é"']), min_size=3, max_size=4), max_size=6
    ),
    fields=st.permutations([1, 2, 3]).flatmap(
        lambda numbers: st.sampled_from([numbers[:1], numbers[:2], numbers])
    ),
    form=st.sampled_from(["pieces", "ids"]),
)
@settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_fields_of_lines_are_replaced_and_stay_in_their_line(tmp_path, rows, fields, form):
    """With several fields, or the name of a TSV file, the output is the same lines with these fields
    encoded; with one field, a stream has lines of only this field."""
    path = tmp_path / "t.txt"
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    encode = encode_as(form, as_text=True)
    expected = "".join(
        "\t".join(
            encode(field) if number in fields else field for number, field in enumerate(row, 1)
        )
        + "\n"
        for row in rows
    )
    job = EncodeJob(form, fields=fields)
    encode_one(ENCODER, [str(path)], tmp_path / "out.tsv", job=job)
    assert (tmp_path / "out.tsv").read_text() == expected
    stream = b"".join(encode_stream(ENCODER, [str(path)], job=job)).decode()
    if len(fields) == 1:
        expected = "".join(encode(row[fields[0] - 1]) + "\n" for row in rows)
    assert stream == expected


def test_ids_of_a_table_have_the_shape_of_lines(tmp_path):
    """bos, eos, truncate, padding and dropout apply to each text of a table as to a line."""
    texts = ["low lower newest", "", "low"]
    rows = rows_of(texts, "flat")
    path = write_table(tmp_path / "t.jsonl", rows, "flat")
    (tmp_path / "t.txt").write_text("".join(text + "\n" for text in texts))
    for options in (
        {"bos": True, "eos": True, "truncate": 3},
        {"pad_to": 12},
        {"dropout": 0.5, "seed": 3},
    ):
        lines = b"".join(
            encode_stream(ENCODER, [str(tmp_path / "t.txt")], job=EncodeJob("ids", **options))
        )
        encode_one(
            ENCODER, [path], tmp_path / "o.jsonl", job=EncodeJob("ids", column="text", **options)
        )
        ids = [" ".join(map(str, row["text"])) for row in read_table(tmp_path / "o.jsonl")]
        assert ids == lines.decode().splitlines()


def test_tables_of_a_folder_are_written_when_an_option_changes(tmp_path):
    """Each table has an output of its name; an unchanged one is up to date, and one with another
    column or other options is written again."""
    rows = [{"a": "low", "b": "new"}]
    paths = [write_table(tmp_path / name, rows, "a") for name in ("t.jsonl", "u.parquet")]
    packed = tmp_path / "v.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"a": "low", "b": "x"}\n'))
    out = tmp_path / "out"

    def written(**options):
        job = EncodeJob("ids", **options)
        outcomes = encode_each(ENCODER, [*paths, str(packed)], out, job=job)
        return {outcome.output.name: outcome.n_lines for outcome in outcomes}

    names = ["t.jsonl", "u.parquet", "v.jsonl"]
    assert written(column="a", to_column="ids") == dict.fromkeys(names, 1)
    assert written(column="a", to_column="ids") == dict.fromkeys(names)
    assert written(column="b", to_column="ids") == dict.fromkeys(names, 1)
    assert parquet.read_table(out / "u.parquet").column_names == ["a", "b", "ids"]
    assert [*written(column="a")] == [f"{name}.ids" for name in ["t.jsonl", "u.parquet", "v.jsonl"]]
    assert set(written(column="a").values()) == {None}


def test_other_values_of_json_keep_their_spelling(tmp_path):
    """Numbers that Python would round, and lone surrogates, are written as they were read."""
    others = '"x": [1e400, -0, 0.12345678901234567890, {"a": "\\ud800é", "b": [1, null]}]}'
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "low", ' + others)
    for to_column, start, end in ((None, "[2]", ""), ("ids", '"low"', ', "ids": [2]')):
        job = EncodeJob("ids", column="text", to_column=to_column)
        encode_one(ENCODER, [str(path)], tmp_path / "o.jsonl", job=job)
        ids = str(ENCODER.encode_ids("low").tolist())
        expected = f'{{"text": {start}, {others[:-1]}{end}}}\n'.replace("[2]", ids)
        assert (tmp_path / "o.jsonl").read_text() == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("NaN", "NaN is not JSON; repair the line"),
        ("-Infinity", "-Infinity is not JSON; repair the line"),
        ('{"a": 1, "b": 2, "a": 1}', "key 'a' occurs twice; repair the line"),
    ],
)
def test_values_that_would_be_lost_are_refused(tmp_path, value, message):
    """A table is not written if a line has a constant that is not JSON, or a key twice."""
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"text": "low"}}\n\n{{"text": "low", "x": [{value}]}}\n')
    with pytest.raises(CorpusError, match=rf"t\.jsonl:3: {message}"):
        encode_one(ENCODER, [str(path)], tmp_path / "o.jsonl", job=EncodeJob(column="text"))
    assert not (tmp_path / "o.jsonl").exists()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_an_error_leaves_no_open_writer(tmp_path):
    """After an error in a later row, the writer of Parquet is closed, and no output appears."""
    table = pa.table({"text": ["low", None]})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=1)
    path = str(tmp_path / "t.parquet")
    with pytest.raises(CorpusError, match="is null"):
        encode_one(ENCODER, [path], tmp_path / "o.parquet", job=EncodeJob(column="text"))
    gc.collect()
    assert not (tmp_path / "o.parquet").exists()


def test_several_tables_of_one_kind_become_one(tmp_path):
    """Tables with equal columns are joined, with one header; others are refused."""
    for name in ("a.csv", "b.csv"):
        write_table(tmp_path / name, rows_of(["low", "new"], "flat"), "flat")
    paths = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    assert encode_one(ENCODER, paths, tmp_path / "o.csv", job=EncodeJob(column="text")) == 4
    assert (tmp_path / "o.csv").read_text().count("text") == 1
    (tmp_path / "c.csv").write_text("text\nlow\n")
    paths.append(str(tmp_path / "c.csv"))
    with pytest.raises(ConfigError, match=r"c\.csv: other columns than in the first file"):
        encode_one(ENCODER, paths, tmp_path / "o.csv", job=EncodeJob(column="text"))
    paths[2] = write_table(tmp_path / "d.jsonl", rows_of(["low"], "flat"), "flat")
    with pytest.raises(
        ConfigError, match=r"d\.jsonl: JSON lines, but the output or another file is CSV"
    ):
        encode_one(ENCODER, paths, tmp_path / "o.csv", job=EncodeJob(column="text"))


def test_jobs_that_make_no_sense_are_refused(tmp_path):
    """A job of a table says what to do if its options exclude each other."""
    for options, message in (
        ({"to_column": "ids"}, "to_column needs the column of a table; add column='text'"),
        ({"fields": 1, "column": "text"}, "fields and column exclude each other"),
        ({"form": "npy", "column": "a", "to_column": "b"}, "npy is not a table; choose the form"),
        ({"form": "bin", "fields": "1,2"}, "fields 1,2 would be mixed in bin; encode one field"),
    ):
        with pytest.raises(ConfigError, match=message):
            EncodeJob(**options)
    for ending in ("jsonl", "parquet"):
        path = write_table(tmp_path / f"u.{ending}", rows_of(["low"], "flat"), "flat")
        job = EncodeJob("ids", column="text", to_column="id")
        with pytest.raises(ConfigError, match="has a column 'id'; choose another to_column"):
            encode_one(ENCODER, [path], tmp_path / f"o.{ending}", job=job)


def test_a_piece_with_a_line_end_is_never_two_lines(tmp_path):
    """If line ends are part of pieces, lines and TSV are refused, and tables and ids are written."""
    encoder = Encoder(vocabulary("none", "metaspace"))
    path = write_table(tmp_path / "t.jsonl", rows_of(["low", "a\nb"], "flat"), "flat")
    with pytest.raises(CorpusError, match=r"t\.jsonl:2: a piece contains a line end"):
        list(encode_stream(encoder, [path], job=EncodeJob(column="text")))
    lines = b"".join(encode_stream(encoder, [path], job=EncodeJob("ids", column="text")))
    assert lines.count(b"\n") == 2
    encode_one(encoder, [path], tmp_path / "o.jsonl", job=EncodeJob(column="text"))
    assert "\n" in read_table(tmp_path / "o.jsonl")[1]["text"]


def test_empty_tables_are_written(tmp_path):
    """A table without rows becomes one without rows."""
    (tmp_path / "t.jsonl").write_text("")
    (tmp_path / "t.csv").write_text("id,text\n")
    table = parquet.read_table(write_table(tmp_path / "a.parquet", rows_of(["x"], "flat"), "flat"))
    parquet.write_table(table.slice(0, 0), tmp_path / "t.parquet")
    for ending in ("jsonl", "csv", "parquet"):
        output = tmp_path / f"o.{ending}"
        job = EncodeJob("ids", column="text")
        assert encode_one(ENCODER, [str(tmp_path / f"t.{ending}")], output, job=job) == 0
        assert read_table(output) == []
    assert (tmp_path / "o.csv").read_text() == "id,text\n"
    job = EncodeJob(column="text", to_column="pieces")
    encode_one(ENCODER, [str(tmp_path / "t.csv")], tmp_path / "o.csv", job=job)
    assert (tmp_path / "o.csv").read_text() == "id,text,pieces\n"
    assert parquet.read_table(tmp_path / "o.parquet").column_names == ["id", "text", "last"]


def test_workers_send_no_tables(tmp_path):
    """A table that other processes encode is refused as one output, instead of written empty."""
    path = tmp_path / "t.tsv"
    path.write_text("low\tnew\n")
    job = EncodeJob(fields=(1, 2))
    with pytest.raises(ConfigError, match="workers do not send tables; encode each file into"):
        list(encode_stream(ENCODER, [str(path)], job=job, parts=encode_to_parts))
