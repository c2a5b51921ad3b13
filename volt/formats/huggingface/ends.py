"""How byte tokens spell the end of a word in a tokenizer.json: a character that is unknown there becomes bytes.

tokenizers puts "</w>" behind the last character of a word before it looks it up. An unknown "é</w>" so becomes the
bytes of "é" and four more, which VOLT gives as the one token "</w>". Three merges, ahead of all others, make one token
of the four, beginning with the last two: "w" is a token, so its byte stands in front of ">" nowhere else.

>>> model = {"vocab": {"<0x77>": 0, "</w>": 1, "w": 2, "x": 3}, "merges": [], "byte_fallback": True}
>>> found = with_ends(model)
>>> list(found["vocab"])[4:], found["merges"][0], without_ends({"model": found})["model"] == model
(['<0x77><0x3E>', '<0x2F><0x77><0x3E>'], ['<0x77>', '<0x3E>'], True)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from volt.text.markers import SUFFIX

Json = dict[str, Any]

_BYTES = [f"<0x{byte:02X}>" for byte in SUFFIX.encode()]
ENDED = "".join(_BYTES)  # how the token "</w>" is spelled then
_MERGES = [[_BYTES[first], "".join(_BYTES[first + 1 :])] for first in range(len(_BYTES) - 2, -1, -1)]
_HELPERS = ["".join(pair) for pair in _MERGES[:-1]]


def with_ends(model: Json) -> Json:
    """The model section with these merges, and two tokens more, behind all others, that no text is left with."""
    first = 1 + max(model["vocab"].values())
    vocab = {ENDED if token == SUFFIX else token: number for token, number in model["vocab"].items()}
    vocab |= {helper: first + number for number, helper in enumerate(_HELPERS)}
    return model | {"vocab": vocab, "merges": _MERGES + model["merges"]}


def without_ends(data: Json) -> Json:
    """The whole file as it would be without these merges, or itself if it has none.

    >>> without_ends({"model": {"vocab": {"l": 0}}})
    {'model': {'vocab': {'l': 0}}}
    """
    if not has_ends(data):
        return data
    model, added = data["model"], data.get("added_tokens") or []
    renamed = [row | {"content": SUFFIX} if row.get("content") == ENDED else row for row in added]
    return data | {
        "added_tokens": renamed,
        "model": model | {"vocab": vocab_without_ends(model["vocab"]), "merges": model["merges"][len(_MERGES) :]},
    }


def vocab_without_ends(vocab: Mapping[str, int]) -> dict[str, int]:
    """The ids of the tokens, with "</w>" as VOLT spells it, and without the two that help to make it.

    >>> vocab_without_ends({"l": 0, ENDED: 1, "<0x77><0x3E>": 2})
    {'l': 0, '</w>': 1}
    """
    if ENDED not in vocab:
        return dict(vocab)
    return {SUFFIX if token == ENDED else token: n for token, n in vocab.items() if token not in _HELPERS}


def has_ends(data: Json) -> bool:
    """Whether a file has these merges.

    >>> has_ends({"model": {"vocab": {"l": 0}}})
    False
    """
    model = data.get("model")
    vocab, merges = (model.get("vocab"), model.get("merges")) if isinstance(model, dict) else (None, None)
    return isinstance(vocab, dict) and ENDED in vocab and isinstance(merges, list) and merges[:3] == _MERGES
