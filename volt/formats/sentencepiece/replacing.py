"""What a vocabulary does to text before it cuts it → a table of sentencepiece that does the same.

A normal form is a table of strings there: characters that it changes, and letters with their marks. All Unicode spaces
become U+0020, as far as the pre-tokeniser cuts at all of them.

>>> from volt.vocabulary import Vocabulary
>>> replacements(Vocabulary(merges=(), tokens=("a",), normalizer="lowercase"))["É"]
'é'
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

from volt.formats.sentencepiece import charsmap
from volt.formats.sentencepiece.library import load_library, model_class
from volt.text.markers import PREFIX
from volt.text.normalizer import Normalizer
from volt.text.white_space import SPLIT_SPACE
from volt.vocabulary import Vocabulary

_UNKNOWN = ("\ufffd", "\U0010ffff")  # one of these stands for a "▁" of the text that would be a space
CHANGED = (range(1, 0xD800), range(0xE000, 0x20000), range(0x2F800, 0x2FA20))  # no other characters are ever changed


def table_of(vocabulary: Vocabulary) -> bytes:
    """The table. Raises MissingLibraryError if sentencepiece is not installed."""
    return _packed(tuple(replacements(vocabulary).items()))


@lru_cache(maxsize=4)
def _packed(items: tuple[tuple[str, str], ...]) -> bytes:
    return charsmap.pack(dict(items))


def replacements(vocabulary: Vocabulary) -> dict[str, str]:
    """String → what replaces it."""
    found = dict(_normal_items(vocabulary.normalizer))
    if vocabulary.pretokenizer.name == "whitespace":
        found |= {space: " " for space in SPLIT_SPACE if space != " "}
        spaces = str.maketrans(dict.fromkeys(SPLIT_SPACE, " "))
        found = {key: text.translate(spaces) for key, text in found.items()}
    if vocabulary.marker == "suffix" and not vocabulary.byte_fallback:
        known = set(vocabulary.atoms)
        found |= {PREFIX: next(char for char in _UNKNOWN if char not in known)}
    return found


@lru_cache(maxsize=8)
def _normal_items(normalizer: Normalizer) -> tuple[tuple[str, str], ...]:
    """The strings that a normaliser changes, and what it makes of them."""
    import polars as pl

    if normalizer == Normalizer():
        return ()
    keys = dict.fromkeys(map(chr, chain.from_iterable(CHANGED)))
    if normalizer.form != "none":
        keys |= dict.fromkeys(_marked(list(keys)))
    if normalizer.form == "nfkc":
        keys |= dict.fromkeys(_of_library())
    texts = normalizer.apply_series(pl.Series("text", list(keys), dtype=pl.String)).to_list()
    return tuple((key, text) for key, text in zip(keys, texts, strict=True) if key != text)


def _marked(characters: list[str]) -> Iterator[str]:
    """Letters with their marks, wholly and partly taken apart."""
    for character in characters:
        apart = unicodedata.normalize("NFD", character)
        if apart != character:
            yield apart
            yield unicodedata.normalize("NFC", apart[:-1]) + apart[-1]


def _of_library() -> list[str]:
    """The strings that the library's own table for NFKC replaces."""
    normalizer = load_library().SentencePieceNormalizer(rule_name="nfkc")
    if hasattr(normalizer, "decompile"):  # since 0.2.3, and ten times as fast
        return [key for key, _ in normalizer.decompile()]
    model = model_class().FromString(normalizer.serialized_model_proto())
    return list(charsmap.unpack(model.normalizer_spec.precompiled_charsmap))
