"""Laws of .bin and .idx: a sentence is the ids of a line, with eos or other special tokens around it."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from drawn import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from indexed_ids import packed, unpacked
from texts_to_encode import LINES, write_texts

from volt.encode import binarize as binarizing
from volt.encode.binarize import Binarized, Documents, binarize, binarize_each
from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, encode_stream
from volt.encode.frames import Frame
from volt.errors import ArgumentError, ConfigError, CorpusError
from volt.files.indexed_dataset import open_ids
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

TOKENS = ("l", "o", "w", "w</w>", "low</w>", "lo", "e")
ENCODER = Encoder(
    Vocabulary(
        merges=(("l", "o"), ("lo", "w</w>")), tokens=TOKENS, special=SpecialTokens(user=("<2de>",))
    )
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Three files: plain, empty, and compressed without a last line end."""
    return write_texts(tmp_path)


def _ids(lines: list[str]) -> list[list[int]]:
    return [ENCODER.encode_ids(line).tolist() for line in lines]


def _both(prefix: Path) -> tuple[bytes, bytes]:
    return Path(f"{prefix}.bin").read_bytes(), Path(f"{prefix}.idx").read_bytes()


@pytest.mark.parametrize("n_threads", [1, 3])
def test_sentences_are_lines_with_eos(files: list[str], tmp_path: Path, n_threads: int) -> None:
    """Sentence i is line i of `encode --form ids`, and eos, in the bytes of an independent writer."""
    result = binarize(ENCODER, files, tmp_path / "out", job=EncodeJob("bin", n_threads=n_threads))
    text = b"".join(encode_stream(ENCODER, files, job=EncodeJob("ids"))).decode()
    expected = [[*map(int, line.split()), 2] for line in text.split("\n")[:-1]]
    assert _both(tmp_path / "out") == packed(expected, "u16")
    n_ids = sum(map(len, expected))
    assert result == Binarized(tmp_path / "out", len(LINES) + 3, n_ids, "u16")


def test_each_file_has_its_own_pair(files: list[str], tmp_path: Path) -> None:
    """In a folder, a pair has the name of its file, without the ending of a compressed file."""
    made = list(binarize_each(ENCODER, files, tmp_path / "out"))
    assert [(one.prefix.name, one.n_lines) for one in made] == [
        ("a.txt", 200),
        ("b.txt", 0),
        ("c.txt", 3),
    ]
    for one, lines in zip(made, (LINES, [], LINES[:3]), strict=True):
        assert unpacked(*_both(one.prefix)) == [[*ids, 2] for ids in _ids(lines)]


@given(
    st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=6),
    st.lists(st.integers(0, 99), max_size=3),
    st.data(),
)
def test_a_frame_surrounds_every_line(
    lines: list[list[int]], front: list[int], data: st.DataObject
) -> None:
    """Each line, also an empty one, has its ids between those of the frame."""
    back = data.draw(st.lists(st.integers(0, 99), max_size=3))
    ids = np.array([id_ for line in lines for id_ in line], np.int32)
    ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
    made, sizes = Frame(tuple(front), tuple(back)).around(ids, ends)
    expected = [front + line + back for line in lines]
    assert made.tolist() == [id_ for line in expected for id_ in line]
    assert sizes.tolist() == [len(line) for line in expected]


def test_frames_are_made_of_tokens_or_ids(files: list[str], tmp_path: Path) -> None:
    """bos, then the token to prepend, then the line, then eos; each is a token, an id, or absent."""
    frame = Frame.of(ENCODER.vocabulary, bos="<s>", prepend="<2de>", eos=300)
    assert frame == Frame((1, 4), (300,))
    binarize(ENCODER, files[:1], tmp_path / "out", frame=frame)
    assert unpacked(*_both(tmp_path / "out")) == [[1, 4, *ids, 300] for ids in _ids(LINES)]
    binarize(ENCODER, files[:1], tmp_path / "out", frame=Frame(), dtype="u8")
    assert _both(tmp_path / "out") == packed(_ids(LINES), "u8")
    for wrong, message in (
        ("<x>", "prepend '<x>' is not a token of the vocabulary"),
        (-1, "prepend is -1; give 0 or more"),
    ):
        with pytest.raises(ConfigError, match=message):
            Frame.of(ENCODER.vocabulary, prepend=wrong)


def test_a_dtype_that_is_too_small_is_refused(files: list[str], tmp_path: Path) -> None:
    """A dtype that cannot hold the ids of the vocabulary or the frame is reported before any file is read."""
    for id_, dtype, message in (
        (256, "u8", "dtype 'u8' allows ids up to 255, but the largest id is 256; pass dtype='u16'"),
        (70_000, "u16", "allows ids up to 65,535, but the largest id is 70,000; pass dtype='i32'"),
    ):
        with pytest.raises(ConfigError, match=message):
            binarize(ENCODER, files, tmp_path / "out", frame=Frame((), (id_,)), dtype=dtype)
    assert not (tmp_path / "out.idx").exists()
    assert binarize(ENCODER, files, tmp_path / "out", frame=Frame((), (70_000,))).dtype == "i32"
    assert binarize(ENCODER, files, tmp_path / "o", frame=Frame((255,)), dtype="u8").dtype == "u8"


def test_inputs_are_not_overwritten_and_outputs_are_complete(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output that is an input is refused; an invalid text leaves no output."""
    os.link(files[0], tmp_path / "x.bin")
    with pytest.raises(ConfigError, match=r"x\.bin: would be written over .*a\.txt, which is read"):
        binarize(ENCODER, files, tmp_path / "x")
    with pytest.raises(ConfigError, match="stdin has no name for an output in a folder"):
        list(binarize_each(ENCODER, ["-"], tmp_path / "out"))
    (tmp_path / "bad.txt").write_bytes(b"low\n\xff\n")
    with pytest.raises(CorpusError, match=r"bad\.txt:2: invalid UTF-8"):
        binarize(ENCODER, [str(tmp_path / "bad.txt")], tmp_path / "y")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.txt",
        "b.txt",
        "bad.txt",
        "c.txt.gz",
        "x.bin",
    ]
    assert binarizing.pair_files(tmp_path / "y.bin") == [tmp_path / "y.bin", tmp_path / "y.idx"]


def naive_documents(texts: list[list[str]], documents: Documents) -> list[list[str]]:
    """Return the lines of each document, by the definition of each kind."""
    if documents == "line":
        return [[line] for lines in texts for line in lines]
    if documents == "file":
        return [lines for lines in texts if lines]
    found: list[list[str]] = [[]]
    for lines in texts:
        for line in [*lines, ""]:
            if not line:
                found.append([])
            else:
                found[-1].append(line)
    return [lines for lines in found if lines]


def write_lines(folder: Path, texts: list[list[str]]) -> list[str]:
    """Write a file for each text, and return their paths."""
    paths = [folder / f"{number}.txt" for number in range(len(texts))]
    for path, lines in zip(paths, texts, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    return list(map(str, paths))


def expected_pair(documents: list[list[str]], frame: Frame) -> tuple[bytes, bytes]:
    """Return the files of an independent writer."""
    bounds = np.cumsum([0, *map(len, documents)]).tolist()
    lines = [[*frame.front, *ids, *frame.back] for document in documents for ids in _ids(document)]
    return packed(lines, "u16", documents=bounds)


TEXTS = st.lists(
    st.lists(st.sampled_from(["", "low", "lo w", "wow low"]), max_size=6), min_size=1, max_size=4
)


@settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    TEXTS, st.sampled_from(["line", "file", "blank"]), st.sampled_from([Frame(), Frame((1,), (2,))])
)
def test_documents_equal_the_naive_reading(
    tmp_path: Path, texts: list[list[str]], documents: Documents, frame: Frame
) -> None:
    """One pair of all files, and one pair of each, have the documents of a naive reading of the text."""
    paths = write_lines(tmp_path, texts)
    made = binarize(ENCODER, paths, tmp_path / "out", frame=frame, documents=documents)
    naive = naive_documents(texts, documents)
    assert _both(tmp_path / "out") == expected_pair(naive, frame)
    assert (made.n_documents, made.n_lines) == (len(naive), sum(map(len, naive)))
    for one, text in zip(
        binarize_each(ENCODER, paths, tmp_path / "each", frame=frame, documents=documents),
        texts,
        strict=True,
    ):
        assert _both(one.prefix) == expected_pair(naive_documents([text], documents), frame)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_document_spans_chunks(tmp_path: Path, n_threads: int) -> None:
    """Documents longer than a chunk of text stay whole, also with truncated lines."""
    text = [*["low lo"] * 40_000, "", "", *["lo w lo"] * 30_000]
    paths = write_lines(tmp_path, [text, ["low"]])
    job = EncodeJob("bin", n_threads=n_threads, truncate=2)
    binarize(ENCODER, paths, tmp_path / "out", frame=Frame((), (2,)), documents="blank", job=job)
    found = open_ids(tmp_path / "out")
    found.check()
    assert found.documents is not None
    assert found.documents.tolist() == [0, 40_000, 70_000, 70_001]
    assert set(found.sizes.tolist()) == {2, 3}


def test_a_second_run_writes_the_other_index(files: list[str], tmp_path: Path) -> None:
    """A pair with documents replaces one without, and vice versa; without documents, its bytes are fairseq's."""
    results = list[tuple[bytes, bytes]]()
    for documents in (None, "file", None, "line"):
        made = binarize(ENCODER, files, tmp_path / "out", documents=documents)  # type: ignore[arg-type]
        results.append(_both(tmp_path / "out"))
        assert (made.n_documents is None) == (documents is None)
    lines = [[*ids, 2] for ids in _ids([*LINES, *LINES[:3]])]
    assert results[0] == results[2] == packed(lines, "u16")
    assert results[1] == packed(lines, "u16", documents=[0, len(LINES), len(lines)])
    assert results[3] == packed(lines, "u16", documents=range(len(lines) + 1))


REFUSED_DOCUMENTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"documents": "page"}, ConfigError, "unknown documents 'page'; choose from line, file, blank"),
    ({"documents": 5}, ArgumentError, "documents is 5"),
    ({"dtype": "u32"}, ConfigError, "Megatron does not read the dtype 'u32'; pass dtype='i64'"),
    (
        {"documents": "blank", "job": EncodeJob("bin", eos=True)},
        ConfigError,
        "no line is blank with bos, eos or pad_to",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED_DOCUMENTS)
def test_invalid_documents_are_refused(
    files: list[str], tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """An unknown kind, a dtype that Megatron does not read, and lines that cannot be blank, before any file is read."""
    with pytest.raises(error, match=message):
        binarize(ENCODER, files, tmp_path / "out", **{"documents": "line"} | options)
    assert not (tmp_path / "out.idx").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Megatron, about libraries for GPUs
@pytest.mark.parametrize("dtype", ["u16", "i32"])
def test_megatron_reads_every_sentence_and_document(
    files: list[str], tmp_path: Path, dtype: str
) -> None:
    """Megatron's IndexedDataset reads the sentences and documents, its builder writes equal bytes, and the samples of
    its GPTDataset have the ids of documents."""
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
        binarize(ENCODER, paths, prefix, documents=documents, dtype=dtype)  # type: ignore[arg-type]
        read = indexed.IndexedDataset(str(prefix))
        assert read.document_indices.tolist() == bounds
        lines = [line for lines in texts for line in lines if line or documents != "blank"]
        assert [read[number].tolist() for number in range(len(read))] == [
            [*ids, 2] for ids in _ids(lines)
        ]
        builder = indexed.IndexedDatasetBuilder(
            str(tmp_path / "own.bin"), dtype={"u16": np.uint16, "i32": np.int32}[dtype]
        )
        for first, last in pairwise(bounds):
            for number in range(first, last):
                builder.add_item(torch.from_numpy(read[number]))
            builder.end_document()
        builder.finalize(str(tmp_path / "own.idx"))
        assert _both(prefix) == _both(tmp_path / "own")

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
