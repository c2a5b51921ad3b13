"""Seeds and real sources → three texts that tokenizers are compared on: prose, code and hostile lines.

    python -m experiments.real_tokenizers.texts FOLDER [--data VOLT_DATA]

prose     lines of the corpora in --data in seven scripts, and lines of random words in eight scripts that these lack
code      Python of the standard library, and the C headers of Python and of NumPy
hostile   lines of one nasty kind each: any code points, controls, white space, digits, special tokens, marks, emoji …

The same seed gives the same lines, on any machine with the same sources. A line is what stands between two "\\n".

>>> hostile_lines(2) == hostile_lines(2), any("\\n" in line for line in hostile_lines(100))
(True, False)
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import random
import sys
import sysconfig
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

N_LINES, N_HOSTILE = 20_000, 1_500
LONGEST = 1_000  # characters of a line of code: a table of numbers is no code

REAL = (
    *(
        "multi30k/train.en.gz",
        "multi30k/train.de.gz",
        "multi30k/train.fr.gz",
        "multi30k/train.cs.gz",
    ),
    *(
        "ted/Finnish.txt.gz",
        "ted/Catalan.txt.gz",
        "ted/Latvian.txt.gz",
        "bible/uk.tsv.gz",
        "bible/hy.tsv.gz",
    ),
    *("ted/Georgian.txt.gz", "ted/Marathi.txt.gz", "ted/Urdu.txt.gz", "ted/Cantonese.txt.gz"),
)
ALPHABETS = {  # the first and the last code point of their letters and marks
    "Greek": (0x391, 0x3CE),
    "Hebrew": (0x5B0, 0x5EA),
    "Bengali": (0x985, 0x9CC),
    "Tamil": (0xB85, 0xBCD),
    "Thai": (0xE01, 0xE4E),
    "Ethiopic": (0x1200, 0x1357),
    "Kana": (0x3041, 0x30FE),
    "Hangul": (0xAC00, 0xD7A3),
}

WHITE = (
    " \t\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2007\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\xad\u180e\u202a\u202e\u2066\u2069\ufe0f\U000e0041"
SPECIAL = (
    *(
        "<unk>",
        "<s>",
        "</s>",
        "<pad>",
        "<mask>",
        "[INST]",
        "[/INST]",
        "[TOOL_CALLS]",
        "<EOT>",
        "<META>",
        "<0x0A>",
    ),
    *(
        "<|endoftext|>",
        "<|im_start|>",
        "<|begin_of_text|>",
        "<|startoftranscript|>",
        "<start_of_text>",
        "<0x41>",
    ),
    *(
        "<｜begin▁of▁sentence｜>",
        "<｜User｜>",
        "<think>",
        "▁",
        "▁▁",
        "Ġ",
        "Ċ",
        "</w>",
        "@@",
        "##",
        "⁇",
        "<|newline|>",
    ),
)
SHORT = (
    *(
        "'s",
        "'S",
        "'T",
        "'re",
        "'LL",
        "'ſ",
        "\u2019s",
        "'d",
        "'D",
        "''",
        "can't",
        "I'Ve",
        "HTTPServer",
        "iPhone",
    ),
    *(
        "K",
        "ſ",
        "İ",
        "ı",
        "ß",
        "ẞ",
        "ǅ",
        "ﬁ",
        "Ω",
        "Å",
        "e\u0301",
        "한",
        "\u1112\u1161\u11ab",
        "ｆｕｌｌ",
        "½",
        "Ⅷ",
        "²",
    ),
)
EMOJI = ("😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇮", "❤️", "1️⃣", "🫠", "🧑🏿‍🚀", "☺", "⛹🏻‍♀️")
DIGITS = (
    "0123456789",
    "٠١٢٣٤٥٦٧٨٩",
    "०१२३४५६७८९",
    "０１２３４５６７８９",
    "²³¹⁰⁴",
    "ⅠⅡⅢⅳⅴ",
    "½¼¾⅓",
    "一二三四",
)
LATIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZäöüéñçøåßđł"
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~«»„“”‚‘’–—…¿¡、。「」·؟،؛₹€§¶†‡"


def prose_lines(n: int, data: Path | None, *, seed: int = 18) -> list[str]:
    """n lines: two in three of real corpora where there are any, an equal share of each; the others of random words."""
    real: list[str] = []
    if data is not None:
        share = -(-2 * n // 3 // len(REAL))
        for name in REAL:
            real += itertools.islice(_lines_of_archive(data / name), share)
    rng = random.Random(seed)
    made = [
        _words(rng, ALPHABETS[name])
        for name, _ in zip(itertools.cycle(ALPHABETS), range(n - len(real)))
    ]
    return [*real, *made][:n]


def code_lines(n: int) -> list[str]:
    """n lines: half of Python's standard library, half of the C headers that are found."""
    import numpy as np

    library = Path(sysconfig.get_path("stdlib"))
    headers = (Path(sysconfig.get_path("include")), Path(np.get_include()), Path("/usr/include"))
    rows = list(itertools.islice(_lines_of_files(sorted(library.glob("*.py"))), n // 2))
    c = _lines_of_files(
        itertools.chain.from_iterable(sorted(path.rglob("*.h")) for path in headers)
    )
    return [*rows, *itertools.islice(c, n - len(rows))]


def hostile_lines(n: int, *, seed: int = 18) -> list[str]:
    """n lines, of each nasty kind in turn, without "\\n" and surrogates; some are empty or white space alone."""
    rng = random.Random(seed)
    return [kind(rng).replace("\n", " ") for kind, _ in zip(itertools.cycle(KINDS), range(n))]


def _lines_of_archive(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.rstrip("\n").split("\t", 1)[-1]


def _lines_of_files(paths: Iterable[Path]) -> Iterator[str]:
    """The lines of files that are UTF-8, without the longest."""
    for path in paths:
        try:
            text = path.read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            continue
        yield from (line for line in text.split("\n") if len(line) <= LONGEST)


@cache
def _letters(first: int, last: int) -> str:
    """The letters and marks between two code points."""
    return "".join(
        filter(lambda char: unicodedata.category(char)[0] in "LM", map(chr, range(first, last + 1)))
    )


def _words(rng: random.Random, alphabet: tuple[int, int]) -> str:
    letters = _letters(*alphabet)
    words = ("".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(rng.randint(3, 18)))
    return " ".join(words) + rng.choice((".", "!", "?", "", " 12.", ";"))


def _some(rng: random.Random, choices: Iterable[str], most: int) -> str:
    return "".join(rng.choices(list(choices), k=rng.randint(0, most)))


def _any_points(rng: random.Random) -> str:
    """Code points of all planes: half of them below U+3000."""
    points = (
        rng.randrange(0x3000) if rng.random() < 0.5 else rng.randrange(0x110000) for _ in range(60)
    )
    return "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)


def _private(rng: random.Random) -> str:
    edges = "\U0010ffff\ufffe\uffff\ufffd\ue000\uf8ff\U000f0000\U0010fffd\ufdd0\U0001fffe"
    return _some(rng, edges + LATIN[:20] + "  ", 40)


def _marks(rng: random.Random) -> str:
    marks = [
        chr(point)
        for point in (*range(0x300, 0x370), 0x20DD, 0x93C, 0xBCD, 0x5BC, 0x64E, 0x1D165, 0xE47)
    ]
    return "".join(
        rng.choice(LATIN) + _some(rng, marks, 4) + rng.choice(("", "", " ")) for _ in range(20)
    )


def _long_word(rng: random.Random) -> str:
    letters = rng.choice(
        (
            LATIN,
            LATIN[:26],
            "a",
            "ab",
            "\u4e00\u4e8c\u4e09",
            "=-",
            "\u0915\u093f",
            "0123456789",
            "😀👍",
        )
    )
    return "".join(rng.choices(letters, k=rng.choice((100, 300, 1_000, 3_000)))) + rng.choice(
        ("", " end")
    )


def _mixture(*kinds: Iterable[str]) -> Callable[[random.Random], str]:
    """A kind of line: up to 40 strings, each of a kind chosen at random."""
    choices = [list(kind) for kind in kinds]
    return lambda rng: "".join(rng.choice(rng.choice(choices)) for _ in range(rng.randint(0, 40)))


def _scripts(rng: random.Random) -> str:
    return "".join(
        _words(rng, rng.choice([*ALPHABETS.values(), (0x41, 0x5A), (0x61, 0x7A)]))[:7]
        for _ in range(12)
    )


KINDS: tuple[Callable[[random.Random], str], ...] = (
    _any_points,
    _private,
    _marks,
    _long_word,
    _scripts,
    _mixture([chr(point) for point in (*range(10), *range(11, 32), *range(127, 160))], LATIN),
    _mixture(WHITE, LATIN, PUNCTUATION),
    _mixture([" ", "  ", "   ", " " * 17, "\t", "\t\t"], LATIN, ["word", "X"], PUNCTUATION),
    _mixture(["\r", "\r\r", " \r", "\r "], LATIN, PUNCTUATION, [" "]),
    _mixture(*DIGITS, [" ", ",", ".", "-", "a"]),
    _mixture(SPECIAL, SPECIAL, LATIN, [" ", "  "]),
    _mixture(SHORT, SHORT, LATIN, [" ", "'", "\u2019"]),
    _mixture(EMOJI, LATIN, [" "], INVISIBLE),
    _mixture(PUNCTUATION, PUNCTUATION, LATIN, [" ", "\r", "/", "/\r"]),
    _mixture(INVISIBLE, WHITE, SHORT, SPECIAL, PUNCTUATION, EMOJI, LATIN),
)


def make_texts(
    folder: Path, data: Path | None, *, n_lines: int = N_LINES, n_hostile: int = N_HOSTILE
) -> list[Path]:
    """Write prose.txt, code.txt and hostile.txt into a folder; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "prose": prose_lines(n_lines, data),
        "code": code_lines(n_lines),
        "hostile": hostile_lines(n_hostile),
    }
    for name, lines in texts.items():
        (folder / f"{name}.txt").write_bytes("".join(f"{line}\n" for line in lines).encode())
    return [folder / f"{name}.txt" for name in texts]


def main() -> None:
    """Write the three texts."""
    parser = argparse.ArgumentParser(description="Write the texts that tokenizers are compared on.")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--data", type=Path, help="the corpora; without them, prose is random words alone"
    )
    asked = parser.parse_args()
    for path in make_texts(asked.folder, asked.data):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
