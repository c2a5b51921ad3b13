"""The section `batches` of a configuration → the options of samples and batches, as plain values.

`volt.batches` takes them as arguments. It detects further mistakes, such as a token that is not in the vocabulary;
`Batches.naming` adds the file's name and line to its errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from volt.files.paths import exists
from volt.stream.config.problems import Notes
from volt.stream.config.yaml_document import Document, Place
from volt.stream.reading.source_definition import Source

if TYPE_CHECKING:
    from volt.stream.config.pydantic_models import BatchesOptions
    from volt.stream.config.sources import Sources

_SECTION: Place = ("batches",)
_SAMPLES = ("holds", "bos", "eos", "max_length", "beyond", "unknown")
_LAYOUT = ("pad_to_multiple", "left_pad_source", "left_pad_target", "dtype")
_PADDING = (
    "pad_to_multiple",
    "left_pad_source",
    "left_pad_target",
)  # only for rows of different lengths
_KEYS = {
    "longest": "max_length",
    "shortest": "min_length",
}  # key of the file → argument of `token_batches`
_BY_TOKENS = (
    "max_tokens",
    "max_sentences",
    "multiple",
    "sort",
    "noise",
    "longest",
    "shortest",
    "buckets",
    "on_long",
    "shuffle",
)


@dataclass(frozen=True, slots=True)
class Batches:
    """The section `batches`: settings of fields, and keyword arguments for classes of `volt.batches`.

    vocabularies: field → the path of its vocabulary; prefix: field → the tokens before each of its samples.
    samples, layout: arguments of `SampleFormat` and `Layout`.
    by_tokens, by_packs: arguments of `ByTokens` or `ByPacks`; None for the class that is not used.
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
        """Convert a VoltError raised in the context to a ConfigError with file and line. place: the key at fault

        >>> from volt.errors import ConfigError
        >>> document = Document("stream.yaml", {}, {("batches", "pad"): 7})
        >>> with Batches({}, {}, {}, None, None, {}, "<pad>", 1, document).naming("pad"):
        ...     raise ConfigError("no such token; name another")
        Traceback (most recent call last):
            ...
        volt.errors.ConfigError: stream.yaml:7: batches.pad: no such token; name another
        """
        notes = Notes(self.document)
        with notes.catching(self.document.nearest((*_SECTION, *place)), _SECTION):
            yield
        if notes.problems:
            raise notes.error()


def batches_of(options: BatchesOptions, maker: Sources, sources: Sequence[Source]) -> Batches:
    """Check the section `batches` and note its mistakes. sources: the sources of the stream"""
    notes = maker.notes
    _check_kind(options, notes)
    _check_values(options, notes)
    _check_names([*options.fields], sources, notes)
    if options.window == "epoch":
        _check_epoch(sources, notes)
    vocabularies = dict[str, str]()
    for name, one in options.fields.items():
        place = notes.document.nearest((*_SECTION, "fields", name, "vocabulary"))
        path = vocabularies[name] = notes.file(one.vocabulary, place)
        if maker.check_files and not any(map(exists, (path, f"{path}.model"))):
            notes.add(place, f"{path}: no such file; check the path")
    by_tokens = {_KEYS.get(key, key): getattr(options, key) for key in _BY_TOKENS}
    return Batches(
        vocabularies,
        {name: tuple(one.prefix) for name, one in options.fields.items() if one.prefix},
        {key: getattr(options, key) for key in _SAMPLES},
        by_tokens if options.pack is None else None,
        None if options.pack is None else {**options.pack.model_dump(), "shuffle": options.shuffle},
        {key: getattr(options, key) for key in _LAYOUT},
        options.pad,
        options.window,
        notes.document,
    )


def _check_epoch(sources: Sequence[Source], notes: Notes) -> None:
    ends = {source.epochs is not None for source in sources}
    moves = [source.name for source in sources if not isinstance(source.weight, float | int)]
    if len(sources) > 1 and (len(ends) > 1 or (moves and ends == {False})):
        reason = (
            f"the weight of {moves[0]} changes"
            if len(ends) == 1
            else "some sources end and some do not"
        )
        notes.add(
            (*_SECTION, "window"),
            f"is epoch, but {reason}, so there is no epoch; give a number of samples",
        )


def _check_kind(options: BatchesOptions, notes: Notes) -> None:
    if options.pack is None:
        if options.max_tokens is None:
            place = notes.document.nearest((*_SECTION, "max_tokens"))
            notes.add(place, "key 'max_tokens' is missing; give it, or pack: {length: N, rows: N}")
        if len(options.fields) == 1 and "left_pad_source" in options.model_fields_set:
            notes.add(
                (*_SECTION, "left_pad_source"),
                "works only with two fields; use left_pad_target for one",
            )
        return
    for key in ({*_BY_TOKENS, *_PADDING} - {"shuffle"}) & options.model_fields_set:
        instead = ", or write it into pack" * (key == "on_long")
        notes.add(
            (*_SECTION, key),
            f"cannot be used with pack, whose rows have one length; remove one{instead}",
        )


def _check_values(options: BatchesOptions, notes: Notes) -> None:
    if options.beyond == "truncate" and options.max_length is None:
        notes.add(
            (*_SECTION, "beyond"), "needs max_length, beyond which samples are truncated; give it"
        )
    if options.noise and options.sort == "sides":
        notes.add(
            (*_SECTION, "noise"),
            "cannot be used with sort: sides, which takes no noise; remove one of them",
        )
    if options.noise and not options.shuffle:
        notes.add((*_SECTION, "noise"), "is random, but shuffle is false; remove one of them")
    values = options.buckets or []
    for place, (before, after) in enumerate(pairwise(values), 1):
        if after <= before:
            notes.add(
                (*_SECTION, "buckets", place),
                f"is {after:,}, after {before:,}; give rising lengths",
            )
    if values and values[-1] > (most := options.max_tokens or values[-1]):
        notes.add(
            (*_SECTION, "buckets"),
            f"the last is {values[-1]:,}, above max_tokens, {most:,}; remove it",
        )
    for key in ("longest", "max_tokens"):
        if options.shortest > (limit := getattr(options, key) or options.shortest):
            notes.add(
                (*_SECTION, "shortest"),
                f"is {options.shortest}, more than {key}, {limit}; lower it",
            )


def _check_names(names: Sequence[str], sources: Sequence[Source], notes: Notes) -> None:
    place: Place = (*_SECTION, "fields")
    if len(names) > (most := 1 if (*_SECTION, "pack") in notes.document.lines else 2):
        message = (
            "packs contain one field"
            if most == 1
            else "batches have a source and a target, or one field"
        )
        notes.add(
            place, f"{', '.join(names)} are {len(names)} fields, but {message}; remove the others"
        )
    notes.check_names(names, place)
    for source in sources:
        known = [name for name in source.names if name in names]
        if known != [name for name in names if name in source.names]:
            notes.add(
                place,
                f"source {source.name!r} has the order {', '.join(source.names)}; use this order",
            )
            return
