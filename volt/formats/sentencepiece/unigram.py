"""The parts of a sentencepiece unigram model, read and written: scores, words and normaliser.

sentencepiece cuts the whole line into the pieces whose scores have the greatest sum. If no piece
has a "▁" after another character, "▁" always starts a piece, and each word can be cut alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from volt.errors import VocabularyError, quoted
from volt.formats.sentencepiece.merges import NORMAL, UNUSED, USER
from volt.text.atoms import PREFIX
from volt.text.normalizer import Normalizer
from volt.text.normalizer_steps import pack_table, unpack_table
from volt.text.pretokenizer import RUNS_UNMARKED, UNMARKED_LINE
from volt.vocabulary import Vocabulary

# The score of a user-defined symbol for each byte but its first, since sentencepiece 0.2.3
USER_BONUS = 0.1
_LINES = ("metaspace-line", UNMARKED_LINE)  # pre-tokenizers that do not cut lines
_RUNS = ("metaspace-runs", RUNS_UNMARKED)


class Settings(NamedTuple):
    """The settings of a `normalizer_spec` that are equal to the steps of a normalizer.

    charsmap: the table of replacements; b"" for none
    protected: texts that stay as they are: user-defined symbols
    removes_spaces: whether extra spaces are removed
    """

    charsmap: bytes = b""
    protected: Sequence[str] = ()
    removes_spaces: bool = False


def make_user_symbols_normal(model: Any) -> list[str]:
    """Change user-defined symbols to normal pieces, with the score that they have in a path. Return
    their texts.

    sentencepiece finds them as pieces of the best path, too. Spaces of the text are "▁" there, so that
    no path contains a symbol with a space: its id becomes unused.
    """
    symbols = list[str]()
    for piece in model.pieces:
        if piece.type == USER:
            piece.type = UNUSED if " " in piece.piece else NORMAL
            piece.score = _user_score(piece.piece)
            symbols.append(piece.piece)
    return symbols


def _user_score(symbol: str) -> float:
    return USER_BONUS * (len(symbol.encode()) - 1)


def choose_pretokenizer(spec: Any, tokens: Collection[str]) -> str:
    """Return the name of the pre-tokenizer whose words the pieces never cross.

    spec: the model's `normalizer_spec`
    """
    spans_words = any(PREFIX in token.lstrip(PREFIX) for token in tokens)
    if spans_words or PREFIX not in tokens:  # without "▁", unknown characters join across words
        return "metaspace-line" if spec.add_dummy_prefix else UNMARKED_LINE
    if not spec.add_dummy_prefix:
        return RUNS_UNMARKED
    has_runs = any(token.startswith(2 * PREFIX) for token in tokens)
    return "metaspace-runs" if has_runs else "metaspace"


def build_normalizer(spec: Any, user_symbols: Collection[str]) -> Normalizer:
    """Return the normalizer of a `normalizer_spec`.

    user_symbols: texts that stay as they are
    """
    steps = list[list[Any]]()
    if spec.precompiled_charsmap:
        charsmap = ["charsmap", pack_table(spec.precompiled_charsmap), "longest"]
        steps.append([*charsmap, sorted(user_symbols)] if user_symbols else charsmap)
    if spec.remove_extra_whitespaces:
        steps.append(["spaces"])
    return Normalizer.of_steps(steps) if steps else Normalizer()


def read_settings(normalizer: Normalizer) -> Settings:
    """Undo `build_normalizer`. Raises VocabularyError if sentencepiece lacks a step."""
    steps = json.loads(normalizer.steps or "[]")
    removes_spaces = steps[-1:] == [["spaces"]]
    if removes_spaces:
        steps.pop()
    match steps:
        case []:
            return Settings(removes_spaces=removes_spaces)
        case [["charsmap", table, "longest", *protected]]:
            return Settings(unpack_table(table), [*chain(*protected)], removes_spaces)
    raise VocabularyError(
        f"sentencepiece cannot normalise by the steps {normalizer.label}: it replaces by one table, "
        "the longest match first, and then removes extra spaces; export to huggingface"
    )


def types_of(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the type of each token: USER if the normalizer protects it, UNUSED if no word
    contains it.

    Raises VocabularyError if sentencepiece would give a token another score, or unknown characters.
    """
    protected = set(read_settings(vocabulary.normalizer).protected)
    name = vocabulary.pretokenizer.of_lines.name
    types = dict[str, int]()
    score_of = dict(zip(vocabulary.tokens, vocabulary.scores, strict=True))
    for token, score in score_of.items():
        rest = token.lstrip(PREFIX) if name in _RUNS else token[1:]
        crosses_words = PREFIX in rest and name not in _LINES
        types[token] = UNUSED if crosses_words else NORMAL
        if token in protected:
            types[token] = USER
        if types[token] == USER and np.float32(score) != np.float32(_user_score(token)):
            raise VocabularyError(
                f"{quoted(token)} is a protected string of the normalizer, and would get the "
                f"score {_user_score(token):g} in sentencepiece, not {score:g}; remove it from the "
                "steps"
            )
    for text in sorted(protected.difference(types)):
        if " " not in text:
            raise VocabularyError(
                f"{quoted(text)} is a protected string of the normalizer, which must be a token in "
                "sentencepiece; remove it from the steps"
            )
    worst = min(score_of.values())
    if all(score_of[token] > worst for token, kind in types.items() if kind == NORMAL):
        raise VocabularyError(
            f"the worst score, {worst:g}, belongs to tokens that sentencepiece does not count for "
            "the score of unknown characters; remove them"
        )
    return types


def refuse_other_spaces(model: Any) -> None:
    """Raise VocabularyError if "▁" ends words, or a normal piece contains a space."""
    for number, piece in enumerate(model.pieces):
        if " " in piece.piece and piece.type == NORMAL:
            raise VocabularyError(
                f"piece {number}, {quoted(piece.piece)}, contains a space, which becomes {PREFIX!r} "
                "in text, so that the piece is never used; remove it"
            )
    if model.trainer_spec.treat_whitespace_as_suffix:
        raise VocabularyError(
            f"{PREFIX!r} ends words, which VOLT reads in BPE models only; train it without "
            "--treat_whitespace_as_suffix"
        )


def note_on_removed(spec: Any) -> Iterator[str]:
    """Yield a sentence if sentencepiece may encode text of which nothing is left.

    spec: the model's `normalizer_spec`
    """
    removes = spec.precompiled_charsmap and not spec.remove_extra_whitespaces
    if removes and spec.add_dummy_prefix:
        yield (
            f"sentencepiece encodes a line whose characters are all removed as {PREFIX!r}; here it is "
            "empty."
        )


def notes_on_scores(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield sentences on what sentencepiece does differently with the scores of a vocabulary."""
    if vocabulary.score_sums == "words":
        yield (
            "sentencepiece adds scores in single precision, from the start of the line: of "
            "segmentations whose sums differ by rounding only, it may choose another."
        )
    elif any(float(np.float32(score)) != score for score in vocabulary.scores):
        yield "Scores are rounded to single precision."
    if vocabulary.special.user:
        yield (
            "A user token is a piece like others in sentencepiece: tokens that overlap it in text "
            "may have a better sum of scores."
        )


def notes(model: Any) -> Iterator[str]:
    """Yield sentences on what VOLT does differently, and on what the model lacks."""
    if not model.HasField("normalizer_spec"):
        yield "The file ends before the normalizer_spec: sentencepiece's defaults normalise text."
    if model.denormalizer_spec.precompiled_charsmap:
        yield "Decoding does not apply the model's denormalizer."
    yield from note_on_removed(model.normalizer_spec)
