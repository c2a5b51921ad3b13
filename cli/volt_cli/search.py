"""`volt search`: a corpus → its vocabulary.

Without `-o`, an existing file is replaced only if it was made from the same corpus: either the words
are equal, or the numbers of lines and of bytes are.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from volt.display import counted
from volt.errors import CandidateError, ConfigError, VocabularyError, VoltError, shown
from volt.urls import name_of, url_of
from volt_cli.console import Phases, prepare_kernels, print_json, say, show
from volt_cli.engine_options import Bounds, EngineOptions
from volt_cli.io import (
    check_one_for_stdout,
    check_place,
    check_places,
    count_text,
    is_stdout,
    load_model,
    report_console,
    save,
    say_written,
)
from volt_cli.options import (
    CandidateOptions,
    CountOptions,
    Json,
    Quiet,
    SizeOptions,
    SpecialOptions,
    TrainingOptions,
    TransportOptions,
    argument,
    flag,
    input_paths,
    option,
)
from volt_cli.search_sources import (
    NamedSourceOptions,
    check_alone,
    each_text,
    first_to_make,
    joint_output,
    outputs_of,
    parity_data,
    parity_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from volt.choose.scaling_law import LanguageModel
    from volt.choose.search import SearchResult
    from volt.choose.size_steps import SearchParameters
    from volt.choose.training_law import Training
    from volt.count.word_counts import WordCounts
    from volt.learn.candidates import Candidates
    from volt.learn.parity import Parity
    from volt.vocabulary import Vocabulary


_FINGERPRINT = re.compile(r"\|corpus:([0-9a-f]+)\|")
_REMEDY = "choose another file with -o, or replace it with --force"


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    corpus: Annotated[
        list[str],
        argument(
            "CORPUS",
            "Files, globs, folders, or - for stdin; .gz .bz2 .xz .zst too. NAME=FILE, or "
            "NAME=FILE:N for column N, names a source. Default: stdin, unless it is a terminal.",
            default_factory=list,
            show_default=False,
        ),
    ]
    sizing: SizeOptions
    training: TrainingOptions
    counting: CountOptions
    bounds: Bounds
    naming: NamedSourceOptions
    learning: CandidateOptions
    special: SpecialOptions
    transport: TransportOptions
    engine: EngineOptions
    out: Annotated[
        Path | None,
        option(
            "FILE",
            "Where to write; default: ./CORPUS.volt. With --per-source: a folder.",
            "-o",
            "--output",
        ),
    ] = None
    force: Annotated[
        bool, flag("Without -o: replace a CORPUS.volt of another corpus.", "--force")
    ] = False
    every: Annotated[
        bool,
        flag("Print all measured sizes instead of ten, and the result of each transport.", "--all"),
    ] = False
    as_json: Json = False
    quiet: Quiet = False


def search(options: SearchOptions) -> None:
    """Find the vocabulary that a corpus deserves.

    Counts words, learns merge candidates, solves a transport problem per size, picks a size, and
    writes the vocabulary. Prints the size, the reason, how certain it is, ten of the measured sizes,
    and what every rule would pick. With --extend, an existing vocabulary keeps its ids, and new
    tokens follow.
    """
    job = _Job.checked(options)
    phases = Phases(quiet=options.quiet)
    job.prepare(phases)
    sources = job.count(phases)
    corpora = job.corpora(sources)
    for name, counts in corpora.items():
        job.check(name, counts)

    results = {name: job.search(name, counts, sources, phases) for name, counts in corpora.items()}
    with phases.phase("save"):
        job.save(results)
    if options.naming.per_source:
        _report_each(results, job, phases)
        return
    parity = None
    if options.naming.parity:
        with phases.phase("parity"):
            parity = _measured_parity(results[""], sources, options.naming)
    if options.as_json or not options.quiet:
        _report(results[""], job, parity, phases)


@dataclass(frozen=True)
class _Job:
    """The checked options of a search.

    files, columns: of each source; without named sources, the only source is "".
    targets: where to write the vocabulary of each source, or "" for one vocabulary of all sources
    replaced: the provenance of the files that the vocabularies may replace;  old: to be extended
    """

    options: SearchOptions
    files: Mapping[str, list[str]]
    columns: Mapping[str, int | None]
    targets: Mapping[str, Path]
    replaced: Mapping[str, Mapping[str, Any]]
    old: Vocabulary | None
    sizes: range | None
    length: Training
    model: LanguageModel | None
    parameters: SearchParameters

    @classmethod
    def checked(cls, options: SearchOptions) -> _Job:
        from volt.count.file_arguments import named_files
        from volt.files.paths import check_readable

        if not options.corpus and sys.stdin.isatty():
            raise ConfigError(
                "CORPUS is missing: name files, or give a text on stdin, as in "
                "volt search < corpus.txt"
            )
        corpus = options.corpus or ["-"]
        named = named_files(corpus)
        files = {name: input_paths([file.path]) for name, file in named.items()}
        if not named:
            files = {"": input_paths(corpus)}
        if options.learning.file:
            check_readable(options.learning.file, kind=CandidateError)
        sizes = parse_sizes(options.sizing.sizes)

        texts = [*corpus, *(file.path for file in named.values())]
        if texts.count("-") > 1:
            raise ConfigError(
                "stdin (-) can be read only once; save it as a file, and name columns of the file"
            )
        _check_groups(options, named, chain.from_iterable(files.values()))
        if options.naming.per_source:
            targets = outputs_of(named, options.out)
        else:
            default = joint_output(named) if named else default_output(corpus)
            targets = {"": options.out or default}
        old = None
        if options.learning.extend:
            old = load_model(options.learning.extend, texts=texts, option="--extend")
        job = cls(
            options,
            files,
            {name: file.column for name, file in named.items()},
            targets,
            _replaced(options, targets),
            old,
            sizes,
            options.training.length(),
            options.training.model(options.sizing.select),
            options.transport.parameters(),
        )
        job.check_targets()
        return job

    def check_targets(self) -> None:
        options = self.options
        uses_stdout = any(map(is_stdout, self.targets.values()))
        check_one_for_stdout(json=options.as_json, output=uses_stdout)
        inputs = [*chain.from_iterable(self.files.values()), options.learning.file]
        check_places(self.targets.values(), inputs, model=options.learning.extend)
        out = options.out
        if options.naming.per_source and out and url_of(out) is None and not out.exists():
            check_place(first_to_make(out))
        else:
            for target in self.targets.values():
                check_place(target)

    @property
    def is_table(self) -> bool:
        counting = self.options.counting
        return bool(counting.fields or counting.column or counting.word_counts)

    def prepare(self, phases: Phases) -> None:
        """Warn of options that may mislead, and load or compile the loops."""
        from volt.count.counting import is_large

        naming = self.options.naming
        if not self.options.quiet:
            texts = [name for name in self.files if not (self.is_table or self.columns.get(name))]
            naming.warn([self.files[name] for name in texts])
        if not self.is_table and any(map(is_large, chain.from_iterable(self.files.values()))):
            prepare_kernels(phases, "count")
        learns = self.options.learning.file is None
        prepare_kernels(phases, "learn" if learns else "replay", *naming.jobs, "words")

    def count(self, phases: Phases) -> dict[str, WordCounts]:
        """Count the words of each source."""
        counting = self.options.counting
        bounds = self.options.bounds
        engine = self.options.engine
        with engine.running():
            common: dict[str, Any] = {
                "normalizer": self.old.normalizer if self.old else counting.normalizer,
                "pretokenizer": self.old.pretokenizer if self.old else counting.cut(),
                "column": counting.column or None,
                "word_counts": counting.word_counts,
                "min_count": counting.min_count,
                "special": self.old.special if self.old else self.options.special.tokens(),
                "memory": bounds.memory,
                "approximate": bounds.approximate,
                "keep": bounds.keep,
                "map": engine.shard_map(add_up=bounds.memory is None, quiet=self.options.quiet),
                **counting.limits,
            }
            sources: dict[str, WordCounts] = {}
            for name, paths in self.files.items():
                fields = self.columns.get(name) or counting.fields or None
                sources[name] = count_text(paths, phases, fields=fields, **common)
        return sources

    def corpora(self, sources: Mapping[str, WordCounts]) -> Mapping[str, WordCounts]:
        """Return the counts of which a vocabulary is searched, with the names of `targets`."""
        from volt.count.word_counts import mix

        naming = self.options.naming
        if naming.per_source or not self.columns:
            return sources
        return {"": mix(sources, temperature=naming.temperature)}

    def check(self, name: str, counts: WordCounts) -> None:
        self.options.bounds.check(counts)
        if self.replaced.get(name):
            _refuse_other(self.targets[name], self.replaced[name], counts)

    def search(
        self, name: str, counts: WordCounts, sources: Mapping[str, WordCounts], phases: Phases
    ) -> SearchResult:
        from volt.choose.search import search as run_search

        options = self.options
        try:
            learn = options.naming.learner(self.old, sources, counts, options.learning)
            candidates = self._candidates(counts, learn, phases)
            with phases.phase("search", unit="sizes") as advance:
                return run_search(
                    candidates,
                    sizes=self.sizes,
                    select=options.sizing.select,
                    parameters=self.parameters,
                    special=None if self.old else options.special.tokens(),
                    byte_fallback=options.special.byte_fallback,
                    training=self.length,
                    model=self.model,
                    multiple_of=options.sizing.multiple_of,
                    report=advance,
                )
        except VoltError as error:
            if name:
                raise error.reworded(f"{shown(name)}: {error.message}") from error
            raise

    def _candidates(
        self, counts: WordCounts, learn: Callable[..., Candidates], phases: Phases
    ) -> Candidates:
        from volt.choose.learning import learn_until_picked

        learning = self.options.learning
        if learning.file:
            return _replayed(counts, learning, phases)
        with phases.phase("learn", total=learning.n_merges, unit="merges") as advance:
            if learning.n_merges is None:
                return learn_until_picked(partial(learn, report=advance), self.length, self.model)
            result = learn(learning.n_merges, report=advance)
        if result.n_merges < learning.n_merges:
            n_learned = counted(result.n_merges, "merge")
            say(
                f"note: --candidates {learning.n_merges}: this corpus gives only {n_learned} whose "
                f"pair occurs {counted(learning.min_pair_count, 'time')}; all of these are used"
            )
        return result

    def save(self, results: Mapping[str, SearchResult]) -> None:
        from volt.files.atomic import make_folder

        if self.options.naming.per_source and self.options.out:
            make_folder(self.options.out)
        for name, result in results.items():
            save(result.vocabulary, self.targets[name])


def _check_groups(options: SearchOptions, named: Mapping[str, Any], paths: Iterable[str]) -> None:
    """Raise ConfigError if options contradict each other."""
    from volt.choose.rules import parse_rule
    from volt.count.coverage import checked_share

    counting = options.counting
    learning = options.learning
    options.bounds.budget()
    check_alone(learning, counting, options.special, options.naming)
    options.naming.check(
        named, learning.file, word_counts=counting.word_counts, coverage=learning.coverage
    )
    if options.bounds.approximate and options.engine.is_ray:
        raise ConfigError(
            "--approximate counts files in order, but --engine ray counts several at once; "
            "remove one"
        )
    options.engine.check(paths)
    parse_rule(options.sizing.select)
    share = checked_share(learning.coverage, is_bytes=counting.cut().is_bytes)
    if share < 1 and learning.file:
        raise ConfigError(
            "--coverage works only when merges are learned; remove it, or the file of --candidates"
        )


def _replaced(options: SearchOptions, targets: Mapping[str, Path]) -> dict[str, Mapping[str, Any]]:
    if options.out is not None or options.force:
        return {}
    return {name: replaceable(target) for name, target in targets.items()}


def replaceable(place: Path) -> dict[str, Any]:
    """Return the provenance of the file, or nothing if there is no file.

    Raises ConfigError if `volt search` did not write the file.
    """
    from volt.vocabulary import Vocabulary

    if not place.is_file():
        return {}
    try:
        provenance = dict(Vocabulary.load(place).provenance)
    except VocabularyError:
        raise ConfigError(
            f"{place}: exists, but is not a vocabulary that can be read; {_REMEDY}"
        ) from None
    if not isinstance(provenance.get("signature"), str):
        raise ConfigError(f"{place}: exists, but was not made by volt search; {_REMEDY}")
    return provenance


def _refuse_other(place: Path, provenance: Mapping[str, Any], counts: WordCounts) -> None:
    fingerprint = _FINGERPRINT.search(provenance["signature"])
    if fingerprint is not None and fingerprint[1] == counts.fingerprint:
        return
    repairs_lines = counts.n_bad_lines > 0  # so that the bytes differ
    has_same_bytes = repairs_lines or counts.n_bytes == provenance.get("bytes")
    if not has_same_bytes or counts.n_lines != provenance.get("lines"):
        raise ConfigError(
            f"{place}: exists, but was made from another corpus ({provenance.get('words', '?')} "
            f"words; this one has {counts.total}); {_REMEDY}"
        )


def _measured_parity(
    result: SearchResult, sources: Mapping[str, WordCounts], naming: NamedSourceOptions
) -> Parity:
    from volt.learn.parity import measure_parity

    return measure_parity(sources, result.candidates, size=result.best.size, unit=naming.unit)


def _report(result: SearchResult, job: _Job, parity: Parity | None, phases: Phases) -> None:
    from volt.choose.report import as_data, as_text

    target = job.targets[""]
    if job.options.as_json:
        data = as_data(result, seconds=phases.seconds)
        if parity:
            data["parity"] = parity_data(parity)
        print_json({**data, "output": str(target)}, indent=1)
        return
    hint = "--all shows all"
    parts: list[Any] = [as_text(result, seconds=phases.seconds, full=job.options.every, hint=hint)]
    if parity:
        parts.append(parity_text(parity))
    show(*parts, console=report_console(target))
    say_written(target, result.composition)


def _report_each(results: Mapping[str, SearchResult], job: _Job, phases: Phases) -> None:
    from volt.choose.report import as_data

    if job.options.as_json:
        each = {
            name: {**as_data(result), "output": str(job.targets[name])}
            for name, result in results.items()
        }
        print_json({"sources": each, "seconds": phases.seconds}, indent=1)
    elif not job.options.quiet:
        show(each_text(results))
        for name, result in results.items():
            say_written(job.targets[name], result.composition)


def parse_sizes(text: str) -> range | None:
    if not text:
        return None
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise ConfigError(
            f"--sizes {text!r}: write START:STOP:STEP in tokens, such as 1000:30000:1000"
        )
    start, stop, step = map(int, parts)
    if step < 1 or start > stop:
        raise ConfigError(
            f"--sizes {text!r}: sizes must increase; write START ≤ STOP and a STEP of at least 1"
        )
    return range(start, stop + 1, step)


def default_output(corpus: list[str]) -> Path:
    """Return the corpus's name with .volt.

    >>> str(default_output(["data/train.en.gz"])), str(default_output(["-"]))
    ('train.en.volt', 'vocabulary.volt')
    """
    name = name_of(corpus[0])
    for ending in (".gz", ".bz2", ".zst", ".xz", ".txt", ".tsv", ".jsonl", ".parquet"):
        name = name.removesuffix(ending)
    if not name.strip(".-*?[]"):
        name = "vocabulary"
    return Path(f"{name}.volt")


def _replayed(counts: WordCounts, learning: CandidateOptions, phases: Phases) -> Candidates:
    from volt.formats.registry import read_merges
    from volt.learn.bpe import replay_bpe

    file = learning.candidates
    merges = read_merges(file)
    for note in merges.notes:
        say(f"note: {name_of(file) or file}: {note}")
    if merges.spells_bytes and not counts.pretokenizer.is_bytes:
        raise CandidateError(
            f"{file}: its merges join bytes, but words are counted in characters; "
            "search with --level bytes"
        )
    if counts.pretokenizer.is_bytes and not merges.spells_bytes:
        raise CandidateError(
            f"{file}: its merges join characters, but words are counted in bytes; "
            "remove --level bytes"
        )
    marker = learning.marker or merges.marker
    with phases.phase("replay", total=counts.n_words, unit="words") as advance:
        return replay_bpe(counts, merges.pairs, marker=marker, report=advance)
