"""Wrong configurations of streams: each is refused with its place and a remedy, and a right one is not.

    python -m experiments.faults.configurations                    all of them, some two minutes
    python -m experiments.faults.configurations --kind "huge number" --verbose

Right configurations are changed line by line: keys are unknown, misspelt and given twice; values are of another type,
out of range, huge, not finite, empty, with a unit, words of YAML 1.1, anchors, variables that are not set. Others are
wrong as a whole: no UTF-8, too deep, bombs of aliases. Each goes through `volt stream audit` in this process, and
through `volt stream run` if that takes it. A wrong one must end with status 2, a message that names the line, and a
remedy; or with status 1, where the data does not fit, with the file at fault. What is legal is counted as legal, by
what the right configuration says its values may be. A traceback, a refusal of the legal and an acceptance of the wrong
are findings.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from experiments.faults.right_configurations import FILES
from experiments.faults.wrong_configurations import Mutant, mutants

CONFIG = "stream.yaml"
_REMEDY = re.compile(
    r"; |\?|should |must |choose |did you mean|no such|give |starts with 0|no YAML|holds not one|is text"
)


class Answer(NamedTuple):
    """What a command said. status: None if it ended with a traceback"""

    status: int | None
    told: str


def write_files(folder: Path) -> None:
    """The data that the configurations name."""
    (folder / "empty").mkdir()
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def verdict(mutant: Mutant, folder: Path) -> str:
    """What became of a configuration: refused, data (which does not fit), legal, or a finding."""
    text = mutant.text if isinstance(mutant.text, bytes) else mutant.text.encode("utf-8", "surrogatepass")
    (folder / CONFIG).write_bytes(text)
    answer = _volt("audit", CONFIG, "--turns", "9", "--trust")
    if answer.status == 0:
        answer = _volt("run", CONFIG, "--limit", "5", "-q")
    return _judged(mutant, answer)


def _judged(mutant: Mutant, answer: Answer) -> str:
    """The same, of what was said."""
    if answer.status is None or "Traceback" in answer.told:
        return f"FOUND traceback: {answer.told.strip()[-300:]}"
    if answer.status == 0:
        return "legal" if mutant.is_legal else "FOUND accepted"
    if answer.status == 1:
        return (
            "data" if re.search(r"\.(tsv|txt|jsonl|yaml)\b|source '", answer.told) else f"FOUND no file: {answer.told}"
        )
    if mutant.is_legal:
        return f"FOUND refused though legal: {answer.told}"
    wanted = f"{CONFIG}:{mutant.line or '[0-9]+'}:"
    found = re.search(wanted, answer.told)
    if answer.status != 2 or not found:
        return f"FOUND status {answer.status}, not {wanted} {answer.told}"
    return "refused" if _REMEDY.search(answer.told, found.end()) else f"FOUND no remedy: {answer.told}"


def _volt(*arguments: str) -> Answer:
    """What a command of `volt stream` says, run in this process."""
    from volt_cli.__main__ import main

    before, sys.argv = sys.argv, ["volt", "stream", *arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            with _sent(1, "stdout", out.fileno()), _sent(2, "stderr", err.fileno()):
                main()
        except SystemExit as ended:
            status = int(ended.code or 0)
        except BaseException:
            return Answer(None, traceback.format_exc())
        finally:
            sys.argv = before
        err.seek(0)
        return Answer(status, err.read().decode(errors="replace"))


@contextmanager
def _sent(number: int, name: str, to: int) -> Iterator[None]:
    """Within it, what is written to a descriptor, and to the stream of `sys` that has this name, goes elsewhere."""
    stream, kept = getattr(sys, name), os.dup(number)
    stream.flush()
    os.dup2(to, number)
    with open(number, "w", encoding="utf-8", closefd=False) as other:
        setattr(sys, name, other)
        try:
            yield
        finally:
            other.flush()
            setattr(sys, name, stream)
            os.dup2(kept, number)
            os.close(kept)


def campaign(chosen: Sequence[Mutant]) -> list[tuple[Mutant, str]]:
    """Every configuration with what became of it, in a folder of its own."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        os.chdir(folder)
        try:
            return [(mutant, verdict(mutant, folder)) for mutant in chosen]
        finally:
            os.chdir(before)


def as_table(found: Sequence[tuple[Mutant, str]]) -> str:
    """How many of each kind were refused, legal, for the data to refuse, and findings."""
    heads = ("refused", "data", "legal", "FOUND")
    counts = Counter((mutant.kind, told.split()[0]) for mutant, told in found)
    kinds = sorted({mutant.kind for mutant, _ in found})
    rows = [f"{kind:30}" + "".join(f"{counts[kind, head]:9,}" for head in heads) for kind in kinds]
    totals = [sum(counts[kind, head] for kind in kinds) for head in heads]
    lines = [f"{'kind':30}" + "".join(f"{head.lower():>9}" for head in heads), *rows]
    return "\n".join([*lines, f"{'all':30}" + "".join(f"{total:9,}" for total in totals)])


def main() -> int:
    """Run the campaign; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m experiments.faults.configurations", description="Wrong YAML.")
    parser.add_argument("--kind", help="only changes of this kind")
    parser.add_argument("--verbose", action="store_true", help="show the configurations of findings")
    options, start = parser.parse_args(), time.monotonic()
    found = campaign([mutant for mutant in mutants() if options.kind in (None, mutant.kind)])
    print(as_table(found))
    findings = [(mutant, told) for mutant, told in found if told.startswith("FOUND")]
    for mutant, told in findings:
        print(f"\n{mutant.kind}: {mutant.base}: {mutant.told}\n  {told.strip()}")
        if options.verbose:
            print(mutant.text if isinstance(mutant.text, str) else repr(mutant.text))
    print(f"{len(found):,} configurations, {len(findings)} findings, {time.monotonic() - start:.1f} s")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
