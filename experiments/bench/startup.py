"""Starting up, timed: whole processes that do next to nothing.

    VOLT_DATA=DIR python experiments/bench/startup.py [--repeats 15] [--first-use] [--models FILE ...] [--json OUT]

User and system time counts, which other processes disturb least. Compiled loops are on disk, as after any earlier use;
--first-use adds one run without them. --models times loading files and encoding one line instead, beside the library of
the file's format: "volt, first" starts with an empty cache of arrays, and "volt" with the one of the run before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from measure import Job, parser, publish, run_rounds
from texts import models, multi30k, temporary_folder, write

from volt.text.patterns.published import NAMED

PACKAGES = ("volt-vocab", "numba", "polars", "typer", "tiktoken", "tokenizers", "sentencepiece")
LIBRARIES = {  # by the suffix of files: the library, and the code that loads the file and encodes a line
    ".tiktoken": (
        "tiktoken",
        "import tiktoken; from base64 import b64decode; "
        "rows = map(bytes.split, open(path, 'rb').read().splitlines()); "
        "ranks = {b64decode(token): int(rank) for token, rank in rows}; "
        f"tiktoken.Encoding('a', pat_str={NAMED['cl100k'][0].pattern!r}, mergeable_ranks=ranks, special_tokens={{}})"
        ".encode('a line')",
    ),
    ".json": (
        "tokenizers",
        "from tokenizers import Tokenizer; Tokenizer.from_file(path).encode('a line').ids",
    ),
    ".model": (
        "sentencepiece",
        "from sentencepiece import SentencePieceProcessor; SentencePieceProcessor(model_file=path).Encode('a line')",
    ),
}


def jobs(folder: Path, *, size: int, first_use: bool) -> Iterator[Job]:
    home = models(folder, multi30k(folder, times=1), size=size, kinds=("words", "bytes"))
    line = str(
        write(folder, "line", [b"Two young, White males are outside near many bushes.\n"]).path
    )
    volt = str(Path(sys.executable).with_name("volt"))
    encode = [volt, "encode", line, "-q", "-m"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import volt": [sys.executable, "-c", "import volt"],
        "import numpy": [sys.executable, "-c", "import numpy"],
        "import polars": [sys.executable, "-c", "import polars"],
        "volt --help": [volt, "--help"],
        "volt encode --help": [volt, "encode", "--help"],
        "volt encode": [*encode, str(home / "words.volt")],
        "volt encode, bytes": [*encode, str(home / "bytes.volt")],
        "volt encode, npy": [
            *encode,
            str(home / "words.volt"),
            "--form",
            "npy",
            "-o",
            str(folder / "out"),
        ],
        "volt inspect": [volt, "inspect", "-m", str(home / "words.volt")],
        "volt inspect, a line": [volt, "inspect", "-m", str(home / "words.volt"), "a line"],
    }
    for name, command in commands.items():
        yield Job("start", "one line", name, command, warm_up=True)
    if first_use:
        env = {"NUMBA_CACHE_DIR": str(folder / "numba")}
        yield Job(
            "start",
            "one line",
            "volt encode, first use",
            commands["volt encode"],
            env=env,
            max_runs=1,
        )


def loads(model: Path, folder: Path) -> Iterator[Job]:
    """Make the rows of a file: VOLT without and with its cache of arrays, and the library of the format."""
    volt = "import volt; volt.Encoder(volt.read_vocabulary(path)).encode_ids('a line')"
    empty = (
        "import os, tempfile; os.environ['XDG_CACHE_HOME'] = tempfile.mkdtemp(dir=sys.argv[2]); "
    )
    rows = {"volt, first": empty + volt, "volt": volt}
    if library := LIBRARIES.get(model.suffix):
        rows[library[0]] = library[1]
    for name, code in rows.items():
        command = [
            sys.executable,
            "-c",
            f"import sys; path = sys.argv[1]; {code}",
            str(model),
            str(folder),
        ]
        env = {"XDG_CACHE_HOME": str(folder / "cache")}
        yield Job("load", model.name, name, command, against="volt", env=env, warm_up=True)


def main() -> None:
    made = parser(__doc__, repeats=15)
    made.add_argument(
        "--models", type=Path, nargs="+", default=[], help="files of vocabularies to load"
    )
    made.add_argument("--size", type=int, default=8_000, help="of the vocabulary (default 8,000)")
    made.add_argument(
        "--first-use", action="store_true", help="also start once without the compiled loops"
    )
    options = made.parse_args()
    with temporary_folder() as folder:
        if options.models:
            todo = [job for model in options.models for job in loads(model.absolute(), folder)]
        else:
            todo = list(jobs(folder, size=options.size, first_use=options.first_use))
        rows = run_rounds(todo, repeats=options.repeats)
        publish("Starting up", rows, packages=PACKAGES, path=options.json)


if __name__ == "__main__":
    main()
