"""sentencepiece BPE models, both ways: PATH.model, and PATH.vocab for people.

sentencepiece stores pieces, not merges: it joins the two neighbours whose joint string has the best score, from left to
right. What becomes of a string does not depend on its surroundings as long as nothing joins across its ends, so each
piece has one last join, which is its merge:

    score(piece) = −rank of the merge that makes it;  characters below all merges

Scaffolding goes behind the tokens as pieces of type UNUSED, which sentencepiece splits back into what they were joined
from. With whitespace pre-tokens the marker is a prefix; with metaspace pre-tokens there is none: these start with "▁"
already.

>>> _last_join("low", {"lo": 0.0, "ow": -1.0, "low": -2.0})
('lo', 'w')
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from volt.atoms import PREFIX
from volt.errors import CandidateError, ConfigError, MissingLibraryError, VocabularyError
from volt.formats import MergeList, Peer
from volt.special import BYTE_TOKENS, SpecialTokens
from volt.text import Normalizer, PreTokenizer
from volt.vocabulary import Vocabulary
from volt.writer import write_atomic

FIRST_BYTE = b"\x0a"  # field 1, a piece, with a length
_BPE, _UNIGRAM = 2, 1
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_SCHEMES = {("whitespace", "prefix"), ("metaspace", "none")}
_NORMALIZERS = {
    "identity": "none", "": "none", "nmt_nfkc": "nfkc", "nfkc_cf": "nfkc+lowercase", "nmt_nfkc_cf": "nfkc+lowercase",
}  # fmt: skip
_MAX_RANK = 1 << 24  # scores are 32-bit floats


def read_merges(path: str | Path, data: bytes) -> MergeList:
    """The merges that a model's pieces imply, where a piece can be cut in several ways one merge for each.

    Raises CandidateError if this is no BPE model, MissingLibraryError if sentencepiece or protobuf is not installed.
    """
    model = _model(path, data)
    if model.trainer_spec.model_type != _BPE:
        raise CandidateError(f"{path}: a sentencepiece model, but not of type BPE; train one with --model_type=bpe")
    pieces = sorted((-piece.score, piece.piece) for piece in model.pieces if piece.type == _NORMAL)
    made, pairs = set[str](), list[tuple[str, str]]()
    for _, piece in pieces:
        cuts = ((piece[:i], piece[i:]) for i in range(1, len(piece)))
        pairs += [cut for cut in cuts if all(len(part) == 1 or part in made for part in cut)]
        made.add(piece)
    return MergeList(pairs, "prefix")


def recognises(path: Path, head: bytes) -> bool:
    """Whether a file that starts so is a sentencepiece model: a piece, made of a string and then a score or a type."""
    if len(head) < 4 or not head.startswith(FIRST_BYTE) or head[2:3] != FIRST_BYTE:
        return False
    return head[4 + head[3] :][:1] in (b"\x15", b"\x18")


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write PATH.model, whose ids are those of the vocabulary, and PATH.vocab; returns what sentencepiece will do
    differently, a sentence each.

    Raises VocabularyError if the marker, the pre-tokeniser or a special token has no counterpart, MissingLibraryError.
    """
    _check_scheme(vocabulary)
    rows = list(_rows(vocabulary))
    _check_spellings(rows)
    model = _proto(vocabulary, rows)
    listing = "".join(f"{piece}\t{score:g}\n" for piece, score, _ in rows)
    with ExitStack() as files:
        for suffix, data in ((".model", model.SerializeToString()), (".vocab", listing.encode())):
            files.enter_context(write_atomic(_model_path(path).with_suffix(suffix))).write(data)
    return list(_differences(vocabulary))


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """A BPE model as a vocabulary. Its pieces keep their order; special tokens and bytes come first, as everywhere in
    VOLT, so ids stay only if they do in the model; `provenance["lost"]` says so, and what else changes.

    merges: not used; a model holds its own. Raises VocabularyError if the model is damaged, unigram, or cuts words as
    VOLT cannot, MissingLibraryError.
    """
    path = _existing(path)
    model = _checked(path, _load(path))
    joins = _Joins.of(model)
    user = tuple(piece.piece for piece in model.pieces if piece.type == _USER)
    trainer, spec = model.trainer_spec, model.normalizer_spec
    unknown = next(piece.piece for piece in model.pieces if piece.type == _UNKNOWN)
    name = _NORMALIZERS.get(spec.name, spec.name)
    whitespace = spec.remove_extra_whitespaces
    dropped = set(joins.dropped)
    try:
        vocabulary = Vocabulary(
            merges=joins.merges,
            tokens=tuple(piece.piece for piece in model.pieces if piece.type == _NORMAL and piece.piece not in dropped),
            marker="prefix" if whitespace else "none",
            normalizer=_normalizer(name, spec),
            pretokenizer=PreTokenizer("whitespace" if whitespace else "metaspace"),
            special=SpecialTokens(unknown, trainer.bos_piece, trainer.eos_piece, trainer.pad_piece, user),
            byte_fallback=trainer.byte_fallback,
        )
    except (VocabularyError, ConfigError) as error:
        raise VocabularyError(f"{path}: {error}") from None
    lost = list(_losses(model, vocabulary, joins))
    return replace(vocabulary, provenance={"format": "sentencepiece", "lost": lost})


def peer(path: Path) -> Peer:
    """The library with that model loaded. sentencepiece reports a run of unknown characters as one; here they are
    counted one by one, as VOLT does."""
    path = _existing(path)
    model, vocabulary = _load(path), read(path)
    library = _library()
    processor = library.SentencePieceProcessor(model_proto=model.SerializeToString())
    shared = [piece.piece for piece in model.pieces if piece.type != _UNUSED] == list(vocabulary.pieces)

    def encode(lines: Sequence[str]) -> Iterator[tuple[list[str], list[int]]]:
        both = (processor.encode(list(lines), out_type=kind) for kind in (str, int))
        for pieces, ids in zip(*both, strict=True):
            yield _one_by_one(pieces, ids, unknown=processor.unk_id())

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        return [pieces for pieces, _ in encode(lines)]

    def ids(lines: Sequence[str]) -> list[list[int]]:
        return [ids for _, ids in encode(lines)]

    return Peer(f"sentencepiece {library.__version__}", pieces, ids if shared else None)


def _one_by_one(pieces: Sequence[str], ids: Sequence[int], *, unknown: int) -> tuple[list[str], list[int]]:
    """The same with runs of unknown characters taken apart.

    >>> _one_by_one(["a", "éü"], [7, 0], unknown=0)
    (['a', 'é', 'ü'], [7, 0, 0])
    """
    parts = [list(piece) if number == unknown else [piece] for piece, number in zip(pieces, ids, strict=True)]
    return [piece for part in parts for piece in part], [
        number for part, number in zip(parts, ids, strict=True) for _ in part
    ]


# Writing


def _check_scheme(vocabulary: Vocabulary) -> None:
    scheme = vocabulary.pretokenizer.name, vocabulary.marker
    if scheme not in _SCHEMES:
        raise VocabularyError(
            f"marker {scheme[1]!r} with {scheme[0]!r} pre-tokens: sentencepiece starts words with {PREFIX!r} and cuts "
            "them at spaces; search with --marker prefix, or with --pretokenizer metaspace --marker none"
        )
    if bad := next((token for token in vocabulary.special.user if PREFIX in token), None):
        raise VocabularyError(
            f"user token {bad!r} holds {PREFIX!r}, which is a space to sentencepiece; choose another spelling"
        )
    if len(vocabulary.merges) >= _MAX_RANK:
        raise VocabularyError(f"{len(vocabulary.merges)} merges; sentencepiece can rank {_MAX_RANK}: search for fewer")


def _rows(vocabulary: Vocabulary) -> Iterator[tuple[str, float, int]]:
    """Piece, score and type of every id, then of the scaffolding."""
    special = vocabulary.special
    scores = _scores(vocabulary.merges)
    lowest = -float(len(vocabulary.merges))
    yield special.unk, 0.0, _UNKNOWN
    yield from ((token, 0.0, _CONTROL) for token in (special.bos, special.eos, special.pad))
    yield from ((token, 0.0, _USER) for token in special.user)
    yield from ((token, 0.0, _BYTE) for token in BYTE_TOKENS * vocabulary.byte_fallback)
    for number, token in enumerate(vocabulary.tokens):
        yield token, scores.get(token, max(lowest - number, -float(_MAX_RANK))), _NORMAL
    yield from ((token, scores[token], _UNUSED) for token in vocabulary.scaffolding)


def _scores(merges: Sequence[tuple[str, str]]) -> dict[str, float]:
    """The score of each string that merges make.

    >>> _scores([("a", "b"), ("b", "c")])
    {'ab': -0.0, 'bc': -1.0}
    """
    scores = dict[str, float]()
    for rank, (left, right) in enumerate(merges):
        scores.setdefault(left + right, -float(rank))
    return scores


def _check_spellings(rows: Sequence[tuple[str, float, int]]) -> None:
    first = dict[str, int]()
    for number, (piece, _, kind) in enumerate(rows):
        if first.setdefault(piece, number) != number:
            raise VocabularyError(
                f"merges spell {piece!r}, which is a special token too, and sentencepiece allows a piece once; "
                "rename the special token"
            )
        if "\0" in piece:
            raise VocabularyError(
                f"{'scaffolding' if kind == _UNUSED else 'token'} {piece!r} holds U+0000, which sentencepiece's pieces "
                "cannot; remove it from the corpus and search again"
            )


def _proto(vocabulary: Vocabulary, rows: Sequence[tuple[str, float, int]]) -> Any:
    special, spaces = vocabulary.special, vocabulary.pretokenizer.keeps_spaces
    model = _model_class()()
    for piece, score, kind in rows:
        model.pieces.add(piece=piece, score=score, type=kind)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    trainer.model_type, trainer.vocab_size, trainer.byte_fallback = _BPE, len(rows), vocabulary.byte_fallback
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
    table = _library().SentencePieceNormalizer(rule_name="nfkc").serialized_model_proto()
    return bytes(_model_class().FromString(table).normalizer_spec.precompiled_charsmap)


def _differences(vocabulary: Vocabulary) -> Iterator[str]:
    """A sentence for everything that the model does not carry, or that sentencepiece does otherwise."""
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
            f"{_such(inner)} a {PREFIX!r} inside: sentencepiece cannot tell it from a space and will join words there."
        )
    odd = list(_other_joins(vocabulary))
    if odd:
        yield f"{_such(odd, 'joins')} other parts than its merge says: sentencepiece joins whatever spells a piece."


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
        if _last_join(token, scores) not in (None, pair):
            yield token


def _such(tokens: Sequence[str], verb: str = "holds") -> str:
    """
    >>> _such(["a"]), _such(["a", "b"])
    ("'a' holds", "Each of 2 tokens, 'a' among them, holds")
    """
    return (
        f"{tokens[0]!r} {verb}"
        if len(tokens) == 1
        else f"Each of {len(tokens)} tokens, {tokens[0]!r} among them, {verb}"
    )


# Reading


def _last_join(piece: str, scores: Mapping[str, float]) -> tuple[str, str] | None:
    """The two parts that sentencepiece joins last when it makes this piece of two or more characters; None if it
    never makes it."""
    parts = list(piece)
    while len(parts) > 2:
        joint = [left + right for left, right in pairwise(parts)]
        values = [scores.get(text, -math.inf) for text in joint]
        best = max(values)
        if best == -math.inf:
            return None
        place = values.index(best)
        parts[place : place + 2] = [joint[place]]
    return parts[0], parts[1]


@dataclass(frozen=True, slots=True)
class _Joins:
    """merges: by rank;  late: pieces whose parts have a worse score than they;  tied: pieces of equal score;
    dropped: pieces that no two others spell."""

    merges: tuple[tuple[str, str], ...]
    late: list[str]
    tied: list[str]
    dropped: list[str]

    @classmethod
    def of(cls, model: Any) -> _Joins:
        """A merge for each piece; those that sentencepiece never makes come last, where they never apply."""
        scores = {
            piece.piece: piece.score
            for piece in model.pieces
            if piece.type in (_NORMAL, _UNUSED) and len(piece.piece) > 1
        }
        joins = {piece: _last_join(piece, scores) for piece in scores}
        ranks = dict[str, float]()
        for piece in sorted(scores, key=len):
            if pair := joins[piece]:
                ranks[piece] = min(scores[piece], *(ranks.get(part, math.inf) for part in pair))
        ordered = sorted(ranks, key=lambda piece: (-ranks[piece], len(piece)))
        merges, made = [pair for piece in ordered if (pair := joins[piece])], set(ranks)
        dropped = list[str]()
        for piece in sorted((piece for piece in scores if piece not in ranks), key=len):
            pair = next((cut for cut in _cuts(piece) if all(len(part) == 1 or part in made for part in cut)), None)
            if pair:
                merges.append(pair)
                made.add(piece)
            else:
                dropped.append(piece)
        late = [piece for piece in ranks if ranks[piece] != scores[piece]]
        n_with = Counter(scores.values())
        tied = [piece for piece in scores if n_with[scores[piece]] > 1]
        return cls(tuple(merges), late, tied, dropped)


def _cuts(piece: str) -> Iterator[tuple[str, str]]:
    return ((piece[:i], piece[i:]) for i in range(1, len(piece)))


def _checked(path: Path, model: Any) -> Any:
    """The model itself. Raises VocabularyError if it is not one that VOLT can be."""
    kinds = [piece.type for piece in model.pieces]
    trainer, spec = model.trainer_spec, model.normalizer_spec
    if not model.HasField("trainer_spec") or not model.HasField("normalizer_spec") or kinds.count(_UNKNOWN) != 1:
        raise VocabularyError(f"{path}: a damaged sentencepiece model, or none; copy or train it again")
    if trainer.model_type == _UNIGRAM:
        raise VocabularyError(
            f"{path}: a unigram model, whose pieces no merges make, so VOLT cannot encode with it; use its pieces as "
            "candidates of a search, or train one with --model_type=bpe"
        )
    if trainer.model_type != _BPE:
        raise VocabularyError(f"{path}: a word or character model; train one with --model_type=bpe")
    if trainer.treat_whitespace_as_suffix or not spec.escape_whitespaces:
        raise VocabularyError(
            f"{path}: its words do not start with {PREFIX!r}; train it without --treat_whitespace_as_suffix and with "
            "--escape_whitespaces"
        )
    first = dict[str, int]()
    for number, piece in enumerate(model.pieces):
        if not piece.piece or math.isnan(piece.score):
            raise VocabularyError(f"{path}: piece {number} is empty or has no score; copy or train the model again")
        if first.setdefault(piece.piece, number) != number:
            raise VocabularyError(
                f"{path}: piece {number}, {piece.piece!r}, repeats piece {first[piece.piece]}; remove one"
            )
        if piece.type == _USER and PREFIX in piece.piece:
            raise VocabularyError(
                f"{path}: piece {number}: user token {piece.piece!r} holds a space, which VOLT's cannot; "
                "train without it"
            )
    return model


def _normalizer(name: str, spec: Any) -> Normalizer:
    """By name; by what the table does where the name says nothing."""
    try:
        return Normalizer.parse(name)
    except ConfigError:
        return Normalizer()


def _losses(model: Any, vocabulary: Vocabulary, joins: _Joins) -> Iterator[str]:
    """A sentence for everything that the vocabulary does otherwise than the model."""
    spec = model.normalizer_spec
    names = [piece.piece for piece in model.pieces if piece.type != _UNUSED]
    if names != list(vocabulary.pieces):
        yield "Ids differ from the model's: VOLT numbers unk, bos, eos, pad, user tokens, bytes, then the others."
    roles = set(vocabulary.special.all)
    control = [piece.piece for piece in model.pieces if piece.type == _CONTROL and piece.piece not in roles]
    if control:
        yield f"Control symbols are dropped, as VOLT has four: {', '.join(control[:5])}."
    if spec.name not in ("identity", "", "nfkc", *_volt_normalizers()):
        yield f"The normalisation {spec.name!r} becomes {vocabulary.normalizer.name!r}: {_unlike(spec.name)}."
    if not spec.add_dummy_prefix:
        yield f"VOLT puts {PREFIX!r} before every line; this model does not."
    inner = [piece for piece in names if PREFIX in piece[1:]]
    if inner:
        yield f"{_such(inner)} a space inside and never occurs here: VOLT cuts before every space."
    if joins.dropped:
        yield f"{joins.dropped[0]!r} (one of {len(joins.dropped)} such) is dropped: no two pieces spell it."
    if joins.late or joins.tied:
        yield (
            f"{_such(joins.late or joins.tied, 'has')} the score of another piece or a better one than its parts: "
            "sentencepiece then goes by place, VOLT by rank."
        )


def _unlike(name: str) -> str:
    """What a normalisation of sentencepiece does beyond the one that VOLT takes for it."""
    unlike = ["control characters are not removed and zero-width ones are no spaces"] * name.startswith("nmt_")
    unlike += ["case is lowered, not folded (ß stays ß)"] * name.endswith("_cf")
    return ", and ".join(unlike) or "text that it changes differs"


def _volt_normalizers() -> tuple[str, ...]:
    return "nfc", "nfc+lowercase", "nfkc+lowercase", "lowercase"


# Files and libraries


def _model_path(path: Path) -> Path:
    """
    >>> str(_model_path(Path("a.b"))), str(_model_path(Path("a.model")))
    ('a.b.model', 'a.model')
    """
    return path if path.suffix == ".model" else path.with_name(f"{path.name}.model")


def _existing(path: Path) -> Path:
    return path if path.exists() else _model_path(path)


def _load(path: Path) -> Any:
    try:
        return _model(path, path.read_bytes())
    except OSError as error:
        raise VocabularyError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except CandidateError as error:
        raise VocabularyError(str(error)) from None


def _model(path: str | Path, data: bytes) -> Any:
    proto = _model_class()
    from google.protobuf.message import DecodeError

    try:
        return proto.FromString(data)
    except DecodeError:
        raise CandidateError(f"{path}: a damaged sentencepiece model, or none; copy or train it again") from None


def _model_class() -> Any:
    try:
        from sentencepiece import sentencepiece_model_pb2 as pb2
    except ImportError:
        raise MissingLibraryError("sentencepiece models need: pip install 'volt-vocab[interop]'") from None
    return vars(pb2)["ModelProto"]  # made at run time, so unknown to type checkers


def _library() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise MissingLibraryError("sentencepiece models need: pip install 'volt-vocab[interop]'") from None
    return sentencepiece
