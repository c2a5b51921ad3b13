"""`reach`: find a text that produces each token, or the reason why no text produces it.

    merges (b c), (a b), (ab c)    "abc" merges into a, bc: no text produces the token "abc"

A word produces a token if and only if the token's own characters merge into it, or in a unigram
model, if no other tokens that spell it have a greater sum of scores. Such a text is a
*form* of the token. But the normaliser, user tokens or the pre-tokenizer may prevent that any text
has this word. So lines with each form are encoded, as *trials*:

    form "lo"   →   "lo";  "一lo", "lo一", "一lo一", "٠lo", …

The characters around the form are unknown to the vocabulary, so nothing merges with them, and stand
for the classes by which built-in pre-tokenizers split: letters, numbers, signs and white space. If
one of these pre-tokenizers splits, failure of all trials is a proof. For a regex, and for tokens
that begin or end inside a character, it is not, and some tokens stay undecided.
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
from volt.encode.arrays import ends_to_sizes
from volt.encode.encoder import Encoder
from volt.encode.merge_tables import TokenAtoms, merge_tokens
from volt.encode.score_tables import ScoreTables, Tables, tables_of
from volt.encode.word_tables import WordTables, join_words
from volt.text.atoms import PREFIX, SPACE, SUFFIX, Marker, atom_codes
from volt.text.byte_alphabet import to_bytes, whole_characters
from volt.text.patterns.published import CONTRACTIONS
from volt.text.white_space import WHITE_SPACE
from volt.vocabulary import Vocabulary

_SPLIT_BY_CLASS = ("whitespace", "metaspace", "unicode", "gpt2")  # pre-tokenizers
_N_CLASSES = 4  # letters, numbers, signs and white space
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


Why = Literal["merges", "scores", "normalizer", "pretokenizer", "user tokens"]
Forms = dict[str, list[Form]]  # token → its forms
Trial = Callable[[Form], list[str]]  # a form → lines that may produce it


@dataclass(frozen=True, slots=True)
class Reach:
    """The tokens of a vocabulary, grouped by whether text produces them, in the order of their ids.

    texts: a text for each token that some text produces
    never: the reason for each token that no text produces
        "merges"        its characters merge into other tokens
        "scores"        other tokens of a unigram model spell it, with a greater sum of scores
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
        n_never = f"{len(self.never):,}"
        return f"<Reach: {tokens} reached, {n_never} never, {len(self.undecided):,} undecided>"


def reach(vocabulary: Vocabulary) -> Reach:
    """Find out which tokens text can produce without dropout. Special tokens are not checked.

    vocabulary: a vocabulary

    >>> merges = (("b", "c"), ("a", "b"), ("ab", "c"))
    >>> tokens = ("a", "b", "c", "bc", "ab", "abc")
    >>> result = reach(Vocabulary(merges=merges, tokens=tokens, marker="none"))
    >>> result, result.texts["ab"], result.never
    (<Reach: 5 tokens reached, 1 never, 0 undecided>, 'ab', {'abc': 'merges'})
    """
    arguments.instance(vocabulary, Vocabulary, "vocabulary")
    tables = tables_of(vocabulary)
    forms = _group_by_token(tables, _find_merging_forms(tables) + _find_whole_words(tables))
    normal_forms = _select_normal(vocabulary, forms)
    texts_of_tokens = _try_texts(Encoder(vocabulary), normal_forms)
    texts = {}
    never = {}
    undecided = []
    for token in vocabulary.tokens:
        if token in texts_of_tokens:
            texts[token] = texts_of_tokens[token]
            continue
        why = _explain(vocabulary, forms.get(token, []), normal_forms.get(token, []))
        if why is None:
            undecided.append(token)
        else:
            never[token] = why
    return Reach(texts, never, tuple(undecided))


def _find_merging_forms(tables: Tables) -> list[Form]:
    """Return the spellings of symbols that merge into the symbol."""
    marker = tables.vocabulary.marker
    spellings = list(starmap(Form, enumerate(tables.tokens)))
    inside = _select_merging(tables, spellings, "none")
    if marker == "suffix":
        return inside + _select_merging(tables, _remove_marker(spellings, marker), marker)
    return inside + _remove_marker(inside, marker)  # the same symbols at the start of a word


def _find_whole_words(tables: WordTables) -> list[Form]:
    """Return the spellings of tokens looked up as whole words, if their characters are complete."""
    vocabulary = tables.vocabulary
    if not vocabulary.whole_words:
        return []
    symbols = np.flatnonzero(tables.retained).tolist()
    forms = [Form(symbol, tables.tokens[symbol]) for symbol in symbols]
    if vocabulary.marker != "none":
        forms = _remove_marker(forms, vocabulary.marker)
    return [form for form in forms if form.text and text_in_line(vocabulary, form.text) is not None]


def _remove_marker(forms: Iterable[Form], marker: Marker) -> list[Form]:
    """Return the forms that have the marker, without it."""
    if marker == "none":
        return []
    result = []
    for symbol, text in forms:
        bare = text.removeprefix(PREFIX) if marker == "prefix" else text.removesuffix(SUFFIX)
        if bare != text and (bare or marker == "prefix"):
            result.append(Form(symbol, bare))
    return result


def _select_merging(tables: Tables, forms: list[Form], marker: Marker) -> list[Form]:
    """Return the forms that, as words with this marker, become their own symbol.

    A form may also become one unknown character that is spelled like its symbol.
    """
    texts = [form.text for form in forms]
    if isinstance(tables, ScoreTables):
        symbols, ends = tables.segment(*join_words(texts))
    else:
        codes, ends = atom_codes(texts, marker=marker)
        symbols, ends = merge_tokens(TokenAtoms(tables.symbol_of[codes], ends), tables.merges)
    is_one_symbol = ends_to_sizes(ends) == 1
    result = []
    for index in np.flatnonzero(is_one_symbol).tolist():
        form = forms[index]
        symbol = int(symbols[ends[index] - 1])
        spelling = (tables.tokens[form.symbol],)
        if symbol == form.symbol or (symbol < 0 and tables.spell(symbol) == spelling):
            result.append(form)
    return result


def _group_by_token(tables: WordTables, forms: Iterable[Form]) -> Forms:
    """Return the forms of each token.

    Scaffolding is split back into tokens of the vocabulary, so its forms are forms of these tokens.
    """
    result: Forms = {}
    for form in forms:
        for symbol in _split_back(tables, form.symbol):
            result.setdefault(tables.tokens[symbol], []).append(form)
    return result


def _split_back(tables: WordTables, symbol: int) -> set[int]:
    """Return the symbols of the vocabulary's tokens that a symbol consists of."""
    result = set[int]()
    waiting = [symbol]
    while waiting:
        part = waiting.pop()
        pair_key = int(tables.parts[part])
        if tables.retained[part]:
            result.add(part)
        elif pair_key >= 0:
            waiting += [pair_key >> 32, pair_key & 0xFFFFFFFF]
    return result


def _select_normal(vocabulary: Vocabulary, forms: Forms) -> Forms:
    """Return the forms that normalising does not change, or that have incomplete characters."""
    import polars as pl

    if vocabulary.normalizer.name == "none":
        return forms
    form_texts = {form.text for form in chain.from_iterable(forms.values())}
    line_text_of = {text: text_in_line(vocabulary, text) for text in form_texts}
    line_texts = sorted({text for text in line_text_of.values() if text is not None})
    series = pl.Series(line_texts, dtype=pl.String)
    is_normal = vocabulary.normalizer.apply_series(series) == series
    for neighbour in find_neighbours(vocabulary)[:1]:  # between which spaces remain
        within = neighbour + series + neighbour
        is_normal |= vocabulary.normalizer.apply_series(within) == within
    normal = {None, *series.filter(is_normal).to_list()}
    result: Forms = {}
    for token, forms_of_token in forms.items():
        remaining = [form for form in forms_of_token if line_text_of[form.text] in normal]
        if remaining:
            result[token] = remaining
    return result


def _try_texts(encoder: Encoder, forms: Forms) -> dict[str, str]:
    """Return a line for each token that a trial produces."""
    missing = dict(forms)
    line_of = {}
    for trial in list_trials(encoder.vocabulary):
        if not missing:
            break
        lines_of_forms = map(trial, chain.from_iterable(missing.values()))
        lines = list(dict.fromkeys(chain.from_iterable(lines_of_forms)))
        for line, pieces in zip(lines, encoder.encode_lines(lines), strict=True):
            for piece in missing.keys() & pieces:
                line_of[piece] = line
                del missing[piece]
    return line_of


def _explain(vocabulary: Vocabulary, forms: list[Form], normal_forms: list[Form]) -> Why | None:
    """Return why no text produces a token, after all trials failed; None if that is not proved."""
    if not forms:
        return "scores" if vocabulary.is_unigram else "merges"
    if not normal_forms:
        return "normalizer"
    if not all(_trials_decide(vocabulary, form) for form in normal_forms):
        return None
    if any(_contains_user(vocabulary, form.text) for form in normal_forms):
        return "user tokens"
    return "pretokenizer"


def _trials_decide(vocabulary: Vocabulary, form: Form) -> bool:
    """Check whether the failure of all trials proves that no text produces a form."""
    marker = vocabulary.marker
    cut = vocabulary.pretokenizer
    text = text_in_line(vocabulary, form.text)
    if text is None:
        return whole_characters(to_bytes(form.text)) is None
    if vocabulary.normalizer.name != "none" and _contains_user(vocabulary, text):
        return False  # other characters, without the user token, may normalise to this text
    if cut.name == "bytes":
        return marker == "none"
    is_apart = not text.strip() or text.startswith("'")
    if is_apart and marker != "none" and cut.name in ("unicode", "gpt2"):
        return False  # its word may not contain an unknown character
    return cut.name in _SPLIT_BY_CLASS and len(find_neighbours(vocabulary)) == _N_CLASSES


def _contains_user(vocabulary: Vocabulary, text: str) -> bool:
    return any(user in text for user in vocabulary.special.user)


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
