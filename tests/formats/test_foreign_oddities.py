"""Laws of odd foreign files: what cannot be read is refused by name, and what differs from the library is reported."""

from __future__ import annotations

import base64
import json
import os
import threading
from pathlib import Path

import pytest
from commands import Run

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface, tiktoken
from volt.formats.registry import format_of, read_vocabulary
from volt.formats.sentencepiece import charsmap
from volt.formats.sentencepiece.model_file import vocabulary_of
from volt.formats.sentencepiece.writing import model_rows, to_proto
from volt.text.patterns.cut_tokens import leaves_gaps
from volt.text.patterns.splitter import Split
from volt.vocabulary import Vocabulary

LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def tokenizer(
    path: Path, vocab: dict[str, int], added: list[dict], normalizer: dict | None = None
) -> Path:
    """A tokenizer.json without merges."""
    model = {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": None}
    cut = LEVEL if normalizer is None else None
    path.write_text(
        json.dumps(
            {"model": model, "pre_tokenizer": cut, "normalizer": normalizer, "added_tokens": added}
        )
    )
    return path


def ranks(path: Path, numbers: list[int]) -> Path:
    """A ranks file of all bytes with these ranks, in their order."""
    rows = (
        base64.b64encode(bytes([byte])) + b" %d\n" % number for byte, number in enumerate(numbers)
    )
    path.write_bytes(b"".join(rows))
    return path


@pytest.mark.parametrize("number", [1 << 21, 10**12, 10**30])
def test_an_id_beyond_all_is_refused_by_name(tmp_path: Path, number: int) -> None:
    """Before room is taken for rows of lower ids, in the model and in the added tokens."""
    for vocab, added in [({"l": 0, "o": number}, []), ({"l": 0}, [{"id": number, "content": "o"}])]:
        with pytest.raises(VocabularyError, match="'o' has the id"):
            huggingface.read(tokenizer(tmp_path / "a.json", vocab, added))


@pytest.mark.parametrize("pattern", [r"\w+", r"[a-z]+| [a-z]+", "(?:..)", r"\w+|\W"])
def test_tiktoken_and_volt_drop_the_same_text(tmp_path: Path, pattern: str) -> None:
    """A pattern that does not match all text leaves out what the library leaves out."""
    path = ranks(tmp_path / "a.tiktoken", list(range(256)))
    vocabulary = read_vocabulary(path, pattern=pattern)
    library = pytest.importorskip("tiktoken").Encoding(
        "a",
        pat_str=pattern,
        mergeable_ranks={bytes([byte]): byte for byte in range(256)},
        special_tokens={},
    )
    encoder = Encoder(vocabulary)
    for line in ("/", "a b, Éc!d", "  x 1\t2", ""):
        assert encoder.ids(encoder.encode(line)).tolist() == library.encode_ordinary(line)


def test_gaps_are_found() -> None:
    """A pattern leaves gaps if some text has a character in no match."""
    whole = (r"\s+|\S+", r"\s+$|\S+|\s", "(?:..)|[\\s\\S]")
    assert not any(leaves_gaps(Split(pattern)) for pattern in whole)
    assert all(
        leaves_gaps(Split(pattern)) for pattern in (".", r"\s+$|\S+", r"\s(?!\S)|\S", "[^a]")
    )


@pytest.mark.parametrize("numbers", [[*range(255, -1, -1)], [*range(7, 775, 3)], [*range(256)]])
def test_ranks_in_any_order_are_recognised(tmp_path: Path, numbers: list[int]) -> None:
    """Whatever the file is called; one that is called .tiktoken, or has a bad row, is reported for its row."""
    path = ranks(tmp_path / "a", numbers)
    assert format_of(path) == "tiktoken"
    assert read_vocabulary(path, pattern="gpt2").pieces[numbers[97]] == "a"
    path.write_bytes(path.read_bytes().replace(b"YQ==", b"Y$=="))
    with pytest.raises(VocabularyError, match="a:98: found"):
        read_vocabulary(path, pattern="gpt2")
    assert not tiktoken.recognises(Path("dict.txt"), b"this 7\nthat 3\n")


def test_tokens_found_behind_what_is_prepended_are_reported(tmp_path: Path) -> None:
    """Where a normalizer writes in front of text, an added token that is normalised is met there alone."""
    steps = [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ]
    normalizer = {"type": "Sequence", "normalizers": steps}
    for is_normalized in (True, False):
        added = [{"id": 2, "content": "é!", "normalized": is_normalized}]
        vocabulary = huggingface.read(
            tokenizer(tmp_path / "a.json", {"▁": 0, "l": 1}, added, normalizer)
        )
        assert (
            any("in normalised text" in message for message in vocabulary.provenance["lost"])
            == is_normalized
        )


def test_a_pipe_is_read_once(run: Run) -> None:
    """By commands; a call says that it needs a file."""
    tokenizer(Path("a.json"), {"l": 0, "o": 1}, [])
    os.mkfifo("pipe")
    with pytest.raises(VocabularyError, match="a pipe, which can be read only once"):
        read_vocabulary("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(Path("a.json").read_bytes()))
    writer.start()
    run("import", "pipe", "-o", "b.volt")
    writer.join()
    run("import", "a.json", "-o", "a.volt")
    assert Path("a.volt").read_bytes() == Path("b.volt").read_bytes()


def test_damaged_tables_and_pieces_of_sentencepiece_are_refused() -> None:
    """As the library refuses them: a unit that leads out of the table, and a piece with U+0000."""
    pytest.importorskip("sentencepiece")
    table = charsmap.pack({"A": "a", "É": "e"})
    charsmap.check(table)
    charsmap.check(b"")
    for damaged in (table[:5] + table[6:], table[:-1]):
        with pytest.raises(VocabularyError, match="table of replacements is damaged"):
            charsmap.check(damaged)
    vocabulary = Vocabulary(merges=(("▁", "l"),), tokens=("▁", "l", "▁l"), marker="prefix")
    model = to_proto(vocabulary, list(model_rows(vocabulary)))
    vocabulary_of(model)
    model.pieces[-1].piece = "l\0"
    with pytest.raises(VocabularyError, match="U\\+0000"):
        vocabulary_of(model)


def test_checks_say_what_they_did(run: Run) -> None:
    """A text without lines is reported, and a name that promises a packed file refused."""
    pytest.importorskip("tokenizers")
    tokenizer(Path("a.json"), {"l": 0, "o": 1}, [])
    Path("empty").touch()
    assert (
        b"nothing was compared"
        in run("import", "a.json", "-o", "a.volt", "--check", "empty").stderr
    )
    assert b"remove .gz" in run("import", "a.json", "-o", "a.volt.gz", status=2).stderr
