"""Laws of a tokenizer.json that lowers letters after it composes them, as CLIP's does: what differs is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from volt.encode.encoder import Encoder
from volt.formats.registry import read_vocabulary
from volt.text.byte_alphabet import ALPHABET

tokenizers = pytest.importorskip("tokenizers")
SAID = "A mark that combines with the small letter only, such as U+030A after W, stays separate there, not here."
NFC, LOWER = {"type": "NFC"}, {"type": "Lowercase"}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def tokenizer(steps: list[dict[str, str]]) -> dict[str, Any]:
    """Bytes alone, behind these steps of a normaliser."""
    model = {
        "type": "BPE",
        "vocab": {letter: number for number, letter in enumerate(ALPHABET)},
        "merges": [],
    }
    section = {"type": "Sequence", "normalizers": steps}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": section,
        "pre_tokenizer": BYTES,
        "model": model,
    }


@pytest.mark.parametrize("steps", [[NFC, LOWER], [LOWER, NFC], [NFC, LOWER, NFC], [LOWER], [NFC]])
def test_the_sentence_is_said_where_it_is_true(tmp_path: Path, steps: list[dict[str, str]]) -> None:
    """W and U+030A, which compose only when W is lowered, give the same ids, or the loss says that they do not."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(tokenizer(steps)), encoding="utf-8")
    vocabulary, theirs = read_vocabulary(path), tokenizers.Tokenizer.from_file(str(path))
    ours, text = Encoder(vocabulary), "W\u030a"
    differs = ours.encode_ids(text).tolist() != theirs.encode(text).ids
    assert (SAID in vocabulary.provenance["lost"]) == differs
    assert differs == (steps == [NFC, LOWER])
    assert ours.encode_ids("Wow").tolist() == theirs.encode("Wow").ids
