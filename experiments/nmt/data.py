"""Raw text of two languages → a vocabulary, and the configuration of the stream: `joint.volt` and `stream.yaml`.

A folder of data holds `train.en`, `train.de`, `val.en` and so on, line by line, plain or compressed. The vocabulary is
one for both languages, of the size that VOLT's search chooses; the rest is what the YAML says.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

import volt
from volt.batches import ByTokens, SampleFormat, Steps
from volt.errors import ConfigError
from volt.files.atomic import make_folder, write_atomic
from volt.stream import Source, Stream

VOCABULARY, CONFIGURATION = "joint.volt", "stream.yaml"
STREAM = """\
# Lines of raw text, and the batches that are made of them.
seed: {seed}
errors: {{on_fault: skip}}  # a line of Multi30k holds a tab
sources:
  train:
    pair: {{src: '{src}', tgt: '{tgt}'}}
batches:
  fields: {{src: {vocabulary}, tgt: {vocabulary}}}
  max_length: 256
  beyond: truncate
  max_tokens: {max_tokens}
  window: {window}
  noise: 0.1
  on_long: report
"""


def prepare(
    data: Path, run: Path, *, languages: tuple[str, str], rule: str, max_tokens: int, window: int, seed: int
) -> str:
    """Search a vocabulary, write it and the configuration into the folder of the run; what the search says of it.

    rule: of `volt.search`, such as balanced, or a number of tokens
    """
    src, tgt = (file_of(data, "train", language) for language in languages)
    result = searched([src, tgt], rule)
    make_folder(run)
    result.vocabulary.save(run / VOCABULARY)
    quoted = (_quoted(path.resolve()) for path in (src, tgt))
    told: dict[str, str | int] = dict(zip(("src", "tgt"), quoted, strict=True), vocabulary=VOCABULARY)
    told |= {"max_tokens": max_tokens, "window": window, "seed": seed}
    with write_atomic(run / CONFIGURATION) as file:
        file.write(STREAM.format(**told).encode())
    return f"{len(result.vocabulary):,} ids; {result.pick.why}"


def check_data(data: Path, run: Path, languages: tuple[str, str]) -> None:
    """Raise ConfigError if a run that goes on reads other files than those of a folder of data."""
    stored = (run / CONFIGURATION).read_text(errors="replace")
    for language in languages:
        path = file_of(data, "train", language).resolve()
        if f"'{_quoted(path)}'" not in stored:
            told = "give the --data of before, or another --out"
            raise ConfigError(f"{run / CONFIGURATION}: goes on with other files than {path}; {told}")


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def searched(texts: Sequence[Path], rule: str) -> volt.SearchResult:
    """What a search for one vocabulary of all texts finds."""
    candidates = volt.learn_enough(volt.count_words([str(text) for text in texts]))
    return volt.search(candidates, select=int(rule) if rule.isdecimal() else rule)


def file_of(data: Path, split: str, language: str) -> Path:
    """The file of a split in a language, plain or compressed. Raises ConfigError unless there is one."""
    name = glob.escape(f"{split}.{language}")
    found = sorted(data.glob(name)) + sorted(data.glob(f"{name}.*"))
    if len(found) != 1:
        told = ", ".join(path.name for path in found) or "no such file"
        raise ConfigError(f"{data}: {split}.{language}, plain or compressed: {told}; there must be one")
    return found[0]


def ordered_steps(data: Path, run: Path, split: str, *, languages: tuple[str, str], max_tokens: int) -> Steps:
    """Each line of a split once, in batches; the ids of a batch say which lines they are."""
    paths = tuple(str(file_of(data, split, language)) for language in languages)
    vocabulary = volt.Vocabulary.load(run / VOCABULARY)
    lines = Stream([Source(split, paths, names=("src", "tgt"), epochs=1, shuffle="none")])
    samples = SampleFormat({"src": vocabulary, "tgt": vocabulary})
    return Steps(lines, samples, ByTokens(max_tokens=max_tokens, shuffle=False), window="epoch")


def lines_of(data: Path, split: str, language: str) -> list[str]:
    """The lines of a split in a language."""
    with Stream([Source(split, (str(file_of(data, split, language)),), epochs=1, shuffle="none")]) as lines:
        return list(lines)
