"""`reach`: which tokens some text can produce, each with such a text, and which none can, each with the reason.

Until a stretch of text becomes one symbol, no merge has crossed its ends. So it goes through the same merges wherever
it stands, and a symbol comes out of some word if and only if it comes out of its own characters alone. It then stays as
it is between characters that the vocabulary does not know, which merge with nothing. A kept token is produced if its
symbol is, or if another symbol is that is split back into it; and, where whole words are looked up, if it is a word.

What merges allow, text may not: the normaliser may change the characters of a token, user tokens may hide them, and the
pre-tokeniser may always cut them (volt.encode.trials).

>>> merges = (("b", "c"), ("a", "b"), ("ab", "c"))
>>> found = reach(Vocabulary(merges=merges, tokens=("a", "b", "c", "bc", "ab", "abc"), marker="none"))
>>> found.texts["ab"], found.never
('ab', {'abc': 'merges'})
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np

from volt import arguments
from volt.display import counted
from volt.encode.encoder import Encoder
from volt.encode.merge_tables import MergeTables
from volt.encode.trials import Form, is_decided, spelled, trials
from volt.text.atoms import text_codes
from volt.text.markers import PREFIX, SUFFIX, Marker
from volt.vocabulary import Vocabulary

Why = Literal["merges", "normalizer", "pretokenizer", "user tokens"]
Forms = dict[str, list[Form]]


@dataclass(frozen=True, slots=True)
class Reach:
    """What text can make of the tokens of a vocabulary, in the order of their ids.

    texts: a text for each token that some text produces
    never: the reason for each token that none produces
        "merges"        encoding its characters never leaves it: other merges come first, or go on
        "normalizer"    normalising changes its characters
        "user tokens"   it holds a user token
        "pretokenizer"  it is always cut, or its bytes are no part of any UTF-8
    undecided: tokens that merges allow, for which no text has been found, and none is known not to exist. There are
        such only where a regex cuts, where tokens begin or end inside a character, where the normaliser may make a user
        token's characters, or where a marker meets a token of white space.

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
    """Which tokens some text produces when it is encoded without dropout. Special tokens are not looked at.

    vocabulary: any

    Every text in `texts` has been encoded, and gave its token.

    >>> found = reach(Vocabulary(merges=(("a", "B"),), tokens=("a", "B", "aB"), normalizer="lowercase"))
    >>> found.never
    {'B': 'normalizer', 'aB': 'normalizer'}
    """
    arguments.instance(vocabulary, Vocabulary, "vocabulary", call="reach({})")
    tables = MergeTables.of(vocabulary)
    allowed = _forms_of_tokens(tables, _whole_forms(tables) + _words(tables))
    normal = _left_by_normalizer(vocabulary, allowed)
    texts = _texts_found(Encoder(vocabulary), normal)
    lost = [token for token in vocabulary.tokens if token not in texts]
    reasons = {token: _why(vocabulary, allowed.get(token, []), normal.get(token, [])) for token in lost}
    return Reach(
        texts={token: texts[token] for token in vocabulary.tokens if token in texts},
        never={token: why for token, why in reasons.items() if why},
        undecided=tuple(token for token, why in reasons.items() if not why),
    )


def _whole_forms(tables: MergeTables) -> list[Form]:
    """The stretches of atoms that merges make one symbol of, for all tokens, kept or not."""
    marker, numbered = tables.vocabulary.marker, list(enumerate(tables.tokens))
    inner = _becoming_one(tables, [Form(number, token, False) for number, token in numbered])
    if marker == "prefix":  # the same symbols, where a word starts
        return inner + [Form(number, text[1:], True) for number, text, _ in inner if text.startswith(PREFIX)]
    if marker == "none":
        return inner
    final = [Form(number, token.removesuffix(SUFFIX), True) for number, token in numbered if token.endswith(SUFFIX)]
    return inner + _becoming_one(tables, [form for form in final if form.text])


def _words(tables: MergeTables) -> list[Form]:
    """The kept tokens that are looked up as whole words, which are whole characters."""
    vocabulary, found = tables.vocabulary, list[Form]()
    numbered = [(number, token) for number, token in enumerate(tables.tokens) if tables.kept[number]]
    if vocabulary.whole_words and vocabulary.marker == "suffix":
        found = [Form(number, token.removesuffix(SUFFIX), True) for number, token in numbered if token.endswith(SUFFIX)]
    elif vocabulary.whole_words and vocabulary.marker == "prefix":
        found = [Form(number, token[1:], True) for number, token in numbered if token.startswith(PREFIX)]
    elif vocabulary.whole_words:
        found = [Form(number, token, False) for number, token in numbered]
    return [form for form in found if form.text and spelled(vocabulary, form.text) is not None]


def _becoming_one(tables: MergeTables, forms: list[Form]) -> list[Form]:
    """The forms, all at the edge of a word or none, that become their symbol, or are spelled like it while unknown."""
    from volt.kernels.spellings import no_spellings
    from volt.kernels.words import encode_words

    if not forms:
        return []
    lengths = np.fromiter((len(form.text) for form in forms), np.int64, len(forms))
    marker: Marker = "suffix" if forms[0].at_edge else "none"
    codes, ends = text_codes("".join(form.text for form in forms), lengths, marker=marker)
    rule = tables.rule._replace(kept=np.ones(len(tables.kept), np.uint8), words=no_spellings())
    pieces, piece_ends = encode_words(tables.symbol_of[codes], ends, tables.merges, rule, 0.0, np.zeros(1, np.int64))
    lone, last = np.diff(piece_ends, prepend=0) == 1, pieces[piece_ends - 1]
    return [
        form
        for form, is_one, symbol in zip(forms, lone.tolist(), last.tolist(), strict=True)
        if is_one and (symbol == form.symbol or (symbol < 0 and tables.spell(symbol) == (tables.tokens[form.symbol],)))
    ]


def _forms_of_tokens(tables: MergeTables, forms: Iterable[Form]) -> Forms:
    """Kept token → the forms that become it, or that are split back into it."""
    found: Forms = {}
    for form in forms:
        for number in set(_split_back(tables, form.symbol)):
            if tables.kept[number]:
                found.setdefault(tables.tokens[number], []).append(form)
    return found


def _split_back(tables: MergeTables, symbol: int) -> Iterator[int]:
    """The tokens that a symbol leaves among pieces."""
    stack = [symbol]
    while stack:
        number = stack.pop()
        parts = int(tables.parts[number])
        if tables.kept[number] or parts < 0:
            yield number
        else:
            stack += [parts >> 32, parts & 0xFFFFFFFF]


def _left_by_normalizer(vocabulary: Vocabulary, forms: Forms) -> Forms:
    """The forms whose characters normalising leaves as they are. What holds for a text holds for all parts of it."""
    import polars as pl

    if vocabulary.normalizer.name == "none":
        return forms
    texts = {form.text: spelled(vocabulary, form.text) for form in chain.from_iterable(forms.values())}
    series = pl.Series(sorted({text for text in texts.values() if text is not None}), dtype=pl.String)
    kept = {None, *series.filter(vocabulary.normalizer.apply_series(series) == series).to_list()}
    left = {token: [form for form in several if texts[form.text] in kept] for token, several in forms.items()}
    return {token: several for token, several in left.items() if several}


def _texts_found(encoder: Encoder, forms: Forms) -> dict[str, str]:
    """Token → a text that it has come out of. Texts are tried until all tokens are found, or there are no more."""
    missing, found = dict(forms), dict[str, str]()
    for trial in trials(encoder.vocabulary):
        if not missing:
            break
        lines = list(dict.fromkeys(chain.from_iterable(map(trial, chain.from_iterable(missing.values())))))
        for line, pieces in zip(lines, encoder.encode_lines(lines) if lines else [], strict=True):
            for piece in missing.keys() & pieces:
                found[piece] = line
                del missing[piece]
    return found


def _why(vocabulary: Vocabulary, allowed: list[Form], normal: list[Form]) -> Why | None:
    """Why no text produces a token; None if that is not certain."""
    if not allowed:
        return "merges"
    if not normal:
        return "normalizer"
    if not all(is_decided(vocabulary, form) for form in normal):
        return None
    hidden = any(user in form.text for form in normal for user in vocabulary.special.user)
    return "user tokens" if hidden else "pretokenizer"
