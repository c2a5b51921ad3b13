"""Faults of steps and of their states are reported with their place and a remedy, and leave no partial result."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from steps_of_streams import (
    PACK_RULE,
    PAIRS,
    TEXTS,
    TOKEN_RULE,
    TOKENS,
    bits,
    given,
    steps_of,
    stream_of,
    written,
)
from streams import deadline, write_lines

from volt.batches import ByPacks, ByTokens, Layout, SampleFormat, Steps
from volt.batches.steps_state import bits_of
from volt.errors import ConfigError, StreamError, VoltError
from volt.files.threads import patiently
from volt.stream import Source, Stream
from volt.stream.running.state_validation import checksum

State = dict[str, Any]


def resealed(state: State) -> State:
    """A state whose checksum fits again."""
    return {**state, "checksum": checksum(state)}


def in_stretch(**changes: Any) -> Callable[[State], State]:
    """A state with other values in its last stretch."""
    return lambda state: resealed(
        {**state, "stretches": [*state["stretches"][:-1], {**state["stretches"][-1], **changes}]}
    )


DAMAGE: dict[str, tuple[Callable[[State], Any], str]] = {
    "none": (lambda state: None, "state"),
    "a list": (lambda state: [state], "state"),
    "empty": (lambda state: {}, "not a state of steps"),
    "of lines": (
        lambda state: state["stretches"][0]["stream"],
        "belongs to a stream of lines, not to steps",
    ),
    "version": (lambda state: resealed({**state, "version": 9}), "version 9"),
    "edited": (lambda state: {**state, "steps": 0}, "checksum"),
    "negative": (lambda state: resealed({**state, "steps": -1}), "steps is -1"),
    "missing": (
        lambda state: resealed({key: state[key] for key in state if key != "world"}),
        "no 'world'",
    ),
    "unknown": (lambda state: resealed({**state, "more": 1}), "unknown key, more"),
    "world": (lambda state: resealed({**state, "world": 0}), "world is 0"),
    "steps": (lambda state: resealed({**state, "steps": 999}), "999 steps of a window that has"),
    "no stretch": (lambda state: resealed({**state, "stretches": []}), "no stretches"),
    "bits": (in_stretch(wanted="?"), "does not contain bits"),
    "no samples": (in_stretch(wanted=bits_of(np.arange(0))), "5 steps of a window that has 0"),
    "other samples": (in_stretch(wanted=bits_of(np.array([0, 50]))), "sample 50 .* of only 50"),
    "stream": (in_stretch(stream={"n": 1}), "state"),
    "lines": (in_stretch(n_lines=999), "stretch of 999 lines, but 200 follow"),
}


def test_states_of_packs_know_no_multiple(tmp_path: Path) -> None:
    """Rows of packs have one length, whatever the layout rounds widths to: a state goes on with another layout."""
    steps = steps_of(tmp_path, 200, packed=True)
    other = steps_of(tmp_path, 200, packed=True, layout=Layout(pad_to_multiple=8))
    given(steps, 3)
    other.restore(steps.state())
    assert bits(other) == bits(steps) != []


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_state_is_refused(tmp_path: Path, kind: str) -> None:
    """What is wrong is named, and the steps go on where they stood."""
    steps = steps_of(tmp_path, 200)
    expected = bits(steps_of(tmp_path, 200), 12)
    assert bits(steps, 5) == expected[:5]
    damage, message = DAMAGE[kind]
    with pytest.raises(VoltError, match=message):
        steps.restore(damage(json.loads(json.dumps(steps.state()))))
    assert steps.n == 5
    assert bits(steps, 7) == expected[5:]


OTHERS: dict[str, tuple[Callable[[Path], Steps], str]] = {
    "max_tokens": (
        lambda folder: Steps(
            stream_of(folder, 200), PAIRS, ByTokens(max_tokens=64, multiple=2), window=50
        ),
        "tokens.max_tokens: 128 in the state, 64 here",
    ),
    "packs": (
        lambda folder: Steps(stream_of(folder, 200), TEXTS, PACK_RULE, window=50),
        "packs: none in the state",
    ),
    "window": (lambda folder: steps_of(folder, 200, window=51), "window: 50 in the state, 51 here"),
    "vocabulary": (
        lambda folder: Steps(
            stream_of(folder, 200),
            SampleFormat({"src": TOKENS[::-1], "tgt": TOKENS}),
            TOKEN_RULE,
            window=50,
        ),
        r"fields.field 1 \(src\).vocabulary: \w+ in the state, \w+ here",
    ),
    "padding": (
        lambda folder: steps_of(folder, 200, layout=Layout(pad_to_multiple=8)),
        "tokens.pad_to_multiple: none",
    ),
    "data": (
        lambda folder: steps_of(folder, 201, window=50),
        "n_lines: 200 in the state, 201 here",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_the_state_of_other_steps_is_refused(tmp_path: Path, kind: str) -> None:
    """What differs is named: options, the vocabulary, the data."""
    steps, (make, message) = steps_of(tmp_path, 200), OTHERS[kind]
    given(steps, 3)
    other = make(tmp_path)
    with pytest.raises(StreamError, match=message):
        other.restore(steps.state())
    assert other.n == 0
    assert len(given(other, 2)) == 2


def test_another_window_is_accepted_by_name(tmp_path: Path) -> None:
    """With accept=["window"] steps go on with windows of another size, and no sample is lost."""
    steps = steps_of(tmp_path, 200, window=50)
    found = [number for step in given(steps, 7) for number in step]
    other = steps_of(tmp_path, 200, window=64)
    with pytest.raises(
        StreamError, match=r"start anew; in Python, Steps\.restore\(state, accept=\['window'\]\)"
    ):
        other.restore(steps.state())
    other.restore(steps.state(), accept=["window"])
    assert sorted([*found, *(number for step in given(other) for number in step)]) == list(
        range(200)
    )
    with pytest.raises(ConfigError, match="accept"):
        other.restore(steps.state(), accept=["tokens"])


def test_a_refused_state_names_only_remedies_of_steps(tmp_path: Path) -> None:
    """Streams of lines accept other weights by name; steps do not, so their error does not say so."""
    path = written(tmp_path, 50)
    steps, other = (
        Steps(Stream([Source("pairs", (path,), weight=weight)], seed=1), PAIRS, TOKEN_RULE)
        for weight in (1, 2)
    )
    given(steps, 2)
    with pytest.raises(StreamError, match=r"weight: 1 in the state, 2 here.*start anew$") as error:
        other.restore(steps.state())
    assert not error.value.hint


@pytest.mark.parametrize("packed", [False, True])
def test_options_of_other_kinds_of_numbers(tmp_path: Path, packed: bool) -> None:
    """numpy's whole numbers, and floats without a fraction, are as good; a state is JSON values all the same."""
    rule: ByTokens | ByPacks = ByTokens(
        max_tokens=np.int64(64), multiple=2.0, noise=np.float32(0.5), buckets=np.array([8, 24])
    )  # type: ignore[arg-type]
    if packed:
        rule = ByPacks(length=32.0, rows=np.int64(2))  # type: ignore[arg-type]
    form = SampleFormat({"text": TOKENS}, max_length=np.int64(30)) if packed else PAIRS
    steps, other = (
        Steps(stream_of(tmp_path, 100), form, rule, window=np.int64(50)) for _ in range(2)
    )  # type: ignore[arg-type]
    given(steps, 3)
    other.restore(json.loads(json.dumps(steps.state())))
    assert given(other) == given(steps)


def test_a_rank_of_lines_goes_on_as_itself(tmp_path: Path) -> None:
    """Where each rank reads its own lines, the state is that of one rank."""
    ranks = [
        Steps(stream_of(tmp_path, 200, rank=rank, world=2), PAIRS, TOKEN_RULE, window=50)
        for rank in range(2)
    ]
    given(ranks[0], 3)
    with pytest.raises(StreamError, match="another rank: rank: 0 in the state, 1 here"):
        ranks[1].restore(ranks[0].state())


def test_steps_ahead_or_long_ago_are_refused(tmp_path: Path) -> None:
    """A state is given for the steps that were given, of the last windows."""
    steps = steps_of(tmp_path, 200, window=10, epochs=None)
    given(steps, 90)
    with pytest.raises(StreamError, match="step 91 lies ahead of the next step, 90"):
        steps.state(at=91)
    with pytest.raises(StreamError, match="step 1 is too long ago"):
        steps.state(at=1)
    assert steps.state(at=89)["n"] == 89
    windows = set()
    with suppress(StreamError):
        for at in range(90, 0, -1):
            windows.add(steps.state(at=at)["window"])
    assert len(windows) == 16


ENDS = {"a": 1, "b": None}
WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "rank": (lambda folder: steps_of(folder, 20, rank=2, world=2), "rank"),
    "world": (lambda folder: steps_of(folder, 20, world=0), "world"),
    "window": (lambda folder: steps_of(folder, 20, window=0), "window"),
    "epoch": (
        lambda folder: Steps(
            Stream(
                [
                    Source(name, (written(folder, 9, name=name),), epochs=end)
                    for name, end in ENDS.items()
                ]
            ),
            PAIRS,
            TOKEN_RULE,
            window="epoch",
        ),
        "several sources lack one",
    ),
    "window's name": (lambda folder: steps_of(folder, 20, window="epochs"), "window"),
    "rule": (
        lambda folder: Steps(stream_of(folder, 20), PAIRS, 4096),
        "batches.*ByTokens or ByPacks",
    ),  # type: ignore[arg-type]
    "format": (lambda folder: Steps(stream_of(folder, 20), TOKENS, TOKEN_RULE), "samples"),  # type: ignore[arg-type]
    "packed pairs": (
        lambda folder: Steps(stream_of(folder, 20), PAIRS, PACK_RULE),
        "src, tgt cannot be packed",
    ),
    "ranks of ranks": (
        lambda folder: Steps(stream_of(folder, 20, rank=0, world=2), PAIRS, TOKEN_RULE, world=2),
        "give Steps a stream",
    ),
    "no pad": (
        lambda folder: Steps(stream_of(folder, 20), SampleFormat({"src": TOKENS[1:]}), TOKEN_RULE),
        "no <pad>",
    ),
    "no eos": (
        lambda folder: Steps(
            stream_of(folder, 20),
            SampleFormat({"src": TOKENS[2:]}, eos=False),
            TOKEN_RULE,
            layout=Layout(pad=0),
        ),
        "no EOS",
    ),
    "noise": (lambda folder: ByTokens(max_tokens=8, noise=2), "noise"),
    "on_long": (lambda folder: ByTokens(max_tokens=8, on_long="split"), "on_long"),  # type: ignore[arg-type]
    "bos": (lambda folder: SampleFormat({"src": TOKENS}, bos="yes"), "bos"),  # type: ignore[arg-type]
    "dtype": (lambda folder: Layout(dtype="int8"), "dtype"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_options_are_refused(tmp_path: Path, kind: str) -> None:
    """An option is refused by name, before anything is read."""
    make, message = WRONG[kind]
    with pytest.raises(ConfigError, match=message):
        make(tmp_path)


def test_a_sample_that_is_too_long_is_named(tmp_path: Path) -> None:
    """By its file and line, whatever stands before it; what was given stays given, and asking again says the same."""
    lines = [*["w1\tw2"] * 70, "\t".join([" ".join(["w1"] * 40)] * 2), *["w1\tw2"] * 9]
    path = write_lines(tmp_path / "a.tsv", lines)
    stream = Stream([Source("a", (path,), epochs=1, shuffle="none")])
    steps = Steps(stream, PAIRS, ByTokens(max_tokens=32), window=50, ahead=True)
    seen = []
    for _ in range(2):
        with pytest.raises(
            StreamError,
            match=r"a.tsv:71 \(line 70 of the stream\): has 41 ids; max_tokens is 32; raise",
        ):
            seen += [number for step in steps for number in step["id"].tolist()]
    assert len(seen) <= 50


def test_an_interrupted_wait_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the next window is made in a thread: whoever goes on is given that window, and no line is lost."""
    steps, waits = (
        steps_of(tmp_path, 200, window=50),
        [KeyboardInterrupt, None, KeyboardInterrupt, KeyboardInterrupt],
    )

    def interrupted(future: Any) -> Any:
        if waits and (error := waits.pop()) is not None:
            raise error
        return patiently(future)

    monkeypatch.setattr("volt.batches.steps.patiently", interrupted)
    found, n_interrupts = list[int](), 0
    while waits:
        try:
            for step in steps:
                found += step["id"].tolist()
        except KeyboardInterrupt:
            n_interrupts += 1
    assert sorted([*found, *(number for step in given(steps) for number in step)]) == list(
        range(200)
    )
    assert n_interrupts == 3


@pytest.mark.parametrize("n_workers", [0, 2])
def test_closing_does_not_wait_for_user_code(tmp_path: Path, n_workers: int) -> None:
    """Steps are closed within seconds while the next window waits for Python code that does not end."""
    lines = [f"w{number}\tw{number}" for number in range(60)]
    (tmp_path / "stop.py").write_text(
        "import time\ndef stop(fields):\n    time.sleep(600 * (fields[0] == 'w30'))\n    return fields\n"
    )
    (tmp_path / "s.yaml").write_text(
        f"sources: {{a: {{path: {write_lines(tmp_path / 'a.tsv', lines)}, epochs: 1, shuffle: none, block_lines: 25, "
        "transforms: [user: {file: stop.py, function: stop}]}}"
    )
    with deadline(30):
        steps = Steps(
            Stream.from_config(tmp_path / "s.yaml", n_workers=n_workers),
            PAIRS,
            TOKEN_RULE,
            window=20,
        )
        next(iter(steps))
        steps.close()
        assert steps.n == 1


def test_closing_drops_the_window_that_a_thread_makes(tmp_path: Path) -> None:
    """Steps that are closed after every step, while a window is made, are those of steps that are not."""
    options: dict[str, Any] = {"window": 150, "epochs": 2, "n_workers": 2}
    with steps_of(tmp_path, 400, **options) as whole:
        expected = bits(whole)
    steps, found = steps_of(tmp_path, 400, **options), []
    while step := bits(steps, 1):
        found += step
        steps.close()
    assert found == expected


def test_nothing_but_long_samples_is_an_error(tmp_path: Path) -> None:
    """An endless stream without one sample that fits ends with an error, not in a loop."""
    path = write_lines(tmp_path / "a.tsv", ["w1 w2 w3\tw1"] * 5)
    rule = ByTokens(max_tokens=32, max_length=2, on_long="report")
    steps = Steps(Stream([Source("a", (path,))]), PAIRS, rule, window=10)
    error_text = r"64 windows in a row have no sample that fits: 640 samples too long \(max_length is 2\), the first at .*tsv:\d"
    with pytest.raises(StreamError, match=error_text):
        next(iter(steps))
    path = write_lines(tmp_path / "b.tsv", ["w1\tw1", *["w1 w2 w3\tw1"] * 659])
    stream = Stream([Source("b", (path,), epochs=1, shuffle="none")])
    with pytest.raises(
        StreamError, match="64 windows in a row have no sample that fits: 649 samples too long"
    ):
        next(iter(Steps(stream, PAIRS, rule, window=10, world=2)))


def test_a_line_without_a_field_is_named(tmp_path: Path) -> None:
    """What `SampleFormat` refuses comes with the line's place, and the stream goes on from before the window."""
    path = write_lines(tmp_path / "a.tsv", ["w1\tw2"] * 20 + ["w1"] + ["w1\tw2"] * 3)
    steps = Steps(
        Stream([Source("a", (path,), epochs=1, shuffle="none")]), PAIRS, TOKEN_RULE, window=10
    )
    for _ in range(2):
        with pytest.raises(StreamError, match=r"a.tsv:21 .*has no field 'tgt'"):
            list(steps)


def test_steps_are_not_sent(tmp_path: Path) -> None:
    """They own a stream; their state is what can be sent."""
    with pytest.raises(TypeError, match="restore their state"):
        pickle.dumps(steps_of(tmp_path, 20))
