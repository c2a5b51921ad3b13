"""`volt binarize`: from text to what fairseq reads, and what is refused, with the options to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import TEXT, listed
from support.indexed_ids import packed, unpacked


@pytest.fixture
def model(run):
    """Search the vocabulary of the corpus."""
    run("search corpus.txt -q -o v.volt --special <2de>")
    return "v.volt"


def _sentences(prefix):
    return unpacked(Path(f"{prefix}.bin").read_bytes(), Path(f"{prefix}.idx").read_bytes())


def _encoded(run, model):
    return [
        [int(id_) for id_ in line.split()]
        for line in run(f"encode -m {model} --form ids corpus.txt").lines
    ]


def test_the_ids_are_those_of_encode_with_eos_behind(run, model, tmp_path):
    """Each sentence has the ids of `encode --form ids` and eos; empty lines are kept."""
    expected = [[*ids, 2] for ids in _encoded(run, model)]
    n = sum(map(len, expected))
    done = run(f"binarize -m {model} corpus.txt -o train.de-en.de")
    assert (done.stdout, done.stderr.decode().strip()) == (
        b"",
        f"train.de-en.de: 80 lines, {n} ids as u16",
    )
    assert listed(tmp_path) == ["corpus.txt", "train.de-en.de.bin", "train.de-en.de.idx", "v.volt"]
    both = [(tmp_path / f"train.de-en.de.{ending}").read_bytes() for ending in ("bin", "idx")]
    assert tuple(both) == packed(expected, "u16")
    run(f"binarize -m {model} -q -o b.bin", stdin=b"\n" + TEXT.encode() + b"\n")
    assert _sentences("b") == [[2], *expected, [2]]


def test_what_stands_around_lines_is_asked_for(run, model):
    """--bos, --prepend and --eos take ids, tokens and none; --dtype sets the type of ids."""
    ids = _encoded(run, model)
    run(
        f"binarize -m {model} corpus.txt -q -o out/ --bos 1 --prepend <2de> --eos 9",
    )
    assert _sentences("out/corpus.txt") == [[1, 4, *line, 9] for line in ids]
    run(f"binarize -m {model} corpus.txt -q -o a --eos none --dtype i64")
    assert Path("a.bin").read_bytes() == packed(ids, "i64")[0]


def test_documents_write_the_index_of_megatron(run, model, tmp_path):
    """--documents line, file and blank write and report the documents."""
    ids = _encoded(run, model)[:3]
    text = "\n".join(TEXT.splitlines()[:2]) + "\n\n" + TEXT.splitlines()[2] + "\n"
    (tmp_path / "t.txt").write_text(text)
    lines = {"line": [*ids[:2], [], ids[2]], "file": [*ids[:2], [], ids[2]], "blank": ids}
    bounds = {"line": range(5), "file": [0, 4], "blank": [0, 2, 3]}
    n_documents = {
        "line": "4 documents, 4 lines",
        "file": "1 document, 4 lines",
        "blank": "2 documents, 3 lines",
    }
    for kind, sentences in lines.items():
        expected = packed([[*line, 2] for line in sentences], "i32", documents=bounds[kind])
        options = ["-m", model, "--documents", kind, "--dtype", "i32", "-o"]
        made = [
            run("binarize", *options, "out/", "t.txt"),
            run("binarize", *options, "one", stdin=text.encode()),
        ]
        for prefix, done in zip(("out/t.txt", "one"), made, strict=True):
            assert (
                tuple((tmp_path / f"{prefix}.{ending}").read_bytes() for ending in ("bin", "idx"))
                == expected
            )
            assert done.stderr.decode().startswith(f"{prefix}: {n_documents[kind]}, ")


REFUSED = {
    "stdout": (
        ["-o", "-"],
        2,
        "-o -: ids are two files, .bin and .idx, but stdout takes only one; name a file",
    ),
    "token": (
        ["-o", "a", "--eos", "</x>"],
        2,
        "eos '</x>' is not a token of the vocabulary; give one of its special",
    ),
    "negative": (["-o", "a", "--bos", "-5"], 2, "bos is -5; give 0 or more"),
    "too small": (
        ["-o", "a", "--dtype", "u8", "--eos", "300"],
        2,
        "dtype 'u8' allows ids up to 255, but the",
    ),
    "dtype of fairseq": (
        ["-o", "a", "--documents", "file", "--dtype", "u64"],
        2,
        "Megatron does not read the dtype 'u64'; pass --dtype i64",
    ),
    "no folder": (["-o", "none/a"], 1, "none/a.idx: cannot be written: no such file or directory"),
    "no place": ([], 2, "Missing option '-o' / '--output'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_is_reported_in_options(run, model, tmp_path, kind):
    """Each error names the option, and no file is written."""
    options, status, message = REFUSED[kind]
    assert (
        message in run(f"binarize -m {model} corpus.txt", *options, status=status).stderr.decode()
    )
    assert listed(tmp_path) == ["corpus.txt", "v.volt"]


def test_no_input_is_written_over(run, model, tmp_path):
    """A text or vocabulary with the name of an output is not replaced."""
    (tmp_path / "t.idx").write_text(TEXT)
    for arguments in (["-m", model, "t.idx", "-o", "t"], ["-m", "v.volt", "corpus.txt", "-o", "w"]):
        if arguments[-1] == "w":
            (tmp_path / "w.bin").symlink_to("v.volt")
        assert "would be written over" in run("binarize", *arguments, status=2).stderr.decode()
    assert (tmp_path / "t.idx").read_text() == TEXT
