"""The section `mix` of a configuration: what it makes of sources, patterns and tasks, and what does not go with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from volt.errors import ConfigError
from volt.stream import Sampling, Stream
from volt.stream.config.configuration import load_config, parse_config

MIXED = """\
mix: {%s}
sources:
  de: {path: de.tsv}
  lb: {path: lb.tsv}
"""


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    """A folder with 90 lines of de and 10 of lb."""
    for name, n in (("de", 90), ("lb", 10)):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{name} {i}\n" for i in range(n)))
    return tmp_path


def opened(folder: Path, text: str, **options: Any) -> Stream:
    (folder / "stream.yaml").write_text(text)
    return Stream.from_config(folder / "stream.yaml", cache=folder / "cache", **options)


@pytest.mark.parametrize(
    ("message", "mix", "weights", "lines"),
    [
        ("temperature: 2", Sampling("temperature", 2), [0.75, 0.25], 120),
        ("", Sampling(), [0.812268223213, 0.187731776787], 110),  # temperature 1.5
        ("by: uniform", Sampling("uniform"), [1.0, 1.0], 150),
        ("by: concatenation", Sampling("concatenation"), [90.0, 10.0], 100),
        ("by: weights", None, [1.0, 1.0], 150),
    ],
)
def test_weights_follow_from_the_lines(
    corpora: Path, message: str, mix: Sampling | None, weights: list[float], lines: int
) -> None:
    """Each way gives the weights, and the virtual epoch, of its formula; it is the one that Python calls so."""
    with opened(corpora, MIXED % message) as stream:
        assert [source.source.weight for source in stream.sources] == weights
        assert stream.epoch_lines == lines
    assert load_config(corpora / "stream.yaml").mix == mix


def test_patterns_and_tasks_are_mixed_alike(corpora: Path) -> None:
    """Sources by pattern, and tasks of the split train, are mixed with the others; validation knows no mixing."""
    text = """\
mix: {temperature: 2}
each: {path: "*.tsv"}
tasks:
  task: {type: mono, inputs: {all: {mono: [de.tsv, lb.tsv]}}}
  dev: {type: mono, split: valid, epochs: 1, inputs: {dev: {mono: lb.tsv}}}
"""
    with opened(corpora, text) as stream:
        shares = {source.name: source.source.weight for source in stream.sources}
    total = 90**0.5 + 10**0.5 + 100**0.5
    assert shares == pytest.approx(
        {"de": 90**0.5 / total, "lb": 10**0.5 / total, "task": 100**0.5 / total}
    )
    with opened(corpora, text, split="valid") as stream:
        assert sorted(stream) == sorted(f"lb {i}" for i in range(10))
    with opened(corpora, text, tasks=["task"]) as stream:
        assert stream.epoch_lines == 100


_SOURCE = "mix: {by: %s}\nsources:\n  de:\n    path: de.tsv\n    %s\n"
_TASK = "mix: {}\ntasks:\n  t:\n    type: mono\n    %s\n    inputs: {i: {mono: de.tsv}}\n"
_EACH = "mix: {}\neach:\n  path: '*.tsv'\n  %s\n"
_INSTEAD = "remove it, or write mix: {by: weights}"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (MIXED % "temperature: 0", 1, "mix.temperature: should be greater than 0, not 0"),
        (MIXED % "temperature: -1.5", 1, "mix.temperature: should be greater than 0, not -1.5"),
        (MIXED % "temperature: .nan", 1, "mix.temperature: should be a finite number"),
        (MIXED % "temperature: .inf", 1, "mix.temperature: should be a finite number"),
        (
            MIXED % "by: size",
            1,
            "mix.by: should be 'temperature', 'uniform', 'concatenation' or 'weights', not 'size'",
        ),
        (MIXED % "temprature: 2", 1, "mix.temprature: unknown key; did you mean temperature?"),
        (MIXED % "by: uniform, temperature: 2", 1, "mix.temperature: has no effect with by: "),
        (MIXED % "by: weights, temperature: 2", 1, "mix.temperature: has no effect with by: "),
        ("seed: 1\nmix: {by: uniform}\n", 1, "key 'sources' is missing; give it, or tasks"),
        ("mix: {by: uniform}\nsources: {}\n", 2, "sources: is empty; give at least one"),
        (
            "mix: temperature\nsources: {de: {path: de.tsv}}\n",
            1,
            "mix: should be a mapping of keys to values",
        ),
        (
            _SOURCE % ("temperature", "weight: 2"),
            5,
            f"sources.de.weight: cannot be used with mix, which derives the weights from the lines; {_INSTEAD}",
        ),
        (
            _SOURCE % ("concatenation", "epochs: 1"),
            5,
            f"sources.de.epochs: cannot be used with mix, whose sources have no end; {_INSTEAD}",
        ),
        (_EACH % "weight: 1", 4, "each.weight: cannot be used with mix"),
        (_EACH % "temperature: 5", 4, "each.temperature: cannot be used with mix"),
        (_TASK % "weight: 2", 5, "tasks.t.weight: cannot be used with mix"),
        (_TASK % "epochs: 2", 5, "tasks.t.epochs: cannot be used with mix"),
        (
            "mix: {}\nschedule: {points: [5]}\nsources: {de: {path: de.tsv}}\n",
            2,
            "schedule: cannot be used with mix",
        ),
        (
            MIXED % "temperature: 0.05",
            1,
            "mix: temperature 0.05 leaves nothing to source 'lb' (10 lines against 90); raise the temperature",
        ),
    ],
)
def test_mistakes_are_reported_with_their_line(
    corpora: Path, text: str, line: int, message: str
) -> None:
    """Each mistake is refused with file, line, key and remedy."""
    with pytest.raises(ConfigError) as caught:
        opened(corpora, text)
    assert f"stream.yaml:{line}: {message}" in str(caught.value)


def test_an_end_that_is_none_and_weights_by_their_name_are_no_mistake(corpora: Path) -> None:
    """`epochs: null` is no end; with `by: weights` all is as without mix, ends and weights too."""
    sources = parse_config(
        f"mix: {{}}\nsources: {{de: {{path: {corpora / 'de.tsv'}, epochs: null}}}}"
    ).sources
    assert [source.epochs for source in sources] == [None]
    with opened(
        corpora, "mix: {by: weights}\nsources: {de: {path: de.tsv, weight: 2, epochs: 1}}\n"
    ) as stream:
        assert "mix" not in stream.configuration
        assert len(list(stream)) == 90
