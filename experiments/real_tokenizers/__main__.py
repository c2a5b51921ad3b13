"""A folder of published tokenizers → whether VOLT's ids equal those of each tokenizer's own library.

    python -m experiments.real_tokenizers DIR [--text FILE …] [--data VOLT_DATA] [--lines N] [--only NAME …] [--json OUT]

DIR is searched for the files of tiktoken, tekken, sentencepiece, tokenizers, GPT-2 and CLIP, by what they hold; such as
the unzipped packages of openai-whisper, litellm, llama-models, dashscope and mistral-common. Without --text the three
texts of `texts` are made. Each file is read by VOLT and by the library it was published for, if that is installed. The
exit status is 1 if a file was read whose ids differ. experiments/bench/encode.py measures the speed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.real_tokenizers import originals, table
from experiments.real_tokenizers.comparing import Comparison, compare, read
from experiments.real_tokenizers.finding import find
from experiments.real_tokenizers.texts import make_texts


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "folder", type=Path, help="where files of tokenizers are, at any depth; or one file"
    )
    parser.add_argument("--text", type=Path, nargs="+", help="texts, one line each line")
    parser.add_argument("--data", type=Path, help="corpora for the texts that are made")
    parser.add_argument("--lines", type=int, help="the first N lines of each text")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="files whose names hold one of these"
    )
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="write all that is found as JSON, too"
    )
    return parser.parse_args(given)


def rows(asked: argparse.Namespace, paths: Sequence[Path]) -> Iterator[Comparison]:
    """Yield one result for each file, in order."""
    texts = {path.stem: _lines(path) for path in paths}
    for found in find(asked.folder):
        if not any(part in found.name for part in asked.only):
            continue
        pair, comparison = read(found)
        if pair is None:
            yield comparison
        else:
            yield compare(found, texts, pair, comparison)


def _lines(path: Path) -> list[str]:
    return path.read_bytes().decode().split("\n")[:-1]


def _shortened(paths: Sequence[Path], n: int | None, folder: Path) -> list[Path]:
    """The texts, or files of their first n lines."""
    if n is None:
        return list(paths)
    for path in paths:
        (folder / path.name).write_bytes("".join(f"{line}\n" for line in _lines(path)[:n]).encode())
    return [folder / path.name for path in paths]


def main(given: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if ids differ."""
    asked, done = arguments(given), []
    originals.one_thread()
    with tempfile.TemporaryDirectory() as folder:
        paths = asked.text or make_texts(Path(folder, "made"), asked.data)
        Path(folder, "short").mkdir()
        paths = _shortened(paths, asked.lines, Path(folder, "short"))
        for comparison in rows(asked, paths):
            done.append(comparison)
            sys.stderr.write(f"{table.summary(comparison)}\n")
    sys.stdout.write(table.report(done))
    if asked.json:
        asked.json.write_text(
            json.dumps([_plain(comparison) for comparison in done], indent=1, default=str)
        )
    return int(any(comparison.n_differing and not comparison.is_exact for comparison in done))


def _plain(comparison: Comparison) -> dict[str, Any]:
    return asdict(comparison) | {"is_exact": comparison.is_exact}


if __name__ == "__main__":
    sys.exit(main())
