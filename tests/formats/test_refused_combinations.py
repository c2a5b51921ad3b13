"""Combinations that other libraries allow and no vocabulary of VOLT's is: refused with the reason, or reported."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from volt.errors import VocabularyError
from volt.formats.registry import read_vocabulary
from volt.text.byte_alphabet import BYTE_TOKENS

BYTES = list(BYTE_TOKENS)
LINE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False}
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}


def tokenizer_json(
    folder: Path, tokens: list[str], cut: dict[str, Any], *, added: Any = (), **model: Any
) -> Path:
    """A tokenizer.json of these tokens, which no merges make."""
    vocab = {token: number for number, token in enumerate(tokens)}
    data = {
        "version": "1.0",
        "added_tokens": list(added),
        "pre_tokenizer": cut,
        "model": {"type": "BPE", "vocab": vocab, "merges": [], **model},
    }
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("tokens", "cut", "model", "named"),
    [
        ([*BYTES, "a"], LEVEL, {"byte_fallback": True}, "not all letters of ByteLevel are tokens"),
        (
            [*BYTES, "a", "b"],
            {"type": "Punctuation", "behavior": "Isolated"},
            {"byte_fallback": True},
            "<0x20>",
        ),
        (
            [*BYTES, "a", "b</w>"],
            {"type": "WhitespaceSplit"},
            {"byte_fallback": True, "end_of_word_suffix": "</w>"},
            "the suffix of an unknown character",
        ),
        (["▁", "a", "a</w>"], LINE, {"end_of_word_suffix": "</w>"}, "VOLT marks only one end"),
        (
            ["▁", "a", "▁a"],
            LINE,
            {"ignore_merges": True},
            "ignore_merges looks up whole lines in tokenizers",
        ),
    ],
)
def test_a_tokenizer_that_would_differ_is_refused(tmp_path, tokens, cut, model, named):
    """The message says what the library does, and what to do."""
    with pytest.raises(VocabularyError, match=named):
        read_vocabulary(tokenizer_json(tmp_path, tokens, cut, **model))


@pytest.mark.parametrize(("first", "is_reported"), [("b", True), ("x", False)])
def test_added_tokens_that_break_others_are_reported(tmp_path, first, is_reported):
    """Those that are looked for in raw text come first in tokenizers."""
    added = [
        {"id": 2, "content": "ab", "normalized": True},
        {"id": 3, "content": first, "normalized": False},
    ]
    tokens = ["a", "c", "ab", first]
    path = tokenizer_json(tmp_path, tokens, {"type": "WhitespaceSplit"}, added=added)
    lost = read_vocabulary(path).provenance["lost"]
    assert any("found before ab" in said for said in lost) == is_reported


def test_ends_that_a_model_lacks_are_reported(tmp_path):
    """sentencepiece puts a "▁" behind a character that has no piece with one; here it is unknown."""
    library = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(["a1 b2 ab12"] * 9),
        model_writer=model,
        model_type="bpe",
        vocab_size=30,
        hard_vocab_limit=False,
        treat_whitespace_as_suffix=True,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    path = tmp_path / "a.model"
    path.write_bytes(model.getvalue())
    [said] = [said for said in read_vocabulary(path).provenance["lost"] if "ends no word" in said]
    assert "2 tokens" in said
