"""Laws of special tokens that a file does not name: with them text encodes as in the library that is named the same."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from commands import Run
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.errors import ConfigError
from volt.formats.registry import read_vocabulary
from volt.text.byte_alphabet import ALPHABET
from volt.text.patterns.published import NAMED

tiktoken = pytest.importorskip("tiktoken")
WORDS = [b"th", b"he", b"the", b" the", b"123", b"!!", b"<|"]
RANKS = {
    token: rank for rank, token in enumerate([*(bytes([byte]) for byte in range(256)), *WORDS])
}
NAMES = {"<|end|>": 270, "<|a|>": 265, "[INST]": 264}
TELLING = "The file names no special tokens"


def ranks_file(folder: Path) -> Path:
    """Ranks of all bytes and a few words."""
    path = folder / "x.tiktoken"
    path.write_bytes(
        b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in RANKS.items())
    )
    return path


@given(
    st.lists(
        st.sampled_from([*NAMES, "the", " ", "  ", "123", "!!", "<|", "é", "\t", "a"]), max_size=9
    )
)
@settings(deadline=None, max_examples=examples(60))
def test_text_encodes_as_in_tiktoken(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    """The same ids as tiktoken.Encoding with special_tokens and allowed_special="all"; they decode to the text."""
    folder = tmp_path_factory.getbasetemp()
    encoder = Encoder(
        read_vocabulary(ranks_file(folder), pattern="cl100k", special=NAMES, eos="<|end|>")
    )
    theirs = tiktoken.Encoding(
        "x", pat_str=NAMED["cl100k"][0].pattern, mergeable_ranks=RANKS, special_tokens=dict(NAMES)
    )
    ids, text = theirs.encode("".join(parts), allowed_special="all"), "".join(parts)
    assert encoder.encode_ids(text).tolist() == ids
    assert encoder.decode_ids(ids) == text


def test_no_sentence_says_what_is_not_so_any_more(tmp_path: Path) -> None:
    """Once tokens are named, the loss is gone that there are none; errors name the file."""
    path = ranks_file(tmp_path)
    assert any(
        TELLING in loss for loss in read_vocabulary(path, pattern="cl100k").provenance["lost"]
    )
    named = read_vocabulary(path, pattern="cl100k", eos={"<|end|>": 300})
    assert not any(TELLING in loss for loss in named.provenance["lost"])
    assert (named.ids["<|end|>"], named.special.user, named.special.eos) == (300, (), "<|end|>")
    with pytest.raises(ConfigError, match=r"x\.tiktoken: the id 5 of '<\|end\|>' belongs to 'ą'"):
        read_vocabulary(path, pattern="cl100k", special={"<|end|>": 5})


def test_import_takes_tokens_and_checks_with_them(run: Run) -> None:
    """`volt import --special TOKEN=ID --eos TOKEN`: the library is named the same tokens, in the file's format and in
    those that it is exported to."""
    ranks_file(Path())
    Path("t.txt").write_text("the <|end|>the[INST] <|a|>\nx\n", encoding="utf-8")
    named = [word for name, number in NAMES.items() for word in ("--special", f"{name}={number}")]
    done = run(
        "import",
        "x.tiktoken",
        "t.txt",
        "-o",
        "v.volt",
        "--check",
        "--pattern",
        "cl100k",
        *named,
        "--eos",
        "<|end|>",
    )
    assert done.lines == ["tiktoken: 2 of 2 lines have equal pieces, 2 equal ids"]
    assert TELLING not in done.stderr.decode()
    ids = run("encode", "-m", "v.volt", "t.txt", "--form", "ids").stdout.split()
    assert [*map(int, ids)] == [258, 32, 270, 258, 264, 32, 265, ord("x")]
    for to in ("tiktoken", "huggingface"):
        done = run("export", "-m", "v.volt", "--to", to, "-o", f"out-{to}", "--check", "t.txt")
        assert "2 of 2 lines have equal pieces, 2 equal ids" in done.stdout.decode()
    config = json.loads(Path("out-huggingface/tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["eos_token"] == "<|end|>"
    message = run("import", "x.tiktoken", "-o", "w.volt", "--pattern", "cl100k").stderr.decode()
    assert "import the file with these tokens and their ids as special or eos" in message
    for two in (("<a>=7", "<a>=8"), ("<a>=7", "<a>=0"), ("<a>=0", "<a>"), ("<a>", "<a>=7")):
        special = [word for name in two for word in ("--special", name)]
        message = run("import", "x.tiktoken", "-o", "w.volt", *special, status=2).stderr
        assert b"--special '<a>' has two different ids; remove one" in message


def test_the_end_of_gpt2s_files_is_named(run: Run) -> None:
    """vocab.json and merges.txt name no special tokens: import says what transformers does, and how to have it here;
    with the token named, both sentences about it are gone."""
    vocab = {token: number for number, token in enumerate([*ALPHABET, "Ġt", "<|endoftext|>"])}
    Path("vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    Path("merges.txt").write_text("#version: 0.2\nĠ t\n", encoding="utf-8")
    Path("t.txt").write_text("a t<|endoftext|> t\n", encoding="utf-8")
    command = ["import", "merges.txt", "t.txt", "-o", "v.volt", "--check"]
    message = run(*command).stderr.decode()
    assert "transformers finds GPT-2's '<|endoftext|>' in text" in message
    assert "to do the same, import the file with it as special" in message
    done = run(*command, "--special", "<|endoftext|>")
    assert done.lines == ["tokenizers: 1 of 1 lines have equal pieces, 1 equal ids"]
    assert "endoftext" not in done.stderr.decode()
    assert (
        str(vocab["<|endoftext|>"]).encode()
        in run("encode", "-m", "v.volt", "t.txt", "--form", "ids").stdout
    )
