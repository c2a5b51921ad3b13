"""`volt search`: a corpus → its vocabulary.

The command checks its options (`_Job.check_options`), counts the words of each source, learns
merges, searches a size, and then writes (`search_output`) and reports (`search_report`) the
vocabulary. With --per-source, it does so for each named source; otherwise, all sources together are
one corpus, whose name is "".
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from volt.display import counted
from volt.errors import CandidateError, ConfigError, VoltError, shown
from volt.urls import name_of
from volt_cli.console import Phases, prepare_kernels, say
from volt_cli.engine_options import Bounds, EngineOptions
from volt_cli.io import certify, count_text, load_model
from volt_cli.options import Json, Quiet, argument, expand_inputs, flag, option
from volt_cli.search_options import (
    CandidateOptions,
    CountOptions,
    NamedSourceOptions,
    SizeOptions,
    SpecialOptions,
    TrainingOptions,
    TransportOptions,
    check_extend,
)
from volt_cli.search_output import (
    Outputs,
    default_output,
    report_search,
    report_searches,
)
from volt_cli.superwords import Joined, SuperwordOptions, add_superwords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from volt.choose.certificate import Certificate
    from volt.choose.scaling_law import LanguageModel
    from volt.choose.search import SearchResult
    from volt.choose.size_steps import SearchParameters
    from volt.choose.training_law import Training
    from volt.count.word_counts import WordCounts
    from volt.learn.candidates import Candidates
    from volt.vocabulary import Vocabulary


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
    joining: SuperwordOptions
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
        flag("Also print all sizes, their transports, and the pick of every rule.", "--all"),
    ] = False
    certify: Annotated[
        bool,
        flag(
            "Also print how few pieces any vocabulary of this size and these characters needs at "
            "least; takes seconds to minutes.",
            "--certify",
        ),
    ] = False
    as_json: Json = False
    quiet: Quiet = False

    def check_combinations(self, sources: list[str], files: list[str]) -> None:
        """Raise ConfigError if options contradict each other.

        sources: names of the named sources
        """
        from volt.choose.rules import parse_rule
        from volt.count.coverage import checked_share

        counting = self.counting
        learning = self.learning
        self.bounds.budget()
        check_extend(learning, counting, self.special, self.naming)
        self.naming.check(
            sources, learning.file, word_counts=counting.word_counts, coverage=learning.coverage
        )
        if self.certify and self.naming.per_source:
            raise ConfigError(
                "--certify is about one vocabulary; remove --per-source, or use volt inspect --on for "
                "each vocabulary"
            )
        if self.certify and self.joining.superwords:
            raise ConfigError(
                "--certify is about tokens within words; remove --superwords, or --certify"
            )
        if self.bounds.approximate and self.engine.is_ray:
            raise ConfigError(
                "--approximate counts files in order, but --engine ray counts several at once; "
                "remove one"
            )
        self.engine.check(files)
        self.joining.check(self, files)
        learning.check_tokens(counting, self.naming, self.joining)
        parse_rule(self.sizing.select)
        share = checked_share(learning.coverage, is_bytes=counting.pre_tokenizer().is_bytes)
        if share < 1 and learning.file:
            raise ConfigError(
                "--coverage works only when merges are learned; remove it, or the file of --candidates"
            )


def search(options: SearchOptions) -> None:
    """Find the vocabulary that a corpus deserves.

    Counts words, learns merges, picks a size by the length of the text and of the training
    (--epochs), and writes the vocabulary. Prints the size, the reason, how sure it is, and the
    sizes for other lengths; --all adds what other rules pick. With --extend, an existing vocabulary
    keeps its ids, and new tokens follow.
    """
    job = _Job.check_options(options)
    phases = Phases(quiet=options.quiet)
    job.prepare(phases)
    sources = job.count(phases)
    corpora = job.mix_sources(sources)
    for name, counts in corpora.items():
        options.bounds.check(counts)
        job.outputs.check_corpus(name, counts)
    results = {}
    joined = {}
    for name, counts in corpora.items():
        results[name], joined[name] = job.search(name, counts, sources, phases)
    with phases.phase("save"):
        job.outputs.save(results)

    naming = options.naming
    parity = None
    if naming.parity:
        from volt.learn.parity import measure_parity

        with phases.phase("parity"):
            best = results[""].best
            candidates = results[""].candidates
            parity = measure_parity(sources, candidates, size=best.size, unit=naming.unit)
    if options.quiet and not options.as_json:
        return
    texts = [*chain.from_iterable(job.files.values())]
    counting = options.counting
    if counting.fields:
        texts += ["--fields", counting.fields]
    if counting.column:
        texts += ["--column", counting.column]
    if counting.word_counts or any(job.columns.values()):
        texts = ["TEXT"]
    destinations = job.outputs.destinations
    if naming.per_source:
        report_searches(
            results, destinations, joined, seconds=phases.seconds, as_json=options.as_json
        )
        return
    report_search(
        results[""],
        destinations[""],
        texts=texts,
        translates=job.has_several_languages(),
        seconds=phases.seconds,
        parity=parity,
        certificate=job.certify(results, phases),
        joined=joined[""],
        as_json=options.as_json,
        shows_all_sizes=options.every,
    )


@dataclass(frozen=True, kw_only=True)
class _Job:
    """A search whose options have been checked.

    files: source → its files; without named sources, the only source is ""
    columns: source → the column of its files that is text; None for lines of text
    old: the vocabulary of --extend
    sizes: the sizes to measure besides the picks
    """

    options: SearchOptions
    files: Mapping[str, list[str]]
    columns: Mapping[str, int | None]
    outputs: Outputs
    old: Vocabulary | None
    sizes: range | None
    training: Training
    model: LanguageModel | None
    parameters: SearchParameters

    @classmethod
    def check_options(cls, options: SearchOptions) -> _Job:
        """Check all options, before any file is counted or written. Raises ConfigError."""
        from volt.count.file_arguments import named_files
        from volt.files.paths import check_readable

        if not options.corpus and sys.stdin.isatty():
            raise ConfigError(
                "CORPUS is missing: name files, or give a text on stdin, as in "
                "volt search < corpus.txt"
            )
        corpus = options.corpus or ["-"]
        named = named_files(corpus)
        files = {name: expand_inputs([file.path]) for name, file in named.items()}
        if not named:
            files = {"": expand_inputs(corpus)}
        all_files = [*chain.from_iterable(files.values())]
        learning = options.learning
        if learning.file:
            check_readable(learning.file, kind=CandidateError)
        sizes = options.sizing.parse_sizes()

        texts = [*corpus, *(file.path for file in named.values())]
        if texts.count("-") > 1:
            raise ConfigError(
                "stdin (-) can be read only once; save it as a file, and name columns of the file"
            )
        options.check_combinations(list(named), all_files)
        is_alike = options.naming.per_source or len({file.column for file in named.values()}) < 2
        if options.joining.amounts and not is_alike:
            raise ConfigError(
                "--superwords reads one column of all sources, but these name several; write each "
                "column to a file"
            )
        outputs = Outputs.choose(
            corpus,
            named,
            out=options.out,
            per_source=options.naming.per_source,
            force=options.force,
        )
        old = None
        if learning.extend:
            from volt.choose.extend import check_has_merges

            old = load_model(learning.extend, texts=texts, option="--extend", quiet=options.quiet)
            check_has_merges(old)
        job = cls(
            options=options,
            files=files,
            columns={name: file.column for name, file in named.items()},
            outputs=outputs,
            old=old,
            sizes=sizes,
            training=options.training.length(),
            model=options.training.model(options.sizing.select),
            parameters=options.transport.parameters(),
        )
        outputs.check([*all_files, learning.file], model=learning.extend, as_json=options.as_json)
        return job

    def has_several_languages(self) -> bool:
        """Check for several columns or sources, or files such as train.en and train.de."""
        corpus = self.options.corpus
        stems = {default_output([text]).with_suffix("").stem for text in corpus}
        is_split_by_suffix = len(stems) == 1 < len(corpus)
        return (
            is_split_by_suffix or len(self.files) > 1 or "," in (self.options.counting.fields or "")
        )

    def prepare(self, phases: Phases) -> None:
        """Warn of options that may mislead, and load or compile the loops."""
        from volt.count.counting import is_large

        counting = self.options.counting
        naming = self.options.naming
        reads_tables = counting.names_columns or counting.word_counts
        if not self.options.quiet:
            texts = []
            for name, files in self.files.items():
                if not reads_tables and not self.columns.get(name):
                    texts.append(files)
            naming.warn(texts)
        if not reads_tables and any(map(is_large, chain.from_iterable(self.files.values()))):
            prepare_kernels(phases, "count")
        learns = self.options.learning.file is None
        jobs = list(naming.kernel_jobs)
        if self.options.joining.amounts:
            jobs += ["learn", "superwords"]
        if self.options.learning.tokens == "optimal":
            jobs.append("choice")
        prepare_kernels(phases, "learn" if learns else "replay", *jobs, "words")

    def count(self, phases: Phases) -> dict[str, WordCounts]:
        """Count the words of each source."""
        options = self.options
        counting = options.counting
        bounds = options.bounds
        engine = options.engine
        common: dict[str, Any] = {
            "normalizer": self.old.normalizer if self.old else counting.normalizer,
            "pretokenizer": self.old.pretokenizer if self.old else counting.pre_tokenizer(),
            "word_counts": counting.word_counts,
            "min_count": counting.min_count,
            "special": self.old.special if self.old else options.special.tokens(),
            **vars(bounds),
            **counting.limits,
        }
        with engine.running():
            common["map"] = engine.shard_map(add_up=bounds.memory is None, quiet=options.quiet)
            sources: dict[str, WordCounts] = {}
            for name, paths in self.files.items():
                fields = self.columns.get(name) or common["fields"]
                sources[name] = count_text(paths, phases, **{**common, "fields": fields})
        return sources

    def mix_sources(self, sources: Mapping[str, WordCounts]) -> Mapping[str, WordCounts]:
        """Return the counts for each vocabulary: of each source, or of all sources together."""
        from volt.count.word_counts import mix

        naming = self.options.naming
        if naming.per_source or not self.columns:
            return sources
        return {"": mix(sources, temperature=naming.temperature)}

    def search(
        self, name: str, counts: WordCounts, sources: Mapping[str, WordCounts], phases: Phases
    ) -> tuple[SearchResult, list[Joined]]:
        """Search the vocabulary of a corpus; return what --superwords measures, too.

        sources: the counts of each source, for --parity
        """
        from volt.choose.search import search as run_search

        options = self.options
        try:
            learn = options.naming.choose_learner(self.old, sources, counts, options.learning)
            candidates = self._find_candidates(counts, learn, phases)
            run = partial(
                run_search,
                parameters=self.parameters,
                special=None if self.old else options.special.tokens(),
                byte_fallback=options.special.byte_fallback,
                training=self.training,
                model=self.model,
                multiple_of=options.sizing.multiple_of,
            )
            select = options.sizing.select
            with phases.phase("search", unit="sizes") as advance:
                result = run(candidates, sizes=self.sizes, select=select, report=advance)
            if options.learning.tokens == "optimal":
                from volt.choose.token_choice import choose_tokens

                with phases.phase("choose", unit="exchanges") as advance:
                    result = choose_tokens(result, parameters=self.parameters, report=advance)
            if not options.joining.amounts:
                return result, []
            return self._add_superwords(name, result, run, phases)
        except VoltError as error:
            if name:
                raise error.reworded(f"{shown(name)}: {error.message}") from error
            raise

    def _add_superwords(
        self, name: str, result: SearchResult, run: Callable[..., SearchResult], phases: Phases
    ) -> tuple[SearchResult, list[Joined]]:
        """Give the vocabulary of a result superwords. run: searches candidates"""
        from volt.choose.superwords import learn_superwords

        options = self.options
        files = self.files.get(name) or [*chain.from_iterable(self.files.values())]
        limits = dict(options.counting.limits)
        column = self.columns.get(name, next(iter(self.columns.values()), None))
        if column:
            limits["fields"] = column

        def learn(candidates: Candidates, number: int, transition: int) -> Candidates:
            with phases.phase("superwords", total=number, unit="merges") as advance:
                return learn_superwords(
                    candidates,
                    files,
                    number + options.sizing.multiple_of - 1,
                    transition=transition,
                    across=options.joining.across,
                    min_pair_count=options.learning.min_pair_count,
                    special=options.special.tokens(),
                    report=advance,
                    **limits,
                )

        return add_superwords(result, options.joining, learn, run)

    def certify(self, results: Mapping[str, SearchResult], phases: Phases) -> Certificate | None:
        """Return the certificate of the only vocabulary, if it is requested."""
        if not self.options.certify:
            return None
        result = results[""]
        return certify(result.vocabulary, result.candidates.counts, phases)

    def _find_candidates(
        self, counts: WordCounts, learn: Callable[..., Candidates], phases: Phases
    ) -> Candidates:
        """Learn merges, or replay the merges of a file. learn: learns a number of merges"""
        from volt.choose.learning import learn_until_picked

        learning = self.options.learning
        if learning.file:
            return _replay_file(counts, learning, phases)
        with phases.phase("learn", total=learning.n_merges, unit="merges") as advance:
            if learning.n_merges is None:
                return learn_until_picked(partial(learn, report=advance), self.training, self.model)
            candidates = learn(learning.n_merges, report=advance)
        if candidates.n_merges < learning.n_merges:
            n_learned = counted(candidates.n_merges, "merge")
            say(
                f"note: --candidates {learning.n_merges}: this corpus gives only {n_learned} whose "
                f"pair occurs {counted(learning.min_pair_count, 'time')}; all of these are used"
            )
        return candidates


def _replay_file(counts: WordCounts, learning: CandidateOptions, phases: Phases) -> Candidates:
    from volt.formats.registry import read_merges
    from volt.learn.bpe import replay_bpe

    file = learning.candidates
    merges = read_merges(file)
    for note in merges.notes:
        say(f"note: {name_of(file) or file}: {note}")
    counts_bytes = counts.pretokenizer.is_bytes
    if merges.spells_bytes and not counts_bytes:
        raise CandidateError(
            f"{file}: its merges join bytes, but words are counted in characters; "
            "search with --level bytes"
        )
    if counts_bytes and not merges.spells_bytes:
        raise CandidateError(
            f"{file}: its merges join characters, but words are counted in bytes; "
            "remove --level bytes"
        )
    marker = learning.marker or merges.marker
    with phases.phase("replay", total=counts.n_words, unit="words") as advance:
        return replay_bpe(counts, merges.pairs, marker=marker, report=advance)
