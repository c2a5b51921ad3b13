"""Parallel text in a folder → files, lines, batches and one vocabulary for both languages.

A folder holds `train.en`, `train.de`, `val.en` and so on, line by line, plain or compressed.
"""

from __future__ import annotations

import glob
from pathlib import Path

import volt
from volt.batches import ByTokens, SampleFormat, Steps
from volt.errors import ConfigError
from volt.stream import Source, Stream


def file_of(data: Path, split: str, language: str) -> Path:
    """Return the file of a split in a language, plain or compressed. Raises ConfigError unless there is one."""
    name = glob.escape(f"{split}.{language}")
    files = sorted(data.glob(name)) + sorted(data.glob(f"{name}.*"))
    if len(files) != 1:
        listed = ", ".join(path.name for path in files) or "no such file"
        raise ConfigError(f"{data}: {split}.{language}, plain or compressed: {listed}; there must be one")
    return files[0]


def lines_of(data: Path, split: str, language: str) -> list[str]:
    with Stream([Source(split, (str(file_of(data, split, language)),), epochs=1, shuffle="none")]) as lines:
        return list(lines)


def vocabulary_of(data: Path, languages: tuple[str, str], size: int) -> volt.Vocabulary:
    """Search one vocabulary of a size for both languages. Raises CandidateError if the text has fewer pieces."""
    texts = [str(file_of(data, "train", language)) for language in languages]
    return volt.search(volt.learn_enough(volt.count_words(texts)), select=size).vocabulary


def ordered_steps(
    data: Path, vocabulary: volt.Vocabulary, split: str, *, languages: tuple[str, str], max_tokens: int
) -> Steps:
    """Return each line of a split once, in batches; the ids of a batch are the numbers of its lines."""
    paths = tuple(str(file_of(data, split, language)) for language in languages)
    lines = Stream([Source(split, paths, names=("src", "tgt"), epochs=1, shuffle="none")])
    samples = SampleFormat({"src": vocabulary, "tgt": vocabulary})
    return Steps(lines, samples, ByTokens(max_tokens=max_tokens, shuffle=False), window="epoch")
