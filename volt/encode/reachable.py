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
from itertools import chain, product, starmap
from math import prod
from random import Random
from typing import Any, Literal, NamedTuple
from unicodedata import category

import numpy as np

from volt import arguments
from volt.display import counted
from volt.encode.arrays import sizes_of
from volt.encode.encoder import Encoder
from volt.encode.merge_tables import MergeTables, TokenAtoms, merged
from volt.text.atoms import PREFIX, SPACE, SUFFIX, Marker, atom_codes
from volt.text.byte_alphabet import to_bytes, whole_characters
from volt.text.patterns.published import CONTRACTIONS
from volt.text.white_space import WHITE_SPACE
from volt.vocabulary import Vocabulary

# these split by the classes of characters only
_BY_CLASS = ("whitespace", "metaspace", "unicode", "gpt2")
_LETTERS = range(0x4E00, 0x9FA6)
_SIGNS = (*range(0x2190, 0x2400), *range(0xE000, 0xF900))
_NUMBERS = [code for code in range(0x660, 0x3000) if category(chr(code)) in ("Nd", "Nl", "No")]
_MOST = 400  # texts tried for a token that begins or ends inside a character
_MOST_ATOMS = 100  # atoms tried next to a token if a regex splits the text
_INNER = range(0x80, 0xC0)  # bytes after the first of a character
# first bytes, by the length of the character
_FIRST = {2: range(0xC2, 0xE0), 3: range(0xE0, 0xF0), 4: range(0xF0, 0xF5)}


class Form(NamedTuple):
    """A text that merges into one symbol.

    text: its characters, or its bytes in GPT-2's alphabet, without the marker
    """

    symbol: int
    text: str


def spelled(vocabulary: Vocabulary, text: str) -> str | None:
    """Return the text of a form as it appears in a line; None if it consists of incomplete characters."""
    if not vocabulary.pretokenizer.is_bytes:
        if vocabulary.pretokenizer.keeps_spaces:
            return text.replace(SPACE, " ")
        return text
    try:
        return to_bytes(text).decode()
    except UnicodeDecodeError:
        return None


def is_decided(vocabulary: Vocabulary, form: Form) -> bool:
    """Check whether the failure of all trials proves that no text produces a form."""
    marker = vocabulary.marker
    cut = vocabulary.pretokenizer
    text = spelled(vocabulary, form.text)
    if text is None:
        return whole_characters(to_bytes(form.text)) is None
    if vocabulary.normalizer.name != "none" and _holds_user(vocabulary, text):
        return False  # other characters, without the user token, may normalise to this text
    if cut.name == "bytes":
        return marker == "none"
    is_apart = not text.strip() or text.startswith("'")
    if is_apart and marker != "none" and cut.name in ("unicode", "gpt2"):
        return False  # its word may not contain an unknown character
    return cut.name in _BY_CLASS and len(neighbours(vocabulary)) == 4


def _holds_user(vocabulary: Vocabulary, text: str) -> bool:
    return any(user in text for user in vocabulary.special.user)


def neighbours(vocabulary: Vocabulary) -> list[str]:
    r"""Return a letter, a number, a sign and a white space that the vocabulary does not know, if they exist."""
    known = set("".join(chain(vocabulary.atoms, vocabulary.unmade, vocabulary.special.user)))
    result = []
    for codes in (_LETTERS, _NUMBERS, _SIGNS, map(ord, WHITE_SPACE[6:])):
        for character in map(chr, codes):
            if character not in known and vocabulary.normalizer.normalize(character) == character:
                result.append(character)
                break
    return result


Trial = Callable[[Form], list[str]]


def trials(vocabulary: Vocabulary) -> Iterator[Trial]:
    """Yield functions from a form to lines that may produce the form, the likeliest function first."""
    cut = vocabulary.pretokenizer
    contractions = []
    if cut.name in ("gpt2", "bytes") or cut.has_own_pattern:
        contractions += CONTRACTIONS.split("|")
    if cut.has_own_pattern:  # many patterns match capitals, too
        contractions += CONTRACTIONS.upper().split("|")
    yield lambda form: contractions + _between(vocabulary, "", "", form)
    for left, right in [*product(("", *neighbours(vocabulary)), repeat=2)][1:]:
        yield partial(_between, vocabulary, left, right)
    if cut.is_bytes:
        completed = cache(_completed)
        for number in range(_MOST):
            yield partial(lambda n, form: completed(to_bytes(form.text))[n : n + 1], number)
    elif cut.has_own_pattern:
        atoms = [atom for atom in vocabulary.atoms if len(atom) == 1]
        for atom in atoms[:_MOST_ATOMS]:
            yield partial(_between, vocabulary, "", atom)
            yield partial(_between, vocabulary, atom, "")


def _between(vocabulary: Vocabulary, left: str, right: str, form: Form) -> list[str]:
    """Return a form's text between `left` and `right`; also without its first space if a dummy prefix adds it."""
    text = spelled(vocabulary, form.text)
    if text is None:
        return []
    lines = [f"{left}{text}{right}"]
    if vocabulary.pretokenizer.dummy_prefix and not left and text.startswith(" "):
        lines.append(text[1:] + right)
    return lines


def _completed(data: bytes) -> list[str]:
    """Return texts that contain these bytes, which may begin or end inside a character."""
    middle = whole_characters(data)
    if middle is None:
        return []
    is_inner = [byte in _INNER for byte in data]
    start = is_inner.index(False) if False in is_inner else len(data)
    if start == len(data):
        ends = _characters(data, at_end=True)[: _MOST // 2]
        return ends + _characters(data, at_end=False)[: _MOST // 2]
    end = start + len(middle.encode())
    befores = afters = [""]
    if start:
        befores = _characters(data[:start], at_end=True)
    if end < len(data):
        afters = _characters(data[end:], at_start=True)
    return [f"{before}{middle}{after}" for before, after in _some([befores, afters])]


def _characters(part: bytes, *, at_start: bool = False, at_end: bool = False) -> list[str]:
    r"""Return characters whose UTF-8 contains `part`: at the start if and only if `at_start`; likewise `at_end`."""
    result = []
    for n, first in _FIRST.items():
        for n_before in range(n - len(part) + 1):
            n_after = n - len(part) - n_before
            fits = n_before > 0 or part[0] in first
            if not fits or (n_before == 0) != at_start or (n_after == 0) != at_end:
                continue
            choices = ([first, *[_INNER] * 3])[:n_before] + [_INNER] * n_after
            for fill in _some(choices, most=len(_INNER) ** 2):
                data = bytes((*fill[:n_before], *part, *fill[n_before:]))
                result.append(data.decode(errors="ignore"))
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
    merged_forms = _forms_of_tokens(tables, _whole_forms(tables) + _words(tables))
    normal_forms = _left_by_normalizer(vocabulary, merged_forms)
    producing = _producing_texts(Encoder(vocabulary), normal_forms)
    texts = {}
    never = {}
    undecided = []
    for token in vocabulary.tokens:
        if token in producing:
            texts[token] = producing[token]
            continue
        allowed = merged_forms.get(token, [])
        why = _why(vocabulary, allowed, normal_forms.get(token, []))
        if why is None:
            undecided.append(token)
        else:
            never[token] = why
    return Reach(texts, never, tuple(undecided))


def _whole_forms(tables: MergeTables) -> list[Form]:
    """Return the forms that merge into one symbol."""
    marker = tables.vocabulary.marker
    forms = list(starmap(Form, enumerate(tables.tokens)))
    inner = _becoming_one(tables, forms, "none")
    if marker == "suffix":
        return inner + _becoming_one(tables, _at_edge(marker, forms), marker)
    return inner + _at_edge(marker, inner)  # the same symbols at the start of a word


def _words(tables: MergeTables) -> list[Form]:
    """Return the forms of tokens that encoding looks up as whole words, if they consist of whole characters."""
    vocabulary = tables.vocabulary
    if not vocabulary.whole_words:
        return []
    numbers = np.flatnonzero(tables.retained).tolist()
    forms = [Form(number, tables.tokens[number]) for number in numbers]
    if vocabulary.marker != "none":
        forms = _at_edge(vocabulary.marker, forms)
    return [form for form in forms if form.text and spelled(vocabulary, form.text) is not None]


def _at_edge(marker: Marker, forms: list[Form]) -> list[Form]:
    """Return the forms that have the marker, without it."""
    if marker == "none":
        return []
    result = []
    for number, text in forms:
        bare = text.removeprefix(PREFIX) if marker == "prefix" else text.removesuffix(SUFFIX)
        if bare != text and (bare or marker == "prefix"):
            result.append(Form(number, bare))
    return result


def _becoming_one(tables: MergeTables, forms: list[Form], marker: Marker) -> list[Form]:
    """Return the forms that merge into their own symbol, or into a lone unknown character with its spelling."""
    codes, ends = atom_codes([form.text for form in forms], marker=marker)
    symbols, ends = merged(TokenAtoms(tables.symbol_of[codes], ends), tables.merges)
    is_one = sizes_of(ends) == 1
    result = []
    for place in np.flatnonzero(is_one).tolist():
        form = forms[place]
        symbol = int(symbols[ends[place] - 1])
        spelling = (tables.tokens[form.symbol],)
        if symbol == form.symbol or (symbol < 0 and tables.spell(symbol) == spelling):
            result.append(form)
    return result


def _forms_of_tokens(tables: MergeTables, forms: Iterable[Form]) -> Forms:
    """Return the forms of each token; a form of scaffolding is a form of the tokens that it is split back into."""
    result: Forms = {}
    for form in forms:
        for number in _split_back(tables, form.symbol):
            result.setdefault(tables.tokens[number], []).append(form)
    return result


def _split_back(tables: MergeTables, symbol: int) -> set[int]:
    tokens = set[int]()
    left = [symbol]
    while left:
        number = left.pop()
        parts = int(tables.parts[number])
        if tables.retained[number]:
            tokens.add(number)
        elif parts >= 0:
            left += [parts >> 32, parts & 0xFFFFFFFF]
    return tokens


def _left_by_normalizer(vocabulary: Vocabulary, forms: Forms) -> Forms:
    """Return the forms that normalising does not change, or that consist of incomplete characters."""
    import polars as pl

    if vocabulary.normalizer.name == "none":
        return forms
    texts = {
        form.text: spelled(vocabulary, form.text) for form in chain.from_iterable(forms.values())
    }
    whole = sorted({text for text in texts.values() if text is not None})
    series = pl.Series(whole, dtype=pl.String)
    is_normal = vocabulary.normalizer.apply_series(series) == series
    normal = {None, *series.filter(is_normal).to_list()}
    result: Forms = {}
    for token, own in forms.items():
        left = [form for form in own if texts[form.text] in normal]
        if left:
            result[token] = left
    return result


def _producing_texts(encoder: Encoder, forms: Forms) -> dict[str, str]:
    missing = dict(forms)
    result = {}
    for trial in trials(encoder.vocabulary):
        if not missing:
            break
        lines_of_forms = map(trial, chain.from_iterable(missing.values()))
        lines = list(dict.fromkeys(chain.from_iterable(lines_of_forms)))
        for line, pieces in zip(lines, encoder.encode_lines(lines), strict=True):
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
    holds_user = any(_holds_user(vocabulary, form.text) for form in normal)
    return "user tokens" if holds_user else "pretokenizer"
