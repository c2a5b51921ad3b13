"""Vocabulary → the content of a sentencepiece model: pieces, scores, types and normalisation.

The result of merge number r gets the score -r, so that sentencepiece joins it as early as VOLT.
Special, byte and unused pieces get the score 0 and their own types. If "</w>" ends words,
sentencepiece puts "▁" after words: "low</w>" becomes "low▁", and "w▁" gets a score above all
merges, so that "w" and "▁" join first. The normalisation becomes a table of replacements
(`charsmap`), for each character, and each letter with marks, that it changes. The tokens of a
unigram model keep their scores; `volt.formats.sentencepiece.unigram` has its other rules.

`differences` and the constants with text are notes: what the model lacks, and what sentencepiece
does differently.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain, count, product
from typing import Any, TypeAlias

from volt.errors import VocabularyError
from volt.formats.protocol import Pair
from volt.formats.sentencepiece import charsmap, unigram
from volt.formats.sentencepiece.charsmap import load_library, model_class
from volt.formats.sentencepiece.merges import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER,
    Letters,
    last_join,
)
from volt.text.atoms import PREFIX, SUFFIX, Marker
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import RUNS_UNMARKED, UNMARKED_LINE
from volt.text.special_tokens import ROLES
from volt.text.white_space import SPLIT_SPACE
from volt.vocabulary import Vocabulary

ModelRow: TypeAlias = tuple[str, float, int]  # piece, score and type

UNIGRAM = 1  # model type
BPE = 2
ONLY_SPACES = "regex:[^ ]+"  # a pre-tokenizer that cuts at U+0020 only
REDUCING = ("whitespace", ONLY_SPACES)  # pre-tokenizers that treat several spaces as one
_UNREDUCING = ("metaspace", "metaspace-runs", "metaspace-line", RUNS_UNMARKED, UNMARKED_LINE)
# The pre-tokenizers and markers that sentencepiece can imitate
_SCHEMES = {*product(REDUCING, ("prefix", "suffix")), *product(_UNREDUCING, ("none",))}
_TYPE_OF_KIND = {"unk": UNKNOWN, "user": USER, "byte": BYTE, "token": NORMAL, "marker": NORMAL}
_MAX_RANK = 1 << 24  # scores are 32-bit floats
_FIRST_OF_ALL = 1.0  # the score of pieces that are joined before any merge
# One of these replaces a "▁" in text, which sentencepiece would read as a space.
_REPLACEMENT_CHARACTERS = ("\ufffd", "\U0010ffff")
# Normal forms change no other characters.
CHANGED = (range(1, 0xD800), range(0xE000, 0x20000), range(0x2F800, 0x2FA20))
TRIMMED = (
    f"sentencepiece drops a {PREFIX!r} in text next to a space, to another {PREFIX!r}, "
    "or to an end of the line."
)
END_UNKNOWN = (
    "{} no word of the vocabulary: at the end of a word in text, it is unknown here, "
    f"but itself and a lone {PREFIX!r} in sentencepiece."
)


def check_scheme(vocabulary: Vocabulary) -> None:
    """Raise VocabularyError if sentencepiece cannot mark words or spell tokens as the vocabulary
    does.
    """
    name = vocabulary.pretokenizer.of_lines.name
    marker = vocabulary.marker
    if (name, marker) not in _SCHEMES:
        remedy = (
            "learn with the pretokenizer whitespace and the marker prefix, "
            "or with metaspace and the marker none"
        )
        if vocabulary.pretokenizer.is_bytes or vocabulary.is_unigram:
            remedy = "export to huggingface"
        raise VocabularyError(
            f"sentencepiece cannot mark words by {marker!r} with {name!r} pre-tokens; {remedy}"
        )
    if vocabulary.unmade and not vocabulary.is_unigram:
        raise VocabularyError(
            f"{such(vocabulary.unmade, 'is')} not made by merges, and sentencepiece does not look "
            "words up; remove it"
        )
    for token in vocabulary.special.user:
        if PREFIX in token:
            raise VocabularyError(
                f"user token {token!r} contains {PREFIX!r}, a space in sentencepiece; rename it"
            )
    if len(vocabulary.merges) >= _MAX_RANK:
        raise VocabularyError(
            f"{len(vocabulary.merges)} merges; sentencepiece can rank {_MAX_RANK}: search for fewer"
        )
    for token in (*vocabulary.atoms, *vocabulary.made):
        if marker == "suffix" and PREFIX in token:
            raise VocabularyError(
                f"token {token!r} contains {PREFIX!r}, which ends words in sentencepiece; "
                "remove it from the corpus and search again"
            )


def model_rows(vocabulary: Vocabulary) -> Iterator[ModelRow]:
    """Yield the piece, score and type of each id, then of pieces without an id.

    Such pieces are the unknown token, if the vocabulary lacks one, and the intermediate tokens that
    merges need.

    >>> list(model_rows(Vocabulary(merges=(("▁", "l"),), tokens=("▁", "l", "▁l"), marker="prefix")))[-1]
    ('▁l', -0.0, 1)
    """
    end_scores = dict[str, float]()  # of atoms that end words
    if vocabulary.marker == "suffix":
        atoms = (atom for atom in vocabulary.atoms if atom.endswith(SUFFIX) and atom != SUFFIX)
        end_scores = dict.fromkeys(atoms, _FIRST_OF_ALL)
    scores = _score_merges(vocabulary.merges) | end_scores
    types = dict[str, int]()
    if vocabulary.is_unigram:
        scores = dict(zip(vocabulary.tokens, vocabulary.scores, strict=True))
        types = unigram.types_of(vocabulary)
    scores_below_merges = count(-float(len(vocabulary.merges)), -1.0)
    for number, (piece, kind) in enumerate(zip(vocabulary.pieces, vocabulary.kinds, strict=True)):
        if kind == "unused":
            yield _invent_name("unused", number, vocabulary), 0.0, UNUSED
        elif kind in ("token", "marker"):
            lowest = (
                _FIRST_OF_ALL
                if piece in end_scores
                else max(next(scores_below_merges), -float(_MAX_RANK))
            )
            score = scores.get(piece, lowest)
            yield _spell(piece, vocabulary), score, types.get(piece, NORMAL)
        else:
            yield piece, 0.0, _TYPE_OF_KIND.get(kind, CONTROL)
    if "unk" not in vocabulary.kinds:
        yield _invent_name("unk", len(vocabulary), vocabulary), 0.0, UNKNOWN
    for symbol in unigram.read_settings(vocabulary.normalizer).protected if types else ():
        if symbol not in types:
            yield symbol, 0.0, USER
    without_id = [atom for atom in end_scores if atom not in vocabulary.ids]
    for token in (*without_id, *vocabulary.scaffolding):
        yield _spell(token, vocabulary), scores[token], UNUSED


def _spell(piece: str, vocabulary: Vocabulary) -> str:
    if vocabulary.marker == "suffix" and piece.endswith(SUFFIX):
        return piece.removesuffix(SUFFIX) + PREFIX
    return piece


def _invent_name(name: str, number: int, vocabulary: Vocabulary) -> str:
    """Return a piece such as <unused_7> that the vocabulary does not contain."""
    end = ""
    while f"<{name}_{number}{end}>" in vocabulary.ids:
        end += "_"
    return f"<{name}_{number}{end}>"


def _score_merges(merges: Sequence[Pair]) -> dict[str, float]:
    return {left + right: -float(rank) for rank, (left, right) in reversed(list(enumerate(merges)))}


def check_spellings(rows: Sequence[ModelRow]) -> None:
    """Raise VocabularyError if a piece repeats, or is invalid in a model."""
    first = dict[str, int]()
    for number, (piece, _, kind) in enumerate(rows):
        if first.setdefault(piece, number) != number:
            raise VocabularyError(
                f"{piece!r} is a special token, but merges also make it; rename the special token"
            )
        if "\0" in piece:
            name = "intermediate token" if kind == UNUSED else "token"
            raise VocabularyError(
                f"{name} {piece!r} contains U+0000; remove it from the corpus and search again"
            )


def to_proto(vocabulary: Vocabulary, rows: Sequence[ModelRow]) -> Any:
    special = vocabulary.special
    model = model_class()()
    for piece, score, kind in rows:
        model.pieces.add(piece=piece, score=score, type=kind)

    trainer = model.trainer_spec
    trainer.model_type = UNIGRAM if vocabulary.is_unigram else BPE
    trainer.vocab_size = len(rows)
    trainer.byte_fallback = vocabulary.byte_fallback
    trainer.treat_whitespace_as_suffix = vocabulary.marker == "suffix"
    trainer.user_defined_symbols.extend(piece for piece, _, kind in rows if kind == USER)
    trainer.control_symbols.extend(special.control)
    [unk_id] = [number for number, (_, _, kind) in enumerate(rows) if kind == UNKNOWN]
    trainer.unk_surface = rows[unk_id][0]
    tokens = special.roles | {"unk": rows[unk_id][0]}
    ids = vocabulary.ids | {rows[unk_id][0]: unk_id}
    control = {piece for piece, _, kind in rows if kind == CONTROL}
    for role in ROLES:
        token = tokens.get(role)
        name = f"{role}_piece"
        if token is not None:
            setattr(trainer, name, token)
        elif getattr(trainer, name) in control:  # its usual name would give it the role
            setattr(trainer, name, f"<no {role}>")
        setattr(trainer, f"{role}_id", ids.get(token or "", -1))

    spec = model.normalizer_spec
    cut = vocabulary.pretokenizer
    normalizer = vocabulary.normalizer.label
    spec.name = "identity" if normalizer == "none" else normalizer
    spec.add_dummy_prefix = vocabulary.marker != "none" or cut.dummy_prefix
    spec.escape_whitespaces = True
    if vocabulary.is_unigram and vocabulary.normalizer.steps:
        settings = unigram.read_settings(vocabulary.normalizer)
        spec.precompiled_charsmap = settings.charsmap
        spec.remove_extra_whitespaces = settings.removes_spaces
    else:
        spec.precompiled_charsmap = _packed(tuple(replacements(vocabulary).items()))
        spec.remove_extra_whitespaces = cut.name in REDUCING
    return model


def differences(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield a sentence for each property that the model lacks, or that sentencepiece handles
    differently.
    """
    special = vocabulary.special
    yield from _note_text(vocabulary)
    if special.unk is None:
        yield (
            "sentencepiece needs a piece for unknown text, which the vocabulary lacks: "
            f"it is added with the id {len(vocabulary):,}, so an embedding needs one row more."
        )
    if not vocabulary.byte_fallback:
        yield from unknown_words(special.unk, vocabulary.ids, marker=vocabulary.marker)
        if not vocabulary.fuse_unk:
            yield (
                f"A run of unknown characters is one {special.unk} in sentencepiece, and one for each "
                "character here; the vocabulary that you read from the model has one, too."
            )
    if vocabulary.is_unigram:
        yield from unigram.notes_on_scores(vocabulary)
    if vocabulary.counts:
        yield "The counts of tokens are not exported."
    spanning = list(_find_inner_marks(vocabulary))
    if spanning:
        yield (
            f"{such(spanning)} a {PREFIX!r} inside, which is a space in sentencepiece, "
            "where it will join words."
        )
    other_joins = list(_find_other_joins(vocabulary))
    if other_joins:
        yield (
            f"{such(other_joins, 'joins')} other parts in sentencepiece than in its merge: "
            "any parts that spell a piece join."
        )


def _find_inner_marks(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield tokens with "▁" at a place where VOLT's words have none."""
    name = vocabulary.pretokenizer.of_lines.name
    if name in ("metaspace-line", UNMARKED_LINE):
        return
    takes_runs = name in ("metaspace-runs", RUNS_UNMARKED)
    for token in vocabulary.made:
        rest = token.lstrip(PREFIX) if takes_runs else token[1:]
        if PREFIX in rest:
            yield token


def unknown_words(unk: str | None, ids: Collection[str], *, marker: Marker) -> Iterator[str]:
    """Yield the sentence on unknown words next to each other, unless a token stands between them."""
    if marker == "suffix" or PREFIX not in ids:
        yield (
            f"Unknown words in a row are one {unk} in sentencepiece, as no token separates them, "
            "and one each here."
        )


def _note_text(vocabulary: Vocabulary) -> Iterator[str]:
    normalizer = vocabulary.normalizer
    cut = vocabulary.pretokenizer
    if vocabulary.marker == "prefix":
        yield TRIMMED
    if vocabulary.marker == "suffix":
        letters = [token for token in vocabulary.tokens if len(token) == 1]
        if never_last := [letter for letter in letters if letter + SUFFIX not in vocabulary.ids]:
            yield END_UNKNOWN.format(such(never_last, "ends"))
        if vocabulary.byte_fallback:
            yield f"A {PREFIX!r} in text is a space in sentencepiece."
        elif SUFFIX in vocabulary.ids:
            yield (
                f"An unknown character at the end of a word leaves {PREFIX!r} after it in "
                "sentencepiece."
            )
    if normalizer.form != "none":
        yield (
            f"{normalizer.form.upper()} is a table of strings in sentencepiece, which does not sort "
            "several marks of one letter."
        )
    if normalizer.lowercase:
        yield "A capital sigma at the end of a word becomes σ in sentencepiece and ς here."
    if not vocabulary.special.user:
        return
    if cut.of_lines != cut:
        yield (
            "Only lines start with '▁' in sentencepiece, and here each segment between user tokens "
            "does."
        )
    if normalizer.name != "none":
        yield "Text that normalisation turns into a user token is that token in sentencepiece."


def _find_other_joins(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield each token that sentencepiece joins from other parts than the token's first merge does."""
    if vocabulary.merging == "ranks":
        return
    scores = _score_merges(vocabulary.merges)
    letters = Letters(scores if vocabulary.marker == "suffix" else ())
    short_scores = {letters.shorten(token): score for token, score in scores.items()}
    first = {left + right: (left, right) for left, right in reversed(vocabulary.merges)}
    for token in dict.fromkeys(vocabulary.made):
        left, right = first[token]
        join = last_join(letters.shorten(token), short_scores)
        if join is not None and join != (letters.shorten(left), letters.shorten(right)):
            yield token


def such(tokens: Sequence[str], verb: str = "contains") -> str:
    """Return the start of a sentence about tokens: "'a' contains", or "Each of 3 tokens, 'a' among
    them, contains".
    """
    if len(tokens) == 1:
        return f"{tokens[0]!r} {verb}"
    return f"Each of {len(tokens)} tokens, {tokens[0]!r} among them, {verb}"


@lru_cache(maxsize=4)
def _packed(items: tuple[tuple[str, str], ...]) -> bytes:
    return charsmap.pack(dict(items))


def replacements(vocabulary: Vocabulary) -> dict[str, str]:
    """Return string → replacement, by which sentencepiece normalises text as the vocabulary does."""
    result = dict(_normal_items(vocabulary.normalizer))
    if vocabulary.pretokenizer.name == "whitespace":
        result |= {space: " " for space in SPLIT_SPACE if space != " "}
        spaces = str.maketrans(dict.fromkeys(SPLIT_SPACE, " "))
        result = {key: text.translate(spaces) for key, text in result.items()}
    if vocabulary.marker == "suffix" and not vocabulary.byte_fallback:
        result[PREFIX] = next(
            char for char in _REPLACEMENT_CHARACTERS if char not in vocabulary.atoms
        )
    return result


@lru_cache(maxsize=8)
def _normal_items(normalizer: Normalizer) -> tuple[tuple[str, str], ...]:
    """Return (text, normal form) for each character, or letter with marks, that a normalizer
    changes.
    """
    import polars as pl

    if normalizer.steps:
        raise VocabularyError(
            f"the normalizer {normalizer.label} is not exported; use the file that was imported"
        )
    if normalizer == Normalizer():
        return ()
    characters = list(map(chr, chain.from_iterable(CHANGED)))
    keys = dict.fromkeys(characters)
    if normalizer.form != "none":
        for character in characters:  # letters with all marks separate, or only the last one
            separate = unicodedata.normalize("NFD", character)
            if separate != character:
                keys[separate] = None
                keys[unicodedata.normalize("NFC", separate[:-1]) + separate[-1]] = None
    if normalizer.form == "nfkc":
        keys |= dict.fromkeys(_keys_of_library())
    texts = normalizer.apply_series(pl.Series("text", list(keys), dtype=pl.String)).to_list()
    return tuple((key, text) for key, text in zip(keys, texts, strict=True) if key != text)


def _keys_of_library() -> list[str]:
    """Return the strings that sentencepiece's own NFKC changes."""
    normalizer = load_library().SentencePieceNormalizer(rule_name="nfkc")
    if hasattr(normalizer, "decompile"):  # since 0.2.3; ten times as fast
        return [key for key, _ in normalizer.decompile()]
    model = model_class().FromString(normalizer.serialized_model_proto())
    return list(charsmap.unpack(model.normalizer_spec.precompiled_charsmap))
