"""`volt binarize`: from text to the files that fairseq and Megatron read, and refused options."""

from pathlib import Path

import pytest
from support.commands import TEXT, listed, search_once
from support.indexed_ids import packed, unpacked


@pytest.fixture
def model(run):
    """Search the vocabulary of the corpus."""
    return search_once(run, "--special", "<2de>")


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
    assert done == (b"", f"train.de-en.de: 80 lines, {n} ids as u16\n".encode())
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
    with_blank = [*ids[:2], [], ids[2]]
    for kind, lines, bounds, sizes in (
        ("line", with_blank, range(5), "4 documents, 4 lines"),
        ("file", with_blank, [0, 4], "1 document, 4 lines"),
        ("blank", ids, [0, 2, 3], "2 documents, 3 lines"),
    ):
        expected = packed([[*line, 2] for line in lines], "i32", documents=bounds)
        command = f"binarize -m {model} --documents {kind} --dtype i32 -o"
        for prefix, done in (
            ("out/t.txt", run(f"{command} out/ t.txt")),
            ("one", run(f"{command} one", stdin=text.encode())),
        ):
            files = [Path(f"{prefix}.{ending}").read_bytes() for ending in ("bin", "idx")]
            assert tuple(files) == expected
            assert done.message.startswith(f"{prefix}: {sizes}, ")


REFUSED = [
    ("-o -", 2, "-o -: ids are two files, .bin and .idx, but stdout takes only one; name a file"),
    ("-o a --eos </x>", 2, "eos '</x>' is not a token of the vocabulary; give one of its special"),
    ("-o a --bos -5", 2, "bos is -5; give 0 or more"),
    ("-o a --dtype u8 --eos 300", 2, "dtype 'u8' allows ids up to 255, but the"),
    (
        "-o a --documents file --dtype u64",
        2,
        "Megatron does not read the dtype 'u64'; pass --dtype i64",
    ),
    ("-o none/a", 1, "none/a.idx: cannot be written: no such file or directory"),
    ("", 2, "Missing option '-o' / '--output'"),
]


@pytest.mark.parametrize(("options", "status", "message"), REFUSED)
def test_wrong_options_are_refused(run, model, tmp_path, options, status, message):
    """Each wrong option of `volt binarize` gives an error that names it, and no file is written."""
    refused = run(f"binarize -m {model} corpus.txt {options}", status=status)
    assert message in refused.message
    assert listed(tmp_path) == ["corpus.txt", "v.volt"]


def test_outputs_do_not_replace_inputs(run, model, tmp_path):
    """`volt binarize` refuses to replace a text or vocabulary that has the name of an output."""
    (tmp_path / "t.idx").write_text(TEXT)
    (tmp_path / "w.bin").symlink_to("v.volt")
    for arguments in ("t.idx -o t", "corpus.txt -o w"):
        refused = run(f"binarize -m {model} {arguments}", status=2)
        assert "would be written over" in refused.message
    assert (tmp_path / "t.idx").read_text() == TEXT
