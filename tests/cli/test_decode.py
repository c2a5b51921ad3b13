"""`volt decode` reads every output of `volt encode`, and reports other inputs."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.commands import TEXT, search_once
from support.drawn import examples
from support.tables import CASES, COLUMNS, HAS_LISTS, rows_of, write_table

import volt
from volt.files.indexed_dataset import write_ids
from volt.files.table_rows import TextColumns, read_texts

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
    search_once(run, *SEARCHES[search])
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
    return search_once(run)


def _outputs(run, model, *, text):
    Path("text.txt").write_text(text)
    for form in FORMS:
        run(f"encode -m {model} text.txt --form {form} -o out.{form}")
    run(f"binarize -m {model} text.txt -o pair -q")


def test_each_form_is_decoded_to_its_text(run, model):
    """`volt decode` restores the text from pieces, ids, arrays and pairs, with any number of lines,
    with --form and without."""
    text = "\n".join(TEXT.split("\n")[:1] * 9) + "\n\n"
    for source in (text, ""):
        _outputs(run, model, text=source)
        for form in FORMS:
            assert run(f"decode -m {model} out.{form} --form {form}") == (source.encode(), b"")
            assert run(f"decode -m {model} out.{form}").stdout == source.encode()
        for name in ("pair.bin", "pair.idx", "pair.bin pair.idx"):
            assert run(f"decode -m {model} {name}") == (source.encode(), b"")


WORD = st.text(st.sampled_from("thecatsonmd 0159é"), max_size=12)
BINARIZED = {
    "binarize": "",
    "with bos": "--bos <s>",
    "without eos": "--eos none",
    "of a language": "--bos <s> --prepend the</w>",
    "wide": "--dtype i64",
    "Megatron": "--documents line",
}


@pytest.mark.parametrize("search", SEARCHES)
def test_every_output_is_decoded_to_its_text(run, search):
    """Encoding and then decoding restores the text, for every form, every index of binarize, and
    vocabularies of each kind."""
    search_once(run, *SEARCHES[search])
    encoder = volt.Encoder(volt.Vocabulary.load("v.volt"))

    @given(lines=st.lists(WORD, max_size=5))
    @settings(max_examples=examples(6), deadline=None)
    def restores(lines):
        Path("text.txt").write_text("".join(f"{line}\n" for line in lines))
        of_pieces = [encoder.decode(encoder.encode(line)) for line in lines]
        of_ids = [encoder.decode_ids(encoder.encode_ids(line)) for line in lines]
        for form in FORMS:
            texts = of_pieces if form == "pieces" else of_ids
            expected = "".join(f"{text}\n" for text in texts).encode()
            run(f"encode -m v.volt text.txt --form {form} -o out.{form} -q")
            assert run(f"decode -m v.volt out.{form}").stdout == expected
            assert run(f"decode -m v.volt out.{form} --form {form}").stdout == expected
        for name, options in BINARIZED.items():
            if "the</w>" in options and "the</w>" not in encoder.vocabulary:
                continue
            run(f"binarize -m v.volt text.txt -o pair -q {options}")
            first = [encoder.vocabulary.ids["the</w>"]] if name == "of a language" else []
            texts = [encoder.decode_ids([*first, *encoder.encode_ids(line)]) for line in lines]
            shown = "".join(f"{text}\n" for text in texts).encode()
            assert run("decode -m v.volt pair.bin").stdout == shown

    restores()


@pytest.mark.parametrize("form", ["ids", "pieces"])
@pytest.mark.parametrize(("ending", "column"), CASES)
def test_columns_are_decoded_to_their_texts(run, model, ending, column, form):
    """Encoding and then decoding a column restores it in a table of any kind, at any path, beside
    unchanged columns; so does a new column, and a table of lines has the texts."""
    texts = ["the cat", "", "that hat", "the mat"]
    cells = [[text, "on"] for text in texts] if column in HAS_LISTS else texts
    table = write_table(Path(f"table.{ending}"), rows_of(cells, column), column)
    path = COLUMNS[column]
    plain = ending.removesuffix(".gz").removeprefix("stream.").replace("txt", "tsv")
    run(f"encode -m {model} {table} --column {path} --form {form} -o coded.{plain} -q")
    run(f"decode -m {model} coded.{plain} --column {path} -o text.{plain}")
    flat = [
        text
        for rows in read_texts(f"text.{plain}", TextColumns(path))
        for text in rows.texts.to_pylist()
    ]
    expected = [text for cell in cells for text in (cell if isinstance(cell, list) else [cell])]
    assert flat == expected
    done = run(f"decode -m {model} coded.{plain} --column {path}")
    assert done.lines == expected
    if plain != "tsv":
        run(f"decode -m {model} coded.{plain} --column {path} --to-column back -o more.{plain}")
        assert len(list(read_texts(f"more.{plain}", TextColumns(path), takes_ids=True))) > 0


def test_fields_of_a_table_are_decoded(run, model):
    """Fields of TSV are decoded in place, and pairs stay pairs."""
    table = b"1\tthe cat\tx\n2\tthat hat\ty\n"
    Path("pairs.tsv").write_bytes(table)
    for form in ("ids", "pieces"):
        run(f"encode -m {model} pairs.tsv --fields 2 --form {form} -o coded.tsv -q")
        assert run(f"decode -m {model} coded.tsv --fields 2").stdout == table


TABLES_REFUSED = {
    '{"a": [5, 70000]}': "t.jsonl:1: id 70000 at position 1: ids go from 0 to",
    '{"a": null}': "t.jsonl:1: column 'a' is null or missing",
    '{"b": [5]}': "t.jsonl:1: column 'a' is null or missing; the line has 'b'",
    '{"a": ["t"]}': "t.jsonl:1: column 'a' is \"t\", not a 32-bit number",
    '{"a": [1.5]}': "t.jsonl:1: column 'a' is 1.5, not a 32-bit number",
    '{"a": [6]}\n{"a": [5, "x"]}': "t.jsonl:2: column 'a' is \"x\", not a 32-bit",
    '{"a": "Unseen words"}': "t.jsonl:1: 'Unseen' is not a piece of the vocabulary",
}


def test_other_tables_are_refused(run, model):
    """Ids out of range, nulls and values of other types are named with the file and the row."""
    for line, message in TABLES_REFUSED.items():
        Path("t.jsonl").write_text(f"{line}\n")
        done = run(f"decode -m {model} t.jsonl --column a -o out.jsonl", status=1)
        assert message in done.message
        assert not Path("out.jsonl").exists()
    done = run(f"decode -m {model} t.jsonl", status=1)
    assert "t.jsonl: JSON lines, with columns of text 'a'; name one with --column a" in done.message
    Path("t.jsonl").write_text('{"a": [5]}\n')
    done = run(f"decode -m {model} t.jsonl --column a -o out.csv", status=2)
    assert "t.jsonl: JSON lines, but the output or another file is CSV" in done.message
    assert "add --column" in run(f"decode -m {model} t.jsonl --to-column a", status=2).message


def test_special_tokens_are_skipped(run, model):
    """With --skip-special, every form gives the text of `decode_ids(skip_special=True)`."""
    text = "the cat\n\nthat hat é <unk>\n"
    encoder = volt.Encoder(volt.Vocabulary.load(model))
    _outputs(run, model, text=text)
    Path("text.txt").write_text(text)
    run(f"encode -m {model} text.txt --form ids --bos --eos -o framed.ids -q")
    framed = Path("framed.ids").read_text().splitlines()
    lines = [[int(number) for number in line.split()] for line in framed]
    expected = [encoder.decode_ids(ids, skip_special=True) for ids in lines]
    special = encoder.vocabulary.special
    pieces = [
        f"{special.bos} {' '.join(encoder.encode(line))} {special.eos}"
        for line in text.splitlines()
    ]
    Path("framed.pieces").write_text("\n".join(pieces) + "\n")
    Path("framed.jsonl").write_text("".join(f'{{"a": {ids}}}\n' for ids in lines))
    inputs = ("framed.ids --form ids", "out.npy", "out.bin", "pair.bin", "framed.jsonl --column a")
    for arguments in inputs:
        assert run(f"decode -m {model} --skip-special {arguments}").lines == expected
    done = run(f"decode -m {model} --skip-special framed.pieces")
    assert done.lines == text.splitlines()


def test_arrays_are_read_beside_their_partners(run, model):
    """A folder of outputs is decoded in the order of its files, without the files of offsets."""
    _outputs(run, model, text="the cat\n")
    Path("all").mkdir()
    for name in ("out.npy*", "out.bin*", "pair.*", "out.pieces"):
        for file in Path().glob(name):
            shutil.copy(file, "all")
    assert run(f"decode -m {model} all").stdout == b"the cat\n" * 4
    assert run(f"decode -m {model} all/out.npy* --form npy").stdout == b"the cat\n"


def test_ids_are_recognised(run, model):
    """Text of numbers is decoded as ids, with a note, unless its file's name says what it is, block
    by block; what follows must be ids, too. Blank lines decide nothing."""
    _outputs(run, model, text=TEXT)
    ids = Path("out.ids").read_bytes()
    done = run(f"decode -m {model}", stdin=b"\n\n" + ids)
    assert done == (
        b"\n\n" + TEXT.encode(),
        b"note: stdin:1: these are numbers, and are decoded as ids; for pieces, add --form pieces\n",
    )
    assert run(f"decode -m {model} out.ids") == (TEXT.encode(), b"")
    done = run(f"decode -m {model}", stdin=ids * (1 << 11) + b"t h e</w>\n", status=1)
    assert "'t' is not an id; ids are whole numbers" in done.message
    for stdin, options in ((ids, "--form pieces"), (ids + b"t h e</w>\n", "")):
        done = run(f"decode -m {model} {options}", stdin=stdin, status=1)
        assert "stdin:1: these are ids, not pieces of the vocabulary" in done.message


REFUSED = {
    "out.npy.offsets.npy": "out.npy.offsets.npy: offsets, not ids; give out.npy",
    "out.bin --form ids": "out.bin: its form is bin; remove --form",
    "out.npy --form pieces": "out.npy: its form is npy; remove --form",
    "out.npy --separator @@": "out.npy: its form is npy; remove --form or --separator",
    "out.npy --form bin": "out.npy: its form is npy; remove --form",
    "out.bin --form npy": "out.bin: its form is bin; remove --form",
    "pair.bin --form bin": "pair.bin: its form is idx; remove --form",
    "out.ids --form npy": "out.ids: its form is text; remove --form",
    "words.txt": "words.txt:1: 'Unseen' is not a piece of the vocabulary, nor is any other word; give its pieces",
    # damage, and what it is done to: name → (command, how the files are damaged)
    "cut.npy": "cut.npy: cannot be read: mmap length is greater than file size; copy both files again",
    "cut.bin": "cut.bin: has 7 bytes of ids, but cut.bin.offsets.npy requires 1,920; copy both",
    "lone.npy": "lone.npy.offsets.npy: cannot be read: no such file or directory; copy both files again",
    "lone.bin": "lone.bin: ids without lines; copy lone.bin.offsets.npy of volt encode, or lone.idx of volt",
    "alone.idx": "alone.bin: cannot be read: no such file or directory; .idx and .bin belong together",
    "beyond.npy": "beyond.npy: has 1,920 bytes of ids, but beyond.npy.offsets.npy requires 1,924",
    "falling.npy": "falling.npy: from line 1: offsets must not decrease",
    "wide.npy": "wide.npy: a 1-D array of int64, not a 1-D array of int32",
    "flat.npy": "flat.npy.offsets.npy: a 2-D array of int64, not a 1-D array of int64",
    "foreign.npy": "foreign.npy: from line 1: id 70000 at position 2: ids go from 0 to",
    "foreign.bin": "foreign.bin: from line 1: id -1 at position 2: ids go from 0 to",
    "strange.bin": "strange.bin: from line 1: id 60000 at position 0: ids go from 0 to",
    "torn.bin": "torn.bin: has 7 bytes, but torn.idx requires",
}


def _damage(text):
    """Write a damaged output for each name in `REFUSED`."""
    ids = np.load("out.npy")
    offsets = np.load("out.npy.offsets.npy")

    def save(name, ids, offsets=offsets):
        np.save(name, ids)
        np.save(f"{name}.offsets.npy", offsets)

    Path("words.txt").write_text("Unseen wordings\nunlike pieces\n")
    save("cut.npy", ids)
    Path("cut.npy").write_bytes(Path("out.npy").read_bytes()[:-7])
    Path("cut.bin").write_bytes(b"\1\0\0\0\2\0\0")
    np.save("cut.bin.offsets.npy", offsets)
    np.save("lone.npy", ids)
    shutil.copy("out.bin", "lone.bin")
    shutil.copy("pair.idx", "alone.idx")
    save("beyond.npy", ids, [*offsets[:-1], offsets[-1] + 1])
    save("falling.npy", ids, [0, 9, 5, *offsets[3:]])
    save("wide.npy", ids.astype(np.int64))
    save("flat.npy", ids, offsets[None])
    foreign = ids.copy()
    foreign[2] = 70_000
    save("foreign.npy", foreign)
    foreign[2] = -1
    foreign.tofile("foreign.bin")
    np.save("foreign.bin.offsets.npy", offsets)
    with write_ids("strange", dtype="u16") as writer:
        writer.add(np.array([60_000]), np.array([1]))
    shutil.copy("pair.idx", "torn.idx")
    Path("torn.bin").write_bytes(Path("pair.bin").read_bytes()[:7])


def test_other_inputs_are_refused(run, model):
    """`volt decode` refuses damaged arrays, arrays whose --form differs, and plain text, and writes
    nothing. It names the file, and says what to do."""
    _outputs(run, model, text=TEXT)
    _damage(TEXT)
    for arguments, message in REFUSED.items():
        done = run(f"decode -m {model} {arguments} -o decoded", status=1)
        assert message in done.message
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
