"""`volt export`: files for every library, --check, and foreign files in place of MODEL."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.commands import TEXT, search_once

from volt.formats.protocol import get_hook
from volt.formats.registry import FORMATS, format_module
from volt.text.byte_alphabet import ALPHABET
from volt.vocabulary import Vocabulary

# formats of tokens without merges
LISTS = [name for name in FORMATS if get_hook(format_module(name), "read_rows")]
OPTIONS = {"tiktoken": "--level bytes", "sentencepiece": "--marker prefix"}
OUTPUTS = {"sentencepiece": "out.model", "huggingface": "out", "marian": "out.yml"}


@pytest.fixture
def model(run):
    """Search v.volt, all of whose tokens are in the text."""
    return search_once(run, "--select", "tokens")


@pytest.fixture
def export(run):
    """Search, export a closed vocabulary to a format, and return the path."""

    def export_to(name):
        search_once(run, "--select", "tokens", *OPTIONS.get(name, "").split())
        if name == "tiktoken":
            add_all_bytes("v.volt")
        out = OUTPUTS.get(name, "out.txt")
        assert f"wrote {out}" in run(f"export -m v.volt --to {name} -o {out} --closed").message
        return out

    return export_to


def add_all_bytes(path):
    """Add all byte tokens to a vocabulary, which some formats need; return it."""
    vocabulary = Vocabulary.load(path)
    missing = tuple(byte for byte in ALPHABET if byte not in vocabulary.tokens)
    complete = replace(vocabulary, tokens=missing + vocabulary.tokens, counts=())
    complete.save(path)
    return complete


@pytest.mark.parametrize("name", FORMATS)
def test_an_imported_export_splits_as_the_original(name, run, export):
    """A vocabulary that is exported to any format and imported splits the corpus as before; lists
    of tokens need --merges."""
    out = export(name)
    merges = "--merges v.volt" if name in LISTS else ""
    run(f"import {out} -o again.volt {merges}")
    run(f"import {out} -o named.volt --from {name} {merges}")
    run("export -m v.volt --to tokens -o all --closed")
    run("import all --from tokens --merges v.volt -o closed.volt")
    first, *others = [
        run(f"encode -m {name}.volt corpus.txt").stdout for name in ("again", "named", "closed")
    ]
    assert others == [first, first]


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in LISTS])
def test_foreign_files_are_models(name, run, export):
    """encode, decode, inspect and export accept the files of other libraries as MODEL."""
    out = export(name)
    pieces = run(f"encode -m {out} corpus.txt").stdout
    assert run(f"decode -m {out}", stdin=pieces).stdout.decode() == TEXT
    assert json.loads(run(f"inspect -m {out} the cat --json").stdout)["pieces"]
    run(f"export -m {out} --to tokens -o tokens.txt")
    assert Path("tokens.txt").read_text(encoding="utf-8").count("\n") > 5
    if name == "sentencepiece":  # which names models without their ending
        stem = out.removesuffix(".model")
        assert run(f"encode -m {stem} corpus.txt").stdout == pieces


@pytest.mark.usefixtures("model")
def test_a_chat_template_is_exported(run):
    """--chat-template is added to a Hugging Face export; errors name the template's line, or the
    format."""
    template = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    Path("chat.jinja").write_text(template)
    Path("bad.jinja").write_text("low\n{% if %}")
    command = "export -m v.volt -o out --to"
    for options, message in (
        ("huggingface --chat-template bad.jinja", "bad.jinja:2: Expected an expression"),
        ("marian --chat-template chat.jinja", "--to huggingface"),
        ("huggingface --chat-template nothing.jinja", "nothing.jinja"),
    ):
        assert message in run(f"{command} {options}", status=2).message
    assert not Path("out").exists()
    done = run(f"{command} huggingface --chat-template chat.jinja --check corpus.txt")
    closed = Vocabulary.load("v.volt").closed()
    assert f"wrote out: {closed.size:,} tokens" in done.message
    assert Path("out/chat_template.jinja").read_text() == template
    assert json.loads(Path("out/tokenizer.json").read_text())["model"]["vocab"] == closed.ids


@pytest.mark.usefixtures("model")
def test_notes_of_an_export_go_to_stderr(run):
    """`volt export` prints notes on differences between formats on stderr, and nothing on stdout."""
    done = run("export -m v.volt --to fairseq -o dict.txt")
    assert done.stdout == b""
    assert "note: ids from 4 up equal VOLT's" in done.message


@pytest.mark.parametrize("to", ["subword-nmt", "tiktoken"])
def test_formats_of_merges_refuse_unigram_models(run, to):
    """The error for a unigram model in a format of merges names a format that has scores."""
    fields = {"scores": (-1.0, -2.0), "marker": "none", "pretokenizer": "metaspace"}
    Vocabulary((), ("▁", "a"), **fields).save("u.volt")
    done = run(f"export -m u.volt --to {to} -o out", status=1)
    assert f"out: {to} needs merges, and a unigram model has none" in done.message
    assert "write --to huggingface" in done.message
    assert "has no scores" in run("export -m u.volt --to tokens -o out").message


def test_losses_of_a_foreign_file_are_noted_once(run, export):
    """import and commands with MODEL print each note on a foreign file once, and none with -q."""
    out = export("tiktoken")
    losses = format_module("tiktoken").read(Path(out)).provenance["lost"]
    notes = [f"note: {out}: {loss}" for loss in losses]
    assert len(notes) > 1
    done = run(f"import {out} -o again.volt")
    assert done.message.splitlines()[:-1] == notes
    assert done.stdout == b""
    assert run(f"import {out} -o quiet.volt -q").message == ""
    assert run(f"encode -q -m {out}", stdin=b"the\n").message == ""
    encoded = run(f"encode -m {out}", stdin=b"the\n")
    assert encoded.message.splitlines()[: len(notes)] == notes
    assert "note" not in run("encode -m again.volt", stdin=b"the\n").message


@pytest.mark.parametrize("text", ["corpus.txt", ""])
@pytest.mark.usefixtures("model")
def test_check_prints_agreement(text, run):
    """--check compares TEXT, or text made of the tokens, with the library; the status is 0 if all
    lines agree."""
    pytest.importorskip("subword_nmt")
    done = run(f"export -m v.volt {text} --to subword-nmt -o codes --check --closed")
    assert b"lines have equal pieces" in done.stdout
    n_lines = TEXT.count("\n")
    assert (f"{n_lines} of {n_lines}".encode() in done.stdout) == bool(text)


@pytest.mark.parametrize(
    ("name", "path", "options"),
    [("huggingface", "hf", ""), ("huggingface", "hf", "--closed"), ("tiktoken", "t", "--closed")],
)
def test_check_fails_if_the_export_has_new_ids(name, path, options, run):
    """--check fails for a vocabulary whose closed export has other ids, and agrees for its
    .closed.volt."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("tiktoken")
    run("search corpus.txt -q -o v.volt --select tokens --level bytes")
    whole = add_all_bytes("v.volt")
    scaffolding = {part for pair in whole.merges for part in pair}.intersection(whole.made)
    tokens = tuple(token for token in whole.tokens if token not in scaffolding)
    pruned = replace(whole, tokens=tokens)
    pruned.save("v.volt")
    command = f"export -m v.volt --to {name} -o {path} --check {options}"
    done = run(command, status=0 if options else 1)
    closed = Vocabulary.load(f"{path}.closed.volt")
    ids = f"{len(closed):,} ids (rows of an embedding) instead of {len(pruned):,}"
    assert ids in done.message
    assert f"from now on, encode with {path}.closed.volt" in done.message
    assert (b"  theirs " in done.stdout) == (not options)
    again = run(f"export -m {path}.closed.volt --to {name} -o {path} --check")
    assert "from now on" not in again.message


def test_opennmt_export_lists_pieces(run, model):
    """The first column of an OpenNMT export is JoeyNMT's voc_file: each piece once, in the order of
    ids."""
    pieces = [row.split("\t")[0] for row in run("export -m v.volt --to opennmt -o - -q").lines]
    vocabulary = Vocabulary.load(model)
    assert len(set(pieces)) == len(pieces) == vocabulary.size
    text = run("encode -m v.volt corpus.txt --separator @@").stdout.decode().split()
    ids = run("encode -m v.volt corpus.txt --form ids").stdout.split()
    n_special = len(vocabulary) - vocabulary.size
    assert [pieces.index(piece) + n_special for piece in text] == list(map(int, ids))


def test_a_closed_vocabulary_never_replaces_an_input(run):
    """An export whose .closed.volt would replace an input is refused, and nothing is written."""
    run("search corpus.txt -q -o x.closed.volt --select tokens")
    before = Path("x.closed.volt").read_bytes()
    run("export -m x.closed.volt --to tokens -o x --closed", status=2)
    assert Path("x.closed.volt").read_bytes() == before
    assert not Path("x").exists()


@pytest.mark.usefixtures("model")
def test_check_fails_on_a_corrupted_export(run, monkeypatch):
    """--check of an export without some merges prints the first differences, and ends with status
    1."""
    pytest.importorskip("subword_nmt")
    module = format_module("subword-nmt")
    write = module.write

    def write_one_merge(vocabulary, path):
        merges = vocabulary.merges[:1]
        return write(replace(vocabulary, merges=merges, tokens=vocabulary.atoms, counts=()), path)

    monkeypatch.setattr(module, "write", write_one_merge)
    command = "export -m v.volt corpus.txt --to subword-nmt -o codes --check --closed"
    shown = run(command, status=1).stdout.decode()
    for part in ("  ours ", "  theirs ", f"0 of {TEXT.count(chr(10))}"):
        assert part in shown


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("export -m v.volt -o x --to marina", 2, "did you mean marian"),
        ("export -m v.volt -o x --to tokens corpus.txt", 2, "add --check"),
        ("export -m v.volt -o x --to tokens --check", 2, "no library"),
        ("import list --from tokens -o x", 1, "--merges FILE"),
        ("encode -m list corpus.txt -o x", 1, "--merges FILE"),
        ("import corpus.txt -o x", 1, "neither a VOLT vocabulary nor a file of"),
        ("import list -o no/x", 1, "Choose another place"),
    ],
)
@pytest.mark.usefixtures("model")
def test_wrong_options_write_nothing(run, command, status, message):
    """Unknown formats and useless options of import and export end with status 1 or 2, and no file
    is written."""
    Path("list").write_text("t\nh\n", encoding="utf-8")
    assert message in run(command, status=status).message
    assert not Path("x").exists()


@pytest.mark.usefixtures("model")
def test_a_missing_library_is_reported_with_the_pip_command(run, monkeypatch):
    """--check without the library ends with status 1 and the pip command that installs it."""
    for name in ("subword_nmt", "subword_nmt.apply_bpe"):
        monkeypatch.setitem(sys.modules, name, None)
    done = run("export -m v.volt --to subword-nmt -o codes --check", status=1)
    assert "pip install" in done.message
