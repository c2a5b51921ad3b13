"""sentencepiece BPE models, both ways: PATH.model, and PATH.vocab for people.

    score(piece) = −rank of the merge that makes it;  characters below all merges

Scaffolding follows the tokens as pieces of type UNUSED, which sentencepiece splits back into their parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from volt.errors import CandidateError, ConfigError, VocabularyError
from volt.files.atomic import write_together
from volt.files.small_files import read_bytes
from volt.formats.protocol import USUAL, MergeList, Peer
from volt.formats.sentencepiece.merges import NORMAL, merges_that_make, two_parts
from volt.formats.sentencepiece.model_proto import load_library, model_class
from volt.formats.sentencepiece.reading import UNIGRAM, checked, vocabulary_of
from volt.formats.sentencepiece.writing import BPE, check_scheme, check_spellings, differences, model_rows, to_proto
from volt.text.characters import PREFIX, SUFFIX
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

FIRST_BYTE = b"\x0a"  # field 1, a piece, with a length


def read_merges(path: str | Path, data: bytes) -> MergeList:
    """Return the merges that a model's pieces imply, as candidates for a search.

    BPE: all merges for a piece that can be cut in several ways. Unigram: each piece is built from the longest pieces
    before it, the most probable piece first.
    """
    model = _model(path, data)
    pieces = [
        piece for _, piece in sorted((-piece.score, piece.piece) for piece in model.pieces if piece.type == NORMAL)
    ]
    if model.trainer_spec.model_type == UNIGRAM:
        return MergeList(list(merges_that_make(pieces)), "prefix")
    if model.trainer_spec.model_type != BPE:
        raise CandidateError(f"{path}: a sentencepiece model of words or characters; train one with --model_type=bpe")
    output, pairs = set[str](), list[tuple[str, str]]()
    for piece in pieces:
        pairs += [cut for cut in two_parts(piece) if all(len(part) == 1 or part in output for part in cut)]
        output.add(piece)
    return MergeList(pairs, "prefix")


def recognises(path: Path, head: bytes) -> bool:
    """Check whether a file starts with a sentencepiece model's piece: a string, then a score or a type."""
    if len(head) < 4 or not head.startswith(FIRST_BYTE) or head[2:3] != FIRST_BYTE:
        return False
    return head[4 + head[3] :][:1] in (b"\x15", b"\x18")


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write PATH.model, with the ids of the vocabulary, and PATH.vocab. Returns a sentence for each difference."""
    check_scheme(vocabulary)
    rows = list(model_rows(vocabulary))
    check_spellings(rows)
    model = to_proto(vocabulary, rows)
    listing = "".join(f"{piece}\t{score:g}\n" for piece, score, _ in rows)
    place, neighbours = files_written(path)
    write_together({neighbours: listing.encode(), place: model.SerializeToString()})
    return list(differences(vocabulary))


def files_written(path: Path) -> tuple[Path, ...]:
    """Return the model, and the list of its pieces."""
    return _model_path(path), _model_path(path).with_suffix(".vocab")


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read a model; PATH.model if there is no PATH. merges: not used; a model holds its own"""
    path = _existing(path)
    model = checked(path, _load(path))
    try:
        return vocabulary_of(model)
    except (VocabularyError, ConfigError) as error:
        raise VocabularyError(f"{path}: {error}") from None


def normal_pieces(path: Path) -> dict[str, int]:
    """Return the text pieces of a model of any kind with their ids."""
    model = _load(_existing(path))
    return {piece.piece: number for number, piece in enumerate(model.pieces) if piece.type == NORMAL}


def peer(path: Path, *, special: SpecialTokens = USUAL) -> Peer:
    """Return the library with that model loaded. Its runs of unknown characters are taken apart, as in VOLT."""
    model = _load(_existing(path))
    library = load_library()
    processor = library.SentencePieceProcessor(model_proto=model.SerializeToString())
    ends = model.trainer_spec.treat_whitespace_as_suffix

    def encode(lines: Sequence[str]) -> Iterator[tuple[list[str], list[int]]]:
        both = (processor.encode(list(lines), out_type=kind) for kind in (str, int))
        for pieces, ids in zip(*both, strict=True):
            yield _one_by_one(pieces, ids, unknown=processor.unk_id(), ends=ends)

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        return [pieces for pieces, _ in encode(lines)]

    def ids(lines: Sequence[str]) -> list[list[int]]:
        return [ids for _, ids in encode(lines)]

    return Peer(f"sentencepiece {library.__version__}", pieces, ids)


def _one_by_one(
    pieces: Sequence[str], ids: Sequence[int], *, unknown: int, ends: bool = False
) -> tuple[list[str], list[int]]:
    """Return pieces and ids with runs of unknown characters taken apart. ends: "▁" ends words, as "</w>" in VOLT

    >>> _one_by_one(["a▁", "éü▁"], [7, 0], unknown=0, ends=True)
    (['a</w>', 'é', 'ü</w>'], [7, 0, 0])
    """
    character = re.compile(f"(?s).{PREFIX}?" if ends else "(?s).")
    parts = [character.findall(piece) if id_ == unknown else [piece] for piece, id_ in zip(pieces, ids, strict=True)]
    values = [piece for part in parts for piece in part]
    if ends:
        values = [piece.removesuffix(PREFIX) + SUFFIX if piece.endswith(PREFIX) else piece for piece in values]
    return values, [id_ for part, id_ in zip(parts, ids, strict=True) for _ in part]


def _model_path(path: Path) -> Path:
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
    """Yield all text fields, which protobuf gives as bytes if they are not UTF-8."""
    yield from (piece.piece for piece in model.pieces)
    for part in (model.normalizer_spec, model.trainer_spec):
        for field, value in part.ListFields():
            if field.type == field.TYPE_STRING:
                yield from [value] if isinstance(value, str | bytes) else value
