"""The command line of the plan: its options, and one line for whatever else is given.

>>> given = options({}, about=None).parse_args(["check", "corpus.txt", "--base", "2.5M"])
>>> given.base, given.growth
(2500000.0, [1, 10, 100])
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NoReturn

from experiments.scale.sample import LEVELS

UNITS = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
COMMANDS = {
    "predict": "what a corpus would cost many machines",
    "check": "searches of a corpus that grows, beside what the smallest one foretold",
    "draw": "write a text with a vocabulary that never stops growing",
}
Command = Callable[[argparse.Namespace], object]


class Parser(argparse.ArgumentParser):
    """Says one line, where argparse shows all options before it."""

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(2, f"{message}; see {self.prog} --help\n")


def options(commands: Mapping[str, Command], *, about: str | None) -> argparse.ArgumentParser:
    """The command line. commands: what runs each, by name;  about: shown by --help."""
    parser = Parser(
        prog="python -m experiments.scale", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made = parser.add_subparsers(required=True, metavar="|".join(COMMANDS))
    predict, check, draw = (made.add_parser(name, description=what) for name, what in COMMANDS.items())
    for name, command in zip(COMMANDS, (predict, check, draw), strict=True):
        command.set_defaults(run=commands.get(name))
    for command in (predict, check):
        command.add_argument("corpus", type=Path, help="plain text")
        command.add_argument("--level", choices=LEVELS, default="characters")
        command.add_argument("--merges", type=whole, default=30_000, help="that are learned (default 30,000)")
        command.add_argument("-o", "--output", type=Path, help="write here instead of to stdout")
    _add_predict(predict)
    check.add_argument("--base", type=n_bytes, default="2.5M", help="bytes of the smallest size (default 2.5M)")
    check.add_argument("--growth", type=whole, nargs="+", default=[1, 10, 100], help="times the smallest size")
    draw.add_argument("text", type=Path, help="the file to write")
    draw.add_argument("--bytes", type=n_bytes, default="250M", help="of the text (default 250M)")
    draw.add_argument("--seed", type=partial(whole, low=0), default=1, help="of the draw (default 1)")
    exponent = partial(number, low=0.1, high=0.8)
    draw.add_argument("--beta", type=exponent, default=0.7, help="exponent of Heaps' law (default 0.7)")
    return parser


def _add_predict(command: argparse.ArgumentParser) -> None:
    for name, kind, default, what in (
        ("--bytes", n_bytes, "1T", "of the corpus that is planned for"),
        ("--machines", partial(whole, high=10_000), "64", "of the cluster"),
        ("--cores", partial(whole, high=1_000), "16", "of each"), ("--memory", n_bytes, "64G", "bytes of each"),
        ("--network", quantity, "10G", "bits a second of each"), ("--disk", quantity, "500M", "bytes a second of each"),
        ("--sample", n_bytes, "64M", "bytes that are measured"), ("--min-count", whole, "1", "least to learn from"),
        ("--spread", partial(number, high=10), "0.1", "σ of the logarithm of speeds"),
        ("--deaths", number, "0.01", "of a machine in an hour"),
        ("--rounds", partial(whole, high=100_000), "50", "of the simulation"),
    ):  # fmt: skip
        command.add_argument(name, type=kind, default=default, help=f"{what} (default {default})")


def quantity(text: str) -> float:
    """A number with K, M, G or T behind it, or without.

    >>> quantity("2.5M"), quantity("64")
    (2500000.0, 64.0)
    """
    found = _read(text[:-1]) * UNITS[text[-1].upper()] if text[-1:].upper() in UNITS else _read(text)
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"give a number above 0, such as 64, 2.5M, 10G or 1T, not {text!r}")
    return found


def n_bytes(text: str) -> float:
    """A quantity of bytes, of which there is at least one.

    >>> n_bytes("64K")
    64000.0
    """
    if (found := quantity(text)) < 1:
        raise argparse.ArgumentTypeError(f"give a byte or more, such as 2.5M, 10G or 1T, not {text!r}")
    return found


def whole(text: str, *, low: int = 1, high: int = 10**15) -> int:
    """A whole number within limits.

    >>> whole("64"), whole("1e3")
    (64, 1000)
    """
    found = _read(text)
    if not (found.is_integer() and low <= found <= high):
        raise argparse.ArgumentTypeError(f"give a whole number from {low} to {high:,}, not {text!r}")
    return int(found)


def number(text: str, *, low: float = 0, high: float = 1e15) -> float:
    """A number within limits.

    >>> number("0.25")
    0.25
    """
    found = _read(text)
    if not low <= found <= high:
        raise argparse.ArgumentTypeError(f"give a number from {low:g} to {high:g}, not {text!r}")
    return found


def _read(text: str) -> float:
    """NaN where it is none, which is within no limits."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
