"""Choose the files that `volt search` writes, protect files that it must not replace, and report the result.

Without -o, the vocabulary of corpus.txt goes to ./corpus.volt. If that file exists, it is replaced
only if an earlier search made it from the same corpus: either the counted words are equal (the
fingerprint), or the numbers of lines and bytes are. --force replaces any file; -o means that the
user has chosen the file, so it is replaced, too.

A search has one vocabulary, or with --per-source one for each source. Dicts by source have its name
as key; the one vocabulary has the key "".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt.display import Grid
from volt.errors import ConfigError, VocabularyError, shown, shown_path
from volt.urls import name_of, url_of
from volt_cli.console import print_json, show
from volt_cli.io import (
    check_destination,
    check_distinct_files,
    check_single_use_of_stdout,
    choose_report_console,
    is_stdout,
    report_written,
    save_vocabulary,
)
from volt_cli.options import name_options
from volt_cli.superwords import Joined, best_of, describe

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.choose.certificate import Certificate
    from volt.choose.search import SearchResult
    from volt.count.word_counts import WordCounts
    from volt.learn.parity import Parity

MAX_JOINED_NAME = 100  # characters of a file name that is joined from the sources' names
_TEXT_ENDINGS = (".gz", ".bz2", ".zst", ".xz", ".txt", ".tsv", ".jsonl", ".parquet")
_TRIAL_HOURS = 6e-8  # for five models that read one character (the median of experiments/evidence)
_FINGERPRINT = re.compile(r"\|corpus:([0-9a-f]+)\|")  # within a search's signature
_REMEDY = "choose another file with -o, or replace it with --force"


@dataclass(frozen=True)
class Outputs:
    """The destinations of a search.

    folder: the folder of --per-source that -o names; otherwise None
    destinations: source → where its vocabulary is written
    replaced: source → provenance of the file that its vocabulary replaces; empty if no file is
        replaced, or any file may be
    """

    folder: Path | None
    destinations: dict[str, Path]
    replaced: dict[str, dict[str, Any]]

    @classmethod
    def choose(
        cls,
        corpus: list[str],
        sources: Iterable[str],
        *,
        out: Path | None,
        per_source: bool,
        force: bool,
    ) -> Outputs:
        """Return the destinations. sources: names of the named sources, if any

        Raises ConfigError if a file in the way was not made by a search.
        """
        if per_source:
            destinations = _destinations_in_folder(sources, out)
        else:
            destinations = {"": out or _joined_output(sources) or default_output(corpus)}
        replaced = {}
        if out is None and not force:
            replaced = {name: read_provenance(path) for name, path in destinations.items()}
        return cls(out if per_source else None, destinations, replaced)

    def check(self, inputs: Iterable[str | None], *, model: Path | None, as_json: bool) -> None:
        """Raise ConfigError if a destination is an input or cannot be written.

        model: the file of --extend
        """
        destinations = self.destinations.values()
        check_single_use_of_stdout(json=as_json, output=any(map(is_stdout, destinations)))
        check_distinct_files(destinations, inputs, model=model)
        folder = self.folder
        if folder and url_of(folder) is None and not folder.exists():
            check_destination(_outermost_missing_folder(folder))
            return
        for destination in destinations:
            check_destination(destination)

    def check_corpus(self, name: str, counts: WordCounts) -> None:
        """Raise ConfigError if the vocabulary of a source would replace that of another corpus."""
        provenance = self.replaced.get(name)
        if not provenance or _is_same_corpus(provenance, counts):
            return
        raise ConfigError(
            f"{self.destinations[name]}: exists, but was made from another corpus "
            f"({provenance.get('words', '?')} words; this one has {counts.total}); {_REMEDY}"
        )

    def save(self, results: Mapping[str, SearchResult]) -> None:
        from volt.files.atomic import make_folder

        if self.folder:
            make_folder(self.folder)
        for name, result in results.items():
            save_vocabulary(result.vocabulary, self.destinations[name])


def _destinations_in_folder(names: Iterable[str], folder: Path | None) -> dict[str, Path]:
    if folder is not None and (is_stdout(folder) or (folder.exists() and not folder.is_dir())):
        fault = "stdout takes only one file" if is_stdout(folder) else "is a file"
        raise ConfigError(
            f"-o {shown_path(folder)}: {fault}; --per-source writes several, so give a folder"
        )
    return {name: (folder or Path()) / f"{name}.volt" for name in names}


def _joined_output(names: Iterable[str]) -> Path | None:
    """Return en+de.volt for the sources en and de; None without named sources."""
    name = "+".join(names)
    if len(name) > MAX_JOINED_NAME:
        name = "vocabulary"
    return Path(f"{name}.volt") if name else None


def default_output(corpus: list[str]) -> Path:
    """Return the name of the first text with .volt instead of its ending.

    >>> str(default_output(["data/train.en.gz"])), str(default_output(["-"]))
    ('train.en.volt', 'vocabulary.volt')
    """
    name = name_of(corpus[0])
    for ending in _TEXT_ENDINGS:
        name = name.removesuffix(ending)
    if not name.strip(".-*?[]"):
        name = "vocabulary"
    return Path(f"{name}.volt")


def _outermost_missing_folder(folder: Path) -> Path:
    """Return the folder that must be created first: for a/b/c, a/b if only a exists."""
    while not folder.parent.exists():
        folder = folder.parent
    return folder


def read_provenance(path: Path) -> dict[str, Any]:
    """Return the provenance that an earlier search stored in a vocabulary; empty without a file.

    Raises ConfigError if `volt search` did not write the file.
    """
    from volt.vocabulary import Vocabulary

    if not path.is_file():
        return {}
    try:
        provenance = dict(Vocabulary.load(path).provenance)
    except VocabularyError:
        raise ConfigError(
            f"{path}: exists, but is not a vocabulary that can be read; {_REMEDY}"
        ) from None
    if not isinstance(provenance.get("signature"), str):
        raise ConfigError(f"{path}: exists, but was not made by volt search; {_REMEDY}")
    return provenance


def _is_same_corpus(provenance: Mapping[str, Any], counts: WordCounts) -> bool:
    fingerprint = _FINGERPRINT.search(provenance["signature"])
    if fingerprint is not None and fingerprint[1] == counts.fingerprint:
        return True
    has_repaired_lines = counts.n_bad_lines > 0  # repairs change the number of bytes
    has_same_bytes = has_repaired_lines or counts.n_bytes == provenance.get("bytes")
    return has_same_bytes and counts.n_lines == provenance.get("lines")


def report_search(
    result: SearchResult,
    destination: Path,
    *,
    texts: Sequence[str],
    translates: bool,
    seconds: Mapping[str, float],
    parity: Parity | None,
    certificate: Certificate | None,
    joined: Sequence[Joined],
    as_json: bool,
    shows_all_sizes: bool,
) -> None:
    """Print the search of one vocabulary.

    texts: the corpus as arguments of `volt trial`
    translates: whether the corpus looks like one of translations
    seconds: phase → its duration; parity, certificate, joined: measured if requested
    """
    from volt.choose.report import as_data, as_text
    from volt.count.corpus_statistics import text_characters

    if as_json:
        data = as_data(result, seconds=seconds)
        if joined:
            data["superwords"] = list(map(asdict, joined))
        if parity:
            data["parity"] = _parity_data(parity)
        if certificate:
            data["certificate"] = certificate.data
        print_json({**data, "output": str(destination)}, indent=1)
        return
    advice: list[tuple[str, list[str]]] = []
    if "a trial" in result.answer[-1]:
        n_characters = text_characters(result.candidates.counts)
        epochs = result.training.of(n_characters)
        hours = ceil(_TRIAL_HOURS * epochs * n_characters * 10) / 10
        command = f"volt trial {shlex.join(texts)} --epochs {epochs:.3g} --hours {hours}"
        trial = (
            f"The trial trains one small language model for each of five sizes, in {hours} hours on "
            "one core; it needs PyTorch. With fewer --hours, they read less, and the result says less:"
        )
        advice = [("", trial.split(" ")), ("", [command])]
    if certificate:
        advice.append(("certified", str(certificate).split(" ")))
    size = result.best.size
    is_chosen = result.pick.rule.startswith("fixed:")  # by the user, perhaps after a trial
    if not is_chosen and (translates or size < 2_000):
        sentence = _advise_translation(size)
        advice.append(("translate", sentence.split(" ")))
    if not shows_all_sizes:
        advice.append(("more", ["--all adds all sizes, and what other rules pick."]))
    report = as_text(
        result, seconds=seconds, full=shows_all_sizes, advice=advice, reword=name_options
    )
    parts: list[RenderableType] = [report, *describe(joined)]
    if parity:
        parts += _parity_parts(parity)
    show(*parts, console=choose_report_console(destination))
    report_written(destination, result.composition)


def _advise_translation(size: int) -> str:
    """Return what to do for translation instead of using a small size."""
    nearest = min(max(size, 4_000), 8_000)  # the best sizes of experiments/evidence/nmt.jsonl
    choice = "use this size" if size == nearest else f"search again with --select fixed:{nearest}"
    return (
        f"For translation, do this instead: {choice}. On the one corpus tried (Multi30k, 5.5 "
        "epochs), 4,000 to 8,000 tokens were best; 2,000 lost 1.5 BLEU, 500 lost 5 to 8, 16,000 lost 1 to 3."
    )


def _parity_data(parity: Parity) -> dict[str, Any]:
    sources = {}
    for source in parity.sources:
        sources[source.name] = {
            "units": source.n_units,
            "plain_pieces": source.plain,
            "pieces": source.fair,
        }
    plain_ratio, ratio = parity.ratios
    return {
        "unit": parity.unit,
        "size": parity.size,
        "sources": sources,
        "plain_ratio": plain_ratio,
        "ratio": ratio,
        "cost": parity.cost,
    }


def _parity_parts(parity: Parity) -> list[RenderableType]:
    """Return a table of each source's pieces with plain BPE and with --parity, and a note."""
    from rich.text import Text

    heads = (f"pieces per {parity.unit}", f"{parity.unit}s", "plain BPE", "parity")
    rows = []
    for source in parity.sources:
        plain = source.plain / source.n_units
        fair = source.fair / source.n_units
        rows.append((shown(source.name), f"{source.n_units:,}", f"{plain:.3f}", f"{fair:.3f}"))
    plain_ratio, ratio = parity.ratios
    rows.append(("worst ÷ best", "", f"{plain_ratio:.3f}", f"{ratio:.3f}"))
    table = Grid(heads, rows, range(1, 4), strong=len(rows) - 1)
    note = f"with all {parity.size:,} tokens; {parity.cost:+.1%} pieces in total, compared with plain BPE"
    return ["", table, Text(note)]


def report_searches(
    results: Mapping[str, SearchResult],
    destinations: Mapping[str, Path],
    joined: Mapping[str, Sequence[Joined]],
    *,
    seconds: Mapping[str, float],
    as_json: bool,
) -> None:
    """Print the searches of --per-source: source → its result and destination."""
    from volt.choose.report import as_data

    if as_json:
        sources = {}
        for name, result in results.items():
            sources[name] = {**as_data(result), "output": str(destinations[name])}
            if joined[name]:
                sources[name]["superwords"] = list(map(asdict, joined[name]))
        print_json({"sources": sources, "seconds": seconds}, indent=1)
        return
    rows = []
    for name, result in results.items():
        n_words = f"{result.candidates.counts.total:,}"
        why = name_options(result.pick.why)
        if result.merged:
            why += (
                f"; {1 - result.best.n_pieces / result.merged.n_pieces:.1%} fewer pieces than BPE"
            )
        if joined[name]:
            best, saved = best_of(joined[name])
            why += f"; {best.superwords:,} superwords, {saved:.1%} fewer pieces"
        rows.append((shown(name), n_words, f"{result.best.size:,}", why))
    show(Grid(("source", "words", "size", "why"), rows, [1, 2]))
    for name, result in results.items():
        report_written(destinations[name], result.composition)
