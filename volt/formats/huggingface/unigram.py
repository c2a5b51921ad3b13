r"""Unigram model section of a tokenizer.json ⇄ scores of a vocabulary.

    {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["▁low", -4.5], …]}

The position of a piece is its id. Every piece is found in text, special tokens and byte tokens, too.

>>> section = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.5]]}
>>> model = read_model({"model": section})
>>> model["vocab"], model["unk_token"], model["scores"]
({'<unk>': 0, 'a': 1}, '<unk>', {'<unk>': 0.0, 'a': -1.5})
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from math import inf, isfinite, nextafter
from typing import Any

from volt.display import counted
from volt.errors import VocabularyError, quoted, shown
from volt.formats.huggingface.pipeline_writing import (
    FUSE,
    SPACE_BACK,
    STRIP_FIRST,
    Json,
    as_object,
)
from volt.text.atoms import PREFIX
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.vocabulary import Vocabulary

_DAMAGED = "download or export it again"
_MOST_DIGITS = (1 << 64) - 1  # the largest number of digits that the library reads exactly
_MOST_EXPONENT = 308
_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_SAFE_SCORE = 10.0  # if no score is above it, a run of unknown characters never spells a piece


def is_unigram(data: Json) -> bool:
    """Check whether the model of a tokenizer.json has scores. Older files do not name its type."""
    model = as_object(data.get("model"))
    return model.get("type") == "Unigram" or ("type" not in model and "unk_id" in model)


def read_model(data: Json) -> Json:
    """Return the model section of a unigram model, in the form that a section with merges has.

    Its "vocab" is token → id; "scores" is token → score.

    Raises VocabularyError if an entry is damaged, or if VOLT cannot encode as the model does.
    """
    section = data["model"]
    scores = _read_scores(section.get("vocab"))
    never_found = [piece for piece in scores if not piece or " " in piece]
    found = [piece for piece in scores if piece and " " not in piece]
    if never_found and min(scores.values()) < min(map(scores.__getitem__, found), default=inf):
        raise VocabularyError(
            f"{quoted(never_found[0])} is empty or contains a space, which no word does, "
            "but its score may be the least, on which unknown characters depend; "
            f"write {PREFIX!r} for a space"
        )
    ids = {piece: number for number, piece in enumerate(scores)}
    return {
        **section,
        "vocab": {piece: ids[piece] for piece in found},
        "scores": scores,
        "unk_token": _read_unknown_token(section.get("unk_id"), list(scores)),
        "merges": [],
        "never_found": never_found,
    }


def _read_scores(vocab: Any) -> dict[str, float]:
    """Return the score of each piece, in the order of ids."""
    if not isinstance(vocab, list) or not vocab:
        raise VocabularyError(f"model.vocab is missing, empty or not a list; {_DAMAGED}")
    scores = dict[str, float]()
    for number, entry in enumerate(vocab):
        place = f"model.vocab, entry {number + 1}"
        if not (isinstance(entry, list) and list(map(type, entry)) in ([str, float], [str, int])):
            raise VocabularyError(
                f"{place} is {shown(entry, 100)} instead of a piece and its score; {_DAMAGED}"
            )
        piece, score = entry
        if piece in scores:
            raise VocabularyError(f"{place}: {quoted(piece)} occurs twice; remove one")
        if not isfinite(score):
            raise VocabularyError(
                f"{place}: {quoted(piece)} has the score {score}; give a finite number"
            )
        scores[piece] = float(score)
    if min(scores.values()) > _SAFE_SCORE:
        raise VocabularyError(
            f"all scores are above {_SAFE_SCORE:g}, so that tokenizers looks up runs of unknown "
            "characters as pieces, which VOLT does not; give logarithms of probabilities"
        )
    return scores


def _read_unknown_token(unk_id: Any, pieces: Sequence[str]) -> str | None:
    """Return the piece for unknown characters; None if there is none."""
    if unk_id is None:
        return None
    if type(unk_id) is not int or not 0 <= unk_id < len(pieces):
        raise VocabularyError(
            f"unk_id is {shown(unk_id, 20)}, but model.vocab has {len(pieces):,} entries; fix it"
        )
    unk = pieces[unk_id]
    if len(unk) == 1:
        raise VocabularyError(
            f"the unknown token is {unk!r}, one character, which may occur in text; "
            "rename it to '<unk>'"
        )
    return unk


def scored_fields(fields: Json, model: Json) -> Json:
    """Return the arguments of Vocabulary for a unigram model.

    fields: the arguments for a model without merges whose words may be whole tokens
    model: the section of `read_model`
    """
    scores = model["scores"]
    special = fields["special"]
    byte_fallback = fields["byte_fallback"]
    if not fields["tokens"]:
        raise VocabularyError("all pieces of model.vocab are special tokens; add others")
    named = (*special.all, *(BYTE_TOKENS if byte_fallback else ()))
    return fields | {
        "whole_words": False,
        "fuse_unk": special.unk is not None and not byte_fallback,
        "scores": tuple(scores[token] for token in fields["tokens"]),
        "special_scores": tuple((token, scores[token]) for token in named if token in scores),
    }


def notes(model: Json, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield sentences on what VOLT does differently from a model section of `read_model`."""
    if model.get("alpha") is not None or model.get("nbest_size") is not None:
        yield "The sampling of the file is not imported: give it when you encode."
    if model["never_found"]:
        yield (
            f"{counted(len(model['never_found']), 'piece')} empty or with a space, which no word "
            "contains: left out, their ids not used."
        )
    cut = vocabulary.pretokenizer
    if (
        cut.if_absent
        and cut.of_lines == cut
        and any(map(_may_move_start, vocabulary.normalizer.rows))
    ):
        yield (
            "If the normalizer replaces or removes the start of a line, no '▁' is put before the line "
            "there, and one is here."
        )
    unk = vocabulary.special.unk
    if model["unk_token"] is None:
        yield "Unknown characters raise an error there, as unk_id is null, and not here."
    elif unk not in vocabulary.special.user or vocabulary.normalizer.name != "none":
        text = f"the text {unk}"
        if unk in vocabulary.special.user:
            text = f"text that normalisation turns into {unk}"
        yield (
            f"Next to unknown characters, {text} is part of their piece there, and a piece of its "
            "own here."
        )


def _may_move_start(row: Sequence[Any]) -> bool:
    """Check whether a step of a normalizer may replace or remove the first characters of a line."""
    name, *options = row
    if name == "replace":
        return not options[1].startswith((" ", PREFIX))
    return name in ("accents", "nmt") or row == ["strip", True, row[-1]]


def spell_decoder(steps: Sequence[Json], vocabulary: Vocabulary) -> Sequence[Json]:
    """Return the steps of a decoder, Metaspace as simpler steps that do the same."""
    if len(steps) != 1 or steps[0].get("type") != "Metaspace":
        return steps
    if any(PREFIX in token[1:] for token in vocabulary.tokens):
        return steps  # Metaspace drops each "▁" of the first token
    scheme = steps[0].get("prepend_scheme", "always")
    if not steps[0].get("add_prefix_space", True) or scheme == "never":
        return [SPACE_BACK, FUSE]
    return [SPACE_BACK, FUSE, STRIP_FIRST]


# Write a model section


def write_model(vocabulary: Vocabulary) -> Json:
    """Return the model section of a vocabulary.

    Special tokens without scores at the end are left out of its vocab: the library gives added tokens
    these ids. Others have the least score. The text of an unused id contains a space, so it is never
    found.
    """
    scores = dict(zip(vocabulary.tokens, vocabulary.scores, strict=True))
    scores |= dict(vocabulary.special_scores)
    least = min(scores.values())
    pieces = list(vocabulary.pieces)
    only_added = {*vocabulary.special.all} - {vocabulary.special.unk} - scores.keys()
    while pieces[-1] in only_added:
        pieces.pop()
    rows = [
        [piece or f"<unused {number}>", scores.get(piece, least)]
        for number, piece in enumerate(pieces)
    ]
    return {
        "type": "Unigram",
        "unk_id": vocabulary.unk_id,
        "vocab": rows,
        "byte_fallback": vocabulary.byte_fallback,
    }


def text_of(tokenizer: Json) -> str:
    """Return the text of a tokenizer.json, from which the library reads the exact scores."""
    model = tokenizer["model"]
    if model["type"] != "Unigram":
        return json.dumps(tokenizer, ensure_ascii=False, indent=1)
    bare = tokenizer | {"model": model | {"vocab": []}}
    rows = ",\n".join(
        f"   [{json.dumps(piece, ensure_ascii=False)}, {spell_number(score)}]"
        for piece, score in model["vocab"]
    )
    text = json.dumps(bare, ensure_ascii=False, indent=1)
    return text.replace('"vocab": []', f'"vocab": [\n{rows}\n  ]')


def note_export(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield a sentence for each difference of the file to a unigram vocabulary."""
    if vocabulary.special.unk is None:
        yield "Unknown characters raise an error there, as no token stands for them."
    if vocabulary.score_sums == "lines":
        yield (
            "Scores are added from the start of each word in double precision there, and from the "
            "start of the line in single precision in VOLT, which may decide between equal sums."
        )
    known = {token for token, _ in vocabulary.special_scores}
    named = [*vocabulary.special.all, *(BYTE_TOKENS if vocabulary.byte_fallback else ())]
    if others := [token for token in named if token not in known]:
        yield (
            f"Special tokens and byte tokens that normalised text spells, such as {others[-1]}, become "
            "these tokens there, and stay text in VOLT."
        )
    for name, *options in vocabulary.normalizer.rows:
        if name == "charsmap" and options[1] == "longest":
            yield (
                "The charsmap is applied to whole characters with their marks there, and to the "
                "longest match in VOLT."
            )
        if name == "charsmap" and len(options) > 2:
            yield f"The charsmap also changes user-defined symbols there, such as {options[2][0]}."


# Numbers


def read_number(text: str) -> float:
    """Return a number of JSON as the library reads it, which may differ from the nearest float.

    It reads the digits as one whole number, and multiplies or divides it by a power of ten.

    >>> read_number("-14.110932287648733"), read_number("-2.5e-1")
    (-14.110932287648732, -0.25)
    """
    match = _NUMBER.fullmatch(text)
    assert match  # of a JSON parser
    sign, whole, decimals, exponent = match.groups("")
    digits = whole + decimals
    n_read = len(digits)
    while int(digits[:n_read] or 0) > _MOST_DIGITS:
        n_read -= 1
    power = int(exponent or 0) + len(whole) - n_read
    value = float(int(digits[:n_read] or 0))
    while value and power < -_MOST_EXPONENT:
        value /= float(f"1e{_MOST_EXPONENT}")
        power += _MOST_EXPONENT
    if power < 0:
        value /= float(f"1e{-power}")
    elif value:
        value *= float(f"1e{power}")
    return -value if sign else value


def spell_number(value: float) -> str:
    """Return a text that the library reads as this number, or, for about one in 600 numbers that no
    file contains, as the next one.

    >>> read_number(spell_number(-14.110932287648732))
    -14.110932287648732
    """
    for near in (value, nextafter(value, 0.0), nextafter(value, 2 * value)):
        for text in (repr(near), *(f"{near:.{digits}e}" for digits in range(15, 20))):
            if read_number(text) == value:
                return text
    return repr(value)
