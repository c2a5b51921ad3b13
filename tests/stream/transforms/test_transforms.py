"""Transforms of fields: what each does to the fields that it names, and that it does nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import CUTS, FIELD, RAGGED, ROWS, apply

from volt.stream.transforms.case import Lower, Title, Upper, has_case, titled
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.column import Column
from volt.stream.transforms.documents import Documents, Repeat
from volt.stream.transforms.field_edits import Append, Copy, KeepFields, Multiply
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.noise import Punctuation, Typos
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import LineFault, Transform

ONE_TO_ONE: tuple[Transform, ...] = (
    Lower(),
    Lower(fields=(2,), if_cased=1),
    Upper(fields=(1,)),
    Title(),
    Tag(text="[BT]"),
    Tag(text="</s>", fields=(2, 1), position="end", separator=""),
    Append(text="new"),
    Copy(),
    Copy(from_=2, to=4),
    Multiply(n=3),
    KeepFields(),
    KeepFields(fields=(2, 1)),
    Typos(rate=0.3, fields=(1, 2)),
    Punctuation(drop=0.5, final=0.5),
)


@given(ROWS)
def test_one_to_one_transforms_keep_origins_and_break_no_line(rows: list[list[str]]) -> None:
    """Whatever the Unicode, a line stays one line, its origin stays, and no tab appears but the fields' own."""
    batch = Batch.of(["\t".join(row) for row in rows])
    n_fields = {
        "append": lambda n: n + 1,
        "copy": lambda n: n,
        "multiply": lambda n: max(n, 3),
        "keep_fields": lambda n: 2,
    }
    for transform in ONE_TO_ONE:
        done = transform(batch, LineRng(1, 2))
        assert done.origins.tolist() == batch.origins.tolist()
        assert "\n" not in "".join(done.lines)
        if transform != Copy(from_=2, to=4):
            expected = [n_fields.get(transform.name, lambda n: n)(len(row)) for row in rows]
            assert [line.count("\t") + 1 for line in done.lines] == expected


@given(ROWS)
def test_case_is_that_of_str(rows: list[list[str]]) -> None:
    """lower and upper are str.lower and str.upper of the named fields; other fields stay."""
    assert apply(Lower(fields=(2,)), rows) == [[row[0], row[1].lower(), *row[2:]] for row in rows]
    assert apply(Upper(), rows) == [[row[0].upper(), row[1].upper(), *row[2:]] for row in rows]


@given(st.lists(st.from_regex(r"[A-Za-z]{1,8}", fullmatch=True), max_size=6))
def test_title_is_str_title_where_words_are_letters_and_spaces(words: list[str]) -> None:
    """On words of ASCII letters between single spaces, title case is str.title's."""
    assert titled(" ".join(words)) == " ".join(words).title()


def test_title_starts_no_word_inside_one() -> None:
    """Unlike str.title, no capital follows an apostrophe, a digit or a combining accent."""
    accented = "e\u0301cole ta\u0303o"
    assert titled(f"don't l’ami 3rd {accented} (so) “he” jean-paul") == (
        "Don't L’ami 3rd E\u0301cole Ta\u0303o (So) “He” Jean-Paul"
    )


@given(ROWS)
def test_if_cased_spares_lines_without_case(rows: list[list[str]]) -> None:
    """With if_cased, exactly the lines whose field holds a letter that has case are changed."""
    expected = [
        [field.upper() for field in row[:2]] + row[2:] if has_case(row[0]) else row for row in rows
    ]
    assert apply(Upper(if_cased=1), rows) == expected
    assert not has_case("中文 العربية हिन्दी 123")


def test_a_named_field_that_is_missing_is_a_fault_of_the_line() -> None:
    """LineFault tells the lines that lack a field, also behind if_cased."""
    for transform in (
        Lower(fields=(1, 3)),
        Tag(text="x", fields=(3,)),
        Copy(from_=3, to=1),
        KeepFields(fields=(3,)),
    ):
        with pytest.raises(LineFault) as fault:
            apply(transform, [["a", "b", "c"], ["a"], ["a", "b", "c"]])
        assert list(fault.value.reasons) == [1]
        assert "field 3 is missing: the line has 1 field" in fault.value.reasons[1]
    with pytest.raises(LineFault) as fault:
        apply(Lower(fields=(2,), if_cased=1), [["1"], ["A", "B"], ["A"]])
    assert list(fault.value.reasons) == [2]


@given(RAGGED, CUTS, st.integers(1, 6), st.integers(2, 6))
def test_fields_of_ragged_lines_move_as_those_of_lists(
    rows: list[list[str]], cut: int, n: int, to: int
) -> None:
    """Lines of one to four fields, cut or not yet, become what the same moves make of lists."""
    batch = Batch.of(["\t".join(row) for row in rows]).split(cut)
    naive: dict[Transform, Callable[[list[str]], list[str]]] = {
        Append(text="new"): lambda row: [*row, "new"],
        Tag(text="<t>"): lambda row: [f"<t> {row[0]}", *row[1:]],
        Multiply(n=n): lambda row: [row[0]] * n + row[n:],
        Copy(to=to): lambda row: [*(row + [""] * to)[: to - 1], row[0], *row[to:]],
        KeepFields(fields=(1,)): lambda row: row[:1],
    }
    for transform, function in naive.items():
        done = transform(batch, LineRng(1, 2))
        assert done.rows == [function(row) for row in rows]
        assert done.n_fields.tolist() == [len(function(row)) for row in rows]
        assert Append(text="z")(done, LineRng(1, 2)).rows == [[*function(row), "z"] for row in rows]


def test_fields_that_move_are_views() -> None:
    """keep_fields, copy, multiply and repeat copy no text."""
    batch = Batch.of(["a\tb", "c\td"]).split(2)
    for transform in (KeepFields(fields=(2, 1)), Copy(), Multiply(n=3), Repeat(n=2)):
        assert all(
            column.data is batch.columns[0].data
            for column in transform(batch, LineRng(1, 2)).columns
        )


def test_ids_are_tagged_and_cased_as_their_numbers() -> None:
    """A field of ids that gets a tag is text from then on."""
    batch = Batch(
        (Column.of_ids(np.array([5, 6, 7], np.int32), np.array([0, 2, 3])),), None, np.arange(2)
    )
    assert Tag(text="x")(batch, LineRng(1, 2)).lines == ["x 5 6", "x 7"]
    assert Upper()(batch, LineRng(1, 2)).lines == ["5 6", "7"]
    assert Upper(if_cased=1)(batch, LineRng(1, 2)).lines == ["5 6", "7"]
    mixed = Choice(
        (
            Variant(1.0),
            Variant(1.0, (Tag(text="x"),)),
            Variant(1.0, (Repeat(n=2), Append(text="y"))),
        )
    )
    done = mixed(batch.take(np.repeat([0, 1], 20)), LineRng(1, 2))
    assert set(done.lines) == {"5 6", "7", "x 5 6", "x 7", "5 6\ty", "7\ty"}


def test_transforms_survive_pickling() -> None:
    """A worker process gets the same transform."""
    for transform in (*ONE_TO_ONE, Documents(), Choice((Variant(1.0, (Lower(),)),))):
        assert pickle.loads(pickle.dumps(transform)) == transform


@given(FIELD)
def test_title_changes_case_alone(text: str) -> None:
    """Without regard to case, a title-cased text is the text."""
    assert titled(text).lower().casefold() == text.lower().casefold()
