"""Texts in which a token may come out of encoding: its characters between others that the vocabulary does not know.

An unknown letter, number, sign and white space are all that the named pre-tokenisers tell apart, so that a token that
comes out of any text comes out of one of these. Of tokens that begin or end inside a character, and where a regex cuts,
many texts are tried, and the search may miss some.

>>> list(neighbours(Vocabulary(merges=(), tokens=("a",))))
['一', '٠', '←', '\\x85']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, islice, product
from random import Random
from typing import NamedTuple
from unicodedata import category

from volt.text.byte_alphabet import to_bytes, whole_characters
from volt.text.gpt2 import CONTRACTIONS
from volt.text.markers import SPACE
from volt.text.white_space import WHITE_SPACE
from volt.vocabulary import Vocabulary

_BY_CLASS = ("whitespace", "metaspace", "unicode", "gpt2")  # these look at nothing but the classes of characters
_LETTERS, _SIGNS = range(0x4E00, 0x9FA6), (*range(0x2190, 0x2400), *range(0xE000, 0xF900))
_NUMBERS = [code for code in range(0x660, 0x3000) if category(chr(code)) in ("Nd", "Nl", "No")]
_MOST = 400  # texts tried for a token that begins or ends inside a character
_MOST_ATOMS = 100  # tried beside a token where a regex cuts
_INNER = range(0x80, 0xC0)  # bytes behind the first of a character
_FIRST = {2: range(0xC2, 0xE0), 3: range(0xE0, 0xF0), 4: range(0xF0, 0xF5)}  # and that, by the number of its bytes


class Form(NamedTuple):
    """A stretch of text that merges make one symbol of.

    symbol: its number
    text: its characters, or its bytes in GPT-2's alphabet, without the marker
    at_edge: whether it carries the marker, so that it ends its word, or starts it
    """

    symbol: int
    text: str
    at_edge: bool


def spelled(vocabulary: Vocabulary, text: str) -> str | None:
    """A form's text as it stands in a line; None if it is bytes that begin or end inside a character, or no UTF-8.

    >>> bytes_ = Vocabulary(merges=(), tokens=(), marker="none", pretokenizer="bytes")
    >>> spelled(bytes_, "Ġa"), spelled(bytes_, "Ã")
    (' a', None)
    """
    if not vocabulary.pretokenizer.is_bytes:
        return text.replace(SPACE, " ") if vocabulary.pretokenizer.keeps_spaces else text
    try:
        return to_bytes(text).decode()
    except UnicodeDecodeError:
        return None


def is_decided(vocabulary: Vocabulary, form: Form) -> bool:
    """Whether a form for which all texts have failed comes out of no text."""
    special, marker, cut = vocabulary.special, vocabulary.marker, vocabulary.pretokenizer
    text = spelled(vocabulary, form.text)
    if text is None:
        return whole_characters(to_bytes(form.text)) is None
    if vocabulary.normalizer.name != "none" and any(user in text for user in special.user):
        return False  # other characters may become these, behind the back of the user token
    if cut.name == "bytes":
        return marker == "none"
    if marker != "none" and cut.name in ("unicode", "gpt2") and (not text.strip() or text.startswith("'")):
        return False  # its word may hold nothing that is unknown
    return cut.name in _BY_CLASS and len(neighbours(vocabulary)) == 4


def neighbours(vocabulary: Vocabulary) -> list[str]:
    """A letter, a number, a sign and a white space that the vocabulary does not know, of those that there are."""
    taken = set("".join(chain(vocabulary.atoms, vocabulary.unmade, vocabulary.special.user)))
    found = list[str]()
    for codes in (_LETTERS, _NUMBERS, _SIGNS, map(ord, WHITE_SPACE[6:])):
        free = (char for char in map(chr, codes) if char not in taken)
        found += islice((char for char in free if vocabulary.normalizer.normalize(char) == char), 1)
    return found


Trial = Callable[[Form], list[str]]


def trials(vocabulary: Vocabulary) -> Iterator[Trial]:
    """Functions that put a form into lines, the likeliest first.

    >>> low = Form(7, "low", False)
    >>> [line for trial in islice(trials(Vocabulary(merges=(), tokens=("a",))), 3) for line in trial(low)]
    ['low', 'low一', 'low٠']
    """
    beside = ("", *neighbours(vocabulary))
    yield partial(_alone, vocabulary)
    yield from (partial(_between, vocabulary, left, right) for left, right in islice(product(beside, beside), 1, None))
    if vocabulary.pretokenizer.has_own_pattern and not vocabulary.pretokenizer.is_bytes:
        atoms = [atom for atom in vocabulary.atoms if len(atom) == 1][:_MOST_ATOMS]
        pairs = ((left, right) for atom in atoms for left, right in (("", atom), (atom, "")))
        yield from (partial(_between, vocabulary, left, right) for left, right in pairs)
    if vocabulary.pretokenizer.is_bytes:
        found = cache(lambda form: _completed(to_bytes(form.text)))
        yield from (partial(_nth, found, number) for number in range(_MOST))


def _alone(vocabulary: Vocabulary, form: Form) -> list[str]:
    """A form, and the words that a pattern cuts whole and nothing stands beside."""
    cut, contractions = vocabulary.pretokenizer, list[str]()
    if cut.name in ("gpt2", "bytes") or cut.has_own_pattern:
        contractions = CONTRACTIONS.split("|")
    if cut.has_own_pattern:  # many take capitals, too
        contractions += CONTRACTIONS.upper().split("|")
    return contractions + _between(vocabulary, "", "", form)


def _between(vocabulary: Vocabulary, left: str, right: str, form: Form) -> list[str]:
    """A form between others. Where every line gets a space in front, a line without its own is tried, too."""
    text = spelled(vocabulary, form.text)
    if text is None:
        return []
    bare = [text[1:] + right] * (vocabulary.pretokenizer.dummy_prefix and not left and text.startswith(" "))
    return [f"{left}{text}{right}", *bare]


def _nth(found: Callable[[Form], list[str]], number: int, form: Form) -> list[str]:
    return found(form)[number : number + 1]


def _completed(data: bytes) -> list[str]:
    """Texts that hold these bytes, which begin or end inside a character.

    >>> _completed(b"a\\xc3")[:2], all(b"\\xa9a" in text.encode() for text in _completed(b"\\xa9a"))
    (['aÀ', 'aÁ'], True)
    """
    middle = whole_characters(data)
    if middle is None:
        return []
    start = next((place for place, byte in enumerate(data) if byte & 0xC0 != 0x80), len(data))
    end = start + len(middle.encode())
    if start == len(data):
        return _characters(data, at_end=True)[: _MOST // 2] + _characters(data, at_end=False)[: _MOST // 2]
    befores = _characters(data[:start], at_end=True) if start else [""]
    afters = _characters(data[end:], at_start=True) if end < len(data) else [""]
    return [f"{before}{middle}{after}" for before, after in _pairs(befores, afters)]


def _characters(part: bytes, *, at_start: bool = False, at_end: bool = False) -> list[str]:
    """Characters whose UTF-8 holds these bytes, with others before and behind them but for the end that is named.

    >>> _characters(b"\\xe2\\x82", at_start=True)[44], b"\\xa9" in _characters(b"\\xa9", at_end=True)[0].encode()
    ('€', True)
    """
    found = list[str]()
    for n, first in _FIRST.items():
        for place in range(n - len(part) + 1):
            fits = place > 0 or part[0] in first
            if fits and (place == 0) == at_start and (place + len(part) == n) == at_end:
                free = [first] * (place > 0) + [_INNER] * (n - len(part) - (place > 0))
                fills = _some(free)
                found += (bytes((*fill[:place], *part, *fill[place:])).decode(errors="ignore") for fill in fills)
    return [character for character in found if len(character) == 1]


def _some(choices: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """All ways to choose one of each, or some where there are many."""
    if len(choices) < 3:
        return list(product(*choices))
    rng = Random(0)
    return [tuple(map(rng.choice, choices)) for _ in range(_MOST)]


def _pairs(befores: list[str], afters: list[str]) -> list[tuple[str, str]]:
    """All pairs, or some where there are many."""
    if len(befores) * len(afters) <= _MOST:
        return list(product(befores, afters))
    rng = Random(0)
    return [(rng.choice(befores), rng.choice(afters)) for _ in range(_MOST)]
