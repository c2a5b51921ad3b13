"""The parts of what notebooks show of a search: the picks, the curve of the entropy, words and their pieces.

>>> cut(["new", "est</w>"])
'new|est'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from volt.arguments import shortened
from volt.choose.rules import Pick
from volt.choose.size_steps import SizeStep
from volt.display import html_curve, html_table
from volt.encode.encoder import Encoder
from volt.learn.candidates import Candidates
from volt.text.byte_alphabet import ALPHABET, readable
from volt.text.markers import PREFIX, SUFFIX
from volt.vocabulary import Vocabulary

LONG_WORD = 8  # letters; shorter words are rarely cut
_LONG = rf"^{PREFIX}?[\p{{L}}\p{{M}}]{{{LONG_WORD},}}$"
_FIRST, _FURTHER = "".join(ALPHABET[0xC2:0xF5]), "".join(ALPHABET[0x80:0xC0])  # bytes of characters beyond ASCII
_LONG_BYTES = rf"^{ALPHABET[ord(' ')]}?(?:[A-Za-z]|[{_FIRST}][{_FURTHER}]+){{{LONG_WORD},}}$"


def picks_table(picks: Mapping[str, Pick], chosen: Pick) -> str:
    """What every rule picks, and why, the chosen one in bold."""
    rows = [(rule, pick.told, pick.reason) for rule, pick in picks.items()]
    return html_table(["rule", "size", "why"], rows, strong=list(picks.values()).index(chosen))


def entropy_curve(steps: Sequence[SizeStep], chosen: Pick) -> str:
    """The entropy over the measured sizes, the chosen one marked."""
    points = [(step.size, step.entropy) for step in steps]
    return html_curve(points, chosen=points[chosen.index], across="vocabulary size", upwards="entropy")


def cuts_table(candidates: Candidates, vocabulary: Vocabulary) -> str:
    """A few words beside their pieces."""
    cuts = readable_cuts(sample_cuts(candidates, vocabulary), vocabulary)
    return html_table(["word", "pieces"], [(shortened(word), shortened(pieces)) for word, pieces in cuts])


def sample_cuts(candidates: Candidates, vocabulary: Vocabulary, *, n_words: int = 6) -> list[tuple[str, list[str]]]:
    """A few long words, from the commonest to the rarest, and how the vocabulary cuts them."""
    table = candidates.counts.table
    long = table.filter(table["word"].str.contains(_LONG_BYTES if vocabulary.pretokenizer.is_bytes else _LONG))
    words = (long if long.height else table).sort("count", "word", descending=[True, False])["word"]
    chosen = dict.fromkeys(words[i * (len(words) - 1) // max(1, n_words - 1)] for i in range(n_words))
    encoder = Encoder(vocabulary)
    return [(word, list(pieces)) for word, pieces in zip(chosen, encoder.encode_words(list(chosen)), strict=True)]


def readable_cuts(cuts: Iterable[tuple[str, Iterable[str]]], vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    """Words, each with its pieces as people read them; words and pieces that are spelled by bytes as text.

    >>> from volt.text.pretokenizer import PreTokenizer
    >>> vocabulary = Vocabulary((("Ã", "©"),), ("Ã", "©", "Ġ", "Ã©"), marker="none", pretokenizer=PreTokenizer("bytes"))
    >>> list(readable_cuts([("ĠÃ©Ã©", ["Ġ", "Ã©", "Ã", "©"])], vocabulary))
    [('éé', 'é|<0xC3>|<0xA9>')]
    """
    for word, pieces in cuts:
        if vocabulary.pretokenizer.is_bytes:
            yield _without_space([word]), _without_space(pieces)
        else:
            yield word, cut(pieces)


def _without_space(pieces: Iterable[str]) -> str:
    """Pieces of bytes as text, a bar between two, without the space before a word.

    >>> _without_space(["Ġ", "a", "Ġ"])
    'a| '
    """
    first, *others = map(readable, pieces)
    return "|".join(text for text in (first.removeprefix(" "), *others) if text)


def cut(pieces: Iterable[str]) -> str:
    """Pieces as people read them, a bar between two and no markers.

    >>> cut(["new", "est</w>"])
    'new|est'
    """
    texts = [piece.removesuffix(SUFFIX) for piece in pieces]
    return "|".join(text for text in texts if text).removeprefix(PREFIX)
