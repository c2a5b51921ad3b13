"""Laws of reading tokenizer.json: what tokenizers trains encodes alike in VOLT, what is damaged is refused by name."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

import pytest
from exports import LINES, assert_agree, learn

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface

pytest.importorskip("tokenizers")


@cache
def written(marker, pretokenizer):
    """The tokenizer.json of a vocabulary that is learned from the lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        huggingface.write(learn(LINES, marker, pretokenizer), path)
        return path.read_text()


def test_bytes_behind_a_pattern(tmp_path):
    """Split and ByteLevel without its regex: GPT-2's own pattern is read as bytes, another as bytes cut by it; words
    and ids agree."""
    data = json.loads(written("none", "bytes"))
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    gpt2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    path = tmp_path / "tokenizer.json"
    for pattern in (gpt2, r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+"):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, level]}
        path.write_text(json.dumps(data))
        vocabulary = huggingface.read(path)
        assert (vocabulary.pretokenizer.name == "bytes") == (pattern == gpt2)
        assert_agree(Encoder(vocabulary), huggingface.peer(path), LINES)


def _train(kind):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    special = ["<|end|>"] if kind == "bytes" else ["<unk>", "[MASK]"]
    options = {"vocab_size": 420, "special_tokens": special, "show_progress": False}
    suffix = {"end_of_word_suffix": "</w>"} if kind == "suffix" else {}
    real = Tokenizer(models.BPE(**({} if kind == "bytes" else {"unk_token": "<unk>"}), **suffix))
    if kind == "bytes":
        real.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        real.decoder = decoders.ByteLevel()
        options["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    elif kind == "suffix":
        real.pre_tokenizer, real.normalizer = pre_tokenizers.WhitespaceSplit(), normalizers.NFC()
    elif kind == "bert":
        real.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    elif kind == "words":
        real.pre_tokenizer = pre_tokenizers.Whitespace()
    else:
        real.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never" if kind == "never" else "always")
    real.train_from_iterator(LINES, trainers.BpeTrainer(**options, **suffix))
    return real


@pytest.mark.parametrize("kind", ["bytes", "suffix", "metaspace", "never", "bert", "words"])
def test_trained_files_are_read_and_agree(kind, tmp_path):
    """What tokenizers trains and saves encodes in VOLT to the same pieces and ids; merges written as strings too."""
    real = _train(kind)
    real.save(str(tmp_path / "tokenizer.json"))
    data = json.loads((tmp_path / "tokenizer.json").read_text())
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    (tmp_path / "old.json").write_text(json.dumps(data))
    peer = huggingface.peer(tmp_path)
    new = ["other words: newlow wideest Größe 😀 Ж", "the [MASK] is", "the", "a  <|end|>b <|end|>"]
    lines = [*LINES, *new]
    for path in (tmp_path, tmp_path / "old.json"):
        assert_agree(Encoder(huggingface.read(path)), peer, lines)


def test_a_regex_that_the_library_cannot_read_is_refused(tmp_path):
    """A file that tokenizers could not load is not written."""
    with pytest.raises(VocabularyError, match=r"cannot read the regex '\(\?s\)\.'.*Oniguruma"):
        huggingface.write(learn(LINES, "none", "regex:(?s)."), tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("level", ["metaspace", "unicode"])
def test_the_first_word_keeps_its_space_beside_user_tokens(level, tmp_path):
    """With an end marker and user tokens, too, a line starts with "▁", and so does a user token behind a space; but a
    line that is just one, as notes say; the file reads back to an equal fingerprint."""
    vocabulary = learn(LINES, "suffix", level, user=("<url>",))
    notes = huggingface.write(vocabulary, tmp_path / "m")
    assert any("just <url> gets no '▁'" in note for note in notes)
    lines = [
        "the lower",
        "the newest, the widest",
        "größe naïve",
        "x",
        " the  <url> lower",
        "<url> the",
        "<url><url>",
        "  ",
    ]
    assert_agree(Encoder(vocabulary), huggingface.peer(tmp_path / "m"), lines)
    assert huggingface.read(tmp_path / "m").fingerprint == vocabulary.fingerprint


def test_of_equal_merges_the_last_counts(tmp_path):
    """A merge that is listed twice has its later rank, in VOLT as in tokenizers."""
    merges = [["a", "b"], ["b", "c"], ["a", "b"]]
    vocab = {token: number for number, token in enumerate(["a", "b", "c", "ab", "bc"])}
    model = {"type": "BPE", "vocab": vocab, "merges": merges}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"version": "1.0", "model": model, "pre_tokenizer": {"type": "WhitespaceSplit"}}))
    pieces = Encoder(huggingface.read(path)).encode_lines(["abc ab"])
    assert pieces == huggingface.peer(path).pieces(["abc ab"]) == [["a", "bc", "ab"]]


def test_files_that_are_no_json_are_refused(tmp_path):
    """Cut at any place, in another encoding, absent: the error names the file and, where there is one, the line."""
    text, path = written("suffix", "whitespace"), tmp_path / "tokenizer.json"
    for cut in range(0, len(text) - 2, len(text) // 12):
        path.write_text(text[:cut])
        with pytest.raises(VocabularyError, match=r"tokenizer.json:\d+: damaged"):
            huggingface.read(path)
    path.write_bytes(text.encode("utf-16"))
    with pytest.raises(VocabularyError, match=r"tokenizer.json:1: not UTF-8"):
        huggingface.read(path)
    path.write_text(text.replace('"l": ', '"o": ', 1))
    with pytest.raises(VocabularyError, match="'o' occurs twice"):
        huggingface.read(path)
    with pytest.raises(VocabularyError, match="cannot be read"):
        huggingface.read(tmp_path / "none.json")
    with pytest.raises(VocabularyError, match="cannot load"):
        huggingface.peer(tmp_path / "none.json")
