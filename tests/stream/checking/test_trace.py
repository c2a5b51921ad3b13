"""`trace` and `debug` show each line's origin, and its text before and after every step."""

import json
from collections import Counter
from html.parser import HTMLParser
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import check
from support.streams import Drop, Pair, Refuse, Repeat, Same, numbered

from volt.errors import ArgumentError, ConfigError, StreamError
from volt.stream import ErrorPolicy, Source, Stream, debug, trace
from volt.stream.checking import trace as tracing
from volt.stream.checking.trace import (
    DebugLine,
    Trace,
    TraceStep,
    compare_lines,
    debug_page,
    split_into_tokens,
)
from volt.stream.transforms.case import Upper

HOSTILE = "<script>alert(1)</script>\t\" onload='x' {{ 7 * 7 }}\u202e\x1b[31m&lt;"


def open_stream(folder, *steps, n=12, epochs=None, **options):
    """Return a stream of n numbered lines, with these transforms."""
    paths = numbered(folder, "a", n, n_shards=2)
    source = Source("a", paths, 1.0, steps, epochs=epochs, **{"block_lines": 5, **options})
    return Stream([source], cache=folder, policy=ErrorPolicy("skip"))


def test_traces_have_the_line_of_the_file_and_of_the_stream(make):
    """The raw text of a trace is the file's line at its place; its text is the line of the
    stream."""
    lines = list(islice(make(), 120))
    stream = make()
    list(stream.blocks(limit=30))
    for n, traced in enumerate(trace(stream, range(120))):
        assert (traced.n, traced.text) == (n, lines[n])
        assert Path(traced.path).read_text().split("\n")[traced.line - 1] == traced.raw
        assert traced.text.startswith(traced.raw)
        assert traced.steps[0].before == (traced.raw,)
        assert traced.text in traced.steps[-1].after
        assert all(step.after == later.before for step, later in pairwise(traced.steps))
    assert list(islice(stream, 90)) == lines[30:]


def test_traces_do_not_depend_on_order_or_state(make, tmp_path):
    """trace returns equal traces backwards and from a later state; a line after the end is an
    error."""
    stream = make()
    traces = list(trace(stream, range(20)))
    assert list(trace(stream, reversed(range(20)))) == traces[::-1]
    list(stream.blocks(limit=11))
    assert list(trace(stream, [15], state=stream.state())) == traces[15:16]
    json.dumps(traces[0].to_json())
    with pytest.raises(StreamError, match="line 19: the stream has only 12 lines"):
        next(trace(open_stream(tmp_path, epochs=1), [19]))


def test_traces_do_not_change(tmp_path):
    """All values of traces of repeated, earlier and later lines equal the stored ones."""
    with open_stream(tmp_path, Drop(0.3), Repeat()) as stream:
        traces = [traced.to_json() for traced in trace(stream, [0, 7, 7, 3, 25])]
        for wrong in ("17", 3, [-1], [1.5]):
            with pytest.raises((ArgumentError, ConfigError), match="numbers"):
                list(trace(stream, wrong))
    for values in traces:
        values["path"] = Path(values["path"]).name
    check("stream traces", [str([*values.values()]) for values in traces])
    shown = repr(Trace(1_234, "a", "/x/a.tsv", 5_678, 2, 0, 0, 1, "", (), ""))
    assert shown == "<Trace: line 1,234 is line 5,678 of a.tsv, epoch 2>"


REFUSALS = (Refuse("\t0", "first"), Refuse("\t1", "second"), Refuse("\t2", "third"))
STEPS = {
    "compiled": ((Upper(fields=(1,)), Drop(0.3), Repeat()), {}),
    "python": ((Same(), Drop(0.3), Repeat(), Refuse("7")), {}),
    "outputs": ((Repeat(), Upper()), {"shuffle": "outputs"}),
    "joined": ((Pair(), Drop(0.2)), {"shuffle": "outputs"}),
    "in order": ((Repeat(), Refuse("3")), {"shuffle": "none"}),
    "copies": ((Repeat(), *REFUSALS), {}),
    "nothing": ((), {}),
}


@pytest.mark.parametrize("name", STEPS)
def test_debugging_follows_each_line_through_all_steps(tmp_path, name):
    """The steps of debug start with the file's line, and end with the stream's lines or with a
    drop; a smaller n_lines gives the same first lines."""
    steps, options = STEPS[name]
    with open_stream(tmp_path, *steps, n=40, epochs=1, **options) as stream:
        lines = list(debug(stream, n_lines=1000))
        for n in (1, 5, 6, 40):
            assert list(debug(stream, n_lines=n)) == lines[:n]
        texts = list(stream)
    outputs = [text for line in lines for text in line.text]
    assert Counter(outputs) == Counter(texts)
    assert name != "in order" or outputs == texts
    assert len({(line.path, line.line) for line in lines}) == len(lines) == 40
    for line in lines:
        assert line.raw == Path(line.path).read_text().split("\n")[line.line - 1]
        before = (line.raw,)
        for step in line.steps:
            assert step.before == before or line.faults
            before = step.after
        assert sorted(before) == sorted(line.text)
        names = [step.name for step in steps][: len(line.steps)]
        assert [step.name for step in line.steps] == names
        assert bool(line.text) == (not line.fate)
        assert line.dropped_by == (names[-1] if line.fate else "")
        assert line.to_json()["dropped_by"] == line.dropped_by


def test_debugging_shows_the_first_lines_of_each_source(make):
    """debug yields n_lines lines of each source, or all of its lines."""
    with make() as stream:
        counts = Counter(line.source for line in debug(stream, n_lines=12))
        assert stream.n == 0
        with pytest.raises(ConfigError, match="n_lines is 0"):
            list(debug(stream, n_lines=0))
    assert counts == {"a": 12, "b": 11, "c": 12}


def test_an_unfit_line_has_its_reason(tmp_path):
    """debug shows the reason of a line that is unfit before the first step, or refused by a
    step."""
    (tmp_path / "x.tsv").write_bytes(b"ok\nbad one\n\xff\n")
    paths = (str(tmp_path / "x.tsv"),)
    steps = (Upper(), Refuse("BAD"), Same())
    with Stream([Source("x", paths, 1.0, steps, shuffle="none")]) as stream:
        ok, bad, invalid = debug(stream, n_lines=3)
    assert (ok.text, ok.faults, ok.fate) == (("OK",), (), "")
    assert (bad.text, bad.faults, bad.dropped_by) == ((), ("refuse: holds 'BAD'",), "refuse")
    assert bad.steps[-1] == TraceStep("refuse", ("BAD ONE",), ())
    assert (invalid.steps, invalid.fate, invalid.dropped_by) == ((), "unfit", "")
    assert invalid.faults[0].startswith("invalid UTF-8")
    with Stream([Source("x", paths, 1.0, (Refuse(""), Same()), shuffle="none")]) as stream:
        assert [line.dropped_by for line in debug(stream, n_lines=2)] == ["refuse", "refuse"]


DROP = TraceStep("x", ("a",), ())


@pytest.mark.parametrize(
    ("steps", "faults", "text", "expected"),
    [
        ((), (), (), ("dropped", "")),
        ((), ("why",), (), ("unfit", "")),
        ((DROP,), (), (), ("dropped", "x")),
        ((DROP,), ("why",), (), ("unfit", "x")),
        ((TraceStep("x", ("a",), ("b",)),), (), (), ("dropped", "")),
        ((DROP,), ("why",), ("b",), ("", "")),
    ],
)
def test_the_fate_of_a_line(steps, faults, text, expected):
    """DebugLine.fate is empty for a line of the stream; else, it says whether the line was unfit or
    dropped, and by which step."""
    line = DebugLine("a", "/x/a.tsv", 1_000, "", steps, faults, text)
    assert (line.fate, line.dropped_by) == expected
    assert repr(line) == "<DebugLine: line 1,000 of a.tsv>"


COMPARED = [
    (("a b c",), ("c d",), ["*a *b c", "c *d"]),
    (("a\tb", "c"), ("a",), ["a|*b", "*c", "a"]),
    (("a",), ("a\tb", "c"), ["a", "a|*b", "*c"]),
    (("a", "b"), ("b", "b", "c"), ["*a", "b", "*b", "b", "*c"]),
    (("a b",), (), ["a b"]),
    ((), ("a\tb",), ["a|b"]),
]


@pytest.mark.parametrize("most", [6, 5])
def test_changed_tokens_are_marked(monkeypatch, most):
    """compare_lines marks tokens that differ, in order, or as sets if there are too many pairs of
    tokens."""
    monkeypatch.setattr(tracing, "_MOST_COMPARED", most)
    in_order = (("b a b",), ("a b",), ["*b a b" if most == 6 else "b a b", "a b"])
    for before, after, expected in (in_order, *COMPARED):
        left, right = compare_lines(TraceStep("x", before, after))
        shown = []
        for line in left + right:
            fields = [
                " ".join("*" * token.is_changed + token.text for token in field) for field in line
            ]
            shown.append("|".join(fields))
        assert shown == expected


def joined(fields):
    return "\t".join(" ".join(token.text for token in tokens) for tokens in fields)


LINE = st.text("ab \t", max_size=12)


@given(before=st.lists(LINE, min_size=1, max_size=3), after=st.lists(LINE, max_size=3))
def test_marked_tokens_form_the_same_lines(before, after):
    """The tokens of compare_lines join to the lines; unmarked tokens are equal on both sides."""
    left, right = compare_lines(TraceStep("x", tuple(before), tuple(after)))
    assert ([*map(joined, left)], [*map(joined, right)]) == (before, after)
    assert (
        compare_lines(TraceStep("x", tuple(before), tuple(before)))
        == (split_into_tokens(before),) * 2
    )
    if len(before) == len(after) == 1:
        for old, new in zip(left[0], right[0], strict=False):
            assert [token for token in old if not token.is_changed] == [
                token for token in new if not token.is_changed
            ]


def test_lines_of_many_tokens_are_compared_as_sets():
    """compare_lines compares lines with many tokens as sets, which takes little time."""
    long = " ".join(map(str, range(20_000)))
    (before,), (after,) = compare_lines(TraceStep("x", (long,), (f"new {long}",)))
    assert [token.text for token in after[0] if token.is_changed] == ["new"]
    assert not any(token.is_changed for token in before[0])


class _Elements(HTMLParser):
    """Collects a page's elements, attributes and text."""

    def __init__(self, page):
        super().__init__()
        self.tags = set()
        self.attributes = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += data


def test_a_page_escapes_hostile_lines():
    """debug_page shows a line's text, which never becomes an element, an attribute, a template or a
    link."""
    step = TraceStep(HOSTILE, (HOSTILE,), (HOSTILE.upper(),))
    line = DebugLine(HOSTILE, HOSTILE, 1, HOSTILE, (step, DROP), (HOSTILE,), ())
    page = debug_page([line], title=HOSTILE)
    elements = _Elements(page)
    assert elements.tags.isdisjoint({"script", "link", "img", "iframe", "base"})
    allowed = {"lang", "charset", "name", "content", "http-equiv", "class", "colspan"}
    assert elements.attributes <= allowed
    assert "<script>alert(1)</script>" in elements.text
    assert "{{ 7 * 7 }}\\u202e\\x1b[31m&lt;" in elements.text
    assert "\u202e" not in page
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "1 line, 1 dropped" in page
