"""`volt decode` reads every output of `volt encode`, and reports other inputs."""

from pathlib import Path

import numpy as np
import pytest
from support.commands import TEXT

LINES = "low <url>x lower\n\n é🎉 e\u0301 12 345 <u r> </w> ▁ ▁low @@ Ġ <unk> </s>\n   \nnewest\n"
FORMS = ("pieces", "ids", "npy", "bin")
SEARCHES = {
    "suffix": [],
    "prefix": ["--marker", "prefix"],
    "bytes": ["--pretokenizer", "gpt2", "--marker", "none"],
    "spaces": ["--pretokenizer", "metaspace", "--marker", "none"],
    "byte tokens": ["--byte-fallback", "--special", "<url>", "--special", "<u r>"],
    "user tokens": ["--special", "<url>", "--special", "<u r>"],
    "user tokens, prefix": ["--special", "<url>", "--special", "<u r>", "--marker", "prefix"],
    "spaces and a prefix": ["--pretokenizer", "metaspace", "--marker", "prefix"],
}


@pytest.mark.parametrize("search", SEARCHES)
def test_every_output_of_encode_is_decoded_without_a_note(run, search):
    """`volt decode` prints no note for pieces of `volt encode`, even of unknown characters, special
    tokens and marks in the text."""
    run("search corpus.txt -q -o v.volt", *SEARCHES[search])
    Path("text.txt").write_text(LINES + TEXT)
    options = [""]
    if search in ("suffix", "byte tokens", "user tokens"):
        options.append("--separator @@")
    for option in options:
        run(f"encode -m v.volt text.txt -o out.pieces -q {option}")
        assert run(f"decode -m v.volt out.pieces {option}").message == ""


@pytest.fixture
def model(run):
    """Search the vocabulary of the corpus."""
    run("search corpus.txt -q -o v.volt")
    return "v.volt"


def _outputs(run, model, *, text):
    Path("text.txt").write_text(text)
    for form in FORMS:
        run(f"encode -m {model} text.txt --form {form} -o out.{form}")
    run(f"binarize -m {model} text.txt -o pair -q")


def test_each_form_is_decoded_to_its_text(run, model):
    """`volt decode` restores the text from pieces, ids and arrays, with any number of lines."""
    text = "\n".join(TEXT.split("\n")[:1] * 9) + "\n\n"
    for source in (text, ""):
        _outputs(run, model, text=source)
        for form in FORMS:
            done = run(f"decode -m {model} out.{form} --form {form}")
            assert done == (source.encode(), b"")


REFUSED = {
    "out.ids": "out.ids:1: these are ids, not pieces of the vocabulary; decode them with --form ids",
    "out.npy": "out.npy: an array of ids; decode it with --form npy",
    "out.bin": "out.bin: an array of ids; decode it with --form bin",
    "out.bin --form ids": "out.bin: an array of ids; decode it with --form bin",
    "out.npy.offsets.npy": "out.npy.offsets.npy: not text, but belongs to out.npy",
    "pair.bin": "pair.bin: not text, but belongs to pair.idx",
    "pair.idx": "pair.idx: not text, but belongs to pair.bin",
    "out.npy --form bin": "out.npy: not an array of form bin whose offsets are out.npy.offsets.npy",
    "out.bin --form npy": "out.bin: not an array of form npy whose offsets are out.bin.offsets.npy",
    "out.ids --form npy": "out.ids: not an array of form npy whose offsets are out.ids.offsets.npy",
    "short.bin --form bin": "short.bin: not an array of form bin whose offsets are short.bin.offsets.npy",
    "words.txt": "words.txt:1: 'Unseen' is not a piece of the vocabulary, nor is any other word; give its pieces",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_other_inputs_are_refused(run, model, arguments):
    """`volt decode` refuses ids without --form, damaged arrays and plain text, and writes nothing."""
    _outputs(run, model, text=TEXT)
    np.fromfile("out.bin", "<i4")[1:].tofile("short.bin")
    Path("short.bin.offsets.npy").write_bytes(Path("out.bin.offsets.npy").read_bytes())
    Path("words.txt").write_text("Unseen wordings\nunlike pieces\n")
    done = run(f"decode -m {model} {arguments} -o decoded", status=1)
    assert REFUSED[arguments] in done.message
    assert not Path("decoded").exists()


NOTED = {
    "text": ("t h e</w>\nt h e</w> wordings\n", "first stdin:2: 'wordings'"),
    "without marks": ("t h e</w>\nt h e\n", "first stdin:2: 'e'"),
    "a foreign token": ("<2de> t h e</w>\nt h e</w>\n", "first stdin:1: '<2de>'"),
}


@pytest.mark.parametrize("name", NOTED)
def test_doubtful_lines_are_noted(run, model, name):
    """`volt decode` notes lines with words that are not pieces, or without an end of word, and
    shows the first."""
    text, first = NOTED[name]
    done = run(f"decode -m {model}", stdin=text.encode())
    assert done.message.startswith("note: in 1 of 2 lines, words are not pieces")
    assert first in done.message
    assert done.stdout.count(b"\n") == 2
