"""Drawn vocabularies, files of them and damage to these are what they were; other tests show that it is right."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from golden import check
from outcomes import SPECIAL, any_vocabulary, described, drawn

from volt.errors import VocabularyError
from volt.vocabulary import Vocabulary, file_format, validation
from volt.vocabulary.file_format import json_of, text_of
from volt.vocabulary.special_roles import (
    END,
    FINDS_END,
    FINDS_OTHERS,
    NAMES_NONE,
    named,
    named_tokens,
    with_special,
)
from volt.vocabulary.validation import MOST_IDS, order_faults

ODD = ["a", "ab", "", "\ud800", "<s>", "</w>", "a</w>", "<0x00>", "lo", "é"]


def test_any_vocabulary() -> None:
    """A vocabulary has the ids, kinds, names and file that it had."""

    def look(chance: Random) -> Any:
        v = any_vocabulary(chance)
        closed = described(v.closed(order=chance.choice(["ids", "merges"])))
        names = (
            v.atoms,
            v.made,
            v.unmade,
            v.scaffolding,
            v.kinds,
            v.pieces,
            v.unk_id,
            len(v),
            v.id_of("lo"),
            "" in v,
            "a" in v,
        )
        return names, repr(v), v._repr_html_(), v.fingerprint, text_of(v), closed

    check("vocabulary drawn", drawn(100, look))


def test_any_fields() -> None:
    """Lists that contradict one another are refused for the fault that they were refused for."""

    def build(chance: Random) -> Any:
        def some(n: int) -> list[str]:
            return [chance.choice(ODD[: chance.choice([2, len(ODD)])]) for _ in range(chance.randint(0, n))]

        tokens, marker = some(4), chance.choice(["suffix", "none", "prefix"])
        counts = [chance.randint(-1, 3) for _ in tokens[chance.randint(0, 3) // 3 :]] * (chance.random() < 0.4)
        order = chance.choice(
            [(), (), ["<unk>", "<s>", "", "</s>", "<pad>", *tokens], chance.sample(tokens, len(tokens))]
        )
        merges = [
            tuple(some(2)[:2]) if chance.random() < 0.1 else (*chance.choices(["a", "b", "ab", "ba"], k=2),)
            for _ in some(3)
        ]
        try:
            return described(Vocabulary(
                merges, tokens, counts, marker=marker, order=order, special=chance.choice([SPECIAL[0], SPECIAL[5]]),
                merging=chance.choice(["pairs", "steps"]), whole_words=chance.random() < 0.3,
            ))  # fmt: skip
        except VocabularyError as error:
            if error.place is None:
                raise
            return error.place, str(error)[:60]

    check("vocabulary fields", drawn(500, build))


EDITS = """[]|["a"],|["a", 1],|["a", "token", 1],|["a", "token"],|["<b>", "user"],|null,|["x", "unused"],|{}|["a" 1],|
"merging": "odd",|"special": {},|"volt": 1,|"marker": "none",|"marker": "infix",|"byte_fallback": 1,|["a", 1, 2],|
["a", "b"],|"normalizer": "nfd",|"provenance": [],|["a", -1],|["a", true],|["a", 1.5],|["</w>", "a"],|["", "token"],|"""


def test_any_damage_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of which a line is dropped, repeated or replaced is refused with the line, or read, as it was."""
    monkeypatch.chdir(tmp_path)

    def load(chance: Random) -> Any:
        lines = text_of(any_vocabulary(chance, ["whitespace", "metaspace"])).split("\n")
        place = chance.randrange(len(lines))
        if chance.random() < 0.5:
            del lines[1]
            place = min(place, len(lines) - 1)
        lines[place : place + chance.randint(0, 1)] = [chance.choice([*EDITS.split("|"), lines[place]])]
        Path("a").write_text("\n".join(lines), encoding="utf-8")
        return described(Vocabulary.load("a"))

    check("vocabulary damage", drawn(250, load))


def test_any_special_tokens() -> None:
    """Special tokens get the ids, kinds and notes that they got."""

    def name(chance: Random) -> Any:
        vocabulary = any_vocabulary(chance, ["whitespace", "metaspace"])
        lost = [
            "another",
            NAMES_NONE,
            FINDS_END,
            FINDS_OTHERS,
            "1 token that nothing makes: kept as control tokens, such as '[A]'.",
        ]
        vocabulary = replace(vocabulary, provenance={"lost": lost})
        tokens = ["<url>", "<n>", "[A]", "lo", "<b>", "l", "a b", "<unk>", END]
        ids = {
            token: chance.choice([None, None, chance.randint(-1, 30), vocabulary.ids.get(token)]) for token in tokens
        }
        users: Any = {token: ids[token] for token in chance.sample(tokens, chance.randint(0, 2))}
        roles: dict[str, Any] = {
            role: chance.choice([token, {token: ids[token]}])
            for role, token in zip(["unk", "bos", "eos", "pad"], chance.sample(tokens, 4), strict=True)
            if chance.random() < 0.3
        }
        found = chance.choice([with_special, named])(vocabulary, special=chance.choice([users, [*users]]), **roles)
        return described(found), found.kinds, named_tokens(found)

    check("vocabulary special", drawn(300, name))


def nested(deep: int) -> Any:
    return [nested(deep - 1)] if deep else 1


@pytest.mark.parametrize(
    ("value", "other"),
    [(nested(100), nested(101)), (2**1024 - 1, 2**1024), (-(2**1024) + 1, -(2**1024)), (1.5, math.inf), ({"a": None},
    {1: None}),
     ((True, "x"), b"x"), ([1.5], {1.5})],
)  # fmt: skip
def test_limits_of_provenance(value: Any, other: Any) -> None:
    """The deepest lists, the greatest numbers and all kinds of JSON are taken; one more is refused."""
    assert json_of(value, "p") == (list(value) if isinstance(value, tuple) else value)
    with pytest.raises(VocabularyError):
        json_of(other, "p")


@pytest.mark.parametrize(("name", "text"), [("MOST_ROWS", '["a"]'), ("_MOST_MARKS", '["a"]'), ("MOST_BYTES", "x")])
def test_limits_of_files(name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file at a limit is written and read; one that exceeds it by one is refused."""
    vocabulary = Vocabulary((), ("a", "b"))
    vocabulary.save(tmp_path / "a")
    content = (tmp_path / "a").read_text()
    least = {"MOST_ROWS": 2, "_MOST_MARKS": sum(map(content.count, ",[{:")), "MOST_BYTES": len(content)}[name]
    monkeypatch.setattr(file_format, name, least)
    vocabulary.save(tmp_path / "a")
    assert Vocabulary.load(tmp_path / "a") == vocabulary
    monkeypatch.setattr(file_format, name, least - 1)
    with pytest.raises(VocabularyError, match=r"more than|at most"):
        (vocabulary.save if name == "MOST_ROWS" else Vocabulary.load)(tmp_path / "a")


def test_the_limits() -> None:
    """Files of 64 MiB, a million rows, two million ids, and the versions 1 and 2 are read."""
    limits = file_format.MOST_BYTES, file_format.MOST_ROWS, file_format._MOST_MARKS, MOST_IDS
    assert limits == (67_108_864, 1_048_576, 8_388_608, 2_097_152)
    assert (file_format.PLAIN, file_format.FORMAT, validation.UNUSED) == (1, 2, "")


@pytest.mark.parametrize("more", [0, 1])
def test_an_order_has_as_many_ids_as_may_be(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order at the limit is sound; one id more is a fault at the first id beyond it."""
    monkeypatch.setattr(validation, "MOST_IDS", 3)
    faults = list(order_faults(("a", "", "b") + ("",) * more, (), ("a", "b")))
    assert [fault[:2] for fault in faults] == [("pieces", 3)] * more
