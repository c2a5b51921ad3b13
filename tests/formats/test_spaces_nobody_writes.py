"""A tokenizer.json whose tokens hold "▁" for spaces, while none of its steps writes one, is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from volt import read_vocabulary
from volt.errors import VocabularyError

CUTS: list[dict[str, Any]] = [
    {"type": "Digits", "individual_digits": True},
    {"type": "Punctuation", "behavior": "Isolated"},
    {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithNext", "invert": False},
]


def write(folder: Path, cut: dict[str, Any], suffix: str | None = None) -> Path:
    """A small file of these sections."""
    tokens = ["<unk>", "▁", "a", "b", "▁a"]
    model = {
        "type": "BPE",
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": [["▁", "a"]],
        "unk_token": "<unk>",
        "end_of_word_suffix": suffix,
    }
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({"pre_tokenizer": cut, "model": model, "added_tokens": []}))
    return path


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut["type"])
def test_spaces_that_no_step_writes_are_refused(cut: dict[str, Any], tmp_path: Path) -> None:
    """The library does not find " " among its tokens, so each line with a space would get other ids here."""
    with pytest.raises(VocabularyError, match=r"'▁' stands for spaces, but no step writes '▁'"):
        read_vocabulary(write(tmp_path, cut))


def test_metaspace_beside_a_suffix_is_refused(tmp_path: Path) -> None:
    """A word marked at its start and its end cannot be a word of VOLT."""
    cut = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": False}
    with pytest.raises(VocabularyError, match="VOLT marks only one end; remove one"):
        read_vocabulary(write(tmp_path, cut, "</w>"))
