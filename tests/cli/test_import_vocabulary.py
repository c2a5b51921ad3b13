"""`volt import`, and merges of foreign files as candidates of a search."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from volt.formats.registry import read_with_format
from volt.text.byte_alphabet import to_characters
from volt.vocabulary import Vocabulary

CODES = "#version: 0.2\nt h\nth e\n"
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
    Path("t.txt").write_text("the hat!!\n 123 the?\n", encoding="utf-8")


def test_a_vocabulary_gives_candidates(run):
    """`volt search --candidates` takes the merges of a vocabulary file, and notes how many tokens no
    merge makes."""
    merges = (("t", "h"), ("th", "e</w>"))
    tokens = ("t", "h", "e</w>", "th", "the</w>", "cat</w>", "sat</w>")
    Vocabulary(merges, tokens, whole_words=True).save("old")
    done = run("search corpus.txt --candidates old -o new.volt")
    assert "2 of its tokens are dropped, because no merge makes them" in done.message
    assert Vocabulary.load("new.volt").merges == merges


def test_candidates_must_have_the_level_of_the_search(run):
    """Merges of bytes are refused at character level, and merges of characters at byte level."""
    Path("merges.txt").write_text("#version: 0.2\nt h\nĠ th\nth e\n", encoding="utf-8")
    Path("codes").write_text(CODES)
    command = "search corpus.txt -q -o v.volt --select tokens --candidates"
    run(f"{command} merges.txt --level bytes")
    assert Vocabulary.load("v.volt").merges == (("t", "h"), ("Ġ", "th"), ("th", "e"))
    for options, message in (
        ("merges.txt", "search with --level bytes"),
        ("codes --level bytes", "remove --level bytes"),
    ):
        assert message in run(f"{command} {options}", status=1).message
    assert "note: codes: No merge contains" in run(f"{command} codes").message


@pytest.mark.parametrize("command", ["encode -m codes corpus.txt", "import codes -o v.volt"])
def test_a_note_on_a_file_is_printed_once(run, command):
    """A note on a foreign file, which is a warning in Python, is printed once."""
    Path("codes").write_text(CODES)
    assert run(command).message.count("VOLT assumes") == 1


@pytest.mark.usefixtures("files")
def test_files_without_a_pattern_need_one(run):
    """A file without a pattern needs --pattern, and the error names fitting ones; other files
    refuse it."""
    for command in ("import x.tiktoken -o v.volt", "encode -m x.tiktoken t.txt"):
        message = run(command, status=1).message
        for part in (
            "x.tiktoken: the file names no pattern",
            "Give the pattern that its publisher names with --pattern NAME or REGEX",
            "cl100k 0",
        ):
            assert part in message
    run("import x.tiktoken -o v.volt --pattern cl100k")
    ids = run("encode -m v.volt t.txt --form ids").stdout
    assert ids == run("encode -m x.tiktoken --pattern cl100k t.txt --form ids").stdout
    assert str(TOKENS.index(b"123")).encode() in ids.split()
    refused = run("encode -m tekken.json --pattern gpt2 t.txt", status=2)
    assert "remove the pattern" in refused.message


@pytest.mark.usefixtures("files")
def test_check_fails_if_tiktoken_splits_otherwise(run, monkeypatch):
    """--check prints both splits and fails if tiktoken's pieces differ; it notes an assumed
    pattern."""
    pytest.importorskip("tiktoken")
    options = "t.txt -o v.volt --check"
    agreement = "tiktoken: 2 of 2 lines have equal pieces, 2 equal ids"
    command = f"import x.tiktoken {options} --pattern cl100k"
    assert run(command).lines == [agreement]
    assert b"tiktoken: 2 of 2" in run(f"import tekken.json {options}").stdout
    assumed = run(f"import gpt2.tiktoken {options}")
    assert "a pattern that VOLT assumed" in assumed.message

    def without_merges(path, **options):
        vocabulary, name = read_with_format(path, **options)
        return replace(vocabulary, merges=(), tokens=vocabulary.tokens[:256], order=()), name

    monkeypatch.setattr("volt.formats.registry.read_with_format", without_merges)
    done = run(command, status=1)
    assert done.lines[0] != agreement
    assert b"  theirs" in done.stdout


@pytest.mark.parametrize("name", ["x.tiktoken", "tekken.json", "v.volt", "json"])
@pytest.mark.usefixtures("files")
def test_ranks_of_tiktoken_give_candidates(run, name):
    """`volt search --candidates` takes the merges of tiktoken's ranks, and of a .volt or
    tokenizer.json made of them."""
    run("import x.tiktoken -o v.volt --pattern cl100k -q")
    run("export -m v.volt --to huggingface -o json -q")
    command = f"search t.txt -q -o s.volt --select tokens --candidates {name}"
    done = run(f"{command} --level bytes --pattern cl100k")
    assert "its merges are taken" in done.message
    tokens = list(dict.fromkeys(map("".join, Vocabulary.load("s.volt").merges)))
    assert tokens[:4] == ["th", "he", "the", to_characters(b" the")]
    assert "search with --level bytes" in run(command, status=1).message


@pytest.mark.usefixtures("files")
def test_unsuitable_files_are_refused(run):
    """The error for an unsuitable file names it, its kind and the remedy; huge ids take no memory."""
    rows = ROWS.splitlines(keepends=True)
    model = {"type": "BPE", "vocab": {"a": 0, "b": 2_000_000_000}, "merges": []}
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    for data, fault in (
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
        message = run("import other -o v.volt", status=1).message
        assert "error other:" in message
        assert fault in message
    assert not Path("v.volt").exists()


@pytest.mark.usefixtures("files")
def test_inspect_spells_bytes_as_text(run):
    """`volt inspect` shows byte tokens as text, with ␣ for spaces, numbers for broken characters,
    and counts for long runs."""
    long_run = base64.b64encode(b"=" * 64) + b" 265\n"
    broken = base64.b64encode("é".encode() + b"\xc3") + b" 266\n"
    Path("runs").write_bytes(ROWS + long_run + broken)
    command = "inspect -m runs --pattern cl100k -n 3 the the"
    shown = run(command).stdout.decode()
    for part in ("=×64", "é<0xC3>"):
        assert part in shown
    assert "the ␣the" in " ".join(shown.split())
    assert "Ġ" not in shown
    assert json.loads(run(f"{command} --json").stdout)["pieces"] == ["the", "Ġthe"]


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
