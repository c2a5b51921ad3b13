"""`write_recipe`: write an example of a stream: a folder with a configuration and generated data.

The examples are the use cases of the SOTASTREAM paper (Section 6). All data comes from
`sentence_pairs`:

    ("die Katze sieht heute den Hund .", "the cat sees the dog today .")

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     [path.name for path in write_recipe("mixing", f"{folder}/mixing")]
['stream.yaml', 'parallel.tsv.gz', 'backtranslated.tsv.gz']
"""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from itertools import product
from pathlib import Path

from volt.errors import ConfigError, OutputError
from volt.files.atomic import make_folder, write_atomic

Pair = tuple[str, str]
Content = str | Callable[[], bytes]

_SUBJECTS = (
    ("die Katze", "the cat"),
    ("ein Kind", "a child"),
    ("unser Nachbar", "our neighbour"),
    ("Maria", "Mary"),
    ("der alte Mann", "the old man"),
    ("jemand", "somebody"),
)
_VERBS = (
    ("sieht", "sees"),
    ("sucht", "looks for"),
    ("findet", "finds"),
    ("hört", "hears"),
    ("kennt", "knows"),
)
_OBJECTS = (
    ("den Hund", "the dog"),
    ("ein Buch", "a book"),
    ("die Straße", "the street"),
    ("das Meer", "the sea"),
    ("keinen Ausweg", "no way out"),
    ("die Brücke", "the bridge"),
)
_TIMES = (
    ("heute", "today"),
    ("jeden Tag", "every day"),
    ("wieder", "again"),
    ("im Sommer", "in summer"),
)


def sentence_pairs() -> list[Pair]:
    result = list[Pair]()
    for subject, thing, verb, time in product(_SUBJECTS, _OBJECTS, _VERBS, _TIMES):
        german = f"{subject[0]} {verb[0]} {time[0]} {thing[0]} ."
        english = f"{subject[1]} {verb[1]} {thing[1]} {time[1]} ."
        result.append((german, english))
    return result


def sentences(side: int, *, first: int = 0, end: int | None = None) -> bytes:
    """Return one side of sentence_pairs()[first:end], one sentence per line.

    side: 0 for German, 1 for English
    """
    return "".join(f"{pair[side]}\n" for pair in sentence_pairs()[first:end]).encode()


def compress_pairs(pairs: Iterable[Pair]) -> bytes:
    """Return pairs as a gzipped TSV file; equal pairs give equal bytes."""
    return gzip.compress(
        "".join(f"{source}\t{target}\n" for source, target in pairs).encode(), mtime=0
    )


def parallel() -> bytes:
    return compress_pairs(sentence_pairs()[:480])


def backtranslated() -> bytes:
    """Return the last third of the pairs.

    The German imitates poor machine translation: no articles, no umlauts.
    """
    plain = str.maketrans("äöüß", "aous")
    articles = {"die", "der", "den", "das", "ein"}
    rows = list[Pair]()
    for german, english in sentence_pairs()[480:]:
        words = german.translate(plain).split()
        rows.append((" ".join(word for word in words if word not in articles), english))
    return compress_pairs(rows)


def with_urls() -> bytes:
    """Return pairs of sentences with equal URLs, different URLs, a URL on one side, or no URL."""
    cat = "https://example.org/katze"
    dog = "http://example.org/hund"
    german_urls = ("", cat, cat, "", cat, dog)
    english_urls = ("", cat, "", "", dog, dog)
    rows = list[Pair]()
    for number, (german, english) in enumerate(sentence_pairs()[:240]):
        left = f"{german} {german_urls[number % 6]}"
        right = f"{english} {english_urls[number % 6]}"
        rows.append((left.strip(), right.strip()))
    return compress_pairs(rows)


def with_documents() -> bytes:
    """Return documents of 1 to 9 lines, with the document's id as a third field."""
    pairs = sentence_pairs()
    rows = list[str]()
    start = 0
    number = 1
    while start < len(pairs):
        size = 1 + number % 9
        for german, english in pairs[start : start + size]:
            rows.append(f"{german}\t{english}\tdoc{number}\n")
        start += size
        number += 1
    return gzip.compress("".join(rows).encode(), mtime=0)


def vocabulary() -> bytes:
    from volt.choose.search import search
    from volt.count.word_counts import WordCounts
    from volt.files.temporary import scratch_folder
    from volt.learn.bpe import learn_bpe

    counts = Counter(" ".join(" ".join(pair) for pair in sentence_pairs()).split())
    candidates = learn_bpe(WordCounts.from_pairs(counts), n_merges=150)
    size = candidates.n_tokens
    with scratch_folder() as folder:
        path = folder / "vocab.volt"
        search(candidates, sizes=[size], select=f"fixed:{size}").vocabulary.save(path)
        return path.read_bytes()


@dataclass(frozen=True, slots=True)
class Recipe:
    """An example that can be run; its configuration is recipes/NAME.yaml.

    about: its purpose, in one line.
    files: name of another file in its folder → its text, or a function that returns its bytes.
    next: the command that demonstrates it, with {} for the path of its configuration.
    """

    about: str
    files: Mapping[str, Content]
    next: str = "volt stream run {} --limit 10"


_ALIGN = '''\
"""Append word alignments of a line's first two fields, as "0-0 1-2 …"."""

from functools import lru_cache


def diagonal(fields: list[str]) -> list[str]:
    """Align each source word with the target word at the same height, which is right where word orders agree."""
    source, target = fields[0].split(), fields[1].split()
    pairs = [f"{i}-{i * len(target) // len(source)}" for i in range(len(source)) if target]
    return [*fields, " ".join(pairs)]


@lru_cache
def _aligner():
    from simalign import SentenceAligner

    return SentenceAligner()


def simalign(fields: list[str]) -> list[str]:
    """Align words by multilingual embeddings (Jalili Sabet et al. 2020)."""
    aligned = _aligner().get_word_aligns(fields[0], fields[1])
    return [*fields, " ".join(f"{i}-{j}" for i, j in aligned["mwmf"])]
'''

_BOTH: dict[str, Content] = {"parallel.tsv.gz": parallel, "backtranslated.tsv.gz": backtranslated}
RECIPES = {
    "mixing": Recipe("parallel and back-translated data, mixed by weight", _BOTH),
    "case-noise": Recipe("some lines lower-cased, some title-cased", _BOTH),
    "url-filter": Recipe(
        "only lines with the same URLs on both sides", {"crawled.tsv.gz": with_urls}
    ),
    "subword-sampling": Recipe(
        "pieces of a vocabulary, sampled anew in every epoch",
        {"parallel.tsv.gz": parallel, "vocab.volt": vocabulary},
    ),
    "documents": Recipe("lines of one document joined", {"talks.tsv.gz": with_documents}),
    "alignments": Recipe(
        "word alignments as a field, from a Python function",
        {"align.py": _ALIGN, "parallel.tsv.gz": parallel},
    ),
    "tasks": Recipe(
        "translation with denoising, with weights that change, and a validation set",
        {
            "train.de": partial(sentences, 0, end=680),
            "train.en": partial(sentences, 1, end=680),
            "valid.de": partial(sentences, 0, first=680),
            "valid.en": partial(sentences, 1, first=680),
        },
    ),
    "batches": Recipe(
        "the steps of a trainer: batches of so many tokens",
        {"parallel.tsv.gz": parallel, "vocab.volt": vocabulary},
        next="volt stream batches {}",
    ),
    "offline": Recipe("a training file instead of a stream", _BOTH),
}


def write_recipe(name: str, folder: str | Path) -> list[Path]:
    """Write a recipe's files to a folder, created if missing.

    Return their paths, the configuration's first.

    Raises ConfigError if there is no such recipe, OutputError if one of the files exists.
    """
    if name not in RECIPES:
        from volt.stream.config.problems import suggest_name

        raise ConfigError(f"no example {name!r}; {suggest_name(name, list(RECIPES))}")
    source = resources.files("volt.stream").joinpath("recipes", f"{name}.yaml")
    configuration = source.read_text(encoding="utf-8")
    contents: dict[str, Content] = {"stream.yaml": configuration, **RECIPES[name].files}
    files = {Path(folder, file): content for file, content in contents.items()}
    for path in files:
        if os.path.lexists(path):
            raise OutputError(f"{path} exists; choose another folder with -o")
    make_folder(folder)
    for path, content in files.items():
        with write_atomic(path) as file:
            file.write(content.encode() if isinstance(content, str) else content())
    return list(files)
