"""`volt export`, `volt import`, and foreign files where a MODEL is asked for."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from commands import TEXT, Run

from volt.formats.registry import FORMATS, format_module, peer_loader
from volt.vocabulary import Vocabulary

LISTS = [name for name in FORMATS if peer_loader(name) is None]
OPTIONS = {"tiktoken": ["--level", "bytes"], "sentencepiece": ["--marker", "prefix"]}


def exported(run: Run, name: str, *options: str) -> Path:
    """Search, then export closed; where that went."""
    run("search corpus.txt -q -o v.volt --select tokens", *OPTIONS.get(name, []))
    if name == "tiktoken":
        complete(Path("v.volt"))
    out = {"sentencepiece": "out.model", "huggingface": "out", "marian": "out.yml"}.get(
        name, "out.txt"
    )
    done = run("export -m v.volt --to", name, "-o", out, "--closed", *options)
    assert f"wrote {out}".encode() in done.stderr
    return Path(out)


def complete(path: Path) -> None:
    """Give a byte-level vocabulary all bytes, which formats for bytes ask for."""
    from volt.text.byte_alphabet import ALPHABET

    found = Vocabulary.load(path)
    missing = tuple(byte for byte in ALPHABET if byte not in found.tokens)
    replace(found, tokens=missing + found.tokens, counts=()).save(path)


@pytest.mark.parametrize("name", FORMATS)
def test_export_then_import_encodes_alike(name: str, run: Run) -> None:
    """import(export(v)) cuts the corpus as v does; lists take the merges from v."""
    out = exported(run, name)
    merges = ["--merges", "v.volt"] if name in LISTS else []
    run(f"import {out} -o again.volt", *merges)
    run(f"import {out} -o named.volt --from", name, *merges)
    run("export -m v.volt --to tokens -o all --closed")
    run("import all --from tokens --merges v.volt -o closed.volt")
    pieces = [
        run("encode -m", f"{model}.volt", "corpus.txt").stdout
        for model in ("again", "named", "closed")
    ]
    assert pieces[0] == pieces[1] == pieces[2]


def test_an_export_that_chats(run: Run) -> None:
    """A plain export closes itself, adds the chat template, and names a template's file and line, or another format."""
    run("search corpus.txt -q -o v.volt --select tokens")
    Path("chat.jinja").write_text(
        "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
    )
    Path("bad.jinja").write_text("low\n{% if %}")
    closed, options = (
        Vocabulary.load("v.volt").closed(),
        ("export", "-m", "v.volt", "-o", "out", "--to"),
    )
    bad = run(*options, "huggingface", "--chat-template", "bad.jinja", status=2).stderr
    assert b"bad.jinja:2: Expected an expression" in bad
    assert (
        b"--to huggingface"
        in run(*options, "marian", "--chat-template", "chat.jinja", status=2).stderr
    )
    assert (
        b"nothing.jinja"
        in run(*options, "huggingface", "--chat-template", "nothing.jinja", status=2).stderr
    )
    assert not Path("out").exists()
    done = run(*options, "huggingface", "--chat-template", "chat.jinja", "--check", "corpus.txt")
    assert f"wrote out: {closed.size:,} tokens".encode() in done.stderr
    assert Path("out/chat_template.jinja").read_text() == Path("chat.jinja").read_text()
    assert json.loads(Path("out/tokenizer.json").read_text())["model"]["vocab"] == closed.ids


def test_candidates_of_a_vocabulary_are_its_merges(run: Run) -> None:
    """`volt search --candidates` takes the merges of a vocabulary, and says how many tokens no merge makes."""
    merges, tokens = (
        (("t", "h"), ("th", "e</w>")),
        ("t", "h", "e</w>", "th", "the</w>", "cat</w>", "sat</w>"),
    )
    Vocabulary(merges, tokens, whole_words=True).save("old")
    done = run("search corpus.txt --candidates old -o new.volt")
    assert b"2 of its tokens are dropped, because no merge makes them" in done.stderr
    assert Vocabulary.load("new.volt").merges == merges


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in LISTS])
def test_foreign_files_are_models(name: str, run: Run) -> None:
    """encode, decode, inspect and export take a foreign file where they take ours."""
    out = str(exported(run, name))
    pieces = run("encode -m", out, "corpus.txt").stdout
    assert run("decode -m", out, stdin=pieces).stdout.decode() == TEXT
    assert json.loads(run("inspect -m", out, "the", "cat", "--json").stdout)["pieces"]
    run("export -m", out, "--to", "tokens", "-o", "tokens.txt")
    if name == "sentencepiece":  # which names models without their ending
        assert run("encode -m", out.removesuffix(".model"), "corpus.txt").stdout == pieces
    assert Path("tokens.txt").read_text(encoding="utf-8").count("\n") > 5


def test_notes_go_to_stderr_and_nothing_to_stdout(run: Run) -> None:
    """Notes about differences between formats go to stderr; stdout stays empty."""
    run("search corpus.txt -q -o v.volt")
    done = run("export -m v.volt --to fairseq -o dict.txt")
    assert done.stdout == b""
    assert b"note: ids from 4 up equal VOLT's" in done.stderr


def test_what_a_foreign_file_does_not_tell_is_said(run: Run) -> None:
    """By import, and where the file is a MODEL, a line each on stderr; not with -q, and not again of what was
    imported."""
    out = str(exported(run, "tiktoken"))
    message = [
        f"note: {out}: {loss}"
        for loss in format_module("tiktoken").read(Path(out)).provenance["lost"]
    ]
    assert len(message) > 1
    done = run("import", out, "-o", "again.volt")
    assert done.stderr.decode().splitlines()[:-1] == message
    assert done.stdout == b""
    assert run("import", out, "-o", "quiet.volt", "-q").stderr == b""
    assert (
        run("encode -m", out, stdin=b"the\n").stderr.decode().splitlines()[: len(message)]
        == message
    )
    assert b"note" not in run("encode -m again.volt", stdin=b"the\n").stderr


def test_candidates_fit_the_level(run: Run) -> None:
    """Merges over bytes serve as candidates at byte level, where they are the tokens; those of one level are refused
    at the other, and what is assumed of a file is said."""
    Path("merges.txt").write_text("#version: 0.2\nt h\nĠ th\nth e\n", encoding="utf-8")
    Path("codes").write_text("#version: 0.2\nt h\nth e\n", encoding="utf-8")
    search = ["search", "corpus.txt", "-q", "-o", "v.volt", "--select", "tokens"]
    run(*search, "--level", "bytes", "--candidates", "merges.txt")
    assert Vocabulary.load("v.volt").merges == (("t", "h"), ("Ġ", "th"), ("th", "e"))
    assert (
        b"search with --level bytes" in run(*search, "--candidates", "merges.txt", status=1).stderr
    )
    assert (
        b"remove --level bytes"
        in run(*search, "--level", "bytes", "--candidates", "codes", status=1).stderr
    )
    assert b"note: codes: No merge contains" in run(*search, "--candidates", "codes").stderr


@pytest.mark.parametrize("text", [["corpus.txt"], []])
def test_check_prints_agreement(text: list[str], run: Run) -> None:
    """--check compares TEXT, or text made of the vocabulary, and exits 0 where all lines agree."""
    pytest.importorskip("subword_nmt")
    run("search corpus.txt -q -o v.volt")
    done = run(
        "export -m v.volt", *text, "--to", "subword-nmt", "-o", "codes", "--check", "--closed"
    )
    assert b"lines have equal pieces" in done.stdout
    if text:
        n = TEXT.count("\n")
        assert f"{n} of {n}".encode() in done.stdout


@pytest.mark.parametrize(
    ("name", "path", "options"),
    [
        ("huggingface", "hf", []),
        ("huggingface", "hf", ["--closed"]),
        ("tiktoken", "v.tiktoken", ["--closed"]),
    ],
)
def test_check_compares_the_vocabulary_that_encodes_from_now_on(
    name: str, path: str, options: list[str], run: Run
) -> None:
    """A closed export differs from a pruned vocabulary: --check says so, and the vocabulary next to the export agrees.

    The note states the rows of an embedding, and both vocabularies. With --closed, the closed one is compared.
    """
    pytest.importorskip("tokenizers")
    pytest.importorskip("tiktoken")
    run("search corpus.txt -q -o v.volt --select tokens --level bytes")
    complete(Path("v.volt"))
    pruned = Vocabulary.load("v.volt")
    scaffolding = {part for pair in pruned.merges for part in pair}.intersection(pruned.made)
    pruned = replace(
        pruned, tokens=tuple(token for token in pruned.tokens if token not in scaffolding)
    )
    pruned.save("v.volt")
    export = ("export", "-m", "v.volt", "--to", name, "-o", path, "--check", *options)
    done = run(*export, status=0 if options else 1)
    closed = Vocabulary.load(f"{path}.closed.volt")
    assert (
        f"{len(closed):,} ids (rows of an embedding) instead of {len(pruned):,}"
        in done.stderr.decode()
    )
    assert f"from now on, encode with {path}.closed.volt" in done.stderr.decode()
    assert (b"  theirs " in done.stdout) == (not options)
    again = run("export -m", f"{path}.closed.volt", "--to", name, "-o", path, "--check")
    assert b"from now on" not in again.stderr


def test_the_first_column_for_opennmt_lists_pieces_with_joiners(run: Run) -> None:
    """It is JoeyNMT's voc_file: each piece once, in the order of ids, and every piece of the text encoded with "@@"."""
    run("search corpus.txt -q -o v.volt --select tokens")
    rows = run("export -m v.volt --to opennmt -o - -q").stdout.decode().splitlines()
    pieces = [row.split("\t")[0] for row in rows]
    vocabulary = Vocabulary.load("v.volt")
    assert len(set(pieces)) == len(pieces) == vocabulary.size
    text = run("encode -m v.volt corpus.txt --separator @@").stdout.decode().split()
    ids = run("encode -m v.volt corpus.txt --form ids").stdout.split()
    known = vocabulary.pieces[: len(vocabulary) - vocabulary.size]
    assert [pieces.index(piece) + len(known) for piece in text] == list(map(int, ids))


def test_a_note_on_a_file_is_printed_once(run: Run) -> None:
    """Commands print the notes on a file of another library, which are warnings in Python, and nothing twice."""
    Path("codes").write_text("#version: 0.2\nt h\nth e\n", encoding="utf-8")
    for command in (("encode", "-m", "codes", "corpus.txt"), ("import", "codes", "-o", "v.volt")):
        assert run(*command).stderr.count(b"VOLT assumes") == 1


def test_a_closed_vocabulary_never_replaces_an_input(run: Run) -> None:
    """If the closed vocabulary would be written over the text or the vocabulary, nothing is written."""
    run("search corpus.txt -q -o x.closed.volt --select tokens")
    before = Path("x.closed.volt").read_bytes()
    run("export -m x.closed.volt --to tokens -o x --closed", status=2)
    assert Path("x.closed.volt").read_bytes() == before
    assert not Path("x").exists()


def test_check_fails_on_a_corrupted_export(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export with merges missing: the first differences on stdout, exit status 1."""
    pytest.importorskip("subword_nmt")
    run("search corpus.txt -q -o v.volt --select tokens")
    module = format_module("subword-nmt")
    write = module.write

    def corrupted(vocabulary: Vocabulary, path: Path) -> list[str]:
        first = vocabulary.merges[:1]
        notes: list[str] = write(
            replace(vocabulary, merges=first, tokens=vocabulary.atoms, counts=()), path
        )
        return notes

    monkeypatch.setattr(module, "write", corrupted)
    options = ["--to", "subword-nmt", "-o", "codes", "--check", "--closed"]
    done = run("export -m v.volt corpus.txt", *options, status=1)
    assert b"  ours " in done.stdout
    assert b"  theirs " in done.stdout
    assert f"0 of {TEXT.count(chr(10))}".encode() in done.stdout


def test_wrong_usage_is_reported_and_nothing_is_written(run: Run, tmp_path: Path) -> None:
    """Unknown formats, TEXT without --check, --check of a list, lists without merges: exit 1 or 2, no file."""
    run("search corpus.txt -q -o v.volt")
    export = ["export", "-m", "v.volt", "-o", "x"]
    assert b"did you mean marian" in run(*export, "--to", "marina", status=2).stderr
    assert b"add --check" in run(*export, "corpus.txt", "--to", "tokens", status=2).stderr
    assert b"no library" in run(*export, "--to", "tokens", "--check", status=2).stderr
    (tmp_path / "list").write_text("t\nh\n", encoding="utf-8")
    assert b"--merges FILE" in run("import list --from tokens -o x", status=1).stderr
    assert b"--merges FILE" in run("encode -m list", stdin=b"th\n", status=1).stderr
    assert (
        b"neither a VOLT vocabulary nor a file of" in run("import corpus.txt -o x", status=1).stderr
    )
    assert b"choose another place" in run("import list -o no/x", status=1).stderr.lower()
    assert not (tmp_path / "x").exists()


def test_a_missing_library_is_reported_with_the_pip_command(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--check without the library: exit 1 and the pip command."""
    run("search corpus.txt -q -o v.volt")
    for name in ("subword_nmt", "subword_nmt.apply_bpe"):
        monkeypatch.setitem(sys.modules, name, None)
    done = run("export -m v.volt --to subword-nmt -o codes --check", status=1)
    assert b"pip install" in done.stderr
