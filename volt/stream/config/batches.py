"""The section `batches` of a configuration → the options of samples and batches, as plain values.

They become arguments of `volt.batches`. Mistakes that only the latter detects, such as a token that a vocabulary lacks,
get their line from `naming`.

>>> from volt.stream.config.build import parse_config
>>> text = "sources: {wmt: {path: a.tsv}}\\nbatches: {fields: {src: joint.volt, tgt: joint.volt}, max_tokens: 4096}"
>>> batches = parse_config(text, path="data/stream.yaml").batches
>>> batches.vocabularies["tgt"], batches.by_tokens["max_tokens"], batches.by_packs, batches.window
('data/joint.volt', 4096, None, 16384)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from volt.errors import VoltError
from volt.files.paths import exists
from volt.stream.config.document import Document, Notes, Place, as_error
from volt.stream.reading.source import Source

if TYPE_CHECKING:
    from volt.stream.config.models import BatchesOptions, FieldOptions
    from volt.stream.config.sources import Sources

_SECTION: Place = ("batches",)
_SAMPLES = ("holds", "bos", "eos", "max_length", "beyond", "unknown")
_LAYOUT = ("pad_to_multiple", "left_pad_source", "left_pad_target", "dtype")
_PADDING = ("pad_to_multiple", "left_pad_source", "left_pad_target")  # where rows are of any length
_KEYS = {"longest": "max_length", "shortest": "min_length"}  # what the file calls otherwise than `token_batches`
_BY_TOKENS = (
    "max_tokens", "max_sentences", "multiple", "sort", "noise", "longest", "shortest", "buckets", "on_long",
    "shuffle",
)  # fmt: skip
_GONE = "key 'max_tokens' is missing"


@dataclass(frozen=True, slots=True)
class Batches:
    """The section `batches`.

    vocabularies: name of the field → the path of its vocabulary, in the order of the lines' fields.
    prefix: name of the field → the tokens in front of its samples, where there are some.
    samples: further arguments of `SampleFormat`, by their names.
    by_tokens, by_packs: the arguments of `ByTokens` or of `ByPacks`; None for the other.
    layout: the arguments of `Layout`, but for the padding.
    pad: the token that fills rows.
    window: how many samples are taken together, or "epoch".
    document: the file.
    """

    vocabularies: Mapping[str, str]
    prefix: Mapping[str, tuple[str, ...]]
    samples: Mapping[str, Any]
    by_tokens: Mapping[str, Any] | None
    by_packs: Mapping[str, Any] | None
    layout: Mapping[str, Any]
    pad: str
    window: int | Literal["epoch"]
    document: Document

    @contextmanager
    def naming(self, *place: str) -> Iterator[None]:
        """Within it, what is refused is refused with the file's name and line.

        place: within the section

        Raises ConfigError instead of any error of VOLT.

        >>> document = Document("stream.yaml", {}, {("batches", "pad"): 7})
        >>> batches = Batches({}, {}, {}, None, None, {}, "<pad>", 1, document)
        >>> with batches.naming("pad"):
        ...     raise VoltError("no such token; name another")
        Traceback (most recent call last):
            ...
        volt.errors.ConfigError: stream.yaml:7: batches.pad: no such token; name another
        """
        try:
            yield
        except VoltError as error:
            notes = Notes(self.document)
            notes.note(error, self._nearest(str(error), place))
            raise as_error(notes.found, self.document) from None

    def _nearest(self, message: str, place: tuple[str, ...]) -> Place:
        """Return the place within the section, or the section itself if it holds the option that a message starts
        with.
        """
        option = re.match(r"\w+", message)
        is_of_section = option is not None and (*_SECTION, option[0]) in self.document.lines
        return _SECTION if is_of_section else _held((*_SECTION, *place), self.document)


def _held(place: Place, document: Document) -> Place:
    """Return a place, or the nearest around it that the file holds, as where a path alone stands for a mapping."""
    while place and place not in document.lines:
        place = place[:-1]
    return place


def batches_of(options: BatchesOptions, maker: Sources, sources: Sequence[Source]) -> Batches:
    """Check the section and note its mistakes.

    maker: knows where files are, and takes notes
    sources: of the stream, whose fields may have names
    """
    _check_kind(options, maker.notes)
    _check_values(options, maker.notes)
    fields = {name: _field(one) for name, one in options.fields.items()}
    _check_names([*fields], sources, maker.notes)
    if options.window == "epoch":
        _check_epoch(sources, maker.notes)
    return Batches(
        {name: _vocabulary(maker, name, one.vocabulary) for name, one in fields.items()},
        {name: tuple(one.prefix) for name, one in fields.items() if one.prefix},
        {key: getattr(options, key) for key in _SAMPLES},
        _by_tokens(options), _by_packs(options),
        {key: getattr(options, key) for key in _LAYOUT},
        options.pad, options.window, maker.notes.document,
    )  # fmt: skip


def _field(message: str | FieldOptions) -> FieldOptions:
    from volt.stream.config.models import FieldOptions

    return FieldOptions(vocabulary=message) if isinstance(message, str) else message


def _vocabulary(maker: Sources, name: str, message: str) -> str:
    place = _held((*_SECTION, "fields", name, "vocabulary"), maker.notes.document)
    path = maker.file(message, place)
    if maker.check_files and not any(map(exists, (path, f"{path}.model"))):
        maker.notes.add(place, f"{path}: no such file; check the path")
    return path


def _by_tokens(options: BatchesOptions) -> dict[str, Any] | None:
    if options.pack is not None:
        return None
    return {_KEYS.get(key, key): getattr(options, key) for key in _BY_TOKENS}


def _by_packs(options: BatchesOptions) -> dict[str, Any] | None:
    return None if options.pack is None else {**options.pack.model_dump(), "shuffle": options.shuffle}


# what does not go together


def _check_epoch(sources: Sequence[Source], notes: Notes) -> None:
    """Note where several sources have no epoch together: where some end and some do not, or weights move."""
    ends = {source.epochs is not None for source in sources}
    moves = [source.name for source in sources if not isinstance(source.weight, float | int)]
    if len(sources) > 1 and (len(ends) > 1 or (moves and ends == {False})):
        result = f"the weight of {moves[0]} moves" if len(ends) == 1 else "some sources end and some do not"
        notes.add((*_SECTION, "window"), f"is epoch, but {result}, so there is none; give a number of samples")


def _check_kind(options: BatchesOptions, notes: Notes) -> None:
    if options.pack is None:
        if options.max_tokens is None:
            place, instead = (*_SECTION, "max_tokens"), "give it, or pack: {length: N, rows: N}"
            is_there = place in notes.document.lines
            notes.add(place if is_there else _SECTION, f"{'is null' if is_there else _GONE}; {instead}")
        if len(options.fields) == 1 and "left_pad_source" in options.model_fields_set:
            notes.add((*_SECTION, "left_pad_source"), "goes with two fields, and there is one; say left_pad_target")
        return
    for key in ({*_BY_TOKENS, *_PADDING} - {"shuffle"}) & options.model_fields_set:
        instead = ", or write it into pack" * (key == "on_long")
        notes.add(
            (*_SECTION, key), f"does not go with pack, whose rows have one length; leave one of them out{instead}"
        )


def _check_values(options: BatchesOptions, notes: Notes) -> None:
    if options.beyond == "truncate" and options.max_length is None:
        notes.add((*_SECTION, "beyond"), "needs max_length, beyond which samples are truncated; give it")
    if options.noise and options.sort == "sides":
        notes.add((*_SECTION, "noise"), "does not go with sort: sides, which has none; leave one of them out")
    if options.noise and not options.shuffle:
        notes.add((*_SECTION, "noise"), "is random, and shuffle is false; leave one of them out")
    _check_buckets(options, notes)
    key, limit = min(
        ((key, message) for key in ("longest", "max_tokens") if (message := getattr(options, key)) is not None),
        key=lambda one: one[1], default=("", options.shortest),
    )  # fmt: skip
    if options.shortest > limit:
        notes.add(
            (*_SECTION, "shortest"), f"is {options.shortest}, more than {key}, {limit}; no sample is of such size"
        )


def _check_buckets(options: BatchesOptions, notes: Notes) -> None:
    values = options.buckets or []
    for place, (before, after) in enumerate(pairwise(values), 1):
        if after <= before:
            notes.add((*_SECTION, "buckets", place), f"is {after:,}, after {before:,}; give lengths that rise")
    if values and options.max_tokens is not None and values[-1] > options.max_tokens:
        result = f"the last is {values[-1]:,}, more than max_tokens, {options.max_tokens:,}; leave it out"
        notes.add((*_SECTION, "buckets"), result)


def _check_names(names: Sequence[str], sources: Sequence[Source], notes: Notes) -> None:
    """Note fields that are too many, or have no names, or stand in another order than in a source."""
    place: Place = (*_SECTION, "fields")
    if len(names) > (most := 1 if (*_SECTION, "pack") in notes.document.lines else 2):
        message = "packs hold one" if most == 1 else "batches have a source and a target, or one"
        notes.add(place, f"{', '.join(names)} are {len(names)}, and {message}; leave the others out")
    for name in names:
        if not name.isidentifier():
            notes.add((*place, name), f"{name!r} is not a name for a field; give a word, such as src")
    for source in sources:
        known = [name for name in source.names if name in names]
        if known != [name for name in names if name in source.names]:
            result = f"stand in another order than in source {source.name!r}, {', '.join(source.names)}"
            notes.add(place, f"{', '.join(names)} {result}; name the first field first")
            return
