"""Vocabulary → what a sentencepiece BPE model holds: pieces with scores and types, and what will be cut differently.

    score(piece) = −rank of the merge that makes it;  characters below all merges

>>> from volt.vocabulary import Vocabulary
>>> list(model_rows(Vocabulary(merges=(("▁", "l"),), tokens=("▁", "l", "▁l"), marker="prefix")))[-1]
('▁l', -0.0, 1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from volt.errors import VocabularyError, missing
from volt.formats.sentencepiece.joins import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER, last_join
from volt.text.markers import BYTE_TOKENS, PREFIX
from volt.text.normalizer import Normalizer
from volt.vocabulary import Vocabulary

BPE = 2  # model type
_SCHEMES = {("whitespace", "prefix"), ("metaspace", "none")}
_MAX_RANK = 1 << 24  # scores are 32-bit floats


def check_scheme(vocabulary: Vocabulary) -> None:
    """Raise VocabularyError if sentencepiece cannot mark words or spell user tokens as the vocabulary does.

    >>> check_scheme(Vocabulary(merges=(), tokens=("▁",), marker="prefix"))
    """
    scheme = vocabulary.pretokenizer.name, vocabulary.marker
    if scheme not in _SCHEMES:
        raise VocabularyError(
            f"marker {scheme[1]!r} with {scheme[0]!r} pre-tokens: sentencepiece starts words with {PREFIX!r} and cuts "
            "them at spaces; learn with marker='prefix', or count with pretokenizer='metaspace' and learn with "
            "marker='none'"
        )
    if bad := next((token for token in vocabulary.special.user if PREFIX in token), None):
        raise VocabularyError(
            f"user token {bad!r} holds {PREFIX!r}, which is a space to sentencepiece; choose another spelling"
        )
    if len(vocabulary.merges) >= _MAX_RANK:
        raise VocabularyError(f"{len(vocabulary.merges)} merges; sentencepiece can rank {_MAX_RANK}: search for fewer")


def model_rows(vocabulary: Vocabulary) -> Iterator[tuple[str, float, int]]:
    """Piece, score and type of every id, then of the scaffolding.

    >>> vocabulary = Vocabulary(merges=(("▁", "l"), ("▁l", "o")), tokens=("▁", "l", "o", "▁lo"), marker="prefix")
    >>> [piece for piece, _, kind in model_rows(vocabulary) if kind != CONTROL]
    ['<unk>', '▁', 'l', 'o', '▁lo', '▁l']
    """
    special = vocabulary.special
    scores = _scores(vocabulary.merges)
    lowest = -float(len(vocabulary.merges))
    yield special.unk, 0.0, UNKNOWN
    yield from ((token, 0.0, CONTROL) for token in (special.bos, special.eos, special.pad))
    yield from ((token, 0.0, USER) for token in special.user)
    yield from ((token, 0.0, BYTE) for token in BYTE_TOKENS * vocabulary.byte_fallback)
    for number, token in enumerate(vocabulary.tokens):
        yield token, scores.get(token, max(lowest - number, -float(_MAX_RANK))), NORMAL
    yield from ((token, scores[token], UNUSED) for token in vocabulary.scaffolding)


def _scores(merges: Sequence[tuple[str, str]]) -> dict[str, float]:
    """The score of each string that merges make.

    >>> _scores([("a", "b"), ("b", "c")])
    {'ab': -0.0, 'bc': -1.0}
    """
    scores = dict[str, float]()
    for rank, (left, right) in enumerate(merges):
        scores.setdefault(left + right, -float(rank))
    return scores


def check_spellings(rows: Sequence[tuple[str, float, int]]) -> None:
    """Raise VocabularyError if a piece of a model's rows repeats, or is none that a model can hold.

    >>> check_spellings([("<unk>", 0.0, UNKNOWN), ("lo", 0.0, NORMAL)])
    """
    first = dict[str, int]()
    for number, (piece, _, kind) in enumerate(rows):
        if first.setdefault(piece, number) != number:
            raise VocabularyError(
                f"merges spell {piece!r}, which is a special token too, and sentencepiece allows a piece once; "
                "rename the special token"
            )
        if "\0" in piece:
            raise VocabularyError(
                f"{'scaffolding' if kind == UNUSED else 'token'} {piece!r} holds U+0000, which sentencepiece's pieces "
                "cannot; remove it from the corpus and search again"
            )


def to_proto(vocabulary: Vocabulary, rows: Sequence[tuple[str, float, int]]) -> Any:
    """The model, a protobuf message, that holds these rows. Raises MissingLibraryError."""
    special, spaces = vocabulary.special, vocabulary.pretokenizer.keeps_spaces
    model = model_class()()
    for piece, score, kind in rows:
        model.pieces.add(piece=piece, score=score, type=kind)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    trainer.model_type, trainer.vocab_size, trainer.byte_fallback = BPE, len(rows), vocabulary.byte_fallback
    for number, role in enumerate(("unk", "bos", "eos", "pad")):
        setattr(trainer, f"{role}_id", number)
        setattr(trainer, f"{role}_piece", getattr(special, role))
    trainer.unk_surface = special.unk
    trainer.user_defined_symbols.extend(special.user)
    normalizer.name = {"none": "identity"}.get(vocabulary.normalizer.name, vocabulary.normalizer.name)
    normalizer.precompiled_charsmap = _charsmap(vocabulary.normalizer)
    normalizer.add_dummy_prefix = normalizer.escape_whitespaces = True
    normalizer.remove_extra_whitespaces = not spaces
    return model


def _charsmap(normalizer: Normalizer) -> bytes:
    """The library's own table for NFKC; nothing for what it has no table of."""
    if normalizer.form != "nfkc":
        return b""
    table = load_library().SentencePieceNormalizer(rule_name="nfkc").serialized_model_proto()
    return bytes(model_class().FromString(table).normalizer_spec.precompiled_charsmap)


def differences(vocabulary: Vocabulary) -> Iterator[str]:
    """A sentence for everything that the model does not carry, or that sentencepiece does otherwise.

    >>> [*differences(Vocabulary(merges=(), tokens=("▁",), marker="prefix", counts=(7,)))][-1]
    'The counts of tokens are not carried.'
    """
    yield from _text_differences(vocabulary)
    if not vocabulary.byte_fallback:
        yield (
            f"A run of characters that the vocabulary lacks is one {vocabulary.special.unk} in sentencepiece and one "
            "for each character here."
        )
    if vocabulary.counts:
        yield "The counts of tokens are not carried."
    inner = [token for token in map("".join, vocabulary.merges) if PREFIX in token[1:]]
    if inner:
        yield (
            f"{such(inner)} a {PREFIX!r} inside: sentencepiece cannot tell it from a space and will join words there."
        )
    odd = list(_other_joins(vocabulary))
    if odd:
        yield f"{such(odd, 'joins')} other parts than its merge says: sentencepiece joins whatever spells a piece."


def _text_differences(vocabulary: Vocabulary) -> Iterator[str]:
    normalizer = vocabulary.normalizer
    if vocabulary.pretokenizer.name == "whitespace":
        yield "Only U+0020 separates words for sentencepiece; tabs, no-break and other spaces become part of words."
        yield f"sentencepiece drops a {PREFIX!r} of the text itself at the end of a line."
    if normalizer.form == "nfkc":
        yield "NFKC is that of sentencepiece's own tables, whose Unicode version differs for rare characters."
        if vocabulary.special.user:
            yield "A user token that only NFKC brings about is taken as one by sentencepiece."
    if normalizer.form == "nfc":
        yield "sentencepiece has no table for NFC: normalise text before you give it to sentencepiece."
    if normalizer.lowercase:
        yield "sentencepiece does not lower-case: do it before you give it text."
    if vocabulary.special.user:
        yield "U+10F000 to U+10FFFD in text become U+FFFD here and stay as they are in sentencepiece."


def _other_joins(vocabulary: Vocabulary) -> Iterator[str]:
    """The strings that sentencepiece makes in another way than by the merge of the lowest rank."""
    scores, first = _scores(vocabulary.merges), dict[str, tuple[str, str]]()
    for pair in vocabulary.merges:
        first.setdefault("".join(pair), pair)
    for token, pair in first.items():
        if last_join(token, scores) not in (None, pair):
            yield token


def such(tokens: Sequence[str], verb: str = "holds") -> str:
    """The subject and verb of a sentence on tokens of one kind, one of them named.

    >>> such(["a"]), such(["a", "b"])
    ("'a' holds", "Each of 2 tokens, 'a' among them, holds")
    """
    return (
        f"{tokens[0]!r} {verb}"
        if len(tokens) == 1
        else f"Each of {len(tokens)} tokens, {tokens[0]!r} among them, {verb}"
    )


# The library


def model_class() -> Any:
    """The protobuf class of a sentencepiece model. Raises MissingLibraryError if it is not installed."""
    try:
        from sentencepiece import sentencepiece_model_pb2 as pb2
    except ImportError:
        raise missing("sentencepiece or protobuf") from None
    return vars(pb2)["ModelProto"]  # made at run time, so unknown to type checkers


def load_library() -> Any:
    """The sentencepiece package. Raises MissingLibraryError if it is not installed."""
    try:
        import sentencepiece
    except ImportError:
        raise missing("sentencepiece") from None
    return sentencepiece
