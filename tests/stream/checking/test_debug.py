"""Every step's before and after: of each line what the stream gives, or the step that drops it."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import Drop, Make, Pair, Refuse, Repeat, Same, numbered

from volt.stream import ErrorPolicy, Source, Stream
from volt.stream.checking.trace import (
    DebugLine,
    Fields,
    TraceStep,
    compared,
    debug,
    debug_page,
    plain,
)
from volt.stream.transforms.case import Upper
from volt.stream.transforms.transform import Transform

HOSTILE = "<script>alert(1)</script>\t\" onload='x' {{ 7 * 7 }}\u202e\x1b[31m&lt;"


def streamed(folder: Path, *steps: Transform, **options: object) -> Stream:
    """A stream of one epoch of 40 lines, through these steps."""
    source = Source(
        "a",
        numbered(folder, "a", 40, n_shards=3),
        1.0,
        steps,
        epochs=1,
        **{"block_lines": 9, **options},
    )  # type: ignore[arg-type]
    return Stream([source], seed=5, policy=ErrorPolicy("skip"))


STEPS: dict[str, tuple[tuple[Transform, ...], dict[str, object]]] = {
    "compiled": ((Upper(fields=(1,)), Drop(0.3), Repeat()), {}),
    "python": ((Same(), Drop(0.3), Repeat(), Refuse("7")), {}),
    "outputs": ((Repeat(), Upper()), {"shuffle": "outputs"}),
    "joined": ((Pair(), Drop(0.2)), {"shuffle": "outputs"}),
    "in order": ((Repeat(), Refuse("3")), {"shuffle": "none"}),
    "copies": (
        (Repeat(), Refuse("\t0", "first"), Refuse("\t1", "second"), Refuse("\t2", "third")),
        {},
    ),
    "nothing": ((), {}),
}


@pytest.mark.parametrize("name", STEPS)
def test_the_last_texts_are_what_the_stream_gives(tmp_path: Path, name: str) -> None:
    """Of every line what the stream gives of it, each line once; in its order where nothing is shuffled."""
    steps, options = STEPS[name]
    with streamed(tmp_path, *steps, **options) as stream:
        found, given = list(debug(stream, n_lines=1000)), list(stream)
    assert Counter(text for line in found for text in line.text) == Counter(given)
    assert len({(line.path, line.line) for line in found}) == len(found) == 40
    if name == "in order":
        assert [text for line in found for text in line.text] == given


@pytest.mark.parametrize("name", STEPS)
def test_each_step_goes_on_where_the_last_one_stopped(tmp_path: Path, name: str) -> None:
    """The first has the line as it was read, the last what the stream gives; nothing is left behind a drop."""
    steps, options = STEPS[name]
    with streamed(tmp_path, *steps, **options) as stream:
        for line in debug(stream, n_lines=40):
            assert line.raw == Path(line.path).read_text().split("\n")[line.line - 1]
            before = (line.raw,)
            for step in line.steps:
                assert step.before == before or line.faults
                before = step.after
            assert sorted(before) == sorted(line.text)
            assert [step.name for step in line.steps] == [step.name for step in steps][
                : len(line.steps)
            ]
            assert bool(line.text) == (not line.fate)
            assert line.text or line.dropped_by == steps[len(line.steps) - 1].name


def test_every_source_has_its_lines(make: Make) -> None:
    """So many of each, or all that it has."""
    with make() as stream:
        assert Counter(line.source for line in debug(stream, n_lines=12)) == {
            "a": 12,
            "b": 11,
            "c": 12,
        }


def test_an_unfit_line_is_reported_with_its_reason(tmp_path: Path) -> None:
    """What refused it, be it before the first step, in a block that is refused whole, or a copy of a line."""
    (tmp_path / "x.tsv").write_bytes(b"ok\nbad one\n\xff\n")
    source = Source(
        "x", (str(tmp_path / "x.tsv"),), 1.0, (Upper(), Refuse("BAD"), Same()), shuffle="none"
    )
    with Stream([source]) as stream:
        ok, bad, invalid = debug(stream, n_lines=3)
    assert (ok.text, ok.faults, ok.fate) == (("OK",), (), "")
    assert (bad.text, bad.faults, bad.dropped_by) == ((), ("refuse: holds 'BAD'",), "refuse")
    assert bad.steps[-1] == TraceStep("refuse", ("BAD ONE",), ())
    assert (invalid.steps, invalid.fate, invalid.dropped_by) == ((), "unfit", "")
    assert invalid.faults[0].startswith("invalid UTF-8")
    with Stream([Source("x", source.paths, 1.0, (Refuse(""), Same()), shuffle="none")]) as stream:
        assert [line.dropped_by for line in debug(stream, n_lines=2)] == ["refuse", "refuse"]


def texts(fields: Fields) -> str:
    """The line that fields are of."""
    return "\t".join(" ".join(token.text for token in tokens) for tokens in fields)


LINE = st.text("ab \t", max_size=12)


@given(before=st.lists(LINE, min_size=1, max_size=3), after=st.lists(LINE, max_size=3))
def test_marks_change_no_text(before: list[str], after: list[str]) -> None:
    """Tokens with spaces and tabs between are the lines; what is the same on both sides is not marked."""
    left, right = compared(TraceStep("x", tuple(before), tuple(after)))
    assert ([*map(texts, left)], [*map(texts, right)]) == (before, after)
    same_left, same_right = compared(TraceStep("x", tuple(before), tuple(before)))
    assert same_left == same_right == plain(before)
    if len(before) == len(after) == 1:
        for ours, theirs in zip(left[0], right[0], strict=False):
            kept = [
                [token.text for token in side if not token.is_changed] for side in (ours, theirs)
            ]
            assert kept[0] == kept[1]


def test_lines_of_many_tokens_are_compared_as_sets() -> None:
    """In no more time than they need to be read."""
    long = " ".join(map(str, range(20_000)))
    (before,), (after,) = compared(TraceStep("x", (long,), (f"new {long}",)))
    assert [token.text for token in after[0] if token.is_changed] == ["new"]
    assert not any(token.is_changed for token in before[0])


class _Elements(HTMLParser):
    """The elements of a page, with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text = Counter[str](), set[str](), ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_shows_hostile_lines_and_obeys_none() -> None:
    """Nothing of a line becomes an element, an attribute or a template; all of it can be read; no file is asked for."""
    step = TraceStep(HOSTILE, (HOSTILE,), (HOSTILE.upper(),))
    line = DebugLine(
        HOSTILE, HOSTILE, 1, HOSTILE, (step, TraceStep("x", ("a",), ())), (HOSTILE,), ()
    )
    page = debug_page([line], title=HOSTILE)
    found = _Elements(page)
    assert found.tags.keys().isdisjoint({"script", "link", "img", "iframe", "base"})
    assert found.attributes <= {
        "lang",
        "charset",
        "name",
        "content",
        "http-equiv",
        "class",
        "colspan",
    }
    assert "<script>alert(1)</script>" in found.text
    assert "{{ 7 * 7 }}\\u202e\\x1b[31m&lt;" in found.text
    assert "\u202e" not in page
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "1 line, 1 dropped" in page
