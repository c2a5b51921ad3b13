"""The files that commands work on: made once by VOLT itself, laid out anew for each case, looked at afterwards.

A case's folder has the same inputs with the same times. What an undisturbed run leaves is known by its bytes, in which
the folder's own name does not count; so a case may run in any folder.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.faults.runner import Server

SECONDS = 1_600_000_000  # the time of change of all inputs
OLD = b"what stood here before\n"
LIST = ".volt-encoded.json"  # of what a folder of outputs was made from
CACHE = "cache"  # of stream indices: what lies there may come and go
_HOME = b"/home-of-the-case"
_SYLLABLES = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in ("", "n", "r", "st")]
_STREAM = """\
seed: 5
sources:
  one:
    path: one.tsv
    block_lines: 40
    transforms: [skip_blank, {regex: "ba"}, {choice: [{weight: 2}, {weight: 1, transforms: [upper]}]}]
  two:
    path: two.tsv.gz
    split_lines: 50
    weight: {kind: linear, points: [[0, 0.3], [500, 1]]}
    block_lines: 37
    transforms: [{tag: "[BT]"}, {encode: {vocabulary: model.volt, fields: [1]}}]
"""
_ENDING = _STREAM.replace("    block_lines", "    epochs: 4\n    block_lines")  # a stream that ends
_OTHERS = {"bytes.volt": "--level bytes", "spm.volt": "--pretokenizer metaspace --marker none"}
FORMATS = ("subword-nmt", "sentencepiece", "huggingface", "tiktoken", "fairseq", "marian", "opennmt", "tokens")


def words(seed: int, n_lines: int, *, n_words: int = 800) -> str:
    """Lines of made-up words, frequent and rare.

    >>> words(1, 1).count("\\n")
    1
    """
    rng = random.Random(seed)
    known = ["".join(rng.choices(_SYLLABLES, k=rng.randint(1, 4))) for _ in range(n_words)]
    weights = [1 / rank for rank in range(1, n_words + 1)]
    return "".join(" ".join(rng.choices(known, weights, k=rng.randint(3, 9))) + "\n" for _ in range(n_lines))


def make_inputs(folder: Path, server: Server, *, n_lines: int, formats: Sequence[str] = FORMATS) -> None:
    """Write all that commands read. n_lines: of the corpus;  formats: of which files are exported."""
    folder.mkdir(parents=True)
    text = words(1, n_lines)
    lines = text.splitlines()
    (folder / "corpus.txt").write_text(text)
    (folder / "heldout.txt").write_text(words(2, 30))
    (folder / "corpus.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (folder / "one.tsv").write_text("".join(f"{line}\t{number}\n" for number, line in enumerate(lines[:200])))
    (folder / "corpus.txt.gz.copy").write_bytes(gzip.compress(text.encode(), mtime=0))
    second = "".join(f"{line}\tx\n" for line in lines[:150])
    (folder / "two.tsv.gz").write_bytes(gzip.compress(second.encode(), mtime=0))
    (folder / "stream.yaml").write_text(_STREAM)
    (folder / "ending.yaml").write_text(f"ends: drop\n{_ENDING}")
    commands = [
        "search corpus.txt -q -o model.volt",
        *(f"search corpus.txt -q {options} -o {name}" for name, options in _OTHERS.items() if formats),
        "encode -m model.volt heldout.txt -q -o heldout.pieces",
        "encode -m model.volt heldout.txt -q --form ids -o heldout.ids",
        *(f"{exporting(name)} -o {name}.export" for name in formats),
    ]
    for command in commands:
        told = folder.parent / "told"
        ended = server.run(command.split(), cwd=folder, limit=300, stderr=told, env=environment(folder))
        if ended.status:
            raise SystemExit(f"volt {command}: status {ended.status}: {told.read_text()}")
    shutil.rmtree(folder / CACHE, ignore_errors=True)
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (SECONDS, SECONDS))


def model_for(format: str) -> str:
    """The vocabulary that a format can hold."""
    return {"tiktoken": "bytes.volt", "sentencepiece": "spm.volt"}.get(format, "model.volt")


def exporting(format: str) -> str:
    """The command that writes a format, but for where."""
    closed = " --closed" if format in ("sentencepiece", "huggingface", "tiktoken") else ""
    return f"export -m {model_for(format)} --to {format} -q{closed}"


def environment(folder: Path) -> dict[str, str]:
    """Everything that a command may write to lies in the case's own folder or beside it."""
    beside = folder.parent / f"{folder.name}.tmp"
    return {"TMPDIR": str(beside), "XDG_CACHE_HOME": str(folder / CACHE), "COLUMNS": "120", "VOLT_PROGRESS": "0"}


@dataclass(frozen=True, slots=True)
class Stage:
    """The folder of a case. inputs: what to lay out."""

    folder: Path
    inputs: Path

    @property
    def tmp(self) -> Path:
        """The private folder for temporary files."""
        return Path(environment(self.folder)["TMPDIR"])

    @property
    def stderr(self) -> Path:
        """Where a command's messages go."""
        return self.folder.with_name(f"{self.folder.name}.stderr")

    def lay(self, names: Iterable[str], *, old: Iterable[str] = ()) -> None:
        """Empty the folder, and put these inputs there. old: outputs that are there already, with other content."""
        for folder in (self.folder, self.tmp):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        for name in names:
            source = self.inputs / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, self.folder / name)
        for name in old:
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_bytes(OLD)
        self.stderr.unlink(missing_ok=True)

    def look(self) -> dict[str, bytes]:
        """Every file's bytes by its path in the folder; what caches hold is left out, but for parts of files."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder).as_posix()
            if path.is_file() and (not name.startswith(f"{CACHE}/") or is_part(name)):
                data = path.read_bytes().replace(os.fsencode(self.folder), _HOME)
                found[name] = _timeless(data) if path.name == LIST else data
        return found

    def told(self) -> str:
        """What the command has said on stderr."""
        return self.stderr.read_text(errors="replace") if self.stderr.exists() else ""

    def temporary(self) -> list[str]:
        """What is left in the private folder for temporary files."""
        return sorted(path.name for path in self.tmp.iterdir()) if self.tmp.exists() else []


def is_part(name: str) -> bool:
    """Whether a file's name is that of one that is still being written.

    >>> is_part("out/.a.npy.1f2e3d4c.part"), is_part(".volt-encoded.json")
    (True, False)
    """
    last = name.rpartition("/")[2]
    return last.startswith(".") and last.endswith(".part")


def parts(found: Mapping[str, bytes]) -> list[str]:
    """The names of those."""
    return [name for name in found if is_part(name)]


def _timeless(data: bytes) -> bytes:
    """The list of outputs of a folder, less the times when they were written.

    >>> _timeless(b'{"a": {"files": [[5, 1700000000000000000]]}}')
    b'{"a": {"files": [[5]]}}'
    """
    try:
        made = json.loads(data)
        for entry in made.values():
            entry["files"] = [[size] for size, _ in entry["files"]]
    except (ValueError, KeyError, TypeError, AttributeError):  # not whole, or what stood there before
        made = None
    return data if made is None else json.dumps(made).encode()
