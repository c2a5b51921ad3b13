"""Choose the files that `volt search` writes, and protect files that it must not replace.

Without -o, the vocabulary of corpus.txt goes to ./corpus.volt. If that file exists, it is replaced
only if an earlier search made it from the same corpus: either the counted words are equal (the
fingerprint), or the numbers of lines and bytes are. --force replaces any file; -o means that the
user has chosen the file, so it is replaced, too.

A search has one vocabulary, or with --per-source one for each source. Dicts by source have its name
as key; the one vocabulary has the key "".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt.errors import ConfigError, VocabularyError, shown_path
from volt.urls import name_of, url_of
from volt_cli.io import (
    check_destination,
    check_distinct_files,
    check_single_use_of_stdout,
    is_stdout,
    save_vocabulary,
)

if TYPE_CHECKING:
    from volt.choose.search import SearchResult
    from volt.count.word_counts import WordCounts

MAX_JOINED_NAME = 100  # characters of a file name that is joined from the sources' names
_TEXT_ENDINGS = (".gz", ".bz2", ".zst", ".xz", ".txt", ".tsv", ".jsonl", ".parquet")
_FINGERPRINT = re.compile(r"\|corpus:([0-9a-f]+)\|")  # within a search's signature
_REMEDY = "choose another file with -o, or replace it with --force"


@dataclass(frozen=True)
class Outputs:
    """The destinations of a search.

    out: the value of -o
    destinations: source → where its vocabulary is written
    replaced: source → provenance of the file that its vocabulary replaces; empty if no file is
        replaced, or any file may be
    """

    out: Path | None
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
        return cls(out, destinations, replaced)

    @property
    def is_folder(self) -> bool:
        return self.out is not None and "" not in self.destinations

    def check(self, inputs: Iterable[str | None], *, model: Path | None, as_json: bool) -> None:
        """Raise ConfigError if a destination is an input or cannot be written.

        model: the file of --extend
        """
        destinations = self.destinations.values()
        check_single_use_of_stdout(json=as_json, output=any(map(is_stdout, destinations)))
        check_distinct_files(destinations, inputs, model=model)
        if self.is_folder and self.out and url_of(self.out) is None and not self.out.exists():
            check_destination(_outermost_missing_folder(self.out))
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

        if self.is_folder and self.out:
            make_folder(self.out)
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
