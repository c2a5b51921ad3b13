"""sentencepiece's models, PATH.model ⇄ vocabulary.

`write` also writes PATH.vocab, a list for people.

A model is a protobuf message: pieces, each with a score and a type; `trainer_spec`, the settings of
training; and `normalizer_spec`, how a line is normalised and how spaces become "▁". A model
contains no
merges: `volt.formats.sentencepiece.merges` finds those that the scores imply.

sentencepiece encodes a line as a whole; VOLT cuts it into words first. `_choose_words` picks cuts
that no merge crosses, from the settings and the pieces:

    spaces are kept       no piece spans words              before every space
                          some pieces are several spaces    before every run of spaces
                          some pieces span words            nowhere
    spaces are reduced    no piece spans words              at every space; "▁" or "</w>" marks words
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from volt.errors import CandidateError, ConfigError, VocabularyError, VoltError, quoted
from volt.files.atomic import write_together
from volt.files.small_files import read_bytes
from volt.formats.protocol import MergeList, Peer, locate_errors
from volt.formats.sentencepiece import charsmap, unigram, writing
from volt.formats.sentencepiece import merges as implied
from volt.formats.sentencepiece.merges import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER
from volt.text.atoms import PREFIX, SUFFIX, Marker
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.charsmap import check_charsmap
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import RUNS_UNMARKED, UNMARKED_LINE, PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.text.white_space import SPLIT_SPACE
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import unnamed_tokens

FIRST_BYTE = b"\x0a"  # of every model: the tag of the field `pieces`
_OTHER_TYPES = {3: "word", 4: "character"}
_DAMAGED = "a damaged sentencepiece model, or another file; copy or train it again"
# sentencepiece's normalisation → VOLT's normalizer, where the names differ
_NORMALIZERS = {
    "identity": "none",
    "": "none",
    "nmt_nfkc": "nfkc",
    "nfkc_cf": "nfkc+lowercase",
    "nmt_nfkc_cf": "nfkc+lowercase",
}
# The number of characters below U+20000 (Unicode 15) that VOLT normalises differently.
_N_DIFFERENT = {"nmt_nfkc": 46, "nfkc_cf": 191, "nmt_nfkc_cf": 237}


def recognises(path: Path, head: bytes) -> bool:
    """Check whether a file starts with a piece of a sentencepiece model: a string, then a score or
    a type.
    """
    if len(head) < 4 or head[:1] != FIRST_BYTE or head[2:3] != FIRST_BYTE:
        return False
    return head[4 + head[3] :].startswith((b"\x15", b"\x18"))


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read the model at PATH, or at PATH.model if there is no file at PATH.

    merges: ignored, because a model implies its own merges
    """
    path = _find_model(path)
    model = _load(path)
    is_unigram = model.trainer_spec.model_type == writing.UNIGRAM
    is_whole = model.HasField("trainer_spec") and (is_unigram or model.HasField("normalizer_spec"))
    if not is_whole:
        raise VocabularyError(f"{path}: {_DAMAGED}")
    if (n_unknown := len(_pieces_of_type(model, UNKNOWN))) != 1:
        raise VocabularyError(
            f"{path}: {n_unknown} pieces of the type unknown, such as <unk>, and a model has one; copy "
            "or train it again"
        )
    with locate_errors(path):
        return vocabulary_of(model)


def read_merges(path: str | Path, data: bytes) -> MergeList:
    """Return the merges that a model's pieces imply, as candidates for a search.

    BPE: a piece gets a merge for each cut into two characters or pieces of better score.
    Unigram: from the most probable piece down, each piece is built from left to right, from the
        longest strings built before.
    """
    model = _parse_model(path, data, CandidateError)
    normal = [piece for piece in model.pieces if piece.type == NORMAL]
    normal.sort(key=lambda piece: (-piece.score, piece.piece))
    pieces = [piece.piece for piece in normal]
    model_type = model.trainer_spec.model_type
    if model_type == writing.UNIGRAM:
        return MergeList(list(implied.merges_that_make(pieces)), "prefix")
    if model_type == writing.BPE:
        return MergeList(list(implied.all_cuts(pieces)), "prefix")
    raise CandidateError(
        f"{path}: a sentencepiece model of words or characters; train it with --model_type=bpe"
    )


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write PATH.model, with the ids of the vocabulary, and PATH.vocab.

    Returns a sentence for each difference.
    """
    writing.check_scheme(vocabulary)
    rows = list(writing.model_rows(vocabulary))
    writing.check_spellings(rows)
    model = writing.to_proto(vocabulary, rows)
    listing = "".join(f"{piece}\t{score:g}\n" for piece, score, _ in rows)
    model_path, list_path = files_written(path)
    write_together({list_path: listing.encode(), model_path: model.SerializeToString()})
    notes = list(writing.differences(vocabulary))
    if vocabulary.is_unigram:
        notes += unigram.note_on_removed(model.normalizer_spec)
    return notes


def files_written(path: Path) -> tuple[Path, ...]:
    model_path = _add_suffix(path)
    return model_path, model_path.with_suffix(".vocab")


def _add_suffix(path: Path) -> Path:
    if path.suffix == ".model":
        return path
    return path.with_name(f"{path.name}.model")


def _find_model(path: Path) -> Path:
    return path if path.exists() else _add_suffix(path)


def normal_pieces(path: Path) -> dict[str, int]:
    """Return the id of each piece that is neither special nor a byte."""
    pieces = enumerate(_load(_find_model(path)).pieces)
    return {piece.piece: number for number, piece in pieces if piece.type == NORMAL}


def peer(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load the model in the library.

    Raises ConfigError if it lacks a user token that was added on import.
    """
    model = _load(_find_model(path))
    for token in {*unnamed_tokens(vocabulary)}.difference(_pieces_of_type(model, USER)):
        raise ConfigError(
            f"sentencepiece's model lacks the token {quoted(token)}; check without it"
        )
    library = charsmap.load_library()
    processor = library.SentencePieceProcessor(model_proto=model.SerializeToString())
    ends_words = model.trainer_spec.treat_whitespace_as_suffix

    def encode_pieces(lines: Sequence[str]) -> list[list[str]]:
        encoded: list[list[str]] = processor.encode(list(lines), out_type=str)
        if not ends_words:
            return encoded
        return [list(map(_spell_end, line_pieces)) for line_pieces in encoded]

    def encode_ids(lines: Sequence[str]) -> list[list[int]]:
        result: list[list[int]] = processor.encode(list(lines), out_type=int)
        return result

    return Peer(f"sentencepiece {library.__version__}", encode_pieces, encode_ids)


def _spell_end(piece: str) -> str:
    """Return a piece with "</w>" instead of a final "▁", for a model in which "▁" ends words."""
    if piece.endswith(PREFIX):
        return piece.removesuffix(PREFIX) + SUFFIX
    return piece


def _load(path: Path) -> Any:
    return _parse_model(path, read_bytes(path, kind=VocabularyError), VocabularyError)


def _parse_model(path: str | Path, data: bytes, error_class: type[VoltError]) -> Any:
    proto = charsmap.model_class()
    from google.protobuf.message import DecodeError

    with suppress(DecodeError):
        model = proto.FromString(data)
        if all(isinstance(text, str) for text in _text_values(model)):
            return model
    raise error_class(f"{path}: {_DAMAGED}")


def _text_values(model: Any) -> Iterator[object]:
    """Yield the values of all text fields of a model; bytes if a value is not UTF-8."""
    yield from (piece.piece for piece in model.pieces)
    settings = (model.normalizer_spec.ListFields(), model.trainer_spec.ListFields())
    for field, value in chain.from_iterable(settings):
        if field.type == field.TYPE_STRING:
            yield from [value] if isinstance(value, str | bytes) else value


def _pieces_of_type(model: Any, piece_type: int) -> list[str]:
    return [piece.piece for piece in model.pieces if piece.type == piece_type]


def vocabulary_of(model: Any) -> Vocabulary:
    """Return the vocabulary of a model.

    Raises VocabularyError if it is damaged or VOLT cannot encode as it does.
    """
    _refuse_other_models(model.trainer_spec, model.normalizer_spec)
    _refuse_pieces(model)
    if model.trainer_spec.model_type == writing.UNIGRAM:
        return _unigram_vocabulary_of(model)
    left_out = _drop_impossible_special(model)
    check_charsmap(model.normalizer_spec.precompiled_charsmap)
    rows = [(_spell(piece, model), piece.score, piece.type) for piece in model.pieces]
    merges = _imply_merges(rows)
    if merges.clash:
        raise VocabularyError(
            f"because of their scores, sentencepiece joins whichever of the pieces {merges.clash[0]!r} "
            f"and {merges.clash[1]!r} is further left first, which no list of merges can do; "
            "train a model without equal scores"
        )
    marker, pretokenizer, word_notes = _choose_words(model, list(map("".join, merges.merges)))
    special = _read_special(model)
    normalizer, notes = _read_normalizer(model.normalizer_spec)
    notes += word_notes

    unmade = set(merges.dropped)
    normal = [piece for piece, _, kind in rows if kind == NORMAL and piece != SUFFIX]
    tokens = tuple(piece for piece in normal if piece not in unmade)
    byte_fallback = model.trainer_spec.byte_fallback
    usual_order = special.all + BYTE_TOKENS * byte_fallback
    if marker == "suffix" and any(kind in (BYTE, USER) for _, _, kind in rows):
        usual_order += (SUFFIX,)  # a lone marker, which follows bytes and user tokens
    usual_order += tokens
    order = _read_order(rows, set(usual_order))
    if order == usual_order:
        order = ()

    notes += _note_special(special, left_out)
    if without_merge := [piece for piece in normal if piece in unmade]:
        notes.append(
            f"{writing.such(without_merge, 'has')} an id that VOLT does not use, "
            "because no two pieces spell it."
        )
    if not byte_fallback:
        notes += writing.unknown_words(special.unk, tokens, marker=marker)
    notes += _note_normalizer(normalizer, special)
    return Vocabulary(
        merges=merges.merges,
        tokens=tokens,
        marker=marker,
        normalizer=normalizer,
        pretokenizer=PreTokenizer(pretokenizer),
        special=special,
        byte_fallback=byte_fallback,
        provenance={"format": "sentencepiece", "lost": notes},
        merging=merges.merging,
        fuse_unk=not byte_fallback,
        order=order,
    )


def _unigram_vocabulary_of(model: Any) -> Vocabulary:
    unigram.refuse_other_spaces(model)
    user_symbols = unigram.make_user_symbols_normal(model)
    left_out = _drop_impossible_special(model)
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == NORMAL}
    if not scores:
        raise VocabularyError("no piece has a score; copy or train the model again")
    spec = model.normalizer_spec
    rows = [(piece.piece, piece.score, piece.type) for piece in model.pieces]
    special = _read_special(model)
    byte_fallback = model.trainer_spec.byte_fallback
    retained = {*special.all, *scores, *(BYTE_TOKENS if byte_fallback else ())}
    return Vocabulary(
        merges=(),
        tokens=tuple(scores),
        marker="none",
        normalizer=unigram.build_normalizer(spec, user_symbols),
        pretokenizer=PreTokenizer(unigram.choose_pretokenizer(spec, scores)),
        special=special,
        byte_fallback=byte_fallback,
        provenance={
            "format": "sentencepiece",
            "lost": [*unigram.notes(model), *_note_special(special, left_out)],
        },
        fuse_unk=not byte_fallback,
        order=_read_order(rows, retained),
        scores=tuple(scores.values()),
        score_sums="lines",
    )


def _refuse_other_models(trainer: Any, spec: Any) -> None:
    if trainer.model_type not in (writing.UNIGRAM, writing.BPE):
        name = _OTHER_TYPES.get(trainer.model_type, "word or character")
        raise VocabularyError(
            f"a {name} model, and VOLT reads models of merges or of scores; train it with "
            "--model_type=bpe or --model_type=unigram"
        )
    if not spec.escape_whitespaces:
        raise VocabularyError(
            f"spaces do not become {PREFIX!r}; train it with --escape_whitespaces"
        )


def _refuse_pieces(model: Any) -> None:
    first_id = dict[str, int]()
    for number, piece in enumerate(model.pieces):
        text = piece.piece
        if not text:
            raise VocabularyError(f"piece {number} is empty; copy or train the model again")
        if not math.isfinite(piece.score):
            raise VocabularyError(
                f"piece {number}, {text!r}, has the score {piece.score}, which is not a finite number; "
                "copy or train the model again"
            )
        if "\0" in text:
            raise VocabularyError(
                f"piece {number}, {text!r}, contains U+0000; train the model again"
            )
        if first_id.setdefault(text, number) != number:
            raise VocabularyError(
                f"piece {number}, {text!r}, repeats piece {first_id[text]}; remove one"
            )
        if piece.type == CONTROL and len(text) == 1:
            raise VocabularyError(
                f"piece {number}: control token {text!r} is one character; train with another"
            )
    byte_pieces = set(_pieces_of_type(model, BYTE))
    byte_fallback = model.trainer_spec.byte_fallback
    if byte_pieces != set(BYTE_TOKENS * byte_fallback):
        raise VocabularyError(
            f"{len(byte_pieces)} of the 256 byte pieces, but byte_fallback is {byte_fallback}: "
            "true needs all, false needs none; copy or train the model again"
        )


def _drop_impossible_special(model: Any) -> list[str]:
    """Change the user and control pieces that cannot be special tokens in VOLT: a character becomes
    a normal piece, and any other piece an unused id. Return the pieces whose ids became unused.
    """
    left_out = list[str]()
    for piece in model.pieces:
        text = piece.piece
        if piece.type not in (USER, CONTROL) or _can_be_special(text):
            continue
        if len(text) == 1:
            piece.type = NORMAL
        else:
            left_out.append(text)
            piece.type = UNUSED
            piece.piece = ""
    return left_out


def _can_be_special(text: str) -> bool:
    with suppress(ConfigError):
        return PREFIX not in text and bool(SpecialTokens(user=(text,)))
    return False


def _spell(piece: Any, model: Any) -> str:
    """Return a piece in VOLT's spelling."""
    if model.trainer_spec.treat_whitespace_as_suffix and piece.type in (NORMAL, UNUSED):
        return _spell_end(piece.piece)
    return str(piece.piece)


def _imply_merges(rows: Sequence[writing.ModelRow]) -> implied.ImpliedMerges:
    scores = {
        piece: score for piece, score, kind in rows if kind in (NORMAL, UNUSED) and piece != SUFFIX
    }
    letters = implied.Letters(scores)
    short_scores = {letters.shorten(piece): score for piece, score in scores.items()}
    result = implied.ImpliedMerges.of(
        {piece: score for piece, score in short_scores.items() if len(piece) > 1}
    )
    merges = tuple((letters.restore(left), letters.restore(right)) for left, right in result.merges)
    return replace(result, merges=merges, dropped=tuple(map(letters.restore, result.dropped)))


def _choose_words(model: Any, results: Sequence[str]) -> tuple[Marker, str, list[str]]:
    """Return the marker, the name of the pre-tokenizer, and notes on what VOLT then does
    differently.

    results: the results of the merges
    """
    spec = model.normalizer_spec
    if model.trainer_spec.treat_whitespace_as_suffix:
        _refuse_other_ends(model)
        pieces = {piece.piece for piece in model.pieces if piece.type in (NORMAL, UNUSED)}
        letters = sorted(piece for piece in pieces if len(piece) == 1 and piece != PREFIX)
        never_last = [letter for letter in letters if letter + PREFIX not in pieces]
        notes = list[str]()
        if never_last:
            notes.append(writing.END_UNKNOWN.format(writing.such(never_last, "ends")))
        return "suffix", _choose_separators(spec), notes
    spanning = next((text for text in results if PREFIX in text.lstrip(PREFIX)), None)
    if not spec.add_dummy_prefix:
        notes = []
        if spec.remove_extra_whitespaces:
            notes = [
                "sentencepiece reduces several spaces in a row, and spaces at the ends of a line; "
                "VOLT keeps them.",
                writing.TRIMMED,
            ]
        return "none", UNMARKED_LINE if spanning else RUNS_UNMARKED, notes
    if not spec.remove_extra_whitespaces:
        if spanning:
            return "none", "metaspace-line", []
        has_runs = any(text.startswith(2 * PREFIX) for text in results)
        return "none", "metaspace-runs" if has_runs else "metaspace", []
    if spanning:
        raise VocabularyError(
            f"piece {spanning!r} spans words in text with reduced spaces, which VOLT cannot do; "
            "train with --split_by_whitespace=true or --remove_extra_whitespaces=false"
        )
    return "prefix", _choose_separators(spec), [writing.TRIMMED]


def _choose_separators(spec: Any) -> str:
    """Return the pre-tokenizer for a model that reduces spaces.

    It cuts at all white space if the model turns all white space into U+0020, else only at U+0020.
    """
    spaces = set(SPLIT_SPACE) - {" "}
    replaced = charsmap.unpack(spec.precompiled_charsmap, only=spaces)
    if spec.name.startswith("nmt_") or all(replaced.get(space) == " " for space in spaces):
        return "whitespace"
    return writing.ONLY_SPACES


def _refuse_other_ends(model: Any) -> None:
    """Raise VocabularyError unless "▁" joins the last character of a word before all other joins.

    VOLT's atom "w</w>" is one symbol from the start. So "w▁" must have a better score than all
    longer pieces.
    """
    spec = model.normalizer_spec
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type in (NORMAL, UNUSED)}
    ends = {piece for piece in scores if len(piece) == 2 and piece.endswith(PREFIX)}
    worst_end = min((scores[piece] for piece in ends), default=math.inf)
    join_first = spec.add_dummy_prefix and spec.remove_extra_whitespaces
    for piece in scores:
        if len(piece) > 1 and piece not in ends:
            lacks_end = piece.endswith(PREFIX) and piece[-2:] not in ends
            if lacks_end or PREFIX in piece[:-1] or scores[piece] >= worst_end:
                join_first = False
    if not join_first:
        raise VocabularyError(
            f"{PREFIX!r} ends words, but not every last character joins it first, as VOLT's '</w>' "
            "requires; train it without --treat_whitespace_as_suffix"
        )


def _read_special(model: Any) -> SpecialTokens:
    trainer = model.trainer_spec
    [unk] = _pieces_of_type(model, UNKNOWN)
    control = _pieces_of_type(model, CONTROL)
    role_names = (trainer.bos_piece, trainer.eos_piece, trainer.pad_piece)
    bos, eos, pad = (name if name in control else None for name in role_names)
    others = tuple(name for name in control if name not in role_names)
    return SpecialTokens(unk, bos, eos, pad, tuple(_pieces_of_type(model, USER)), others)


def _read_normalizer(spec: Any) -> tuple[Normalizer, list[str]]:
    """Return VOLT's normalizer for a `normalizer_spec`, and a list of notes on its differences."""
    name = spec.name
    known = None
    with suppress(ConfigError):
        known = Normalizer.parse(_NORMALIZERS.get(name, name))
    if known is None or (known == Normalizer() and spec.precompiled_charsmap):
        replaced = charsmap.unpack(spec.precompiled_charsmap)
        spaces = dict.fromkeys(SPLIT_SPACE, " ")
        dropped = [key for key in replaced if key != PREFIX and spaces.get(key) != replaced[key]]
        notes = list[str]()
        if dropped:
            first = dropped[0]
            notes.append(
                f"{len(dropped):,} replacements of text are dropped, "
                f"such as {replaced[first]!r} for {first!r}."
            )
        return known or Normalizer(), notes
    if name not in _N_DIFFERENT:
        return known, []
    differences = list[str]()
    if name.startswith("nmt_"):
        differences.append(
            "control characters, such as tabs between kept spaces, stay, "
            "and zero-width ones are not spaces"
        )
    if name.endswith("_cf"):
        differences.append("case is lowered, not folded (ß stays ß)")
    return known, [
        f"The normalisation {name!r} becomes {known.name!r}, so that {_N_DIFFERENT[name]} characters "
        f"are normalised differently: {' and '.join(differences)}."
    ]


def _read_order(rows: Sequence[writing.ModelRow], retained: Set[str]) -> tuple[str, ...]:
    """Return the piece of each id, "" for an unused one. Unused ids at the end are left out."""
    result = [""] * len(rows)
    n_used = 0
    for number, (piece, _, kind) in enumerate(rows):
        if kind == UNUSED:
            continue
        n_used = number + 1
        if piece in retained:
            result[number] = piece
    return tuple(result[:n_used])


def _note_special(special: SpecialTokens, left_out: Sequence[str]) -> Iterator[str]:
    yield (
        f"sentencepiece decodes {special.unk} to ' ⁇ ' and control tokens to nothing; "
        "VOLT shows both as they are."
    )
    if left_out:
        yield (
            f"{writing.such(left_out, 'is')} a special token that VOLT cannot have: left out, "
            "its id not used."
        )
    if special.spaced:
        yield (
            f"{writing.such(special.spaced, 'is')} found in text here, but not in sentencepiece, "
            "as it contains a space."
        )


def _note_normalizer(normalizer: Normalizer, special: SpecialTokens) -> Iterator[str]:
    if normalizer.form == "nfkc":
        yield "VOLT sorts the marks of a letter in NFKC's order; sentencepiece does not."
    if special.user and normalizer != Normalizer():
        yield (
            "Text that normalisation turns into a user token is that token in sentencepiece, "
            "but text in VOLT."
        )
