"""`reach`: which tokens text can produce, each with an example; which tokens no text produces, and why.

Some word produces a token if and only if the token's own characters merge into the token. The normaliser, user tokens
or the pre-tokenizer may still prevent that word. So each token is encoded alone and between unknown characters of the
classes that built-in pre-tokenizers distinguish: letters, numbers, other signs and white space. For a regex, and for
tokens that contain incomplete characters, many texts are tried, and some tokens stay undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice, product
from math import prod
from random import Random
from typing import Any, Literal, NamedTuple
from unicodedata import category

import numpy as np

from volt import arguments
from volt.display import counted
from volt.encode.encoder import Encoder
from volt.encode.merge_tables import MergeTables, Spelled, merged
from volt.text.atoms import PREFIX, SPACE, SUFFIX, Marker, atom_codes
from volt.text.byte_alphabet import to_bytes, whole_characters
from volt.text.patterns.published import CONTRACTIONS
from volt.text.white_space import WHITE_SPACE
from volt.vocabulary import Vocabulary

_BY_CLASS = (
    "whitespace",
    "metaspace",
    "unicode",
    "gpt2",
)  # these split by the classes of characters only
_LETTERS = range(0x4E00, 0x9FA6)
_SIGNS = (*range(0x2190, 0x2400), *range(0xE000, 0xF900))
_NUMBERS = [code for code in range(0x660, 0x3000) if category(chr(code)) in ("Nd", "Nl", "No")]
_MOST = 400  # texts tried for a token that begins or ends inside a character
_MOST_ATOMS = 100  # atoms tried next to a token if a regex splits the text
_INNER = range(0x80, 0xC0)  # bytes after the first of a character
_FIRST = {
    2: range(0xC2, 0xE0),
    3: range(0xE0, 0xF0),
    4: range(0xF0, 0xF5),
}  # first bytes, by the length of the character


class Form(NamedTuple):
    """A text that merges into one symbol.

    text: its characters, or its bytes in GPT-2's alphabet, without the marker
    at_edge: whether it has the marker, at the start or end of its word
    """

    symbol: int
    text: str
    at_edge: bool


def spelled(vocabulary: Vocabulary, text: str) -> str | None:
    """Return the text of a form as it appears in a line; None if it consists of incomplete characters."""
    if not vocabulary.pretokenizer.is_bytes:
        return text.replace(SPACE, " ") if vocabulary.pretokenizer.keeps_spaces else text
    try:
        return to_bytes(text).decode()
    except UnicodeDecodeError:
        return None


def is_decided(vocabulary: Vocabulary, form: Form) -> bool:
    """Check whether the failure of all trials proves that no text produces a form."""
    special = vocabulary.special
    marker = vocabulary.marker
    cut = vocabulary.pretokenizer
    text = spelled(vocabulary, form.text)
    if text is None:
        return whole_characters(to_bytes(form.text)) is None
    if vocabulary.normalizer.name != "none" and any(user in text for user in special.user):
        return (
            False  # other characters, which do not spell the user token, may normalise to this text
        )
    if cut.name == "bytes":
        return marker == "none"
    if (
        marker != "none"
        and cut.name in ("unicode", "gpt2")
        and (not text.strip() or text.startswith("'"))
    ):
        return False  # its word may not contain an unknown character
    return cut.name in _BY_CLASS and len(neighbours(vocabulary)) == 4


def neighbours(vocabulary: Vocabulary) -> list[str]:
    r"""Return a letter, a number, a sign and a white space that the vocabulary does not know, if they exist."""
    taken = set("".join(chain(vocabulary.atoms, vocabulary.unmade, vocabulary.special.user)))
    result = list[str]()
    for codes in (_LETTERS, _NUMBERS, _SIGNS, map(ord, WHITE_SPACE[6:])):
        free = (char for char in map(chr, codes) if char not in taken)
        result += islice(
            (char for char in free if vocabulary.normalizer.normalize(char) == char), 1
        )
    return result


Trial = Callable[[Form], list[str]]


def trials(vocabulary: Vocabulary) -> Iterator[Trial]:
    """Yield functions from a form to lines that may produce the form, the likeliest function first."""
    contexts = ("", *neighbours(vocabulary))
    yield partial(_alone, vocabulary)
    pairs = [*product(contexts, contexts)][1:]
    if vocabulary.pretokenizer.has_own_pattern and not vocabulary.pretokenizer.is_bytes:
        atoms = [atom for atom in vocabulary.atoms if len(atom) == 1][:_MOST_ATOMS]
        pairs += [pair for atom in atoms for pair in (("", atom), (atom, ""))]
    yield from (partial(_between, vocabulary, left, right) for left, right in pairs)
    if vocabulary.pretokenizer.is_bytes:
        result = cache(lambda form: _completed(to_bytes(form.text)))
        yield from (
            partial(lambda number, form: result(form)[number : number + 1], number)
            for number in range(_MOST)
        )


def _alone(vocabulary: Vocabulary, form: Form) -> list[str]:
    cut = vocabulary.pretokenizer
    lower = CONTRACTIONS.split("|")
    contractions = lower * (cut.name in ("gpt2", "bytes") or cut.has_own_pattern)
    capitals = [
        text.upper() for text in lower
    ] * cut.has_own_pattern  # many patterns match capitals, too
    return contractions + capitals + _between(vocabulary, "", "", form)


def _between(vocabulary: Vocabulary, left: str, right: str, form: Form) -> list[str]:
    """Return a form's text between `left` and `right`; also without its first space if a dummy prefix adds it."""
    text = spelled(vocabulary, form.text)
    if text is None:
        return []
    bare = [text[1:] + right] * (
        vocabulary.pretokenizer.dummy_prefix and not left and text.startswith(" ")
    )
    return [f"{left}{text}{right}", *bare]


def _completed(data: bytes) -> list[str]:
    middle = whole_characters(data)
    if middle is None:
        return []
    start = next((place for place, byte in enumerate(data) if byte & 0xC0 != 0x80), len(data))
    end = start + len(middle.encode())
    if start == len(data):
        return (
            _characters(data, at_end=True)[: _MOST // 2]
            + _characters(data, at_end=False)[: _MOST // 2]
        )
    befores = _characters(data[:start], at_end=True) if start else [""]
    afters = _characters(data[end:], at_start=True) if end < len(data) else [""]
    return [f"{before}{middle}{after}" for before, after in _some([befores, afters])]


def _characters(part: bytes, *, at_start: bool = False, at_end: bool = False) -> list[str]:
    r"""Return characters whose UTF-8 contains `part`: at the start if and only if `at_start`; likewise `at_end`."""
    result = list[str]()
    for n, first in _FIRST.items():
        for place in range(n - len(part) + 1):
            fits = place > 0 or part[0] in first
            if fits and (place == 0) == at_start and (place + len(part) == n) == at_end:
                free = [first] * (place > 0) + [_INNER] * (n - len(part) - (place > 0))
                fills = _some(free, most=len(_INNER) ** 2)
                result += (
                    bytes((*fill[:place], *part, *fill[place:])).decode(errors="ignore")
                    for fill in fills
                )
    return [character for character in result if len(character) == 1]


def _some(choices: Sequence[Sequence[Any]], *, most: int = _MOST) -> list[tuple[Any, ...]]:
    """Return all combinations of the choices, or 400 random ones if there are more than `most`."""
    if prod(map(len, choices)) <= most:
        return list(product(*choices))
    rng = Random(0)
    return [tuple(map(rng.choice, choices)) for _ in range(_MOST)]


Why = Literal["merges", "normalizer", "pretokenizer", "user tokens"]
Forms = dict[str, list[Form]]


@dataclass(frozen=True, slots=True)
class Reach:
    """The tokens of a vocabulary, grouped by whether text produces them, in the order of their ids.

    texts: a text for each token that some text produces
    never: the reason for each token that no text produces
        "merges"        its characters merge into other tokens
        "normalizer"    normalising changes its characters
        "user tokens"   it contains a user token
        "pretokenizer"  it is always split, or its bytes never occur in UTF-8
    undecided: tokens with neither a known text nor a proof that none exists

    >>> reach(Vocabulary(merges=(), tokens=("a", "B"), normalizer="lowercase"))
    <Reach: 1 token reached, 1 never, 0 undecided>
    """

    texts: Mapping[str, str]
    never: Mapping[str, Why]
    undecided: tuple[str, ...]

    def __repr__(self) -> str:
        tokens = counted(len(self.texts), "token")
        return f"<Reach: {tokens} reached, {len(self.never):,} never, {len(self.undecided):,} undecided>"


def reach(vocabulary: Vocabulary) -> Reach:
    """Find out which tokens text can produce without dropout. Special tokens are not checked.

    vocabulary: a vocabulary

    >>> merges = (("b", "c"), ("a", "b"), ("ab", "c"))
    >>> result = reach(Vocabulary(merges=merges, tokens=("a", "b", "c", "bc", "ab", "abc"), marker="none"))
    >>> result, result.texts["ab"], result.never
    (<Reach: 5 tokens reached, 1 never, 0 undecided>, 'ab', {'abc': 'merges'})
    """
    arguments.instance(vocabulary, Vocabulary, "vocabulary")
    tables = MergeTables.of(vocabulary)
    allowed = _forms_of_tokens(tables, _whole_forms(tables) + _words(tables))
    normal = _left_by_normalizer(vocabulary, allowed)
    texts = _producing_texts(Encoder(vocabulary), normal)
    lost = [token for token in vocabulary.tokens if token not in texts]
    reasons = {
        token: _why(vocabulary, allowed.get(token, []), normal.get(token, [])) for token in lost
    }
    return Reach(
        texts={token: texts[token] for token in vocabulary.tokens if token in texts},
        never={token: why for token, why in reasons.items() if why},
        undecided=tuple(token for token, why in reasons.items() if not why),
    )


def _whole_forms(tables: MergeTables) -> list[Form]:
    marker = tables.vocabulary.marker
    forms = [Form(number, token, False) for number, token in enumerate(tables.tokens)]
    inner = _becoming_one(tables, forms)
    if marker == "suffix":
        return inner + _becoming_one(tables, _at_edge(marker, forms))
    return inner + _at_edge(marker, inner)  # the same symbols at the start of a word


def _words(tables: MergeTables) -> list[Form]:
    """Return the forms of tokens that encoding looks up as whole words, if they consist of whole characters."""
    vocabulary = tables.vocabulary
    if not vocabulary.whole_words:
        return []
    forms = [
        Form(number, token, False)
        for number, token in enumerate(tables.tokens)
        if tables.retained[number]
    ]
    forms = forms if vocabulary.marker == "none" else _at_edge(vocabulary.marker, forms)
    return [form for form in forms if form.text and spelled(vocabulary, form.text) is not None]


def _at_edge(marker: Marker, forms: list[Form]) -> list[Form]:
    if marker == "prefix":
        return [
            Form(number, text[1:], True) for number, text, _ in forms if text.startswith(PREFIX)
        ]
    marked = [
        form
        for form in forms
        if marker == "suffix" and form.text.endswith(SUFFIX) and form.text != SUFFIX
    ]
    return [Form(number, text.removesuffix(SUFFIX), True) for number, text, _ in marked]


def _becoming_one(tables: MergeTables, forms: list[Form]) -> list[Form]:
    """Return the forms that merge into their own symbol, or into a lone unknown character with its spelling."""
    if not forms:
        return []
    codes, ends = atom_codes(
        [form.text for form in forms], marker="suffix" if forms[0].at_edge else "none"
    )
    pieces, piece_ends = merged(Spelled(tables.symbol_of[codes], ends), tables.merges)
    lone = np.diff(piece_ends, prepend=0) == 1
    last = pieces[piece_ends - 1]
    return [
        form
        for form, is_one, symbol in zip(forms, lone.tolist(), last.tolist(), strict=True)
        if is_one
        and (
            symbol == form.symbol
            or (symbol < 0 and tables.spell(symbol) == (tables.tokens[form.symbol],))
        )
    ]


def _forms_of_tokens(tables: MergeTables, forms: Iterable[Form]) -> Forms:
    result: Forms = {}
    for form in forms:
        stack = [form.symbol]
        pieces = set[int]()
        while stack:  # split back
            number = stack.pop()
            if tables.retained[number]:
                pieces.add(number)
            elif (parts := int(tables.parts[number])) >= 0:
                stack += [parts >> 32, parts & 0xFFFFFFFF]
        for number in pieces:
            result.setdefault(tables.tokens[number], []).append(form)
    return result


def _left_by_normalizer(vocabulary: Vocabulary, forms: Forms) -> Forms:
    import polars as pl

    if vocabulary.normalizer.name == "none":
        return forms
    texts = {
        form.text: spelled(vocabulary, form.text) for form in chain.from_iterable(forms.values())
    }
    series = pl.Series(
        sorted({text for text in texts.values() if text is not None}), dtype=pl.String
    )
    retained = {
        None,
        *series.filter(vocabulary.normalizer.apply_series(series) == series).to_list(),
    }
    left = {
        token: [form for form in several if texts[form.text] in retained]
        for token, several in forms.items()
    }
    return {token: several for token, several in left.items() if several}


def _producing_texts(encoder: Encoder, forms: Forms) -> dict[str, str]:
    missing = dict(forms)
    result = dict[str, str]()
    for trial in trials(encoder.vocabulary):
        if not missing:
            break
        lines = list(
            dict.fromkeys(chain.from_iterable(map(trial, chain.from_iterable(missing.values()))))
        )
        for line, pieces in zip(lines, encoder.encode_lines(lines) if lines else [], strict=True):
            for piece in missing.keys() & pieces:
                result[piece] = line
                del missing[piece]
    return result


def _why(vocabulary: Vocabulary, allowed: list[Form], normal: list[Form]) -> Why | None:
    if not allowed:
        return "merges"
    if not normal:
        return "normalizer"
    if not all(is_decided(vocabulary, form) for form in normal):
        return None
    hidden = any(user in form.text for form in normal for user in vocabulary.special.user)
    return "user tokens" if hidden else "pretokenizer"
