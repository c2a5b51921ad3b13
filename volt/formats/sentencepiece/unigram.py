"""The parts of a sentencepiece unigram model: scores, words and normaliser.

sentencepiece cuts the whole line into the pieces whose scores have the greatest sum. If no piece
has a "▁" after another character, "▁" always starts a piece, and each word can be cut alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from volt.errors import VocabularyError
from volt.formats.sentencepiece.merges import NORMAL, USER
from volt.text.atoms import PREFIX
from volt.text.normalizer import Normalizer
from volt.text.normalizer_steps import pack_table
from volt.text.pretokenizer import RUNS_UNMARKED, UNMARKED_LINE

# The score of a user-defined symbol for each byte but its first, since sentencepiece 0.2.3
USER_BONUS = 0.1


def make_user_symbols_normal(model: Any) -> list[str]:
    """Change user-defined symbols to normal pieces, with the score that they have in a path. Return
    their texts.

    sentencepiece finds them as pieces of the best path, too.
    """
    symbols = list[str]()
    for piece in model.pieces:
        if piece.type == USER:
            piece.type = NORMAL
            piece.score = USER_BONUS * (len(piece.piece.encode()) - 1)
            symbols.append(piece.piece)
    return symbols


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


def refuse_other_spaces(model: Any) -> None:
    """Raise VocabularyError if "▁" ends words."""
    if model.trainer_spec.treat_whitespace_as_suffix:
        raise VocabularyError(
            f"{PREFIX!r} ends words, which VOLT reads in BPE models only; train it without "
            "--treat_whitespace_as_suffix"
        )


def notes(model: Any) -> Iterator[str]:
    """Yield sentences on what VOLT does differently."""
    if model.denormalizer_spec.precompiled_charsmap:
        yield "Decoding does not apply the model's denormalizer."
