"""Lines that may produce a token, to find out whether any text does (volt.encode.reachable).

    form "lo"   →   "lo";  "一lo", "lo一", "一lo一", "٠lo", …;  …

A *form* is a text that merges into one token. A pre-tokenizer may split it, or not, depending on
its neighbours. So each trial puts a form between other characters, which the vocabulary does not
know: nothing merges with them. For a form of bytes that begins or ends inside a character, trials
complete the character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, product
from math import prod
from random import Random
from typing import Any, NamedTuple
from unicodedata import category

from volt.text.atoms import SPACE
from volt.text.byte_alphabet import to_bytes, whole_characters
from volt.text.patterns.published import CONTRACTIONS
from volt.text.white_space import WHITE_SPACE
from volt.vocabulary import Vocabulary

# Code points of the classes that built-in pre-tokenizers distinguish, to choose neighbours from.
_LETTERS = range(0x4E00, 0x9FA6)
_NUMBERS = [code for code in range(0x660, 0x3000) if category(chr(code)) in ("Nd", "Nl", "No")]
_SIGNS = (*range(0x2190, 0x2400), *range(0xE000, 0xF900))
_SPACES = list(map(ord, WHITE_SPACE[6:]))
_MOST_TEXTS = 400  # trials for a token that begins or ends inside a character
_MOST_ATOMS = 100  # atoms that are put next to a token if a regex splits the text
_MOST_COMBINATIONS = 64**2  # of bytes of a character that are listed completely
_FIRST_BYTES = {2: range(0xC2, 0xE0), 3: range(0xE0, 0xF0), 4: range(0xF0, 0xF5)}  # by length
_INNER_BYTES = range(0x80, 0xC0)


class Form(NamedTuple):
    """A text that merges into one symbol.

    symbol: the symbol, see volt.encode.merge_tables
    text: characters, or bytes in GPT-2's alphabet, without the marker
    """

    symbol: int
    text: str


Trial = Callable[[Form], list[str]]


def list_trials(vocabulary: Vocabulary) -> Iterator[Trial]:
    """Yield functions from a form to lines that may produce it, the likeliest function first."""
    cut = vocabulary.pretokenizer
    contractions = []
    if cut.name in ("gpt2", "bytes") or cut.has_own_pattern:
        contractions += CONTRACTIONS.split("|")
    if cut.has_own_pattern:  # many patterns match capitals, too
        contractions += CONTRACTIONS.upper().split("|")
    yield lambda form: contractions + _put_between(vocabulary, "", "", form)
    pairs = product(("", *find_neighbours(vocabulary)), repeat=2)
    for left, right in list(pairs)[1:]:
        yield partial(_put_between, vocabulary, left, right)
    if cut.is_bytes:
        complete = cache(complete_characters)
        for index in range(_MOST_TEXTS):
            yield partial(lambda i, form: complete(to_bytes(form.text))[i : i + 1], index)
    elif cut.has_own_pattern:
        atoms = [atom for atom in vocabulary.atoms if len(atom) == 1]
        for atom in atoms[:_MOST_ATOMS]:
            yield partial(_put_between, vocabulary, "", atom)
            yield partial(_put_between, vocabulary, atom, "")


def find_neighbours(vocabulary: Vocabulary) -> list[str]:
    """Return a letter, a number, a sign and a white space that the vocabulary does not know.

    A class whose characters are all known, or changed by the normaliser, is left out.
    """
    known = set("".join(chain(vocabulary.atoms, vocabulary.unmade, vocabulary.special.user)))
    result = []
    for codes in (_LETTERS, _NUMBERS, _SIGNS, _SPACES):
        for character in map(chr, codes):
            if character not in known and vocabulary.normalizer.normalize(character) == character:
                result.append(character)
                break
    return result


def text_in_line(vocabulary: Vocabulary, form_text: str) -> str | None:
    """Return a form's text as a line contains it; None if the form has incomplete characters."""
    if not vocabulary.pretokenizer.is_bytes:
        if vocabulary.pretokenizer.keeps_spaces:
            return form_text.replace(SPACE, " ")
        return form_text
    try:
        return to_bytes(form_text).decode()
    except UnicodeDecodeError:
        return None


def _put_between(vocabulary: Vocabulary, left: str, right: str, form: Form) -> list[str]:
    """Return lines with a form between `left` and `right`.

    If the pre-tokenizer puts a space before a line, a second line lacks the form's first space.
    """
    text = text_in_line(vocabulary, form.text)
    if text is None:
        return []
    lines = [f"{left}{text}{right}"]
    if vocabulary.pretokenizer.dummy_prefix and not left and text.startswith(" "):
        lines.append(text[1:] + right)
    return lines


def complete_characters(data: bytes) -> list[str]:
    """Return texts whose UTF-8 contains these bytes, which may begin or end inside a character.

    Return no text if the bytes between are not UTF-8.
    """
    middle = whole_characters(data)
    if middle is None:
        return []
    is_inner = [byte in _INNER_BYTES for byte in data]
    start = is_inner.index(False) if False in is_inner else len(data)
    if start == len(data):  # the end, or the inside, of one character
        ends = find_characters(data, at_end=True)[: _MOST_TEXTS // 2]
        return ends + find_characters(data, at_end=False)[: _MOST_TEXTS // 2]
    end = start + len(middle.encode())
    befores = [""]
    afters = [""]
    if start:
        befores = find_characters(data[:start], at_end=True)
    if end < len(data):
        afters = find_characters(data[end:], at_start=True)
    return [f"{before}{middle}{after}" for before, after in combine([befores, afters])]


def find_characters(part: bytes, *, at_start: bool = False, at_end: bool = False) -> list[str]:
    """Return characters whose UTF-8 contains `part`, but is longer.

    at_start: whether the UTF-8 starts with `part`;  at_end: whether it ends with it
    """
    result = []
    for length, first_bytes in _FIRST_BYTES.items():
        for n_before in range(length - len(part) + 1):
            n_after = length - len(part) - n_before
            is_possible = n_before > 0 or part[0] in first_bytes
            if not is_possible or (n_before == 0) != at_start or (n_after == 0) != at_end:
                continue
            before = [first_bytes, *[_INNER_BYTES] * 3][:n_before]
            after = [_INNER_BYTES] * n_after
            for fill in combine(before + after, most=_MOST_COMBINATIONS):
                data = bytes((*fill[:n_before], *part, *fill[n_before:]))
                result.append(data.decode(errors="ignore"))
    return [character for character in result if len(character) == 1]


def combine(choices: Sequence[Sequence[Any]], *, most: int = _MOST_TEXTS) -> list[tuple[Any, ...]]:
    """Return all combinations of one item of each sequence, or 400 random ones if over `most`."""
    if prod(map(len, choices)) <= most:
        return list(product(*choices))
    rng = Random(0)
    return [tuple(map(rng.choice, choices)) for _ in range(_MOST_TEXTS)]
