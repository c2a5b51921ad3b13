"""`volt export`, `volt import`, and foreign files in place of MODEL."""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.commands import TEXT

from volt.formats.registry import FORMATS, format_module, peer_loader, read_with_format
from volt.text.byte_alphabet import to_characters
from volt.vocabulary import Vocabulary

LISTS = [name for name in FORMATS if peer_loader(name) is None]
OPTIONS = {"tiktoken": ["--level", "bytes"], "sentencepiece": ["--marker", "prefix"]}


def exported(run, name, *options):
    """Search, export a closed vocabulary, and return its place."""
    run("search corpus.txt -q -o v.volt --select tokens", *OPTIONS.get(name, []))
    if name == "tiktoken":
        complete(Path("v.volt"))
    out = {"sentencepiece": "out.model", "huggingface": "out", "marian": "out.yml"}.get(
        name, "out.txt"
    )
    done = run(f"export -m v.volt --to {name} -o {out} --closed", *options)
    assert f"wrote {out}".encode() in done.stderr
    return Path(out)


def complete(path):
    """Add all byte tokens to a byte-level vocabulary, which some formats need."""
    from volt.text.byte_alphabet import ALPHABET

    found = Vocabulary.load(path)
    missing = tuple(byte for byte in ALPHABET if byte not in found.tokens)
    replace(found, tokens=missing + found.tokens, counts=()).save(path)


@pytest.mark.parametrize("name", FORMATS)
def test_an_imported_export_splits_as_the_original(name, run):
    """A vocabulary that is exported to any format and imported splits the corpus as before; lists
    of tokens need --merges."""
    out = exported(run, name)
    merges = ["--merges", "v.volt"] if name in LISTS else []
    run(f"import {out} -o again.volt", *merges)
    run(f"import {out} -o named.volt --from {name}", *merges)
    run("export -m v.volt --to tokens -o all --closed")
    run("import all --from tokens --merges v.volt -o closed.volt")
    pieces = [
        run(f"encode -m {model}.volt corpus.txt").stdout for model in ("again", "named", "closed")
    ]
    assert pieces[0] == pieces[1] == pieces[2]


def test_a_chat_template_is_exported(run):
    """--chat-template is added to a Hugging Face export; errors name the template's line, or the
    format."""
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


def test_a_vocabulary_gives_candidates(run):
    """`volt search --candidates` takes the merges of a vocabulary file, and notes how many tokens
    no merge makes."""
    merges, tokens = (
        (("t", "h"), ("th", "e</w>")),
        ("t", "h", "e</w>", "th", "the</w>", "cat</w>", "sat</w>"),
    )
    Vocabulary(merges, tokens, whole_words=True).save("old")
    done = run("search corpus.txt --candidates old -o new.volt")
    assert b"2 of its tokens are dropped, because no merge makes them" in done.stderr
    assert Vocabulary.load("new.volt").merges == merges


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in LISTS])
def test_foreign_files_are_models(name, run):
    """encode, decode, inspect and export accept the files of other libraries as MODEL."""
    out = str(exported(run, name))
    pieces = run(f"encode -m {out} corpus.txt").stdout
    assert run(f"decode -m {out}", stdin=pieces).stdout.decode() == TEXT
    assert json.loads(run(f"inspect -m {out} the cat --json").stdout)["pieces"]
    run(f"export -m {out} --to tokens -o tokens.txt")
    if name == "sentencepiece":  # which names models without their ending
        assert run("encode -m", out.removesuffix(".model"), "corpus.txt").stdout == pieces
    assert Path("tokens.txt").read_text(encoding="utf-8").count("\n") > 5


def test_notes_of_an_export_go_to_stderr(run):
    """`volt export` prints notes on differences between formats on stderr, and nothing on stdout."""
    run("search corpus.txt -q -o v.volt")
    done = run("export -m v.volt --to fairseq -o dict.txt")
    assert done.stdout == b""
    assert b"note: ids from 4 up equal VOLT's" in done.stderr


def test_losses_of_a_foreign_file_are_noted_once(run):
    """import and commands with MODEL print each note on a foreign file once, and none with -q."""
    out = str(exported(run, "tiktoken"))
    message = [
        f"note: {out}: {loss}"
        for loss in format_module("tiktoken").read(Path(out)).provenance["lost"]
    ]
    assert len(message) > 1
    done = run(f"import {out} -o again.volt")
    assert done.stderr.decode().splitlines()[:-1] == message
    assert done.stdout == b""
    assert run(f"import {out} -o quiet.volt -q").stderr == b""
    assert (
        run(f"encode -m {out}", stdin=b"the\n").stderr.decode().splitlines()[: len(message)]
        == message
    )
    assert b"note" not in run("encode -m again.volt", stdin=b"the\n").stderr


def test_candidates_must_have_the_level_of_the_search(run):
    """Merges of bytes are refused at character level, and merges of characters at byte level."""
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
def test_check_prints_agreement(text, run):
    """--check compares TEXT, or text made of the tokens, with the library; the status is 0 if all
    lines agree."""
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
def test_check_fails_if_the_export_has_new_ids(name, path, options, run):
    """--check fails for a vocabulary whose closed export has other ids, and agrees for its
    .closed.volt."""
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
    again = run(f"export -m {path}.closed.volt --to {name} -o", path, "--check")
    assert b"from now on" not in again.stderr


def test_opennmt_export_lists_pieces(run):
    """The first column of an OpenNMT export is JoeyNMT's voc_file: each piece once, in the order of
    ids."""
    run("search corpus.txt -q -o v.volt --select tokens")
    rows = run("export -m v.volt --to opennmt -o - -q").stdout.decode().splitlines()
    pieces = [row.split("\t")[0] for row in rows]
    vocabulary = Vocabulary.load("v.volt")
    assert len(set(pieces)) == len(pieces) == vocabulary.size
    text = run("encode -m v.volt corpus.txt --separator @@").stdout.decode().split()
    ids = run("encode -m v.volt corpus.txt --form ids").stdout.split()
    known = vocabulary.pieces[: len(vocabulary) - vocabulary.size]
    assert [pieces.index(piece) + len(known) for piece in text] == list(map(int, ids))


def test_a_note_on_a_file_is_printed_once(run):
    """A note on a foreign file, which is a warning in Python, is printed once."""
    Path("codes").write_text("#version: 0.2\nt h\nth e\n", encoding="utf-8")
    for command in (("encode", "-m", "codes", "corpus.txt"), ("import", "codes", "-o", "v.volt")):
        assert run(*command).stderr.count(b"VOLT assumes") == 1


def test_a_closed_vocabulary_never_replaces_an_input(run):
    """An export whose .closed.volt would replace an input is refused, and nothing is written."""
    run("search corpus.txt -q -o x.closed.volt --select tokens")
    before = Path("x.closed.volt").read_bytes()
    run("export -m x.closed.volt --to tokens -o x --closed", status=2)
    assert Path("x.closed.volt").read_bytes() == before
    assert not Path("x").exists()


def test_check_fails_on_a_corrupted_export(run, monkeypatch):
    """--check of an export without some merges prints the first differences, and ends with status
    1."""
    pytest.importorskip("subword_nmt")
    run("search corpus.txt -q -o v.volt --select tokens")
    module = format_module("subword-nmt")
    write = module.write

    def corrupted(vocabulary, path):
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


def test_wrong_options_write_nothing(run, tmp_path):
    """Unknown formats and useless options of import and export end with status 1 or 2, and no file
    is written."""
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


def test_a_missing_library_is_reported_with_the_pip_command(run, monkeypatch):
    """--check without the library ends with status 1 and the pip command that installs it."""
    run("search corpus.txt -q -o v.volt")
    for name in ("subword_nmt", "subword_nmt.apply_bpe"):
        monkeypatch.setitem(sys.modules, name, None)
    done = run("export -m v.volt --to subword-nmt -o codes --check", status=1)
    assert b"pip install" in done.stderr


TOKENS = [bytes([byte]) for byte in range(256)] + [
    b"th",
    b"he",
    b"the",
    b" the",
    b"!!",
    b"!!\n",
    b"?\n",
    b"123",
    b".\n",
]
ROWS = b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(TOKENS))
GPT2_ROWS = b"".join(ROWS.splitlines(keepends=True)[:260])
PATTERN_TEXT = "the hat!!\n 123 the?\n"
TEKKEN = {
    "config": {
        "pattern": r"\p{L}+|\p{N}|[^\p{L}\p{N}]+",
        "default_vocab_size": 262,
        "default_num_special_tokens": 2,
    },
    "vocab": [
        {"rank": at, "token_bytes": base64.b64encode(token).decode()}
        for at, token in enumerate(TOKENS[:260])
    ],
    "special_tokens": [{"rank": 0, "token_str": "<unk>"}, {"rank": 1, "token_str": "[INST]"}],
}


@pytest.fixture
def files(run):
    """Write files of ranks with several patterns, a tekken.json, and a text."""
    Path("x.tiktoken").write_bytes(ROWS)
    Path("gpt2.tiktoken").write_bytes(GPT2_ROWS)
    Path("tekken.json").write_text(json.dumps(TEKKEN), encoding="utf-8")
    Path("t.txt").write_text(PATTERN_TEXT, encoding="utf-8")


@pytest.mark.usefixtures("files")
def test_files_without_a_pattern_need_one(run):
    """A file without a pattern needs --pattern, and the error names fitting ones; other files
    refuse it."""
    for command in (
        ["import", "x.tiktoken", "-o", "v.volt"],
        ["encode", "-m", "x.tiktoken", "t.txt"],
    ):
        message = run(*command, status=1).stderr.decode()
        assert "x.tiktoken: the file names no pattern" in message
        assert "Give the pattern that its publisher names with --pattern NAME or REGEX" in message
        assert "cl100k 0" in message
    run("import x.tiktoken -o v.volt --pattern cl100k")
    ids = run("encode -m v.volt t.txt --form ids").stdout
    assert ids == run("encode -m x.tiktoken --pattern cl100k t.txt --form ids").stdout
    assert str(TOKENS.index(b"123")).encode() in ids.split()
    assert (
        b"remove the pattern" in run("encode -m tekken.json --pattern gpt2 t.txt", status=2).stderr
    )


@pytest.mark.usefixtures("files")
def test_check_fails_if_tiktoken_splits_otherwise(run, monkeypatch):
    """--check prints both splits and fails if tiktoken's pieces differ; it notes an assumed
    pattern."""
    pytest.importorskip("tiktoken")
    check = ["t.txt", "-o", "v.volt", "--check"]
    assert run("import x.tiktoken", *check, "--pattern", "cl100k").lines == [
        "tiktoken: 2 of 2 lines have equal pieces, 2 equal ids"
    ]
    assert b"tiktoken: 2 of 2" in run("import tekken.json", *check).stdout
    assert b"a pattern that VOLT assumed" in run("import gpt2.tiktoken", *check).stderr

    def without_merges(path, **options):
        vocabulary, name = read_with_format(path, **options)
        return replace(vocabulary, merges=(), tokens=vocabulary.tokens[:256], order=()), name

    monkeypatch.setattr("volt.formats.registry.read_with_format", without_merges)
    done = run("import x.tiktoken", *check, "--pattern", "cl100k", status=1)
    assert done.lines[0] != "tiktoken: 2 of 2 lines have equal pieces, 2 equal ids"
    assert "  theirs" in done.stdout.decode()


@pytest.mark.parametrize("name", ["x.tiktoken", "tekken.json", "v.volt", "json"])
@pytest.mark.usefixtures("files")
def test_ranks_of_tiktoken_give_candidates(run, name):
    """`volt search --candidates` takes the merges of tiktoken's ranks, and of a .volt or
    tokenizer.json made of them."""
    run("import x.tiktoken -o v.volt --pattern cl100k -q")
    run("export -m v.volt --to huggingface -o json -q")
    search = [
        "search",
        "t.txt",
        "-q",
        "-o",
        "s.volt",
        "--level",
        "bytes",
        "--select",
        "tokens",
        "--candidates",
        name,
    ]
    assert b"its merges are taken" in run(*search, "--pattern", "cl100k").stderr
    merges = Vocabulary.load("s.volt").merges
    assert list(dict.fromkeys(map("".join, merges)))[:4] == [
        "th",
        "he",
        "the",
        to_characters(b" the"),
    ]
    message = run(*[word for word in search if word not in ("--level", "bytes")], status=1).stderr
    assert b"search with --level bytes" in message


@pytest.mark.usefixtures("files")
def test_unsuitable_files_are_refused(run):
    """The error for an unsuitable file names it, its kind and the remedy; huge ids take no memory."""
    rows = ROWS.splitlines(keepends=True)
    model = {"type": "BPE", "vocab": {"a": 0, "b": 2_000_000_000}, "merges": []}
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    for data, said in (
        (b"<!DOCTYPE html>\n<html></html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "git lfs pull"),
        (b"PK\x03\x04" + bytes(900), "unpack it"),
        (b"\xef\xbb\xbf#version: 0.2\nt h\n", "byte order mark"),
        (
            b"".join([*rows[:99], b"AAAA 5\n", *rows[100:]]),
            "other:100: repeats the rank 5 of line 6; remove one line",
        ),
        (
            b"".join([*rows[:99], b"AAAA -5\n", *rows[100:]]),
            "other:100: found 'AAAA -5' instead of a token in base64",
        ),
        (
            b"".join([*rows[:99], b"AAAA %d\n" % 10**9]),
            "other:100: the rank 1000000000 is not an id",
        ),
        (
            json.dumps({"model": model, "pre_tokenizer": level}).encode(),
            "other: the token 'b' has the id 2000000000",
        ),
    ):
        Path("other").write_bytes(data)
        message = run("import other -o v.volt", status=1).stderr.decode()
        assert "error other:" in message
        assert said in message
    assert not Path("v.volt").exists()


@pytest.mark.usefixtures("files")
def test_inspect_spells_bytes_as_text(run):
    """`volt inspect` shows byte tokens as text, with ␣ for spaces, numbers for broken characters,
    and counts for long runs."""
    rows = [
        *ROWS.splitlines(),
        base64.b64encode(b"=" * 64) + b" 265",
        base64.b64encode("é".encode() + b"\xc3") + b" 266",
    ]
    Path("runs").write_bytes(b"\n".join(rows))
    inspect = ["inspect", "-m", "runs", "--pattern", "cl100k", "-n", "3", "the the"]
    shown = run(*inspect).stdout.decode()
    assert "=×64" in shown
    assert "é<0xC3>" in shown
    assert "the ␣the" in " ".join(shown.split())
    assert "Ġ" not in shown
    assert json.loads(run(*inspect, "--json").stdout)["pieces"] == ["the", "Ġthe"]


@pytest.mark.usefixtures("files")
def test_codes_of_fastbpe_are_read(run):
    """Codes with a third column of counts, as fastBPE writes them, can be imported and be
    candidates."""
    pytest.importorskip("subword_nmt")
    Path("codes").write_text("t h 90\nth e</w> 7\nh a 2\nha t</w> 2\n", encoding="utf-8")
    assert b"subword-nmt: 2 of 2" in run("import codes t.txt -o v.volt --check").stdout
    assert Vocabulary.load("v.volt").merges[:2] == (("t", "h"), ("th", "e</w>"))
    run("search t.txt -q -o s.volt --select tokens --candidates codes")
    assert Vocabulary.load("s.volt").merges[:2] == (("t", "h"), ("th", "e</w>"))
    Path("codes").write_text("t h 90\nth e</w>\n", encoding="utf-8")
    assert b"codes:" in run("import codes -o v.volt", status=1).stderr
