"""Starting up, timed: whole processes that do next to nothing.

    VOLT_DATA=DIR python experiments/bench/startup.py [--repeats 15] [--first-use] [--json OUT]

User and system time counts, which other processes disturb least. Compiled loops are on disk, as after any earlier use;
--first-use adds one run without them. `encode.py --works load` measures the loading of published tokenizers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from measure import Job, figures, parser, publish, run_rounds
from texts import models, multi30k, temporary_folder, write

PACKAGES = ("volt-vocab", "numba", "polars", "typer")


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
        yield Job("start", name, "volt", command, warm_up=True)
    if first_use:
        env = {"NUMBA_CACHE_DIR": str(folder / "numba")}
        yield Job(
            "start",
            "volt encode, first use",
            "volt",
            commands["volt encode"],
            env=env,
            max_runs=1,
        )


def main() -> None:
    made = parser(__doc__, repeats=15)
    made.add_argument("--size", type=int, default=8_000, help="of the vocabulary (default 8,000)")
    made.add_argument(
        "--first-use", action="store_true", help="also start once without the compiled loops"
    )
    options = made.parse_args()
    with temporary_folder() as folder:
        todo = jobs(folder, size=options.size, first_use=options.first_use)
        found = figures(run_rounds(list(todo), repeats=options.repeats))
        publish("Starting up", found, packages=PACKAGES, path=options.json)


if __name__ == "__main__":
    main()
