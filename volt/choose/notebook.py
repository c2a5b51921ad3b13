"""The parts of what notebooks show of a search: the picks, the curve of the entropy, words and their pieces.

>>> cut(["new", "est</w>"])
'new|est'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from volt.arguments import shortened
from volt.choose.rules import Pick
from volt.choose.size_steps import SizeStep
from volt.display import html_curve, html_table
from volt.encode.encoder import Encoder
from volt.learn.candidates import Candidates
from volt.text.markers import PREFIX, SUFFIX
from volt.vocabulary import Vocabulary

LONG_WORD = 8  # letters; shorter words are rarely cut


def picks_table(picks: Mapping[str, Pick], chosen: Pick) -> str:
    """What every rule picks, and why, the chosen one in bold."""
    rows = [(rule, pick.told, pick.reason) for rule, pick in picks.items()]
    return html_table(["rule", "size", "why"], rows, strong=list(picks.values()).index(chosen))


def entropy_curve(steps: Sequence[SizeStep], chosen: Pick) -> str:
    """The entropy over the searched sizes, the chosen one marked."""
    points = [(step.size, step.entropy) for step in steps]
    return html_curve(points, chosen=points[chosen.index], across="vocabulary size", upwards="entropy")


def cuts_table(candidates: Candidates, vocabulary: Vocabulary) -> str:
    """A few words beside their pieces."""
    cuts = sample_cuts(candidates, vocabulary)
    return html_table(["word", "pieces"], [(shortened(word), shortened(cut(pieces))) for word, pieces in cuts])


def sample_cuts(candidates: Candidates, vocabulary: Vocabulary, *, n_words: int = 6) -> list[tuple[str, list[str]]]:
    """A few long words, from the commonest to the rarest, and how the vocabulary cuts them."""
    table = candidates.counts.table
    long = table.filter(table["word"].str.contains(rf"^▁?[\p{{L}}\p{{M}}]{{{LONG_WORD},}}$"))
    words = (long if long.height else table).sort("count", "word", descending=[True, False])["word"]
    chosen = dict.fromkeys(words[i * (len(words) - 1) // max(1, n_words - 1)] for i in range(n_words))
    encoder = Encoder(vocabulary)
    return [(word, list(pieces)) for word, pieces in zip(chosen, encoder.encode_words(list(chosen)), strict=True)]


def cut(pieces: Iterable[str]) -> str:
    """Pieces as people read them, a bar between two and no markers.

    >>> cut(["new", "est</w>"])
    'new|est'
    """
    texts = [piece.removesuffix(SUFFIX) for piece in pieces]
    return "|".join(text for text in texts if text).removeprefix(PREFIX)
