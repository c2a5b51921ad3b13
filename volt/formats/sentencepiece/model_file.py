"""sentencepiece BPE model, PATH.model ⇄ vocabulary. `write` also writes PATH.vocab, a list for people.

The model's settings and pieces decide where VOLT cuts lines, so that no merge crosses a cut:

    spaces are kept     no piece spans words                before every space
                        some pieces are several spaces      before every run of spaces
                        some pieces span words              nowhere
    spaces are reduced  no piece spans words                at every space, and "▁" or "</w>" marks words
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import dropwhile
from pathlib import Path
from typing import Any

from volt.errors import CandidateError, ConfigError, VocabularyError, VoltError
from volt.files.atomic import write_together
from volt.files.small_files import read_bytes
from volt.formats.protocol import USUAL, MergeList, Peer, located
from volt.formats.sentencepiece import charsmap, writing
from volt.formats.sentencepiece import merges as implied
from volt.formats.sentencepiece.merges import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER
from volt.text.atoms import PREFIX, SUFFIX, Marker
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.text.white_space import SPLIT_SPACE
from volt.vocabulary import Vocabulary

FIRST_BYTE = b"\x0a"  # the tag of field 1, a piece
_DAMAGED = "a damaged sentencepiece model, or another file; copy or train it again"
UNIGRAM = 1
_NORMALIZERS = {
    "identity": "none",
    "": "none",
    "nmt_nfkc": "nfkc",
    "nfkc_cf": "nfkc+lowercase",
    "nmt_nfkc_cf": "nfkc+lowercase",
}
# How many characters below U+20000 (Unicode 15) VOLT normalises differently.
_N_UNLIKE = {"nmt_nfkc": 46, "nfkc_cf": 191, "nmt_nfkc_cf": 237}


def read_merges(path: str | Path, data: bytes) -> MergeList:
    """Return the merges that a model's pieces imply, as candidates for a search.

    BPE: a piece gets a merge for each cut into two characters or pieces of better score. Unigram: from the most
    probable piece down, each is built from left to right, from the longest strings built before.
    """
    model = _model(path, data, CandidateError)
    normal = [piece for piece in model.pieces if piece.type == NORMAL]
    pieces = [
        piece.piece for piece in sorted(normal, key=lambda piece: (-piece.score, piece.piece))
    ]
    if model.trainer_spec.model_type == UNIGRAM:
        return MergeList(list(implied.merges_that_make(pieces)), "prefix")
    if model.trainer_spec.model_type != writing.BPE:
        raise CandidateError(
            f"{path}: a sentencepiece model of words or characters; train it with --model_type=bpe"
        )
    output, pairs = set[str](), list[tuple[str, str]]()
    for piece in pieces:
        pairs += [
            cut
            for cut in implied.two_parts(piece)
            if all(len(part) == 1 or part in output for part in cut)
        ]
        output.add(piece)
    return MergeList(pairs, "prefix")


def recognises(path: Path, head: bytes) -> bool:
    """Check whether a file starts with a piece of a sentencepiece model: a string, then a score or a type."""
    if len(head) < 4 or not head.startswith(FIRST_BYTE) or head[2:3] != FIRST_BYTE:
        return False
    return head[4 + head[3] :][:1] in (b"\x15", b"\x18")


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write PATH.model, with the ids of the vocabulary, and PATH.vocab. Returns a sentence for each difference."""
    writing.check_scheme(vocabulary)
    rows = list(writing.model_rows(vocabulary))
    writing.check_spellings(rows)
    model = writing.to_proto(vocabulary, rows)
    listing = "".join(f"{piece}\t{score:g}\n" for piece, score, _ in rows)
    place, neighbours = files_written(path)
    write_together({neighbours: listing.encode(), place: model.SerializeToString()})
    return list(writing.differences(vocabulary))


def files_written(path: Path) -> tuple[Path, ...]:
    return _model_path(path), _model_path(path).with_suffix(".vocab")


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read the model at PATH or, if nothing is there, at PATH.model. merges: ignored, as a model contains its own"""
    path = _existing(path)
    model = _load(path)
    kinds = [piece.type for piece in model.pieces]
    if (
        not model.HasField("trainer_spec")
        or not model.HasField("normalizer_spec")
        or kinds.count(UNKNOWN) != 1
    ):
        raise VocabularyError(f"{path}: {_DAMAGED}")
    with located(path):
        return vocabulary_of(model)


def normal_pieces(path: Path) -> dict[str, int]:
    model = _load(_existing(path))
    return {
        piece.piece: number for number, piece in enumerate(model.pieces) if piece.type == NORMAL
    }


def peer(path: Path, *, special: SpecialTokens = USUAL) -> Peer:
    """Load the model in the library."""
    model = _load(_existing(path))
    library = charsmap.load_library()
    processor = library.SentencePieceProcessor(model_proto=model.SerializeToString())
    ends = model.trainer_spec.treat_whitespace_as_suffix

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        return [
            [_ended(piece) if ends else piece for piece in row]
            for row in processor.encode(list(lines), out_type=str)
        ]

    return Peer(
        f"sentencepiece {library.__version__}",
        pieces,
        lambda lines: processor.encode(list(lines), out_type=int),
    )


def _ended(piece: str) -> str:
    return piece.removesuffix(PREFIX) + SUFFIX if piece.endswith(PREFIX) else piece


def _model_path(path: Path) -> Path:
    return path if path.suffix == ".model" else path.with_name(f"{path.name}.model")


def _existing(path: Path) -> Path:
    return path if path.exists() else _model_path(path)


def _load(path: Path) -> Any:
    return _model(path, read_bytes(path, kind=VocabularyError), VocabularyError)


def _model(path: str | Path, data: bytes, kind: type[VoltError]) -> Any:
    proto = charsmap.model_class()
    from google.protobuf.message import DecodeError

    with suppress(DecodeError):
        model = proto.FromString(data)
        if all(isinstance(text, str) for text in _texts(model)):
            return model
    raise kind(f"{path}: {_DAMAGED}")


def _texts(model: Any) -> Iterator[object]:
    """Yield the values of all text fields, which protobuf returns as bytes if they are not UTF-8."""
    yield from (piece.piece for piece in model.pieces)
    for part in (model.normalizer_spec, model.trainer_spec):
        for field, value in part.ListFields():
            if field.type == field.TYPE_STRING:
                yield from [value] if isinstance(value, str | bytes) else value


def vocabulary_of(model: Any) -> Vocabulary:
    """Return the vocabulary of a model. Raises VocabularyError if it is damaged or VOLT cannot encode as it does."""
    _refuse_other_kinds(model.trainer_spec, model.normalizer_spec)
    _refuse_pieces(model)
    left_out = list(_left_out(model))
    charsmap.check(model.normalizer_spec.precompiled_charsmap)
    rows = [(_spelled(piece, model), piece.score, piece.type) for piece in model.pieces]
    joins = _joins(rows)
    if joins.clash:
        what = f"for their scores, sentencepiece joins the left of the pieces {joins.clash[0]!r} and {joins.clash[1]!r}"
        raise VocabularyError(
            f"{what} first, but no list of merges can; train a model without equal scores"
        )
    marker, cut, differences = _words(model, list(map("".join, joins.merges)))
    special = _special(model)
    normalizer, notes = _normalizer(model)
    # a lone marker follows bytes and user tokens
    has_lone_end = marker == "suffix" and any(kind in (BYTE, USER) for _, _, kind in rows)
    dropped = {*joins.dropped} if has_lone_end else {*joins.dropped, SUFFIX}
    tokens = tuple(
        piece for piece, _, kind in rows if kind == NORMAL and piece not in {*dropped, SUFFIX}
    )
    spells_bytes, order = model.trainer_spec.byte_fallback, _order(rows, dropped)
    usual = (*special.all, *BYTE_TOKENS * spells_bytes, *(SUFFIX,) * has_lone_end, *tokens)
    unmade = [piece for piece, _, kind in rows if kind == NORMAL and piece in dropped - {SUFFIX}]
    shown = f"sentencepiece decodes {special.unk} to ' ⁇ ' and control tokens to nothing; VOLT shows both as they are."
    lost = [*notes, *differences, shown]
    if left_out:
        lost.append(
            f"{writing.such(left_out, 'is')} a special token that VOLT cannot have: left out, its id not used."
        )
    if spaced := special.spaced:
        lost.append(
            f"{writing.such(spaced, 'is')} found in text here, but not in sentencepiece, as it contains a space."
        )
    if unmade:
        lost.append(
            f"{writing.such(unmade, 'has')} an id that VOLT does not use, because no two pieces spell it."
        )
    if not spells_bytes:
        lost += writing.unknown_words(special.unk, tokens, marker=marker)
    if normalizer.form == "nfkc":
        lost.append("VOLT sorts the marks of a letter in NFKC's order; sentencepiece does not.")
    if special.user and normalizer != Normalizer():
        lost.append(
            "Text that normalisation turns into a user token is that token in sentencepiece, but text in VOLT."
        )
    return Vocabulary(
        merges=joins.merges,
        tokens=tokens,
        marker=marker,
        normalizer=normalizer,
        pretokenizer=PreTokenizer(cut),
        special=special,
        byte_fallback=spells_bytes,
        provenance={"format": "sentencepiece", "lost": lost},
        merging=joins.merging,
        fuse_unk=not spells_bytes,
        order=() if order == usual else order,
    )


def _left_out(model: Any) -> Iterator[str]:
    """Yield the special tokens that VOLT cannot have, after making them unused; a user character becomes ordinary."""
    for piece in model.pieces:
        text = piece.piece
        if piece.type not in (USER, CONTROL) or _can_be_special(text):
            continue
        if len(text) == 1:
            piece.type = NORMAL
        else:
            yield text
            piece.type = UNUSED
            piece.piece = ""


def _can_be_special(text: str) -> bool:
    with suppress(ConfigError):
        return PREFIX not in text and bool(SpecialTokens(user=(text,)))
    return False


def _spelled(piece: Any, model: Any) -> str:
    text, ends = (
        str(piece.piece),
        model.trainer_spec.treat_whitespace_as_suffix and piece.type in (NORMAL, UNUSED),
    )
    return text.removesuffix(PREFIX) + SUFFIX if ends and text.endswith(PREFIX) else text


def _order(rows: Sequence[tuple[str, float, int]], dropped: set[str]) -> tuple[str, ...]:
    rows = list(dropwhile(lambda row: row[2] == UNUSED, reversed(rows)))[::-1]
    return tuple(
        "" if kind == UNUSED or (kind == NORMAL and piece in dropped) else piece
        for piece, _, kind in rows
    )


def _special(model: Any) -> SpecialTokens:
    trainer = model.trainer_spec
    [unk], user, control = (
        [one.piece for one in model.pieces if one.type == kind] for kind in (UNKNOWN, USER, CONTROL)
    )
    named = trainer.bos_piece, trainer.eos_piece, trainer.pad_piece
    bos, eos, pad = (name if name in control else None for name in named)
    return SpecialTokens(
        unk, bos, eos, pad, tuple(user), tuple(name for name in control if name not in named)
    )


def _joins(rows: Sequence[tuple[str, float, int]]) -> implied.ImpliedMerges:
    scores = {
        piece: score for piece, score, kind in rows if kind in (NORMAL, UNUSED) and piece != SUFFIX
    }
    letters = implied.Letters(scores)
    short = {letters.short(piece): score for piece, score in scores.items()}
    joins = implied.ImpliedMerges.of(
        {piece: score for piece, score in short.items() if len(piece) > 1}
    )
    if not letters.atoms:
        return joins
    merges = tuple((letters.long(left), letters.long(right)) for left, right in joins.merges)
    return replace(joins, merges=merges, dropped=tuple(map(letters.long, joins.dropped)))


def _words(model: Any, texts: Sequence[str]) -> tuple[Marker, str, Sequence[str]]:
    spec, table = model.normalizer_spec, model.normalizer_spec.precompiled_charsmap
    if model.trainer_spec.treat_whitespace_as_suffix:
        _refuse_other_ends(model)
        pieces = {piece.piece for piece in model.pieces if piece.type in (NORMAL, UNUSED)}
        inside = [
            piece
            for piece in sorted(pieces - {PREFIX})
            if len(piece) == 1 and piece + PREFIX not in pieces
        ]
        notes = (writing.END_UNKNOWN.format(writing.such(inside, "ends")),) if inside else ()
        return "suffix", _separated(spec.name, table), notes
    spans = next((piece for piece in texts if PREFIX in piece.lstrip(PREFIX)), None)
    runs = any(piece.startswith(2 * PREFIX) for piece in texts)
    if not spec.add_dummy_prefix:
        note = "sentencepiece reduces several spaces in a row, and spaces at the ends of a line; VOLT keeps them."
        notes = (note, writing.TRIMMED) * spec.remove_extra_whitespaces
        return "none", writing.UNMARKED_LINE if spans else writing.RUNS_UNMARKED, notes
    if not spec.remove_extra_whitespaces:
        return "none", "metaspace-line" if spans else "metaspace-runs" if runs else "metaspace", ()
    if spans:
        what = f"piece {spans!r} spans words in text with reduced spaces, which VOLT cannot do"
        raise VocabularyError(
            f"{what}; train with --split_by_whitespace=true or --remove_extra_whitespaces=false"
        )
    return "prefix", _separated(spec.name, table), (writing.TRIMMED,)


def _separated(name: str, table: bytes) -> str:
    """Return the pre-tokenizer: it splits at all white space if the model makes it U+0020, otherwise only at U+0020."""
    spaces = set(SPLIT_SPACE) - {" "}
    replaced = {key for key, text in charsmap.unpack(table, only=spaces).items() if text == " "}
    return "whitespace" if name.startswith("nmt_") or spaces <= replaced else writing.ONLY_SPACES


def _refuse_other_ends(model: Any) -> None:
    spec = model.normalizer_spec
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type in (NORMAL, UNUSED)}
    ends = {piece for piece in scores if len(piece) == 2 and piece.endswith(PREFIX)}
    others = [piece for piece in scores if len(piece) > 1 and piece not in ends]
    worst = min((scores[piece] for piece in ends), default=math.inf)
    wrong = next(
        (piece for piece in others if PREFIX in piece[:-1] or scores[piece] >= worst), None
    )
    wrong = wrong or next(
        (piece for piece in others if piece.endswith(PREFIX) and piece[-2:] not in ends), None
    )
    if wrong or not (spec.add_dummy_prefix and spec.remove_extra_whitespaces):
        what = f"{PREFIX!r} ends words, but not every last character joins it first, as VOLT's '</w>' requires"
        raise VocabularyError(f"{what}; train it without --treat_whitespace_as_suffix")


def _refuse_other_kinds(trainer: Any, spec: Any) -> None:
    if trainer.model_type == UNIGRAM:
        raise VocabularyError(
            "a unigram model; search with its pieces as candidates, or train with --model_type=bpe"
        )
    if trainer.model_type != writing.BPE:
        kind = {3: "word", 4: "character"}.get(trainer.model_type, "word or character")
        raise VocabularyError(
            f"a {kind} model, whose pieces no merges make; train it with --model_type=bpe"
        )
    if not spec.escape_whitespaces:
        raise VocabularyError(
            f"spaces do not become {PREFIX!r}; train it with --escape_whitespaces"
        )


def _refuse_pieces(model: Any) -> None:
    first = dict[str, int]()
    for number, piece in enumerate(model.pieces):
        if not piece.piece or math.isnan(piece.score):
            raise VocabularyError(
                f"piece {number} is empty or has no score; copy or train the model again"
            )
        if "\0" in piece.piece:
            raise VocabularyError(
                f"piece {number}, {piece.piece!r}, contains U+0000; train the model again"
            )
        if first.setdefault(piece.piece, number) != number:
            raise VocabularyError(
                f"piece {number}, {piece.piece!r}, repeats piece {first[piece.piece]}; remove one"
            )
        if piece.type == CONTROL and len(piece.piece) == 1:
            raise VocabularyError(
                f"piece {number}: control token {piece.piece!r} is one character; train with another"
            )
    result = {piece.piece for piece in model.pieces if piece.type == BYTE}
    if result != set(BYTE_TOKENS * model.trainer_spec.byte_fallback):
        what = f"{len(result)} of the 256 byte pieces, but byte_fallback is {bool(model.trainer_spec.byte_fallback)}"
        raise VocabularyError(
            f"{what}: true needs all, false needs none; copy or train the model again"
        )


def _normalizer(model: Any) -> tuple[Normalizer, tuple[str, ...]]:
    name, table = model.normalizer_spec.name, model.normalizer_spec.precompiled_charsmap
    known = None
    with suppress(ConfigError):
        known = Normalizer.parse(_NORMALIZERS.get(name, name))
    if known is None or (known == Normalizer() and table):
        known, pairs = known or Normalizer(), charsmap.unpack(table).items()
        others = [
            (key, text)
            for key, text in pairs
            if key != PREFIX and not (key in SPLIT_SPACE and text == " ")
        ]
        if not others:
            return known, ()
        key, text = others[0]
        return known, (
            f"{len(others):,} replacements of text are dropped, such as {text!r} for {key!r}.",
        )
    if name not in _N_UNLIKE:
        return known, ()
    unlike = list[str]()
    if name.startswith("nmt_"):
        unlike.append(
            "control characters, such as tabs between kept spaces, stay, and zero-width ones are not spaces"
        )
    if name.endswith("_cf"):
        unlike.append("case is lowered, not folded (ß stays ß)")
    note = f"{_N_UNLIKE[name]} characters are normalised differently: {' and '.join(unlike)}"
    return known, (f"The normalisation {name!r} becomes {known.name!r}, so that {note}.",)
