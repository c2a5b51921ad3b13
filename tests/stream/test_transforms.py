"""Transforms of fields: what each does to the fields that it names, and that it does nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import ConfigError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.case import Lower, Title, Upper, has_case, titled
from volt.stream.transforms.chance import Chance
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.column import Column
from volt.stream.transforms.documents import Documents
from volt.stream.transforms.noise import Punctuation, Typos
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.tags_and_fields import Append, Copy, KeepFields, Multiply, Repeat, Tag
from volt.stream.transforms.transform import LineFault, Transform

FIELD = st.text(st.characters(exclude_characters="\t\n", exclude_categories=["Cs"]), max_size=20)
ROW = st.lists(FIELD, min_size=2, max_size=4)
ROWS = st.lists(ROW, max_size=8)
RAGGED = st.lists(st.lists(FIELD, min_size=1, max_size=4), max_size=8)
CUTS = st.integers(0, 6)  # how many fields a batch has been cut into before
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


def apply(transform: Transform, rows: list[list[str]], *, seed: int = 0) -> list[list[str]]:
    """Rows through a transform."""
    done = transform(Batch.of(["\t".join(row) for row in rows]), Chance.of("test", seed))
    return [line.split("\t") for line in done.lines]


@given(ROWS)
def test_one_to_one_transforms_keep_origins_and_break_no_line(rows: list[list[str]]) -> None:
    """Whatever the Unicode, a line stays one line, its origin stays, and no tab appears but the fields' own."""
    batch = Batch.of(["\t".join(row) for row in rows])
    n_fields = {
        "append": lambda n: n + 1, "copy": lambda n: n, "multiply": lambda n: max(n, 3), "keep_fields": lambda n: 2,
    }  # fmt: skip
    for transform in ONE_TO_ONE:
        done = transform(batch, Chance(1, 2))
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


@given(FIELD)
def test_title_changes_case_alone(text: str) -> None:
    """Without regard to case, a title-cased text is the text."""
    assert titled(text).lower().casefold() == text.lower().casefold()


def test_title_starts_no_word_inside_one() -> None:
    """Unlike str.title, no capital follows an apostrophe, a digit or a combining accent."""
    accented = "e\u0301cole ta\u0303o"
    assert titled(f"don't l’ami 3rd {accented} (so) “he” jean-paul") == (
        "Don't L’ami 3rd E\u0301cole Ta\u0303o (So) “He” Jean-Paul"
    )


@given(ROWS)
def test_if_cased_spares_lines_without_case(rows: list[list[str]]) -> None:
    """With if_cased, exactly the lines whose field holds a letter that has case are changed."""
    expected = [[field.upper() for field in row[:2]] + row[2:] if has_case(row[0]) else row for row in rows]
    assert apply(Upper(if_cased=1), rows) == expected
    assert not has_case("中文 العربية हिन्दी 123")


def test_sides_are_fields_1_and_where_present_2() -> None:
    """Without `fields`, a line of one field has that field changed, and a third field stays."""
    assert apply(Upper(), [["a"], ["a", "b"], ["a", "b", "c"]]) == [["A"], ["A", "B"], ["A", "B", "c"]]


def test_a_named_field_that_is_missing_is_a_fault_of_the_line() -> None:
    """LineFault tells the lines that lack a field, also behind if_cased."""
    for transform in (Lower(fields=(1, 3)), Tag(text="x", fields=(3,)), Copy(from_=3, to=1), KeepFields(fields=(3,))):
        with pytest.raises(LineFault) as fault:
            apply(transform, [["a", "b", "c"], ["a"], ["a", "b", "c"]])
        assert list(fault.value.reasons) == [1]
        assert "field 3 is missing: the line has 1 field" in fault.value.reasons[1]
    with pytest.raises(LineFault) as fault:
        apply(Lower(fields=(2,), if_cased=1), [["1"], ["A", "B"], ["A"]])
    assert list(fault.value.reasons) == [2]


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda: Lower(fields=(1, 0)), "fields"),
        (lambda: Upper(if_cased=0), "if_cased"),
        (lambda: Copy(from_=0), "from"),
        (lambda: Copy(to=0), "to"),
        (lambda: Documents(id_field=0), "id_field"),
        (lambda: Documents(fields=(0,)), "fields"),
    ],
)
def test_there_is_no_field_0(make: Callable[[], object], option: str) -> None:
    """Fields count from 1: a 0 is refused wherever a field is named, and the option is told."""
    with pytest.raises(ConfigError, match=f"^{option}: 0; fields count from 1"):
        make()


@given(ROWS, FIELD)
def test_copy_and_multiply(rows: list[list[str]], text: str) -> None:
    """copy makes two fields equal, and pads; multiply makes n fields equal; append adds one behind."""
    for row in apply(Copy(from_=2, to=6), rows):
        assert row[5] == row[1]
        assert len(row) == 6
    assert apply(Multiply(n=2), rows) == [[row[0], row[0], *row[2:]] for row in rows]
    assert apply(Append(text=text.replace("\r", "")), rows) == [[*row, text.replace("\r", "")] for row in rows]


@given(ROWS, st.integers(1, 4))
def test_repeat_makes_equal_lines_with_one_origin(rows: list[list[str]], n: int) -> None:
    """repeat gives every line n times in a row, with its origin."""
    done = Repeat(n=n)(Batch.of(["\t".join(row) for row in rows]), Chance(1, 2))
    assert done.lines == ["\t".join(row) for row in rows for _ in range(n)]
    assert done.origins.tolist() == [index for index in range(len(rows)) for _ in range(n)]


@given(RAGGED, CUTS, st.integers(1, 6), st.integers(2, 6))
def test_fields_of_ragged_lines_move_as_those_of_lists(rows: list[list[str]], cut: int, n: int, to: int) -> None:
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
        done = transform(batch, Chance(1, 2))
        assert done.rows == [function(row) for row in rows]
        assert done.n_fields.tolist() == [len(function(row)) for row in rows]
        assert Append(text="z")(done, Chance(1, 2)).rows == [[*function(row), "z"] for row in rows]


def test_fields_that_move_are_views() -> None:
    """keep_fields, copy, multiply and repeat copy no text."""
    batch = Batch.of(["a\tb", "c\td"]).split(2)
    for transform in (KeepFields(fields=(2, 1)), Copy(), Multiply(n=3), Repeat(n=2)):
        assert all(column.data is batch.columns[0].data for column in transform(batch, Chance(1, 2)).columns)


def test_ids_are_tagged_and_cased_as_their_numbers() -> None:
    """A field of ids that gets a tag is text from then on."""
    batch = Batch((Column.of_ids(np.array([5, 6, 7], np.int32), np.array([0, 2, 3])),), None, np.arange(2))
    assert Tag(text="x")(batch, Chance(1, 2)).lines == ["x 5 6", "x 7"]
    assert Upper()(batch, Chance(1, 2)).lines == ["5 6", "7"]
    assert Upper(if_cased=1)(batch, Chance(1, 2)).lines == ["5 6", "7"]
    mixed = Choice((Variant(1.0), Variant(1.0, (Tag(text="x"),)), Variant(1.0, (Repeat(n=2), Append(text="y")))))
    done = mixed(batch.take(np.repeat([0, 1], 20)), Chance(1, 2))
    assert set(done.lines) == {"5 6", "7", "x 5 6", "x 7", "5 6\ty", "7\ty"}


def test_keep_fields_swaps() -> None:
    """keep_fields keeps those named in the order named."""
    assert apply(KeepFields(fields=(2, 1)), [["a", "b", "c"]]) == [["b", "a"]]


def test_tag_goes_before_or_behind() -> None:
    """A tag stands at the start or the end of each named field, with its separator."""
    assert apply(Tag(text="<de>", fields=(1, 2), separator=""), [["a", "b"]]) == [["<de>a", "<de>b"]]
    assert apply(Tag(text="!", position="end"), [["a", "b"]]) == [["a !", "b"]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tag(text="a\tb"),
        lambda: Append(text="a\nb"),
        lambda: Tag(text="a", separator="\r"),
        lambda: Lower(fields=()),
        lambda: Lower(fields=(1, 1)),
        lambda: Lower(fields=(-1,)),
        lambda: Upper(if_cased=-1),
        lambda: Copy(to=-1),
        lambda: Multiply(n=0),
        lambda: Repeat(n=0),
        lambda: Choice(()),
        lambda: Choice((Variant(0.0),)),
        lambda: Variant(-1.0),
        lambda: Typos(rate=1.5),
        lambda: Typos(rate=float("nan")),
        lambda: Typos(kinds=()),
        lambda: Typos(kinds=("swap", "swap")),
        lambda: Typos(kinds=("swop",)),  # type: ignore[arg-type]
        lambda: Typos(fields=(0,)),
        lambda: Punctuation(drop=-0.1),
        lambda: Punctuation(final=2),
        lambda: Punctuation(fields=()),
        lambda: Variant(float("nan")),
        lambda: Documents(separator="\t"),
        lambda: Documents(probability=1.5),
        lambda: Documents(max_tokens=0),
    ],
)
def test_options_out_of_range_are_refused(make: object) -> None:
    """What could break lines, or means nothing, is a ConfigError when the transform is made."""
    with pytest.raises(ConfigError):
        make()  # type: ignore[operator]


def test_every_transform_is_named_as_it_is_registered() -> None:
    """The registry's keys are the names that traces show."""
    assert {name: kind.name for name, kind in TRANSFORMS.items()} == {name: name for name in TRANSFORMS}


def test_transforms_survive_pickling() -> None:
    """A worker process gets the same transform."""
    for transform in (*ONE_TO_ONE, Documents(), Choice((Variant(1.0, (Lower(),)),))):
        assert pickle.loads(pickle.dumps(transform)) == transform


# Choice


@given(ROWS, st.integers(0, 1 << 32))
def test_choice_sends_each_line_through_one_variant(rows: list[list[str]], seed: int) -> None:
    """Each line becomes what one of the variants makes of it, in its place."""
    choice = Choice((Variant(1.0), Variant(1.0, (Tag(text="A"), Tag(text="B"))), Variant(2.0, (Tag(text="C"),))))
    for row, done in zip(rows, apply(choice, rows, seed=seed), strict=True):
        assert done[0] in (row[0], f"B A {row[0]}", f"C {row[0]}")
        assert done[1:] == row[1:]


def test_choice_follows_its_weights() -> None:
    """Of 40,000 lines, each variant gets its share within five standard deviations; a weight of 0 gets none."""
    shares = {"a": 0.95, "b": 0.04, "c": 0.01, "d": 0.0}
    choice = Choice(tuple(Variant(100 * share, (Append(text=tag),)) for tag, share in shares.items()))
    tags = [row[1] for row in apply(choice, [["x"]] * 40_000)]
    for tag, share in shares.items():
        assert abs(tags.count(tag) - 40_000 * share) <= 5 * (40_000 * share * (1 - share)) ** 0.5


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 1 << 32))
def test_choice_keeps_the_order_whatever_variants_drop_or_repeat(numbers: list[int], seed: int) -> None:
    """With variants that drop, repeat and keep lines, origins never fall, and repeats stand together."""
    from volt.stream.transforms.filters import Regex

    choice = Choice((Variant(1.0), Variant(1.0, (Repeat(n=3),)), Variant(1.0, (Regex(pattern="[0-4]"),))))
    batch = Batch.of_rows([[str(number)] for number in numbers], np.arange(len(numbers)) + 100)
    done = choice(batch, Chance.of("test", seed))
    assert done.origins.tolist() == sorted(done.origins.tolist())
    assert done.lines == [str(numbers[origin - 100]) for origin in done.origins.tolist()]
    assert {done.origins.tolist().count(origin) for origin in done.origins.tolist()} <= {1, 3}


def test_a_fault_inside_a_choice_names_the_line_of_the_whole_batch() -> None:
    """LineFault of a nested transform is told by the index in the batch that the choice was given."""
    choice = Choice((Variant(1.0, (Repeat(n=2), Lower(fields=(2,)))),))
    with pytest.raises(LineFault) as fault:
        apply(choice, [["a", "b"], ["c"], ["d", "e"]])
    assert list(fault.value.reasons) == [1]


@given(RAGGED, st.integers(0, 1 << 32), st.data())
def test_what_a_choice_makes_of_a_line_depends_on_no_other(
    rows: list[list[str]], seed: int, data: st.DataObject
) -> None:
    """Some lines of a batch alone become what they became among the others, inside choices in choices too."""
    inner = Choice((Variant(1.0, (Typos(rate=0.5),)), Variant(1.0, (Repeat(n=2), Typos(rate=0.5), Append(text="x")))))
    choice = Choice((Variant(1.0), Variant(1.0, (Tag(text="A"), inner)), Variant(1.0, (inner, inner))))
    batch, chance = Batch.of(["\t".join(row) for row in rows]), Chance.of("test", seed)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), bool)
    among, alone = choice(batch, chance), choice(batch.take(chosen), chance)
    assert among.take(np.isin(among.origins, np.flatnonzero(chosen))).lines == alone.lines
    assert alone.origins.tolist() == [origin for origin in among.origins.tolist() if chosen[origin]]


def test_copies_draw_for_themselves() -> None:
    """Of 1,000 copies of a line, each draws its variant and what that does; copies made inside a variant too."""
    copies = Repeat(n=1000)(Batch.of(["abcdefghijklmnopqrst"]), Chance(1, 2))
    thirds = Choice(tuple(Variant(1.0, (Append(text=tag),)) for tag in "abc"))(copies, Chance(3, 4))
    tags = thirds.column(2).strings()
    assert all(abs(tags.count(tag) - 1000 / 3) < 5 * (1000 * 2 / 9) ** 0.5 for tag in "abc")
    noisy = Choice((Variant(1.0, (Repeat(n=2), Typos(rate=1.0))),))(copies, Chance(3, 4))
    assert len(set(noisy.lines)) == len(noisy) == 2000


def test_a_choice_is_what_its_variants_are() -> None:
    """It is compiled, and keeps lines, if all steps are and do; it joins lines if one does."""
    plain, user = Choice((Variant(1.0, (Lower(),)), Variant(1.0))), Choice((Variant(1.0, (Lower(), Careless())),))
    assert (plain.is_compiled, plain.keeps_lines, plain.joins_lines) == (True, True, False)
    assert (user.is_compiled, user.keeps_lines, user.joins_lines) == (False, False, True)
    assert not Choice((Variant(1.0, (Repeat(),)), Variant(1.0))).keeps_lines


class Careless:
    """A transform that says only that it joins lines."""

    name = "careless"
    joins_lines = True

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        return batch


def test_a_choice_copies_no_field_that_no_variant_changed() -> None:
    """Fields that stay are views into the buffer that they were, and the others share one."""
    batch = Batch.of([f"A{k}\tB{k}\tC{k}" for k in range(100)]).split(3)
    done = Choice((Variant(1.0), Variant(1.0, (Lower(),)), Variant(1.0, (Upper(),))))(batch, Chance(1, 2))
    assert done.columns[2].data is batch.columns[2].data
    assert done.columns[0].data is done.columns[1].data
    assert Choice((Variant(1.0), Variant(0.0, (Lower(),))))(batch, Chance(1, 2)) is batch


# Documents

DOCUMENTS = st.lists(st.tuples(st.sampled_from(["", "x", "y"]), st.integers(0, 3)), max_size=20)


def document_rows(told: list[tuple[str, int]]) -> list[list[str]]:
    """Rows with numbered words and a document id."""
    return [
        [" ".join([f"s{index}"] * n), " ".join([f"t{index}"] * (4 - n)), name] for index, (name, n) in enumerate(told)
    ]


@given(DOCUMENTS, st.integers(1, 12), st.one_of(st.none(), st.integers(1, 4)), st.booleans(), st.integers(0, 99))
def test_documents_lose_nothing_and_keep_their_limits(
    told: list[tuple[str, int]], max_tokens: int, max_lines: int | None, sample: bool, seed: int
) -> None:
    """Split at the separator, documents are the lines in order; each has one id and keeps to both limits."""
    rows = document_rows(told)
    transform = Documents(
        separator="|", max_tokens=max_tokens, max_lines=max_lines, probability=0.7, sample_length=sample
    )
    batch = Batch.of(["\t".join(row) for row in rows])
    done = transform(batch, Chance(seed, 0))
    documents = [line.split("\t") for line in done.lines]
    assert [part.strip() for row in documents for part in row[0].split("|")] == [row[0] for row in rows]
    assert [part.strip() for row in documents for part in row[1].split("|")] == [row[1] for row in rows]
    bounds = [*done.origins.tolist(), len(rows)]
    for row, first, last in zip(documents, bounds, bounds[1:], strict=False):
        assert {rows[index][2] for index in range(first, last)} == {row[2]}
        if last - first > 1:
            assert row[2] != ""
            assert max_lines is None or last - first <= max_lines
            assert all(len(field.replace("|", " ").split()) <= max_tokens for field in row[:2])


def test_documents_are_as_long_as_limits_allow() -> None:
    """With probability 1 every document takes all lines that fit: a naive grouping gives the same."""
    rows = document_rows([("x", 1)] * 5 + [("y", 1)] * 2 + [("", 1)] * 2)
    starts = Documents(max_tokens=250, max_lines=3)(Batch.of(["\t".join(row) for row in rows]), Chance(0, 0))
    assert starts.origins.tolist() == [0, 3, 5, 7, 8]
    alone = Documents(probability=0.0)(Batch.of(["\t".join(row) for row in rows]), Chance(0, 0))
    assert alone.lines == ["\t".join(row) for row in rows]
    assert apply(Documents(separator="", fields=(1,)), [["a", "b", "1"], ["c", "d", "1"]]) == [["a c", "b", "1"]]


@pytest.mark.parametrize(
    ("max_tokens", "starts"), [(5, [*range(9)]), (6, [0, 2, 4, 5, 7, 8]), (8, [0, 2, 4, 5, 7, 8]), (9, [0, 3, 5, 7, 8])]
)
def test_a_document_may_have_just_as_many_tokens(max_tokens: int, starts: list[int]) -> None:
    """With three words in the longer field of each line, the limit 6 is met exactly by two lines, and 9 by three."""
    rows = document_rows([("x", 1)] * 5 + [("y", 1)] * 2 + [("", 1)] * 2)
    batch = Batch.of(["\t".join(row) for row in rows])
    assert Documents(max_tokens=max_tokens)(batch, Chance(0, 0)).origins.tolist() == starts


def naive_starts(rows: list[list[str]], limits: list[int], joins: list[bool], max_lines: int | None) -> list[int]:
    """Where documents start, line by line: both fields within the limit of the document's first line."""
    starts = list[int]()
    for number, row in enumerate(rows):
        if starts and joins[first := starts[-1]] and row[2] == rows[first][2] != "":
            totals = [sum(len(rows[k][field].split()) for k in range(first, number + 1)) for field in (0, 1)]
            if max(totals) <= limits[first] and (max_lines is None or number - first < max_lines):
                continue
        starts.append(number)
    return starts


@given(
    st.lists(
        st.tuples(st.sampled_from(["a b", "", "\u3000é", "c"]), FIELD, st.sampled_from(["", "x", "xy", "é"])),
        max_size=20,
    ),
    st.sampled_from(["", "<sep>"]),
    st.one_of(st.none(), st.integers(1, 4)),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.booleans(),
)
def test_documents_are_those_of_their_definition(
    told: list[tuple[str, str, str]], separator: str, max_lines: int | None, probability: float, sample: bool
) -> None:
    """Starts, joined fields, and the other fields of the first line, by what their own chances say; in any order."""
    batch = Batch.of(["\t".join([*row, "rest", str(k)]) for k, row in enumerate(told)]).take(np.arange(len(told))[::-1])
    chance, rows = Chance(3, 4), batch.rows
    joins = (chance.uniform(batch.origins) < probability).tolist()
    limits = chance.at("limit").integers(batch.origins, 1, 4).tolist() if sample else [4] * len(rows)
    starts = naive_starts(rows, limits, joins, max_lines)
    done = Documents(
        separator=separator, max_tokens=4, max_lines=max_lines, probability=probability, sample_length=sample
    )(batch, chance)
    between = f" {separator} " if separator else " "
    groups = [rows[start:end] for start, end in pairwise([*starts, len(rows)])]
    assert done.rows == [[*(between.join(row[k] for row in group) for k in (0, 1)), *group[0][2:]] for group in groups]
    assert done.origins.tolist() == batch.origins[np.array(starts, np.int64)].tolist()


def test_documents_of_ids() -> None:
    """Ids are counted and stay ids where nothing stands between them; a separator makes them text."""
    ids = Column.of_ids(np.array([10, 11, 12, 13], np.int32), np.array([0, 2, 2, 3, 4]))
    batch = Batch((ids, Column.of(["x", "x", "x", "y"])), None, np.arange(4))
    done = Documents(id_field=2, fields=(1,), separator="")(batch, Chance(0, 0))
    assert (done.columns[0].is_ids, done.lines) == (True, ["10 11 12\tx", "13\ty"])
    text = Documents(id_field=2, fields=(1,), separator="|", max_tokens=2)(batch, Chance(0, 0))
    assert (text.columns[0].is_ids, text.lines) == (False, ["10 11 | \tx", "12\tx", "13\ty"])


def test_documents_need_their_fields() -> None:
    """A line without the field of the id is unfit, and told as such."""
    with pytest.raises(LineFault) as fault:
        apply(Documents(), [["a", "b", "x"], ["a", "b"]])
    assert fault.value.reasons == {1: "field 3 is missing: the line has 2 fields (fields count from 1)"}
