"""Laws of .bin and .idx: a sentence is the ids of a line, with eos or other special tokens around it."""

import os
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.indexed_ids import packed, unpacked
from support.texts_to_encode import LINES, write_texts

from volt.encode.binarize import Binarized, binarize, binarize_each, pair_files
from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, encode_stream
from volt.encode.frames import Frame
from volt.errors import ArgumentError, ConfigError, CorpusError
from volt.files.indexed_dataset import open_ids
from volt.vocabulary import Vocabulary

TOKENS = ("l", "o", "w", "w</w>", "low</w>", "lo", "e")
ENCODER = Encoder(Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=TOKENS))


@pytest.fixture
def files(tmp_path):
    """Return three files: plain, empty, and compressed without a last line end."""
    return write_texts(tmp_path)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def ids_of(lines):
    return [ENCODER.encode_ids(line).tolist() for line in lines]


def read(prefix):
    return Path(f"{prefix}.bin").read_bytes(), Path(f"{prefix}.idx").read_bytes()


@pytest.mark.parametrize("n_threads", [1, 3])
def test_sentences_are_lines_with_eos(files, out, n_threads):
    """`binarize` writes, for line i, the ids of `volt encode --form ids` and eos, in the bytes of
    an independent writer.
    """
    result = binarize(ENCODER, files, out, job=EncodeJob("bin", n_threads=n_threads))
    text = b"".join(encode_stream(ENCODER, files, job=EncodeJob("ids"))).decode()
    expected = [[*map(int, line.split()), 2] for line in text.split("\n")[:-1]]
    assert read(out) == packed(expected, "u16")
    assert result == Binarized(out, len(LINES) + 3, sum(map(len, expected)), "u16")


def test_each_file_has_its_own_pair(files, out):
    """`binarize_each` names a pair after its file, without the ending of compression."""
    results = list(binarize_each(ENCODER, files, out))
    assert [result.prefix.name for result in results] == ["a.txt", "b.txt", "c.txt"]
    for result, lines in zip(results, (LINES, [], LINES[:3]), strict=True):
        assert result.n_lines == len(lines)
        assert unpacked(*read(result.prefix)) == [[*ids, 2] for ids in ids_of(lines)]


def test_sentences_have_a_frame(files, out):
    """`binarize` puts the ids of `frame` around each line; an empty frame adds none."""
    binarize(ENCODER, files[:1], out, frame=Frame((1, 4), (300,)))
    assert unpacked(*read(out)) == [[1, 4, *ids, 300] for ids in ids_of(LINES)]
    binarize(ENCODER, files[:1], out, frame=Frame(), dtype="u8")
    assert read(out) == packed(ids_of(LINES), "u8")


def test_a_dtype_that_is_too_small_is_refused(files, out):
    """`binarize` refuses a dtype that cannot hold the ids of the vocabulary or the frame, before it
    writes a file.
    """
    for id_, dtype, message in (
        (256, "u8", "dtype 'u8' allows ids up to 255, but the largest id is 256; pass dtype='u16'"),
        (70_000, "u16", "allows ids up to 65,535, but the largest id is 70,000; pass dtype='i32'"),
    ):
        with pytest.raises(ConfigError, match=message):
            binarize(ENCODER, files, out, frame=Frame((), (id_,)), dtype=dtype)
    assert not out.with_name("out.idx").exists()
    assert binarize(ENCODER, files, out, frame=Frame((), (70_000,))).dtype == "i32"
    assert binarize(ENCODER, files, out, frame=Frame((255,)), dtype="u8").dtype == "u8"


def test_inputs_are_not_overwritten_and_outputs_are_complete(files, out):
    """`binarize` refuses an output that is an input, and leaves no output of an invalid text."""
    os.link(files[0], f"{out}.bin")
    before = set(out.parent.iterdir())
    with pytest.raises(ConfigError, match=r"out\.bin: would be written over .*a\.txt, which is"):
        binarize(ENCODER, files, out)
    with pytest.raises(ConfigError, match="stdin has no name for an output in a folder"):
        list(binarize_each(ENCODER, ["-"], out))
    assert set(out.parent.iterdir()) == before
    bad = out.with_name("bad.txt")
    bad.write_bytes(b"low\n\xff\n")
    with pytest.raises(CorpusError, match=r"bad\.txt:2: invalid UTF-8"):
        binarize(ENCODER, [str(bad)], out.with_name("y"))
    assert set(out.parent.iterdir()) == before | {bad}
    y = out.with_name("y")
    assert pair_files(Path(f"{y}.bin")) == pair_files(y) == [Path(f"{y}.bin"), Path(f"{y}.idx")]


def naive_documents(texts, documents):
    """Return the lines of each document, by the definition of each kind."""
    if documents == "line":
        return [[line] for lines in texts for line in lines]
    if documents == "file":
        return [lines for lines in texts if lines]
    result = [[]]
    for lines in texts:
        for line in [*lines, ""]:
            if line:
                result[-1].append(line)
            else:
                result.append([])
    return [lines for lines in result if lines]


def write_lines(folder, texts):
    """Write a file for each text, and return their paths."""
    paths = [folder / f"{number}.txt" for number in range(len(texts))]
    for path, lines in zip(paths, texts, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    return list(map(str, paths))


def expected_pair(documents, frame):
    """Return the files of an independent writer."""
    bounds = np.cumsum([0, *map(len, documents)]).tolist()
    lines = [
        [*frame.front, *ids, *frame.back] for document in documents for ids in ids_of(document)
    ]
    return packed(lines, "u16", documents=bounds)


TEXTS = st.lists(
    st.lists(st.sampled_from(["", "low", "lo w", "wow low"]), max_size=6), min_size=1, max_size=4
)


@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    TEXTS, st.sampled_from(["line", "file", "blank"]), st.sampled_from([Frame(), Frame((1,), (2,))])
)
def test_documents_equal_the_naive_reading(tmp_path, texts, documents, frame):
    """`binarize` and `binarize_each` write the documents that a naive reading of the text finds."""
    paths = write_lines(tmp_path, texts)
    options = {"frame": frame, "documents": documents}
    results = [binarize(ENCODER, paths, tmp_path / "out", **options)]
    results += binarize_each(ENCODER, paths, tmp_path / "each", **options)
    for result, some in zip(results, [texts, *([text] for text in texts)], strict=True):
        naive = naive_documents(some, documents)
        assert read(result.prefix) == expected_pair(naive, frame)
        assert (result.n_documents, result.n_lines) == (len(naive), sum(map(len, naive)))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_document_spans_chunks(tmp_path, out, n_threads):
    """A document that is longer than a chunk of text stays one document, even if its lines are
    truncated.
    """
    text = [*["low lo"] * 40_000, "", "", *["lo w lo"] * 30_000]
    paths = write_lines(tmp_path, [text, ["low"]])
    job = EncodeJob("bin", n_threads=n_threads, truncate=2)
    binarize(ENCODER, paths, out, documents="blank", job=job)
    pair = open_ids(out)
    pair.check()
    assert pair.documents is not None
    assert pair.documents.tolist() == [0, 40_000, 70_000, 70_001]
    assert set(pair.sizes.tolist()) == {2, 3}


def test_a_second_run_writes_the_other_index(files, out):
    """`binarize` with documents replaces a pair without them, and the reverse, in the bytes of an
    independent writer.
    """
    lines = [[*ids, 2] for ids in ids_of([*LINES, *LINES[:3]])]
    for kind, bounds in (
        (None, None),
        ("file", [0, len(LINES), len(lines)]),
        (None, None),
        ("line", range(len(lines) + 1)),
    ):
        result = binarize(ENCODER, files, out, documents=kind)
        assert read(out) == packed(lines, "u16", documents=bounds)
        assert (result.n_documents is None) == (kind is None)


REFUSED_DOCUMENTS = [
    ({"documents": "page"}, ConfigError, "unknown documents 'page'; choose from line, file, blank"),
    ({"documents": 5}, ArgumentError, "documents is 5"),
    ({"dtype": "u32"}, ConfigError, "Megatron does not read the dtype 'u32'; pass dtype='i64'"),
    (
        {"documents": "blank", "job": EncodeJob("bin", eos=True)},
        ConfigError,
        "needs blank lines, but bos, eos or pad_to in the job fill them",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED_DOCUMENTS)
def test_invalid_documents_are_refused(files, tmp_path, options, error, message):
    """`binarize` refuses unknown kinds of documents, and options that these cannot have, before it
    writes a file.
    """
    with pytest.raises(error, match=message):
        binarize(ENCODER, files, tmp_path / "out", **{"documents": "line"} | options)
    assert not (tmp_path / "out.idx").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Megatron, about libraries for GPUs
@pytest.mark.parametrize("dtype", ["u16", "i32"])
def test_megatron_reads_every_sentence_and_document(files, tmp_path, dtype):
    """Megatron's IndexedDataset and GPTDataset read the sentences and documents of `binarize`.

    Megatron's own builder writes equal bytes.
    """
    torch = pytest.importorskip("torch")
    indexed, gpt, splits = (
        pytest.importorskip(f"megatron.core.datasets.{name}")
        for name in ("indexed_dataset", "gpt_dataset", "utils")
    )
    texts = [["low", "", "lo w", "wow"], ["low low"]]
    paths = write_lines(tmp_path, texts)
    for documents, bounds in (
        ("line", [0, 1, 2, 3, 4, 5]),
        ("file", [0, 4, 5]),
        ("blank", [0, 1, 3, 4]),
    ):
        prefix = tmp_path / documents
        binarize(ENCODER, paths, prefix, documents=documents, dtype=dtype)
        pair = indexed.IndexedDataset(str(prefix))
        assert pair.document_indices.tolist() == bounds
        lines = [line for lines in texts for line in lines if line or documents != "blank"]
        sentences = [pair[number] for number in range(len(pair))]
        assert [ids.tolist() for ids in sentences] == [[*ids, 2] for ids in ids_of(lines)]
        builder = indexed.IndexedDatasetBuilder(
            str(tmp_path / "own.bin"), dtype={"u16": np.uint16, "i32": np.int32}[dtype]
        )
        for first, last in pairwise(bounds):
            for ids in sentences[first:last]:
                builder.add_item(torch.from_numpy(ids))
            builder.end_document()
        builder.finalize(str(tmp_path / "own.idx"))
        assert read(prefix) == read(tmp_path / "own")

    tokenizer = SimpleNamespace(
        eod=2, pad=-1, vocab_size=len(ENCODER.vocabulary), unique_identifiers={"name": "volt"}
    )
    config = gpt.GPTDatasetConfig(
        random_seed=1,
        sequence_length=4,
        tokenizer=tokenizer,
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        split="1,0,0",
        blend=([str(tmp_path / "line")], None),
        path_to_cache=str(tmp_path),
    )
    data = gpt.GPTDataset.build_low_level_dataset(str(tmp_path / "line"), config)
    indices = np.arange(len(data), dtype=np.int32)
    samples = gpt.GPTDataset(
        data, str(tmp_path / "line"), indices, None, splits.Split.train, config
    )
    order = samples.document_index.tolist()
    tokens = np.concatenate([data[number] for number in order]).tolist()
    assert len(samples) == (len(tokens) - 1) // 4
    for place, number in enumerate(samples.shuffle_index.tolist()):
        assert samples[place]["tokens"].tolist() == tokens[4 * number : 4 * number + 4]
        assert samples[place]["labels"].tolist() == tokens[4 * number + 1 : 4 * number + 5]
