"""Laws of files of ranks whose first lines are odd or damaged: read as tiktoken reads them, or refused by line.

The first lines tell what a file is; damage there must not make it a file of another kind, whatever it is called.
"""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from commands import Run

from volt.errors import ConfigError, VocabularyError
from volt.formats.registry import format_of, read_vocabulary
from volt.formats.tiktoken.ranks import looks_like
from volt.text.byte_alphabet import to_characters

TOKENS = [*(bytes([byte]) for byte in range(256)), b"th", b"the", b" the"]
LINES = [b"%s %d" % (base64.b64encode(token), rank) for rank, token in enumerate(TOKENS)]
DAMAGED = {
    "no base64": (2, b"!!!bad 2"),
    "cut base64": (2, b"Ag= 2"),
    "no rank": (2, b"Ag=="),
    "two ranks": (2, b"Ag== 2 7"),
    "other text": (2, b"what is this doing here"),
    "below zero": (2, b"Ag== -2"),
    "a rank twice": (2, b"Ag== 1"),
    "a token twice": (2, b"AQ== 2"),
    "two thousand million": (2, b"Ag== 2000000000"),
    "first line": (0, b"AA=="),
}


@pytest.mark.parametrize("name", ["x.tiktoken", "tokenizer.model", "x.txt"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_in_the_first_lines_is_reported_by_line(
    tmp_path: Path, name: str, damage: str
) -> None:
    """With a pattern and without, the error names the line, and no other format is taken."""
    at, line = DAMAGED[damage]
    path = tmp_path / name
    path.write_bytes(b"\n".join([*LINES[:at], line, *LINES[at + 1 :]]) + b"\n")
    for pattern in (None, "gpt2"):
        with pytest.raises(VocabularyError, match=rf"{name}:{at + 1}: (found|repeats|the rank)"):
            read_vocabulary(path, pattern=pattern)


@pytest.mark.parametrize("name", ["x.tiktoken", "tokenizer.model", "x.txt"])
def test_ranks_in_any_order_and_from_any_number_are_read(tmp_path: Path, name: str) -> None:
    """Reversed lines, and ranks from 7 in steps of 3: as in tiktoken the ranks are the ids."""
    path = tmp_path / name
    path.write_bytes(b"\n".join(reversed(LINES)) + b"\n")
    assert read_vocabulary(path).ids == {
        to_characters(token): rank for rank, token in enumerate(TOKENS)
    }
    path.write_bytes(
        b"".join(b"%s %d\n" % (line.split()[0], 7 + 3 * at) for at, line in enumerate(LINES))
    )
    assert read_vocabulary(path).ids == {
        to_characters(token): 7 + 3 * at for at, token in enumerate(TOKENS)
    }


def test_a_mark_of_byte_order_is_named(tmp_path: Path) -> None:
    """The error says what the first bytes are."""
    path = tmp_path / "x.tiktoken"
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(LINES))
    with pytest.raises(
        VocabularyError, match=r"x\.tiktoken:1: text that starts with a byte order mark"
    ):
        read_vocabulary(path)


def test_lists_of_words_are_no_ranks(tmp_path: Path) -> None:
    """Words with counts, also some that look like base64, stay what they were."""
    words = b"".join(
        b"%s %d\n" % (word, 99 - at)
        for at, word in enumerate([b"the", b"word", b"abcd", b"Ag=="] * 8)
    )
    assert not looks_like(words)
    (tmp_path / "dict.txt").write_bytes(b"the 9\nword 8\nabcd 7\n")
    assert format_of(tmp_path / "dict.txt") == "fairseq"


def test_what_is_taken_for_a_list_says_how_to_read_it_as_ranks(run: Run) -> None:
    """A pattern for a list of words is refused, with the way for one who knows better."""
    Path("d.txt").write_bytes(b"the 9\nword 8\n")
    with pytest.raises(
        ConfigError, match="if it contains tiktoken's ranks, import it with format='tiktoken'"
    ):
        read_vocabulary("d.txt", pattern="cl100k")
    message = run(
        "import", "d.txt", "-o", "v.volt", "--pattern", "cl100k", status=2
    ).stderr.decode()
    assert (
        "remove the pattern; if it contains tiktoken's ranks, import it with --from tiktoken"
        in message
    )
