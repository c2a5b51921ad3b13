"""Check the section `batches` of a configuration: the options of samples and batches.

`volt.batches` takes them as arguments. It detects further mistakes, such as a token that is not in
the vocabulary; `Batches.naming` adds the file's name and line to its errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from volt.files.paths import exists
from volt.stream.config.problems import Problems
from volt.stream.config.pydantic_models import BatchesOptions
from volt.stream.config.yaml_document import Document, Place
from volt.stream.reading.source_definition import Source

_SECTION: Place = ("batches",)
_NOT_FOR_PACKS = (
    "max_tokens",
    "max_sentences",
    "multiple",
    "sort",
    "noise",
    "longest",
    "shortest",
    "buckets",
    "on_long",
    "pad_to_multiple",
    "left_pad_source",
    "left_pad_target",
)


@dataclass(frozen=True, slots=True)
class Batches:
    """The section `batches`, checked. vocabularies: field → the path of its vocabulary"""

    options: BatchesOptions
    vocabularies: Mapping[str, str]
    document: Document

    @contextmanager
    def naming(self, *place: str) -> Iterator[None]:
        """Convert a VoltError raised in the context to a ConfigError with file and line. place: the
        key at fault

        >>> from volt.errors import ConfigError
        >>> document = Document("stream.yaml", {}, {("batches", "pad"): 7})
        >>> with Batches(BatchesOptions(fields={"src": "a.volt"}), {}, document).naming("pad"):
        ...     raise ConfigError("no such token; name another")
        Traceback (most recent call last):
            ...
        volt.errors.ConfigError: stream.yaml:7: batches.pad: no such token; name another
        """
        problems = Problems(self.document)
        key = self.document.find_enclosing((*_SECTION, *place))
        with problems.catch_errors(key, _SECTION):
            yield
        if problems.entries:
            raise problems.to_error()


def check_batches(
    options: BatchesOptions, problems: Problems, sources: Sequence[Source], *, check_files: bool
) -> Batches:
    """Return the section `batches`; its mistakes are problems. sources: the sources of the stream"""
    _check_kind(options, problems)
    _check_values(options, problems)
    _check_names([*options.fields], sources, problems)
    if options.window == "epoch":
        _check_epoch(sources, problems)

    vocabularies = dict[str, str]()
    for name, field in options.fields.items():
        place = problems.document.find_enclosing((*_SECTION, "fields", name, "vocabulary"))
        path = problems.resolve_path(field.vocabulary, place)
        vocabularies[name] = path
        if check_files and not (exists(path) or exists(f"{path}.model")):
            problems.add(place, f"{path}: no such file; check the path")
    return Batches(options, vocabularies, problems.document)


def _check_epoch(sources: Sequence[Source], problems: Problems) -> None:
    n_ending = sum(source.epochs is not None for source in sources)
    changing = [source.name for source in sources if not isinstance(source.weight, float | int)]
    if 0 < n_ending < len(sources):
        reason = "some sources end and some do not"
    elif len(sources) > 1 and changing and not n_ending:
        reason = f"the weight of {changing[0]} changes"
    else:
        return
    fault = f"is epoch, but {reason}, so there is no epoch; give a number of samples"
    problems.add((*_SECTION, "window"), fault)


def _check_kind(options: BatchesOptions, problems: Problems) -> None:
    if options.pack is not None:
        for key in _NOT_FOR_PACKS:
            if key in options.model_fields_set:
                fault = "cannot be used with pack, whose rows have one length; remove one"
                if key == "on_long":
                    fault += ", or write it into pack"
                problems.add((*_SECTION, key), fault)
        return
    if options.max_tokens is None:
        place = problems.document.find_enclosing((*_SECTION, "max_tokens"))
        problems.add(place, "key 'max_tokens' is missing; give it, or pack: {length: N, rows: N}")
    if len(options.fields) == 1 and "left_pad_source" in options.model_fields_set:
        fault = "works only with two fields; use left_pad_target for one"
        problems.add((*_SECTION, "left_pad_source"), fault)


def _check_values(options: BatchesOptions, problems: Problems) -> None:
    def add(key: str, fault: str) -> None:
        problems.add((*_SECTION, key), fault)

    if options.beyond == "truncate" and options.max_length is None:
        add("beyond", "needs max_length, beyond which samples are truncated; give it")
    if options.noise and options.sort == "sides":
        add("noise", "cannot be used with sort: sides, which takes no noise; remove one of them")
    if options.noise and not options.shuffle:
        add("noise", "is random, but shuffle is false; remove one of them")

    buckets = options.buckets or [0]
    for index, (before, after) in enumerate(pairwise(buckets), 1):
        if after <= before:
            fault = f"is {after:,}, after {before:,}; give rising lengths"
            problems.add((*_SECTION, "buckets", index), fault)
    last = buckets[-1]
    limit = options.max_tokens
    if limit and last > limit:
        add("buckets", f"the last is {last:,}, above max_tokens, {limit:,}; remove it")
    for key in ("longest", "max_tokens"):
        limit = getattr(options, key)
        if limit and options.shortest > limit:
            add("shortest", f"is {options.shortest}, more than {key}, {limit}; lower it")


def _check_names(names: Sequence[str], sources: Sequence[Source], problems: Problems) -> None:
    place: Place = (*_SECTION, "fields")
    most = 2
    kind = "batches have a source and a target, or one field"
    if (*_SECTION, "pack") in problems.document.lines:
        most = 1
        kind = "packs contain one field"
    if len(names) > most:
        fault = f"{', '.join(names)} are {len(names)} fields, but {kind}; remove the others"
        problems.add(place, fault)
    problems.check_field_names(names, place)

    for source in sources:
        known = [name for name in source.names if name in names]
        if known != [name for name in names if name in source.names]:
            order = f"source {source.name!r} has the order {', '.join(source.names)}"
            problems.add(place, f"{order}; use this order")
            return
