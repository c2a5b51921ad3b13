"""sentencepiece BPE model → merges: each piece, best score first, from every two earlier pieces that spell it.

sentencepiece stores pieces, not merges: it joins the two neighbours whose joint string has the best score. Where a
piece can be split in two in several ways, each way is a merge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from volt.errors import CandidateError, MissingLibraryError
from volt.formats import MergeList

FIRST_BYTE = b"\x0a"  # field 1, a piece, with a length
_BPE, _NORMAL = 2, 1


def read_merges(path: str | Path, data: bytes) -> MergeList:
    """The merges that a model's pieces imply. Raises CandidateError if this is no BPE model, MissingLibraryError if
    sentencepiece or protobuf is not installed."""
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


def _model(path: str | Path, data: bytes) -> Any:
    try:
        from google.protobuf.message import DecodeError
        from sentencepiece import sentencepiece_model_pb2 as pb2

        model: Any = vars(pb2)["ModelProto"]  # made at run time, so unknown to type checkers
    except ImportError:
        raise MissingLibraryError("reading sentencepiece models needs: pip install 'volt-vocab[interop]'") from None
    try:
        return model.FromString(data)
    except DecodeError:
        raise CandidateError(f"{path}: a damaged sentencepiece model, or none; copy or train it again") from None
