"""SOTASTREAM's use cases (Section 6) as folders that run: a configuration, and generated parallel data.

>>> import tempfile
>>> from volt.stream.config.build import load_config
>>> with tempfile.TemporaryDirectory() as folder:
...     paths = write_recipe("mixing", f"{folder}/mixing")
...     sorted(path.name for path in paths), [source.name for source in load_config(paths[0]).sources]
(['backtranslated.tsv.gz', 'parallel.tsv.gz', 'stream.yaml'], ['parallel', 'backtranslated'])
"""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from volt.errors import ConfigError, OutputError
from volt.files.atomic import make_folder, write_atomic

Pair = tuple[str, str]

_SUBJECTS = (("die Katze", "the cat"), ("ein Kind", "a child"), ("unser Nachbar", "our neighbour"), ("Maria", "Mary"),
             ("der alte Mann", "the old man"), ("jemand", "somebody"))  # fmt: skip
_VERBS = (("sieht", "sees"), ("sucht", "looks for"), ("findet", "finds"), ("hört", "hears"), ("kennt", "knows"))
_OBJECTS = (("den Hund", "the dog"), ("ein Buch", "a book"), ("die Straße", "the street"), ("das Meer", "the sea"),
            ("keinen Ausweg", "no way out"), ("die Brücke", "the bridge"))  # fmt: skip
_TIMES = (("heute", "today"), ("jeden Tag", "every day"), ("wieder", "again"), ("im Sommer", "in summer"))


def sentence_pairs() -> list[Pair]:
    """720 different sentences with their translations.

    >>> len(set(sentence_pairs()))
    720
    """
    return [
        (f"{subject[0]} {verb[0]} {time[0]} {thing[0]} .", f"{subject[1]} {verb[1]} {thing[1]} {time[1]} .")
        for subject, thing, verb, time in product(_SUBJECTS, _OBJECTS, _VERBS, _TIMES)
    ]


def side(number: int, *, first: int = 0, last: int | None = None) -> bytes:
    """Return one side of all pairs, or of those from `first` up to and without `last`, a line each.

    number: 0 is German, 1 English

    >>> side(1)[:30]
    b'the cat sees the dog today .\\nt'
    """
    return "".join(f"{pair[number]}\n" for pair in sentence_pairs()[first:last]).encode()


def shard(pairs: Iterable[Pair]) -> bytes:
    """Pairs as a gzipped TSV file; the same pairs give the same bytes.

    >>> gzip.decompress(shard([("ja", "yes")]))
    b'ja\\tyes\\n'
    """
    return gzip.compress("".join(f"{source}\t{target}\n" for source, target in pairs).encode(), mtime=0)


def parallel() -> bytes:
    """Return the first two thirds of the sentences."""
    return shard(sentence_pairs()[:480])


def backtranslated() -> bytes:
    """Return the rest, the German side as poor as machine translation may be: without articles and umlauts."""
    plain = str.maketrans("äöüß", "aous")
    articles = {"die", "der", "den", "das", "ein"}
    rest = sentence_pairs()[480:]
    return shard(
        (" ".join(word for word in de.translate(plain).split() if word not in articles), en) for de, en in rest
    )


def with_urls() -> bytes:
    """Sentences of which every other one has a URL: some on both sides, some on one side only, some different."""
    addresses = ("https://example.org/katze", "http://example.org/hund")
    rows = list[Pair]()
    for number, (german, english) in enumerate(sentence_pairs()[:240]):
        left = ["", addresses[0], addresses[0], "", addresses[0], addresses[1]][number % 6]
        right = ["", addresses[0], "", "", addresses[1], addresses[1]][number % 6]
        rows.append((f"{german} {left}".strip(), f"{english} {right}".strip()))
    return shard(rows)


def with_documents() -> bytes:
    """Sentences of documents of 1 to 9 lines, with the document's id as a third field."""
    rows, pairs, number = list[str](), iter(sentence_pairs()), 0
    while pair := next(pairs, None):
        number += 1
        members = [pair, *(other for _, other in zip(range(number % 9), pairs, strict=False))]
        rows += [f"{german}\t{english}\tdoc{number}\n" for german, english in members]
    return gzip.compress("".join(rows).encode(), mtime=0)


def vocabulary() -> bytes:
    """Return a VOLT vocabulary learned from both sides."""
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
    """An example that can be run.

    about: what it shows, in one line.
    files: what its folder holds, by name: a text, or a function that makes the bytes.
    next: the command that shows it at work, with {} for the path of its configuration.
    """

    about: str
    files: Mapping[str, str | Callable[[], bytes]]
    next: str = "volt stream run {} --limit 10"


_MIXING = """\
# Parallel and back-translated data, one to one, whatever their sizes (6.1).
#   volt stream run stream.yaml --limit 10
#   volt stream plan stream.yaml --at 1e6
seed: 1
sources:
  parallel:
    path: parallel.tsv.gz
    weight: 1
  backtranslated:
    path: backtranslated.tsv.gz
    # The weight may change as training goes on:
    #   weight: {kind: linear, points: [[0, 1], [1_000_000, 0.2]]}
    weight: 1
    transforms:
      - tag: "[BT]"          # before the source side
"""

_CASE_NOISE = """\
# Case noise for robustness (6.2, Figure 2): 4 % of the lines lower-cased, 1 % title-cased.
#   volt stream preview stream.yaml
seed: 1
sources:
  parallel:
    path: parallel.tsv.gz
    transforms:
      - choice:
          - {weight: 0.95}
          - {weight: 0.04, transforms: [lower: {fields: [1]}]}
          - {weight: 0.01, transforms: [title: {fields: [1, 2]}]}
  backtranslated:
    path: backtranslated.tsv.gz
    transforms:
      - choice:
          - {weight: 0.95}
          - {weight: 0.04, transforms: [lower: {fields: [1]}]}
          - {weight: 0.01, transforms: [title: {fields: [1, 2]}]}
      - tag: "[BT]"
"""

_URL_FILTER = """\
# Only lines whose URLs are the same on both sides (6.3), and a few other filters.
#   volt stream run stream.yaml --limit 10 --summary summary.json
seed: 1
sources:
  crawled:
    path: crawled.tsv.gz
    transforms:
      - bitext
      - match: {pattern: '\\bhttps?:\\S+[a-z]\\b'}
      - length: {max: 100, unit: words}
      - ratio: 3
"""

_SUBWORD_SAMPLING = """\
# Pieces of a VOLT vocabulary, cut differently each time a line comes by (6.4), by BPE-dropout on the source side.
# A SentencePiece model does it too, up to sentencepiece 0.2.1:  - spm_encode: {model: spm.model, alpha: 0.1}
seed: 1
sources:
  parallel:
    path: parallel.tsv.gz
    transforms:
      - encode: {vocabulary: vocab.volt, fields: [1], dropout: 0.1}
      - encode: {vocabulary: vocab.volt, fields: [2]}
"""

_DOCUMENTS = """\
# Pseudo-documents (6.5): consecutive lines with the same id in field 3 become one line.
seed: 1
sources:
  talks:
    path: talks.tsv.gz
    shuffle: outputs         # shuffle documents, not lines
    split_lines: null        # and keep the files whole
    transforms:
      - documents: {id_field: 3, separator: <sep>, max_tokens: 40, max_lines: 5, probability: 0.8}
      - keep_fields: [1, 2]
"""

_ALIGNMENTS = """\
# Word alignments as a third field (6.6), by a function of one's own.
#   volt stream preview stream.yaml --trust
seed: 1
sources:
  parallel:
    path: parallel.tsv.gz
    transforms:
      - user: {file: align.py, function: diagonal, append: true}
      # With SimAlign (pip install simalign):
      # - user: {file: align.py, function: simalign, append: true}
"""

_ALIGN = '''\
"""Word alignments of a line's first two fields, as "0-0 1-2 …"."""

from functools import lru_cache


def diagonal(fields: list[str]) -> str:
    """Each source word with the target word at the same height: quick, and right where the word order is."""
    source, target = fields[0].split(), fields[1].split()
    if not source or not target:
        return ""
    return " ".join(f"{i}-{i * len(target) // len(source)}" for i in range(len(source)))


@lru_cache
def _aligner():
    from simalign import SentenceAligner

    return SentenceAligner()


def simalign(fields: list[str]) -> str:
    """The same from multilingual embeddings (Jalili Sabet et al. 2020)."""
    aligned = _aligner().get_word_aligns(fields[0], fields[1])
    return " ".join(f"{i}-{j}" for i, j in aligned["mwmf"])
'''

_OFFLINE = """\
# A file for trainers that cannot read a pipe (6.8): a given number of lines, or two epochs and then the end.
#   volt stream run stream.yaml --limit 1000 > train.tsv
seed: 1
ends: drop                   # when one source has ended, go on with the other
sources:
  parallel:
    path: parallel.tsv.gz
    epochs: 2
  backtranslated:
    path: backtranslated.tsv.gz
    weight: 0.5
    epochs: 2
    transforms:
      - tag: "[BT]"
"""

_TASKS = """\
# Tasks: inputs that are treated in the same way. They are read as they are, or from shards, made once:
#   volt shard stream.yaml -o shards
# and read where the configuration says `shards: shards/`.
# Both give pairs: a translation, and English that is to be restored from noise. From line 400 on, translations are
# three lines of four. `--split valid` gives the validation pairs once, in order, without noise.
seed: 1
schedule: {points: [400]}
defaults:
  drop: {temperature: 2.0}
tasks:
  de_en:
    type: para
    inputs:
      sentences: {src: train.de, tgt: train.en}
    weight: [1, 3]
    src_lang: de
    tgt_lang: en
    transforms: [lang_prefix_both]
  auto_en:
    type: mono
    inputs:
      english: {mono: train.en}
    weight: [1, 1]
    src_lang: en
    tgt_lang: en
    transforms: [duplicate_mono, drop, reorder, lang_prefix_both]
  valid_de_en:
    type: para
    split: valid
    inputs:
      held_out: {src: valid.de, tgt: valid.en}
    src_lang: de
    tgt_lang: en
    transforms: [lang_prefix_both]
"""

_BATCHES = """\
# What a trainer gets: samples of ids in batches of so many tokens, as many for each of its processes.
#   volt stream batches stream.yaml
#   volt stream batches stream.yaml --world 8
# In Python: volt.batches.Steps.from_config("stream.yaml", rank=0, world=8)
seed: 1
sources:
  parallel:
    path: parallel.tsv.gz
    transforms: [skip_blank]
batches:
  fields: {src: vocab.volt, tgt: vocab.volt}
  max_tokens: 1024           # of a batch, with padding
  window: 4096               # samples that are sorted together; more of them leave less padding
"""

_BOTH: dict[str, Callable[[], bytes]] = {
    "parallel.tsv.gz": parallel,
    "backtranslated.tsv.gz": backtranslated,
}
RECIPES = {
    "mixing": Recipe("parallel and back-translated data, mixed by weight", {"stream.yaml": _MIXING, **_BOTH}),
    "case-noise": Recipe("some lines lower-cased, some title-cased", {"stream.yaml": _CASE_NOISE, **_BOTH}),
    "url-filter": Recipe(
        "only lines with the same URLs on both sides", {"stream.yaml": _URL_FILTER, "crawled.tsv.gz": with_urls}
    ),
    "subword-sampling": Recipe(
        "pieces of a vocabulary, sampled anew in every epoch",
        {"stream.yaml": _SUBWORD_SAMPLING, "parallel.tsv.gz": parallel, "vocab.volt": vocabulary},
    ),
    "documents": Recipe("lines of one document joined", {"stream.yaml": _DOCUMENTS, "talks.tsv.gz": with_documents}),
    "alignments": Recipe(
        "word alignments as a field, from a Python function",
        {"stream.yaml": _ALIGNMENTS, "align.py": _ALIGN, "parallel.tsv.gz": parallel},
    ),
    "tasks": Recipe(
        "translation with denoising, with weights that change, and a validation set",
        {
            "stream.yaml": _TASKS,
            "train.de": lambda: side(0, last=680),
            "train.en": lambda: side(1, last=680),
            "valid.de": lambda: side(0, first=680),
            "valid.en": lambda: side(1, first=680),
        },
    ),
    "batches": Recipe(
        "the steps of a trainer: batches of so many tokens",
        {"stream.yaml": _BATCHES, "parallel.tsv.gz": parallel, "vocab.volt": vocabulary},
        next="volt stream batches {}",
    ),
    "offline": Recipe("a training file instead of a stream", {"stream.yaml": _OFFLINE, **_BOTH}),
}


def write_recipe(name: str, folder: str | Path) -> list[Path]:
    """Write a recipe's files to a folder, which is made if need be; the configuration is the first of their paths.

    Raises ConfigError if there is no such recipe, OutputError if one of the files is there already.
    """
    if name not in RECIPES:
        from volt.stream.config.document import near

        raise ConfigError(f"no example {name!r}; {near(name, list(RECIPES))}")
    files = {Path(folder, file): content for file, content in RECIPES[name].files.items()}
    if stored := [path for path in files if os.path.lexists(path)]:
        raise OutputError(f"{stored[0]} exists; choose another folder with -o")
    make_folder(folder)
    for path, content in files.items():
        with write_atomic(path) as file:
            file.write(content.encode() if isinstance(content, str) else content())
    return list(files)
