"""`Steps` refuse faulty states, options and lines with a remedy, and lose no line by an error."""

import json
import pickle
from contextlib import suppress

import numpy as np
import pytest
from support.steps_of_streams import (
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
from support.streams import deadline, write_lines

from volt.batches import ByPacks, ByTokens, Layout, SampleFormat, Steps
from volt.errors import ConfigError, StreamError, VoltError
from volt.files.threads import wait_for_result
from volt.stream import Source, Stream
from volt.stream.running.state_validation import checksum, encode_bits


def numbers_of(steps, n=None):
    """Return the line numbers of the next n steps, or of all."""
    return [number for step in given(steps, n) for number in step]


def resealed(state, **changes):
    """Return a changed state, with a checksum that fits."""
    result = {**state, **changes}
    return {**result, "checksum": checksum(result)}


def in_stretch(**changes):
    """Return a function that changes the last stretch of a state."""

    def changed(state):
        *others, last = state["stretches"]
        return resealed(state, stretches=[*others, {**last, **changes}])

    return changed


DAMAGE = {
    "none": (lambda state: None, "state"),
    "a list": (lambda state: [state], "state"),
    "empty": (lambda state: {}, "not a state of steps"),
    "of lines": (
        lambda state: state["stretches"][0]["stream"],
        "belongs to a stream of lines, not to steps",
    ),
    "version": (lambda state: resealed(state, version=9), "version 9"),
    "edited": (lambda state: {**state, "steps": 0}, "checksum"),
    "negative": (lambda state: resealed(state, steps=-1), "steps is -1"),
    "missing": (
        lambda state: resealed({key: state[key] for key in state if key != "world"}),
        "no 'world'",
    ),
    "unknown": (lambda state: resealed(state, more=1), "unknown key, more"),
    "world": (lambda state: resealed(state, world=0), "world is 0"),
    "steps": (lambda state: resealed(state, steps=999), "999 steps of a window that has"),
    "no stretch": (lambda state: resealed(state, stretches=[]), "no stretches"),
    "bits": (in_stretch(wanted="?"), "does not contain bits"),
    "no samples": (in_stretch(wanted=encode_bits(np.arange(0))), "5 steps of a window that has 0"),
    "other samples": (in_stretch(wanted=encode_bits(np.array([0, 50]))), "sample 50 .* of only 50"),
    "stream": (in_stretch(stream={"n": 1}), "state"),
    "lines": (in_stretch(n_lines=999), "stretch of 999 lines, but 200 follow"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_state_is_refused(tmp_path, kind):
    """`Steps.restore` names the fault of a damaged state, and the steps continue from their own
    position."""
    steps = steps_of(tmp_path, 200)
    expected = bits(steps_of(tmp_path, 200), 12)
    assert bits(steps, 5) == expected[:5]
    damage, message = DAMAGE[kind]
    with pytest.raises(VoltError, match=message):
        steps.restore(damage(json.loads(json.dumps(steps.state()))))
    assert steps.n == 5
    assert bits(steps, 7) == expected[5:]


def steps_by(folder, form, rule, n=200, **options):
    return Steps(stream_of(folder, n), form, rule, window=50, **options)


OTHERS = {
    "max_tokens": (
        lambda folder: steps_by(folder, PAIRS, ByTokens(max_tokens=64, multiple=2)),
        "tokens.max_tokens: 128 in the state, 64 here",
    ),
    "packs": (lambda folder: steps_by(folder, TEXTS, PACK_RULE), "packs: none in the state"),
    "window": (lambda folder: steps_of(folder, 200, window=51), "window: 50 in the state, 51 here"),
    "vocabulary": (
        lambda folder: steps_by(
            folder, SampleFormat({"src": TOKENS[::-1], "tgt": TOKENS}), TOKEN_RULE
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
def test_the_state_of_other_steps_is_refused(tmp_path, kind):
    """`Steps.restore` names the option, vocabulary or data that differs from those of the state."""
    make, message = OTHERS[kind]
    steps = steps_of(tmp_path, 200)
    given(steps, 3)
    other = make(tmp_path)
    with pytest.raises(StreamError, match=message):
        other.restore(steps.state())
    assert other.n == 0
    assert len(given(other, 2)) == 2


def test_packs_resume_with_another_multiple(tmp_path):
    """A state of packs is accepted with another `pad_to_multiple`, because rows of packs have one
    length."""
    steps = steps_of(tmp_path, 200, packed=True)
    other = steps_of(tmp_path, 200, packed=True, layout=Layout(pad_to_multiple=8))
    given(steps, 3)
    other.restore(steps.state())
    assert bits(other) == bits(steps) != []


def test_another_window_is_accepted_on_request(tmp_path):
    """With accept=["window"], `Steps.restore` accepts a state of another window size, and no sample
    is lost."""
    steps = steps_of(tmp_path, 200, window=50)
    numbers = numbers_of(steps, 7)
    other = steps_of(tmp_path, 200, window=64)
    message = r"start anew; in Python, Steps\.restore\(state, accept=\['window'\]\)"
    with pytest.raises(StreamError, match=message):
        other.restore(steps.state())
    other.restore(steps.state(), accept=["window"])
    assert sorted(numbers + numbers_of(other)) == list(range(200))
    with pytest.raises(ConfigError, match="accept"):
        other.restore(steps.state(), accept=["tokens"])


def test_a_refusal_names_only_remedies_of_steps(tmp_path):
    """The error for a state with other weights advises no option that only `Stream.restore` has."""
    path = written(tmp_path, 50)
    steps, other = (
        Steps(Stream([Source("pairs", (path,), weight=weight)], seed=1), PAIRS, TOKEN_RULE)
        for weight in (1, 2)
    )
    given(steps, 2)
    with pytest.raises(StreamError, match=r"weight: 1 in the state, 2 here.*start anew$") as error:
        other.restore(steps.state())
    assert not error.value.hint


def test_the_state_of_another_rank_of_lines_is_refused(tmp_path):
    """If each rank's stream reads only its own lines, the state of another rank is refused."""
    steps, other = (
        Steps(stream_of(tmp_path, 200, rank=rank, world=2), PAIRS, TOKEN_RULE, window=50)
        for rank in range(2)
    )
    given(steps, 3)
    with pytest.raises(StreamError, match="another rank: rank: 0 in the state, 1 here"):
        other.restore(steps.state())


@pytest.mark.parametrize("packed", [False, True])
def test_numbers_of_numpy_are_accepted(tmp_path, packed):
    """Options may be numbers of NumPy, or floats without a fraction; states are JSON
    nevertheless."""
    numbers = {
        "max_tokens": np.int64(64),
        "multiple": 2.0,
        "noise": np.float32(0.5),
    }
    rule = ByTokens(**numbers, buckets=np.array([8, 24]))
    form = PAIRS
    if packed:
        rule = ByPacks(length=32.0, rows=np.int64(2))
        form = SampleFormat({"text": TOKENS}, max_length=np.int64(30))
    steps, other = (
        Steps(stream_of(tmp_path, 100), form, rule, window=np.int64(50)) for _ in range(2)
    )
    given(steps, 3)
    other.restore(json.loads(json.dumps(steps.state())))
    assert given(other) == given(steps)


def test_states_of_steps_ahead_or_long_ago_are_refused(tmp_path):
    """`Steps.state(at=n)` returns states of the last 16 windows, and refuses earlier and later
    steps."""
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


def of_two_sources(folder):
    """Make steps of an epoch of two sources, of which only one ends."""
    paths = {name: written(folder, 9, name=name) for name in "ab"}
    sources = [Source("a", (paths["a"],), epochs=1), Source("b", (paths["b"],))]
    return Steps(Stream(sources), PAIRS, TOKEN_RULE, window="epoch")


WRONG = {
    "rank": (lambda folder: steps_of(folder, 20, rank=2, world=2), "rank"),
    "world": (lambda folder: steps_of(folder, 20, world=0), "world"),
    "window": (lambda folder: steps_of(folder, 20, window=0), "window"),
    "epoch": (of_two_sources, "several sources have no common epoch"),
    "window's name": (lambda folder: steps_of(folder, 20, window="epochs"), "window"),
    "rule": (lambda folder: steps_by(folder, PAIRS, 4096), "batches.*ByTokens or ByPacks"),
    "format": (lambda folder: steps_by(folder, TOKENS, TOKEN_RULE), "samples"),
    "packed pairs": (
        lambda folder: steps_by(folder, PAIRS, PACK_RULE),
        "src, tgt cannot be packed",
    ),
    "ranks of ranks": (
        lambda folder: Steps(stream_of(folder, 20, rank=0, world=2), PAIRS, TOKEN_RULE, world=2),
        "give Steps a stream",
    ),
    "no pad": (
        lambda folder: steps_by(folder, SampleFormat({"src": TOKENS[1:]}), TOKEN_RULE),
        "no <pad>",
    ),
    "no eos": (
        lambda folder: steps_by(
            folder, SampleFormat({"src": TOKENS[2:]}, eos=False), TOKEN_RULE, layout=Layout(pad=0)
        ),
        "no EOS",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_steps_refuse_wrong_options_before_reading(tmp_path, kind):
    """`Steps` refuse a wrong option by name when they are created."""
    call, message = WRONG[kind]
    with pytest.raises(ConfigError, match=message):
        call(tmp_path)


def of_lines(folder, lines, rule=TOKEN_RULE, **options):
    """Make steps of these lines, in order."""
    path = write_lines(folder / "a.tsv", lines)
    stream = Stream([Source("a", (path,), epochs=1, shuffle="none")])
    return Steps(stream, PAIRS, rule, **options)


LONG = "\t".join([" ".join(["w1"] * 40)] * 2)
BAD_LINES = {
    "long": (LONG, r"a.tsv:71 \(line 70 of the stream\): has 41 ids; max_tokens is 32; raise"),
    "one field": ("w1", r"a.tsv:71 .*has no field 'tgt'"),
}


@pytest.mark.parametrize("kind", BAD_LINES)
def test_steps_name_the_file_and_line_of_an_unfit_line(tmp_path, kind):
    """If a line does not fit, the error of `Steps` names its file and line, and reading again
    raises the same error."""
    line, message = BAD_LINES[kind]
    lines = [*["w1\tw2"] * 70, line, *["w1\tw2"] * 9]
    steps = of_lines(tmp_path, lines, ByTokens(max_tokens=32), window=50)
    for _ in range(2):
        with pytest.raises(StreamError, match=message):
            list(steps)


def test_windows_without_a_sample_that_fits_end_with_an_error(tmp_path):
    """After 64 windows without a sample that fits, an endless stream raises an error.

    Samples that wait for a step are not counted as fitting.
    """
    path = write_lines(tmp_path / "b.tsv", ["w1 w2 w3\tw1"] * 5)
    rule = ByTokens(max_tokens=32, max_length=2, on_long="report")
    steps = Steps(Stream([Source("b", (path,))]), PAIRS, rule, window=10)
    fault = "64 windows in a row have no sample that fits"
    place = r"640 samples too long \(max_length is 2\), the first at .*tsv:\d"
    with pytest.raises(StreamError, match=f"{fault}: {place}"):
        next(iter(steps))
    steps = of_lines(tmp_path, ["w1\tw1", *["w1 w2 w3\tw1"] * 659], rule, window=10, world=2)
    with pytest.raises(StreamError, match=f"{fault}: 649 samples too long"):
        next(iter(steps))


def test_an_interrupted_wait_loses_nothing(tmp_path, monkeypatch):
    """If Ctrl-C interrupts the wait for the thread, its window follows when reading continues."""
    steps = steps_of(tmp_path, 200, window=50)
    waits = [KeyboardInterrupt, None, KeyboardInterrupt, KeyboardInterrupt]

    def interrupted(future):
        error = waits.pop() if waits else None
        if error is not None:
            raise error
        return wait_for_result(future)

    monkeypatch.setattr("volt.batches.steps.wait_for_result", interrupted)
    numbers = []
    n_interrupts = 0
    while waits:
        try:
            for step in steps:
                numbers += step["id"].tolist()
        except KeyboardInterrupt:
            n_interrupts += 1
    assert sorted(numbers + numbers_of(steps)) == list(range(200))
    assert n_interrupts == 3


STOP = """\
import time
def stop(fields):
    time.sleep(600 * (fields[0] == 'w30'))
    return fields
"""


@pytest.mark.parametrize("n_workers", [0, 2])
def test_closing_does_not_wait_for_user_code(tmp_path, n_workers):
    """`Steps.close` returns within seconds, though Python code for the next window does not end."""
    write_lines(tmp_path / "a.tsv", [f"w{number}\tw{number}" for number in range(60)])
    (tmp_path / "stop.py").write_text(STOP)
    (tmp_path / "s.yaml").write_text(
        "sources: {a: {path: a.tsv, epochs: 1, shuffle: none, block_lines: 25, "
        "transforms: [user: {file: stop.py, function: stop}]}}"
    )
    with deadline(30):
        stream = Stream.from_config(tmp_path / "s.yaml", n_workers=n_workers)
        steps = Steps(stream, PAIRS, TOKEN_RULE, window=20)
        next(iter(steps))
        steps.close()
        assert steps.n == 1


def test_closed_steps_continue(tmp_path):
    """Steps that are closed after every step, while a thread reads the next window, give all
    arrays."""
    options = {"window": 150, "epochs": 2, "n_workers": 2}
    with steps_of(tmp_path, 400, **options) as whole:
        expected = bits(whole)
    steps = steps_of(tmp_path, 400, **options)
    arrays = []
    while step := bits(steps, 1):
        arrays += step
        steps.close()
    assert arrays == expected


def test_steps_are_not_pickled(tmp_path):
    """Pickling `Steps` raises a TypeError that advises to restore their state."""
    with pytest.raises(TypeError, match="restore their state"):
        pickle.dumps(steps_of(tmp_path, 20))
