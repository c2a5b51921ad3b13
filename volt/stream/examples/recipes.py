"""The use cases of SOTASTREAM's Section 6 as folders that run: a configuration, and data made on the spot.

>>> import tempfile
>>> from volt.stream.config.build import load_config
>>> with tempfile.TemporaryDirectory() as folder:
...     paths = write_recipe("mixing", f"{folder}/mixing")
...     sorted(path.name for path in paths), [source.name for source in load_config(paths[0]).sources]
(['backtranslated.tsv.gz', 'parallel.tsv.gz', 'stream.yaml'], ['parallel', 'backtranslated'])
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from volt.errors import ConfigError, OutputError
from volt.files.atomic import make_folder, write_atomic
from volt.stream.examples import data as data


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
    "parallel.tsv.gz": data.parallel,
    "backtranslated.tsv.gz": data.backtranslated,
}
RECIPES = {
    "mixing": Recipe("parallel and back-translated data, mixed by weight", {"stream.yaml": _MIXING, **_BOTH}),
    "case-noise": Recipe("some lines lower-cased, some title-cased", {"stream.yaml": _CASE_NOISE, **_BOTH}),
    "url-filter": Recipe(
        "only lines with the same URLs on both sides", {"stream.yaml": _URL_FILTER, "crawled.tsv.gz": data.with_urls}
    ),
    "subword-sampling": Recipe(
        "pieces of a vocabulary, sampled anew in every epoch",
        {"stream.yaml": _SUBWORD_SAMPLING, "parallel.tsv.gz": data.parallel, "vocab.volt": data.vocabulary},
    ),
    "documents": Recipe(
        "lines of one document joined", {"stream.yaml": _DOCUMENTS, "talks.tsv.gz": data.with_documents}
    ),
    "alignments": Recipe(
        "word alignments as a field, from a Python function",
        {"stream.yaml": _ALIGNMENTS, "align.py": _ALIGN, "parallel.tsv.gz": data.parallel},
    ),
    "tasks": Recipe(
        "translation beside denoising, with weights that change, and a validation set",
        {
            "stream.yaml": _TASKS,
            "train.de": lambda: data.side(0, last=680),
            "train.en": lambda: data.side(1, last=680),
            "valid.de": lambda: data.side(0, first=680),
            "valid.en": lambda: data.side(1, first=680),
        },
    ),
    "batches": Recipe(
        "the steps of a trainer: batches of so many tokens",
        {"stream.yaml": _BATCHES, "parallel.tsv.gz": data.parallel, "vocab.volt": data.vocabulary},
        next="volt stream batches {}",
    ),
    "offline": Recipe("a training file instead of a stream", {"stream.yaml": _OFFLINE, **_BOTH}),
}


def write_recipe(name: str, folder: str | Path) -> list[Path]:
    """Write a recipe's files to a folder, which is made if need be; the configuration is the first of their paths.

    Raises ConfigError if there is no such recipe, OutputError if one of the files is there already.
    """
    if name not in RECIPES:
        from volt.stream.config.problems import near

        raise ConfigError(f"no example {name!r}; {near(name, list(RECIPES))}")
    files = {Path(folder, file): content for file, content in RECIPES[name].files.items()}
    if there := [path for path in files if os.path.lexists(path)]:
        raise OutputError(f"{there[0]} exists; choose another folder with -o")
    make_folder(folder)
    for path, content in files.items():
        with write_atomic(path) as file:
            file.write(content.encode() if isinstance(content, str) else content())
    return list(files)
