"""Laws of Mistral's tekken.json: it is read with its own pattern and special tokens, or refused."""

import base64
import json

import pytest
from support.exports import LINES

from volt.errors import ConfigError, VocabularyError
from volt.formats import check
from volt.formats.registry import format_of, read_vocabulary

CONFIG = {
    "pattern": r"\p{N}| ?\p{L}+|.",
    "default_vocab_size": 288,
    "default_num_special_tokens": 30,
}
TOKENS = [*(bytes([byte]) for byte in range(256)), b"lo", b"low", b"never"]


def tekken(folder, **sections):
    """Write a small tekken.json, with some sections replaced, and return its path."""
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate(TOKENS)
    ]
    special = [{"rank": n, "token_str": name} for n, name in enumerate(("<unk>", "<s>", "[I]"))]
    data = {"config": CONFIG, "vocab": vocab, "special_tokens": special} | sections
    path = folder / "tekken.json"
    path.write_text(json.dumps(data))
    return path


def test_tekken_is_read_with_all_it_says(tmp_path):
    """The vocabulary of a tekken.json has the file's pattern, special tokens (the first ids, never
    found in text), and only the tokens below default_vocab_size; `check` agrees. A caller's pattern
    is refused. Without special_tokens, they are Mistral's usual ones.
    """
    pytest.importorskip("tiktoken")
    path = tekken(tmp_path)
    vocabulary = read_vocabulary(path)
    assert vocabulary.pieces[:5] == ("<unk>", "<s>", "[I]", "<SPECIAL_3>", "<SPECIAL_4>")
    assert vocabulary.special.roles == {"unk": "<unk>", "bos": "<s>"}
    assert (len(vocabulary), vocabulary.ids["low"], "never" in vocabulary) == (288, 287, False)
    lines = ["low <s> 12 [I] never", *LINES]
    assert check.check(vocabulary, path, format_of(path), lines).is_complete
    with pytest.raises(ConfigError, match="remove the pattern"):
        read_vocabulary(path, pattern="gpt2")
    assert read_vocabulary(tekken(tmp_path, special_tokens=None)).pieces[3:5] == (
        "[INST]",
        "[/INST]",
    )


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"config": {"pattern": "a"}}, "'default_vocab_size' is missing"),
        ({"config": CONFIG | {"default_vocab_size": 9999}}, "do not match"),
        ({"config": CONFIG | {"pattern": "(?=a)"}}, "pattern"),
        ({"vocab": 3}, "'vocab' is missing or not a list"),
        ({"vocab": [{"rank": 0, "token_bytes": "?"}] * 300}, "vocab, row 1: found"),
        ({"special_tokens": [{"rank": 0}]}, "'special_tokens' must list each rank"),
        ({"special_tokens": [{"rank": 0, "token_str": ["<s>"]}]}, "at most once"),
        ({"special_tokens": [{"rank": 0, "token_str": "<SPECIAL_3>"}]}, "at most once"),
    ],
)
def test_damage_is_reported(sections, message, tmp_path):
    """The error for a damaged tekken.json names the file and the section or row."""
    with pytest.raises(VocabularyError, match=f"tekken.json.*{message}"):
        read_vocabulary(tekken(tmp_path, **sections))
