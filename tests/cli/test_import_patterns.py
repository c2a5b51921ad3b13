"""`volt import` and commands that take a MODEL: files that name no pattern, the check, and files of other kinds."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from commands import Run

from volt.formats.registry import read_with_format
from volt.text.byte_alphabet import to_characters
from volt.vocabulary import Vocabulary

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
TEXT = "the hat!!\n 123 the?\n"
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


@pytest.fixture(autouse=True)
def files(run: Run) -> None:
    """Ranks, some of which need cl100k's pattern, others that GPT-2's goes with, a tekken.json, and a text."""
    Path("x.tiktoken").write_bytes(ROWS)
    Path("gpt2.tiktoken").write_bytes(GPT2_ROWS)
    Path("tekken.json").write_text(json.dumps(TEKKEN), encoding="utf-8")
    Path("t.txt").write_text(TEXT, encoding="utf-8")


def test_a_pattern_is_asked_for_and_taken(run: Run) -> None:
    """Without --pattern the refusal names the option and the patterns that fit; with it the text is cut by it, the same
    in import and where the file is a MODEL; a file that names its pattern takes no other."""
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


def test_the_check_succeeds_and_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """--check exits 0 where tiktoken gives the same ids with the same pattern, and 1, with both cuts, where not; it
    says so where the pattern is only assumed."""
    pytest.importorskip("tiktoken")
    check = ["t.txt", "-o", "v.volt", "--check"]
    assert run("import x.tiktoken", *check, "--pattern", "cl100k").lines == [
        "tiktoken: 2 of 2 lines have equal pieces, 2 equal ids"
    ]
    assert b"tiktoken: 2 of 2" in run("import tekken.json", *check).stdout
    assert b"a pattern that VOLT assumed" in run("import gpt2.tiktoken", *check).stderr

    def of_gpt2(path: Path, **_: object) -> tuple[Vocabulary, str]:
        return read_with_format(path, pattern="gpt2")

    monkeypatch.setattr("volt.formats.registry.read_with_format", of_gpt2)
    done = run("import x.tiktoken", *check, "--pattern", r"\p{L}+|[^\p{L}]+", status=1)
    assert done.lines[0] != "tiktoken: 2 of 2 lines have equal pieces, 2 equal ids"
    assert "  theirs" in done.stdout.decode()


@pytest.mark.parametrize("name", ["x.tiktoken", "tekken.json", "v.volt", "json"])
def test_what_ranks_stand_for_are_candidates(run: Run, name: str) -> None:
    """Merges of ranks serve as candidates whatever pattern goes with them, each of what earlier ones make; a .volt
    and a tokenizer.json made of them give the same."""
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


def test_files_of_other_kinds_are_reported_by_name(run: Run) -> None:
    """A page, a pointer, an archive, damage behind the first lines, an id beyond all: the file, what it is, what to do;
    no memory is taken for the id."""
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


def test_inspect_spells_bytes_as_text(run: Run) -> None:
    """Tokens of bytes are shown as what they spell, spaces as "␣", bytes of no whole character in numbers, long runs
    counted; as JSON they stay as they are."""
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


def test_codes_of_fastbpe_are_codes(run: Run) -> None:
    """Three columns, the last a count, mean the merges of the first two; --check goes by subword-nmt, and as candidates
    they give the same."""
    pytest.importorskip("subword_nmt")
    Path("codes").write_text("t h 90\nth e</w> 7\nh a 2\nha t</w> 2\n", encoding="utf-8")
    assert b"subword-nmt: 2 of 2" in run("import codes t.txt -o v.volt --check").stdout
    assert Vocabulary.load("v.volt").merges[:2] == (("t", "h"), ("th", "e</w>"))
    run("search t.txt -q -o s.volt --select tokens --candidates codes")
    assert Vocabulary.load("s.volt").merges[:2] == (("t", "h"), ("th", "e</w>"))
    Path("codes").write_text("t h 90\nth e</w>\n", encoding="utf-8")
    assert b"codes:" in run("import codes -o v.volt", status=1).stderr
