"""sentencepiece BPE models, both ways: PATH.model, and PATH.vocab for people.

sentencepiece stores pieces, not merges: it joins the two neighbours whose joint string has the best score, from left to
right. What becomes of a string does not depend on its surroundings as long as nothing joins across its ends, so each
piece has one last join, which is its merge:

    score(piece) = −rank of the merge that makes it;  characters below all merges

Scaffolding goes behind the tokens as pieces of type UNUSED, which sentencepiece splits back into what they were joined
from. With whitespace pre-tokens the marker is a prefix; with metaspace pre-tokens there is none: these start with "▁"
already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from volt.errors import CandidateError, ConfigError, VocabularyError
from volt.files.atomic import write_atomic
from volt.files.whole import read_bytes
from volt.formats.protocol import USUAL, MergeList, Peer
from volt.formats.sentencepiece.joins import CONTROL, NORMAL, UNKNOWN, UNUSED, USER, Joins, merges_that_make
from volt.formats.sentencepiece.rows import (
    BPE,
    check_scheme,
    check_spellings,
    differences,
    load_library,
    model_class,
    model_rows,
    such,
    to_proto,
)
from volt.text.markers import PREFIX
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

FIRST_BYTE = b"\x0a"  # field 1, a piece, with a length
_UNIGRAM = 1
_NORMALIZERS = {
    "identity": "none", "": "none", "nmt_nfkc": "nfkc", "nfkc_cf": "nfkc+lowercase", "nmt_nfkc_cf": "nfkc+lowercase",
}  # fmt: skip


def read_merges(path: str | Path, data: bytes) -> MergeList:
    """The merges that a model's pieces imply, as candidates for a search.

    BPE: where a piece can be cut in several ways, one merge for each. Unigram: no merges make its pieces, so each is
    built from the longest pieces before it, the most probable piece first; intermediate tokens come with them.
    Raises CandidateError if this is neither, MissingLibraryError if sentencepiece or protobuf is not installed.
    """
    model = _model(path, data)
    pieces = [
        piece for _, piece in sorted((-piece.score, piece.piece) for piece in model.pieces if piece.type == NORMAL)
    ]
    if model.trainer_spec.model_type == _UNIGRAM:
        return MergeList(list(merges_that_make(pieces)), "prefix")
    if model.trainer_spec.model_type != BPE:
        raise CandidateError(f"{path}: a sentencepiece model of words or characters; train one with --model_type=bpe")
    made, pairs = set[str](), list[tuple[str, str]]()
    for piece in pieces:
        cuts = ((piece[:i], piece[i:]) for i in range(1, len(piece)))
        pairs += [cut for cut in cuts if all(len(part) == 1 or part in made for part in cut)]
        made.add(piece)
    return MergeList(pairs, "prefix")


def recognises(path: Path, head: bytes) -> bool:
    """Whether a file that starts so is a sentencepiece model: a piece, made of a string and then a score or a type.

    >>> recognises(Path("a.model"), b"\\x0a\\x0e\\x0a\\x05<unk>\\x15"), recognises(Path("a.txt"), b"\\nlow\\n")
    (True, False)
    """
    if len(head) < 4 or not head.startswith(FIRST_BYTE) or head[2:3] != FIRST_BYTE:
        return False
    return head[4 + head[3] :][:1] in (b"\x15", b"\x18")


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write PATH.model, whose ids are those of the vocabulary, and PATH.vocab; returns what sentencepiece will do
    differently, a sentence each.

    Raises VocabularyError if the marker, the pre-tokeniser or a special token has no counterpart, MissingLibraryError.
    """
    check_scheme(vocabulary)
    rows = list(model_rows(vocabulary))
    check_spellings(rows)
    model = to_proto(vocabulary, rows)
    listing = "".join(f"{piece}\t{score:g}\n" for piece, score, _ in rows)
    with ExitStack() as files:
        for place, data in zip(files_written(path), (model.SerializeToString(), listing.encode()), strict=True):
            files.enter_context(write_atomic(place)).write(data)
    return list(differences(vocabulary))


def files_written(path: Path) -> tuple[Path, ...]:
    """The model, and the list of its pieces.

    >>> [str(path) for path in files_written(Path("a.b"))]
    ['a.b.model', 'a.b.vocab']
    """
    return _model_path(path), _model_path(path).with_suffix(".vocab")


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """A BPE model as a vocabulary. Its pieces keep their order; special tokens and bytes come first, as everywhere in
    VOLT, so ids stay only if they do in the model; `provenance["lost"]` says so, and what else changes.

    merges: not used; a model holds its own. Raises VocabularyError if the model is damaged, unigram, or cuts words as
    VOLT cannot, MissingLibraryError.
    """
    path = _existing(path)
    model = _checked(path, _load(path))
    joins = Joins.of(model)
    user = tuple(piece.piece for piece in model.pieces if piece.type == USER)
    trainer, spec = model.trainer_spec, model.normalizer_spec
    unknown = next(piece.piece for piece in model.pieces if piece.type == UNKNOWN)
    name = _NORMALIZERS.get(spec.name, spec.name)
    whitespace = spec.remove_extra_whitespaces
    dropped = set(joins.dropped)
    try:
        vocabulary = Vocabulary(
            merges=joins.merges,
            tokens=tuple(piece.piece for piece in model.pieces if piece.type == NORMAL and piece.piece not in dropped),
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


def normal_pieces(path: Path) -> dict[str, int]:
    """The pieces of a model of any kind with their ids there: no control, unknown, user, byte or unused ones.

    Raises VocabularyError if the model is damaged, MissingLibraryError.
    """
    model = _load(_existing(path))
    return {piece.piece: number for number, piece in enumerate(model.pieces) if piece.type == NORMAL}


def peer(path: Path, *, special: SpecialTokens = USUAL) -> Peer:
    """The library with that model loaded. sentencepiece reports a run of unknown characters as one; here they are
    counted one by one, as VOLT does."""
    path = _existing(path)
    model, vocabulary = _load(path), read(path)
    library = load_library()
    processor = library.SentencePieceProcessor(model_proto=model.SerializeToString())
    shared = [piece.piece for piece in model.pieces if piece.type != UNUSED] == list(vocabulary.pieces)

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


def _checked(path: Path, model: Any) -> Any:
    """The model itself. Raises VocabularyError if it is damaged or not one that VOLT can be."""
    kinds = [piece.type for piece in model.pieces]
    trainer, spec = model.trainer_spec, model.normalizer_spec
    if not model.HasField("trainer_spec") or not model.HasField("normalizer_spec") or kinds.count(UNKNOWN) != 1:
        raise VocabularyError(f"{path}: a damaged sentencepiece model, or none; copy or train it again")
    _refuse_other_kinds(path, trainer, spec)
    _refuse_pieces(path, model.pieces)
    return model


def _refuse_other_kinds(path: Path, trainer: Any, spec: Any) -> None:
    """Raise VocabularyError for a model that is no BPE, or that does not mark words by "▁" in front."""
    if trainer.model_type == _UNIGRAM:
        raise VocabularyError(
            f"{path}: a unigram model, whose pieces no merges make, so VOLT cannot encode with it; use its pieces as "
            "candidates of a search, or train one with --model_type=bpe"
        )
    if trainer.model_type != BPE:
        raise VocabularyError(f"{path}: a word or character model; train one with --model_type=bpe")
    if trainer.treat_whitespace_as_suffix or not spec.escape_whitespaces:
        raise VocabularyError(
            f"{path}: its words do not start with {PREFIX!r}; train it without --treat_whitespace_as_suffix and with "
            "--escape_whitespaces"
        )


def _refuse_pieces(path: Path, pieces: Sequence[Any]) -> None:
    """Raise VocabularyError for a piece that is empty, repeats, or cannot be a user token."""
    first = dict[str, int]()
    for number, piece in enumerate(pieces):
        if not piece.piece or math.isnan(piece.score):
            raise VocabularyError(f"{path}: piece {number} is empty or has no score; copy or train the model again")
        if first.setdefault(piece.piece, number) != number:
            raise VocabularyError(
                f"{path}: piece {number}, {piece.piece!r}, repeats piece {first[piece.piece]}; remove one"
            )
        if piece.type == USER and PREFIX in piece.piece:
            raise VocabularyError(
                f"{path}: piece {number}: user token {piece.piece!r} holds a space, which VOLT's cannot; "
                "train without it"
            )


def _normalizer(name: str, spec: Any) -> Normalizer:
    """By name; by what the table does where the name says nothing."""
    try:
        return Normalizer.parse(name)
    except ConfigError:
        return Normalizer()


def _losses(model: Any, vocabulary: Vocabulary, joins: Joins) -> Iterator[str]:
    """A sentence for everything that the vocabulary does otherwise than the model."""
    spec = model.normalizer_spec
    names = [piece.piece for piece in model.pieces if piece.type != UNUSED]
    if names != list(vocabulary.pieces):
        yield "Ids differ from the model's: VOLT numbers unk, bos, eos, pad, user tokens, bytes, then the others."
    roles = set(vocabulary.special.all)
    control = [piece.piece for piece in model.pieces if piece.type == CONTROL and piece.piece not in roles]
    if control:
        yield f"Control symbols are dropped, as VOLT has four: {', '.join(control[:5])}."
    if spec.name not in ("identity", "", "nfkc", *_volt_normalizers()):
        yield f"The normalisation {spec.name!r} becomes {vocabulary.normalizer.name!r}: {_unlike(spec.name)}."
    if not spec.add_dummy_prefix:
        yield f"VOLT puts {PREFIX!r} before every line; this model does not."
    inner = [piece for piece in names if PREFIX in piece[1:]]
    if inner:
        yield f"{such(inner)} a space inside and never occurs here: VOLT cuts before every space."
    if joins.dropped:
        yield f"{joins.dropped[0]!r} (one of {len(joins.dropped)} such) is dropped: no two pieces spell it."
    if joins.late or joins.tied:
        yield (
            f"{such(joins.late or joins.tied, 'has')} the score of another piece or a better one than its parts: "
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
        return _model(path, read_bytes(path, kind=VocabularyError))
    except CandidateError as error:
        raise VocabularyError(str(error)) from None


def _model(path: str | Path, data: bytes) -> Any:
    proto = model_class()
    from google.protobuf.message import DecodeError

    try:
        model = proto.FromString(data)
    except DecodeError:
        model = None
    if model is None or not all(isinstance(text, str) for text in _texts(model)):
        raise CandidateError(f"{path}: a damaged sentencepiece model, or none; copy or train it again")
    return model


def _texts(model: Any) -> Iterator[object]:
    """What should be text; protobuf gives bytes where it is no UTF-8."""
    yield from (piece.piece for piece in model.pieces)
    for part in (model.normalizer_spec, model.trainer_spec):
        found = [value for field, value in part.ListFields() if field.type == field.TYPE_STRING]
        for value in found:
            yield from [value] if isinstance(value, str | bytes) else value
