"""`reach`: find a text that produces each token, or the reason why no text produces it.

    merges (b c), (a b), (ab c)    "abc" merges into a, bc: no text produces the token "abc"

A word produces a token if and only if the token's own characters merge into it. (Such a text is a
*form* of the token.) But the normaliser, user tokens or the pre-tokenizer may prevent that a text
has this word. So each form is encoded alone and between unknown characters
(volt.encode.trial_texts). If a built-in pre-tokenizer splits by classes of characters only, failure
of all trials is a proof. For a regex, and for tokens with incomplete characters, it is not, and
some tokens stay undecided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, starmap
from typing import Literal

import numpy as np

from volt import arguments
from volt.display import counted
from volt.encode.arrays import ends_to_sizes
from volt.encode.encoder import Encoder
from volt.encode.merge_tables import MergeTables, TokenAtoms, merge_tokens
from volt.encode.trial_texts import Form, find_neighbours, list_trials, text_in_line
from volt.text.atoms import PREFIX, SUFFIX, Marker, atom_codes
from volt.text.byte_alphabet import to_bytes, whole_characters
from volt.vocabulary import Vocabulary

_SPLIT_BY_CLASS = ("whitespace", "metaspace", "unicode", "gpt2")  # pre-tokenizers
_N_CLASSES = 4  # letters, numbers, signs and white space
Why = Literal["merges", "normalizer", "pretokenizer", "user tokens"]
Forms = dict[str, list[Form]]  # token → its forms


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
    tables = MergeTables.of(vocabulary)
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


def _find_merging_forms(tables: MergeTables) -> list[Form]:
    """Return the spellings of symbols that merge into the symbol."""
    marker = tables.vocabulary.marker
    spellings = list(starmap(Form, enumerate(tables.tokens)))
    inside = _select_merging(tables, spellings, "none")
    if marker == "suffix":
        return inside + _select_merging(tables, _remove_marker(spellings, marker), marker)
    return inside + _remove_marker(inside, marker)  # the same symbols at the start of a word


def _find_whole_words(tables: MergeTables) -> list[Form]:
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


def _select_merging(tables: MergeTables, forms: list[Form], marker: Marker) -> list[Form]:
    """Return the forms that, as words with this marker, merge into their own symbol.

    A form may also become one unknown character that is spelled like its symbol.
    """
    codes, ends = atom_codes([form.text for form in forms], marker=marker)
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


def _group_by_token(tables: MergeTables, forms: Iterable[Form]) -> Forms:
    """Return the forms of each token.

    Scaffolding is split back into tokens of the vocabulary, so its forms are forms of these tokens.
    """
    result: Forms = {}
    for form in forms:
        for symbol in _split_back(tables, form.symbol):
            result.setdefault(tables.tokens[symbol], []).append(form)
    return result


def _split_back(tables: MergeTables, symbol: int) -> set[int]:
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
        return "merges"
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
