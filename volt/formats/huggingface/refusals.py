"""Combinations in a tokenizer.json whose pieces no vocabulary of VOLT's gives, each told with what to do.

>>> refuse({"end_of_word_suffix": "</w>", "byte_fallback": True}, {}, Scheme("suffix", "none", "whitespace", ()))
Traceback (most recent call last):
    ...
volt.errors.VocabularyError: byte_fallback and end_of_word_suffix: an unknown last character is spelled by its bytes and
those of '</w>' there, which VOLT cannot; set byte_fallback to false if text holds no such characters
"""

from __future__ import annotations

from volt.errors import VocabularyError
from volt.formats.huggingface.foreign import flat
from volt.formats.huggingface.pipeline import Json, Scheme
from volt.text.byte_alphabet import ALPHABET


def refuse(model: Json, data: Json, scheme: Scheme) -> None:
    """Raise VocabularyError for what a scheme of others does that no scheme of VOLT's does."""
    falls_back, looks_up = bool(model.get("byte_fallback")), bool(model.get("ignore_merges"))
    is_line = scheme.pretokenizer.startswith("metaspace") and not _splits(data)
    if falls_back and scheme.marker == "suffix":
        raise VocabularyError(
            f"byte_fallback and end_of_word_suffix: an unknown last character is spelled by its bytes and those of "
            f"{model['end_of_word_suffix']!r} there, which VOLT cannot; set byte_fallback to false if text holds no "
            "such characters"
        )
    if falls_back and scheme.pretokenizer.startswith("bytes") and not model["vocab"].keys() >= set(ALPHABET):
        raise VocabularyError(
            "byte_fallback and ByteLevel, whose letters are not all tokens: the bytes of the letter are spelled there, "
            "not the byte that it stands for, which VOLT cannot; train one with all 256 letters"
        )
    if falls_back and _keeps_spaces(scheme) and " " not in model["vocab"]:
        raise VocabularyError(
            "byte_fallback, and words that hold spaces, which are no token: a space is the token <0x20> there, and the "
            "bytes of '▁' here; train one with a space in the alphabet"
        )
    if is_line and scheme.marker == "suffix":
        raise VocabularyError(
            "end_of_word_suffix, and a line that is not split: it ends once there, and at each word here; train one "
            "with split=true"
        )
    if is_line and looks_up:
        raise VocabularyError(
            "ignore_merges, and a line that is not split: the line is looked up there, and each word here; set "
            "ignore_merges to false if no line is a token that its merges do not make"
        )
    if scheme.marker != "none" and looks_up and not scheme.takes_users_as_words:
        raise VocabularyError(
            f"ignore_merges, and words that are marked ({scheme.marker}): words are looked up without their mark "
            "there, which VOLT cannot; set it to false if no word is a token that its merges do not make"
        )


def _keeps_spaces(scheme: Scheme) -> bool:
    """Whether words may hold spaces that do not become "▁" there."""
    marks = ("metaspace", "bytes", "regex:", "matches:")  # or drop what stands between words
    return scheme.pretokenizer != "whitespace" and not scheme.pretokenizer.startswith(marks)


def _splits(data: Json) -> bool:
    """Whether a step cuts text at its spaces."""
    cuts = flat(data.get("pre_tokenizer"), "pretokenizers")
    return any(cut.get("type") == "Metaspace" and cut.get("split", True) for cut in cuts)
