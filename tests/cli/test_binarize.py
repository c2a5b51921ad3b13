"""`volt binarize`: from text to the files that fairseq and Megatron read, and refused options."""

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


def test_sentences_are_the_ids_of_encode_and_eos(run, model, tmp_path):
    """Each sentence of `volt binarize` has the ids of `encode --form ids`, then eos; an empty line
    is eos alone."""
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


def test_options_set_the_ids_around_lines(run, model):
    """--bos, --prepend and --eos take an id, a token or none; --dtype sets the type of the ids."""
    ids = _encoded(run, model)
    run(
        f"binarize -m {model} corpus.txt -q -o out/ --bos 1 --prepend <2de> --eos 9",
    )
    assert _sentences("out/corpus.txt") == [[1, 4, *line, 9] for line in ids]
    run(f"binarize -m {model} corpus.txt -q -o a --eos none --dtype i64")
    assert Path("a.bin").read_bytes() == packed(ids, "i64")[0]


def test_documents_write_the_index_of_megatron(run, model, tmp_path):
    """--documents line, file and blank write Megatron's index, and report the number of documents."""
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
def test_wrong_options_are_refused(run, model, tmp_path, kind):
    """Each wrong option of `volt binarize` gives an error that names it, and no file is written."""
    options, status, message = REFUSED[kind]
    assert (
        message in run(f"binarize -m {model} corpus.txt", *options, status=status).stderr.decode()
    )
    assert listed(tmp_path) == ["corpus.txt", "v.volt"]


def test_outputs_do_not_replace_inputs(run, model, tmp_path):
    """`volt binarize` refuses to replace a text or vocabulary that has the name of an output."""
    (tmp_path / "t.idx").write_text(TEXT)
    for arguments in (["-m", model, "t.idx", "-o", "t"], ["-m", "v.volt", "corpus.txt", "-o", "w"]):
        if arguments[-1] == "w":
            (tmp_path / "w.bin").symlink_to("v.volt")
        assert "would be written over" in run("binarize", *arguments, status=2).stderr.decode()
    assert (tmp_path / "t.idx").read_text() == TEXT
