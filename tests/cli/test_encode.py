"""`volt encode`, and filters that answer each line at once."""

import gzip
import os
import select
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.commands import VOLT, status_of
from support.drawn import examples
from support.writers import check_answers, writing

from volt.encode.encoder import Encoder
from volt.kernels.warmup import compile_kernels
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary
from volt_cli.decode import _Decoding
from volt_cli.io import write_and_flush_each

TOKENS = ("l", "o", "w", "e", "l</w>", "o</w>", "w</w>", "e</w>", "low</w>", "lo")
VOCABULARY = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=TOKENS)
DEADLINE = 60  # seconds


@given(
    text=st.lists(st.sampled_from([*"lowe \n", "é", "<u>"]), max_size=60).map("".join),
    places=st.lists(st.integers(0, 60), max_size=6),
    form=st.sampled_from(["pieces", "ids", "@@"]),
)
@example(text="loé low<u>\n<u> é\n", places=[5], form="@@")
@settings(max_examples=examples(20))
def test_lines_are_decoded_before_the_next_wait(text, places, form):
    """The decoder yields each complete line before it waits for input, however the input is split
    into writes."""
    vocabulary = replace(VOCABULARY, byte_fallback=True, special=SpecialTokens(user=("<u>",)))
    lines, separator = (
        "".join(f"{line}\n" for line in text.splitlines()).encode(),
        "@@" if form == "@@" else "",
    )
    encoded = Encoder(vocabulary).encode_text(
        lines, form="ids" if form == "ids" else "pieces", separator=separator
    )

    def answers(path, wait):
        decoding = _Decoding(vocabulary, separator)
        kind = "ids" if form == "ids" else "pieces"
        return decoding.decode_text(path, kind, errors="strict", max_line=None, wait=wait)

    with writing([encoded] if encoded else []) as writer:
        expected = b"".join(answers(writer.path, writer))
    assert expected == b"".join(b" ".join(line.split()) + b"\n" for line in lines.splitlines())
    check_answers(encoded, places, answers, expected)


def test_each_text_is_flushed_before_the_next(tmp_path):
    """`write_and_flush_each` flushes each text before it requests the next."""
    path = tmp_path / "out"

    def texts():
        yield b"low\n"
        assert path.read_bytes() == b"low\n"

    with path.open("wb") as file:
        write_and_flush_each(file, texts())


FILTERS = (
    "encode -m v.volt",
    "decode -m v.volt",
    "decode -m v.volt --form ids",
    "translate-input t.yaml --task t",
    "translate-output t.yaml --task t",
)


@pytest.mark.parametrize("line", FILTERS)
@pytest.mark.parametrize("place", ["-", "out"])
def test_filters_end_with_the_reader_of_stdout(
    line,
    place,
    tmp_path,
    monkeypatch,
    capfdbinary,
):
    """A filter that writes to stdout waits for text, and ends when the reader of stdout ends."""
    outlets = []

    def waiting(descriptor, seconds=None, *, outlet=None):
        outlets.append(outlet)
        return True

    monkeypatch.chdir(tmp_path)
    VOCABULARY.save("v.volt")
    Path("t.yaml").write_text("tasks: {t: {type: mono, inputs: {i: {mono: nowhere}}}}")
    monkeypatch.setattr("volt.files.blocks.is_ready", waiting)
    reader, writer = os.pipe()
    os.write(writer, b"4\n" if "ids" in line else b"low</w>\n")
    os.close(writer)
    with os.fdopen(reader):
        assert status_of([*line.split(), f"/dev/fd/{reader}", "-o", place]) == 0
    assert outlets or place == "out"
    assert (capfdbinary.readouterr().out == b"") == (place == "out")
    assert all((outlet is None) == (place == "out") for outlet in outlets)


@pytest.fixture
def model(tmp_path):
    """Write a vocabulary, and compile the loops."""
    VOCABULARY.save(tmp_path / "small.volt")
    compile_kernels("encode")
    return str(tmp_path / "small.volt")


def answer(descriptor):
    """Return the bytes that arrive before the deadline."""
    return os.read(descriptor, 1 << 16) if select.select([descriptor], [], [], DEADLINE)[0] else b""


def test_a_line_passes_open_pipes(model):
    """`volt encode | volt decode` returns each line while the pipes stay open, and ends when the
    reader ends."""
    encoding = subprocess.Popen(
        [*VOLT, "encode", "-m", model], bufsize=0, stdin=-1, stdout=-1, stderr=-1
    )
    decoding = subprocess.Popen(
        [*VOLT, "decode", "-m", model], bufsize=0, stdin=encoding.stdout, stdout=-1, stderr=-1
    )
    try:
        encoding.stdout.close()
        encoding.stdin.write(b"low lo\nlo")
        assert answer(decoding.stdout.fileno()) == b"low lo\n"
        encoding.stdin.write(b"w\r\n")
        assert answer(decoding.stdout.fileno()) == b"low\n"
        decoding.stdout.close()
        assert [process.wait(DEADLINE) for process in (decoding, encoding)] == [0, 0]
        assert decoding.stderr.read() == encoding.stderr.read() == b""
    finally:
        for process in (encoding, decoding):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_shows_only_lines_and_answers(model):
    """At a terminal, `volt encode` answers each typed line without a progress bar, and Ctrl-D ends
    it."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [*VOLT, "encode", "-m", model], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        shown = b""
        for typed in (b"low\n", b"lo w\n"):
            os.write(ours, typed)
            while (
                shown.count(b"\n") % 2 or not shown.endswith(b"\r\n") or typed.strip() not in shown
            ):
                more = answer(ours)
                assert more, shown
                shown += more
        assert shown == b"low\r\nlow</w>\r\nlo w\r\nl o</w> w</w>\r\n"
        os.write(ours, b"\x04")
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


THE = Vocabulary(merges=(("t", "h"), ("th", "e</w>")), tokens=("t", "h", "e</w>", "th", "the</w>"))
LINES = ["the the", "", "the the the the the", "th e the"]


@pytest.fixture
def folder(run, tmp_path):
    THE.save("m.volt")
    (tmp_path / "few.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("form", ["ids", "npy", "bin"])
@pytest.mark.parametrize(
    ("options", "bos", "eos", "truncate", "pad_to"),
    [
        ("--bos", True, False, None, None),
        ("--eos --truncate 3", False, True, 3, None),
        ("--pad-to 6", False, False, None, 6),
        ("--bos --eos --truncate 4 --pad-to 5", True, True, 4, 5),
    ],
)
def test_lines_are_those_of_the_encoder(
    options,
    bos,
    eos,
    truncate,
    pad_to,
    form,
    run,
    folder,
):
    """Each form of `volt encode` has the ids of `Encoder.encode_batch` and `pad`, and the offsets
    of the lines."""
    encoder = Encoder(THE)
    rows = encoder.encode_batch(LINES, add_bos=bos, add_eos=eos, truncate=truncate)
    if pad_to is not None:
        rows = encoder.pad(rows, pad_to=pad_to).ids
    expected = [row.tolist() for row in rows]
    run(f"encode -m m.volt few.txt --form {form} {options} -o out.x")
    if form == "ids":
        lines = (folder / "out.x").read_text().splitlines()
        assert [[int(number) for number in line.split()] for line in lines] == expected
        return
    ids = np.load("out.x") if form == "npy" else np.fromfile("out.x", "<i4")
    offsets = np.load("out.x.offsets.npy")
    assert [ids[i:j].tolist() for i, j in pairwise(offsets)] == expected


def test_other_options_write_the_output_again(run, folder):
    """In a folder, `volt encode` rewrites an output if an option has changed."""
    command = "encode -m m.volt few.txt --form ids -o out/"
    assert "4 lines" in run(f"{command} --eos").message
    assert "is up to date" in run(f"{command} --eos").message
    assert "4 lines" in run(f"{command} --bos").message


@pytest.mark.skipif(sys.platform != "linux", reason="opens the file of stdin again")
@pytest.mark.parametrize("name", ["t.csv", "t.txt"])
def test_columns_of_a_redirected_table_are_noted(model, tmp_path, name):
    """A table on stdin gets the warning that it gets by name, and is encoded from its start."""
    path = tmp_path / name
    path.write_text("low,lo\n" if name == "t.csv" else "low\tlo\n")
    with path.open() as stdin:
        result = subprocess.run(
            [*VOLT, "encode", "-m", model], stdin=stdin, capture_output=True, check=True
        )
    assert f"{name}: its lines have several columns between".encode() in result.stderr
    assert result.stdout.startswith(b"lo")


@pytest.mark.skipif(sys.platform != "linux", reason="opens the file of stdin again")
def test_redirected_json_lines_get_only_an_error(model, tmp_path):
    """JSON lines on stdin are refused without a warning before the error."""
    path = tmp_path / "t.txt"
    path.write_text('{"text": "the"}\n' * 2)
    with path.open() as stdin:
        result = subprocess.run([*VOLT, "encode", "-m", model], stdin=stdin, capture_output=True)
    assert result.returncode == 1
    assert result.stderr == b"error stdin:1: JSON lines; name a column with --column text\n"


def test_errors_of_tables_name_options(run, folder):
    """Errors on tables name --column, --fields and --to-column."""
    (folder / "t.jsonl").write_text('{"text": "the", "id": 1}\n')
    for options, message in (
        ("--column text --fields 1", "--fields and --column exclude each other"),
        ("--to-column ids", "--to-column needs the column of a table; add --column text"),
        ("--fields 0", "--fields '0': give distinct column numbers"),
        ("--column text --to-column id", "choose another --to-column"),
    ):
        assert message in run(f"encode -m m.volt t.jsonl {options}", status=2).message


@pytest.mark.parametrize("command", ["encode", "decode"])
def test_outputs_that_would_not_be_compressed_are_refused(command, run, folder):
    """`volt encode` and `volt decode` refuse a file of -o that is named as if it were compressed."""
    for name in ("o.pieces.gz", "o.csv.zst", "o.jsonl.xz"):
        refused = run(f"{command} -m m.volt few.txt -o {name}", status=2)
        assert f"-o {name}: output is not compressed; remove ." in refused.message
        assert not (folder / name).exists()


def test_a_line_that_is_too_long_is_named(run, folder):
    """The error for a line with more ids than --pad-to names file, line, length and both remedies;
    no output appears."""
    (folder / "few.txt.gz").write_bytes(gzip.compress((folder / "few.txt").read_bytes()))
    for name in ("few.txt", "few.txt.gz"):
        refused = run(f"encode -m m.volt {name} --form ids --pad-to 3 -o o.ids", status=2)
        assert (
            f"{name}:3, the longest line, has 5 ids, more than pad_to, 3; pass --pad-to 5 or --truncate 3"
        ) in refused.message
        assert not (folder / "o.ids").exists()


def test_options_of_ids_are_refused_for_pieces(run, folder):
    """`volt encode` refuses options of ids for pieces, and for a vocabulary without the token."""
    special = SpecialTokens("<unk>", None, None, None)
    Vocabulary(merges=(), tokens=("t",), special=special).save("bare.volt")
    only_ids = "work only with ids; choose the form ids, npy or bin"
    for options, message in (
        ("m.volt --bos", only_ids),
        ("m.volt --eos", only_ids),
        ("m.volt --truncate 3", only_ids),
        ("m.volt --pad-to 3", only_ids),
        ("bare.volt --form ids --bos", "no bos token"),
        ("bare.volt --form ids --eos", "no eos token"),
        ("bare.volt --form ids --pad-to 9", "no pad token"),
        ("m.volt --form ids --bos --eos --truncate 1", "truncate is 1; give 2 or more"),
    ):
        assert message in run(f"encode few.txt -m {options}", status=2).message


@pytest.mark.parametrize("form", ["pieces", "ids", "npy"])
@pytest.mark.parametrize("options", ["", "--dropout 0.5 --seed 1"])
def test_unknown_characters_are_noted(form, options, run, tmp_path):
    """`volt encode` ends with a note on each unknown character of all files; -q suppresses it."""
    replace(THE, special=SpecialTokens(user=("<url>",))).save("m.volt")
    (tmp_path / "known.txt").write_text("the <url> the\n", encoding="utf-8")
    (tmp_path / "new.txt").write_text("thé the ф\x02<url>\nфthé\n", encoding="utf-8")
    command = f"encode -m m.volt --form {form} {options} -o out.x"
    assert "unknown" not in run(f"{command} known.txt").message
    note = "note: 3 characters of the text are unknown: \\x02 é ф\n"
    assert note in run(f"{command} known.txt new.txt").message
    assert run(f"{command} new.txt -q").message == ""


def test_a_unigram_model_is_sampled_by_alpha(run, tmp_path):
    """`volt encode --alpha` draws what Encoder draws, in every form; another alpha rewrites an output."""
    encoder = Encoder(save_unigram("u.volt"))
    (tmp_path / "a.txt").write_text("low low\nlow\n")
    drawn = encoder.encode_text(b"low low\nlow\n", alpha=0.1, nbest=3, seed=5)
    command = "encode -m u.volt a.txt --seed 5 --nbest 3"
    assert run(f"{command} --alpha 0.1").stdout == drawn
    for alpha, result in (("0", "2 lines"), ("0", "up to date"), ("0.1", "2 lines")):
        assert result in run(f"{command} --alpha {alpha} --form npy -o out/").message
    ids = encoder.encode_batch(["low low", "low"], alpha=0.1, nbest=3, seed=5).ids
    assert np.load(tmp_path / "out/a.txt.npy").tolist() == ids.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("u.volt --dropout 0.1 --seed 1", "replace dropout by --alpha 0.1"),
        ("m.volt --alpha 0.1 --seed 1", "replace alpha by --dropout 0.1"),
        (
            "u.volt --alpha 0.1",
            "alpha needs a seed, a whole number of 0 or more; encode with --seed 1",
        ),
        ("u.volt --nbest 4", "nbest limits what alpha draws from; encode with --alpha 0.1"),
        ("u.volt --alpha -1 --seed 1", "alpha is -1.0; give a number"),
        ("u.volt --alpha nan --seed 1", "alpha is nan; give a number"),
        ("u.volt --alpha 1 --nbest 0 --seed 1", "nbest is 0; give the number of best paths"),
    ],
)
def test_sampling_that_the_model_lacks_is_refused(run, tmp_path, options, message):
    """`volt encode` refuses options of the other kind of model, and says which to give."""
    save_unigram("u.volt")
    THE.save("m.volt")
    (tmp_path / "a.txt").write_text("low\n")
    assert message in run(f"encode a.txt -m {options}", status=2).message


def save_unigram(path):
    tokens = ("▁", "l", "o", "w", "▁low", "ow")
    scores = (-3, -4, -4, -4, -2, -3)
    vocabulary = Vocabulary(
        (), tokens, scores=scores, marker="none", pretokenizer=PreTokenizer("metaspace")
    )
    vocabulary.save(path)
    return vocabulary
