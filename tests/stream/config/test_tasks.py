"""Tasks of a configuration: exact shares, splits, shards, and options from the task."""

from fractions import Fraction
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.configurations import parse_config
from support.drawn import examples
from support.streams import write_lines

from volt.errors import ConfigError, StreamError
from volt.stream.config.configuration import load_config
from volt.stream.config.pydantic_models import ScheduleOptions, TaskOptions, TaskScheduleOptions
from volt.stream.mixing.mixture import Mixture
from volt.stream.mixing.schedule import UNIT, Schedule, compute_shares
from volt.stream.reading.source_definition import Source
from volt.stream.running.stream import Stream
from volt.stream.tasks.shard_writing import shard
from volt.stream.tasks.task import Input
from volt.stream.transforms.case import Lower, Upper
from volt.stream.transforms.tags import LangPrefixBoth

MIX = """\
seed: 3
schedule: {points: [25, 60], unit: updates, kind: KIND, batch_samples: 3, update_batches: 2}
tasks:
  de_en:
    type: para
    inputs:
      small: {src: a.de, tgt: a.en}
      more: {src: [b.de, c.de], tgt: [b.en, c.en]}
    weight: [1, 2, 0.5]
    block_lines: 7
    transforms: [lower: [tgt]]
  auto: {type: mono, inputs: {ted: {mono: "ted.*"}}, weight: [3, 0, 1], transforms: [multiply: 2]}
  auto2: {type: mono, share_inputs: auto, weight: 1, transforms: [upper]}
  dev: {type: para, split: valid, inputs: {dev: {src: c.de, tgt: c.en}}, transforms: [lower, typos]}
"""
WEIGHTS = {"de_en": (1.0, 2.0, 0.5), "auto": (3.0, 0.0, 1.0), "auto2": (1.0, 1.0, 1.0)}
POINTS = (0, 150, 360)  # 25 and 60 updates of 2 batches of 3 samples


@pytest.fixture
def mix(tmp_path):
    """Return the path of a configuration with four tasks."""
    for name, n in (("a", 13), ("b", 8), ("c", 5)):
        for side in ("de", "en"):
            write_lines(
                tmp_path / f"{name}.{side}", [f"{name}{i} {side.upper()}" for i in range(n)]
            )
    write_lines(tmp_path / "ted.0", [f"Ted {i}" for i in range(9)])
    write_lines(tmp_path / "ted.1", [f"Ted {i}" for i in range(9, 17)])
    (tmp_path / "mix.yaml").write_text(MIX.replace("KIND", "steps"))
    return tmp_path / "mix.yaml"


def counts_by_kind(lines):
    """Return the number of lines of each task."""
    pairs = sum(line.endswith(" en") for line in lines)
    auto2 = sum(line.startswith("TED") for line in lines)
    return {"de_en": pairs, "auto": len(lines) - pairs - auto2, "auto2": auto2}


def owed(n, weights, points):
    """Return the exact number of lines due to each task after n samples."""
    found = dict.fromkeys(weights, Fraction(0))
    for place, (start, end) in enumerate(pairwise([*points, 1 << 60])):
        total = sum(Fraction(own[place]) for own in weights.values())
        for name, own in weights.items():
            found[name] += max(0, min(n, end) - start) * Fraction(own[place]) / total
    return found


def test_shares_are_exact_after_a_resume(mix):
    """A stream of tasks gives each task its share within one line at every sample, also after a
    resume with other workers."""
    with Stream.from_config(mix, n_workers=1) as stream:
        lines = list(islice(stream, 333))
        state = stream.state()
    with Stream.from_config(mix, n_workers=2) as stream:
        stream.restore(state)
        lines += islice(stream, 167)
    for n in sorted({*range(0, 501, 9), *range(148, 153), *range(331, 336), *range(358, 363)}):
        given, due = counts_by_kind(lines[:n]), owed(n, WEIGHTS, POINTS)
        assert all(abs(given[name] - due[name]) <= 1 for name in WEIGHTS)
    between = counts_by_kind(lines[150:360])
    assert between["auto"] <= 1  # what it was owed at the point, and nothing else


def test_tasks_read_their_own_and_shared_inputs(mix):
    """An epoch of a task has each line of each of its inputs once, also of inputs shared with
    another task."""
    config = load_config(mix)
    assert [task.name for task in config.tasks] == ["de_en", "auto", "auto2", "dev"]
    assert [source.name for source in config.sources] == ["de_en", "auto", "auto2"]
    folder = mix.parent
    assert config.tasks[0].inputs[1] == Input(
        "more",
        tuple(
            (side, f"{folder}/{name}.{end}")
            for name in "bc"
            for side, end in (("src", "de"), ("tgt", "en"))
        ),
    )
    assert config.tasks[2].inputs == ()
    assert config.tasks[2].shares == "auto"
    for name, n, expected in (
        (
            "de_en",
            26,
            {
                f"{name}{i} DE\t{name}{i} en"
                for name, size in (("a", 13), ("b", 8), ("c", 5))
                for i in range(size)
            },
        ),
        ("auto2", 17, {f"TED {i}" for i in range(17)}),
    ):
        with Stream.from_config(mix, tasks=[name]) as stream:
            assert set(islice(stream, n)) == expected


def test_validation_reads_each_line_once_without_noise(mix):
    """Validation reads the tasks of split valid once, in order, with deterministic transforms, and
    other tasks on request."""
    with Stream.from_config(mix, split="valid") as stream:
        assert list(stream) == [f"c{i} de\tc{i} en" for i in range(5)]
    with Stream.from_config(mix, split="valid", tasks=["auto", "dev"]) as stream:
        both = list(stream)
    assert [line for line in both if line.startswith("Ted")] == [
        f"Ted {i}\tTed {i}" for i in range(17)
    ]
    assert len(both) == 22
    with pytest.raises(
        ConfigError,
        match=r"mix.yaml:14: tasks.dev: is of split valid, not train; choose the split valid",
    ):
        load_config(mix, tasks=["dev"])
    with pytest.raises(ConfigError, match=r"mix.yaml:3: tasks: no task 'devv'; did you mean dev"):
        load_config(mix, split="valid", tasks=["devv"])


def test_tasks_are_mixed_with_sources(tmp_path):
    """Training mixes tasks and sources; only tasks can be selected by name or for validation."""
    text = "sources: {s: {path: a.tsv}}\ntasks: {t: {type: mono, inputs: {i: {mono: b}}}}\ntransforms: [upper]\n"
    config = parse_config(text)
    assert [(source.name, source.transforms) for source in config.sources] == [
        ("s", (Upper(),)),
        ("t", (Upper(),)),
    ]
    assert [source.name for source in parse_config(text, tasks=["t"]).sources] == ["t"]
    with pytest.raises(
        ConfigError, match=r"stream.yaml:2: tasks: no task is of split valid; name a task, or add a"
    ):
        parse_config(text, split="valid")
    with pytest.raises(ConfigError, match=r"sources\.s: is a source, not a task; choose from t"):
        parse_config(text, tasks=["s"])
    with pytest.raises(ConfigError, match="no task is of split train; add a task, or sources"):
        parse_config(text.split("\n", 1)[1].replace("mono,", "mono, split: valid,"))


def steps_of(text, step, **options):
    """Return the transforms of a task with these keys and one step."""
    task = f"{{type: mono, inputs: {{i: {{mono: a}}}}, {text}transforms: [{step}]}}"
    lines = [f"{key}: {value}\n" for key, value in options.items()]
    config = parse_config(f"tasks: {{t: {task}}}\n{''.join(lines)}")
    return config.sources[0].transforms


def test_a_transform_takes_options_from_its_task():
    """A transform takes languages from its task, unless its own options set them."""
    spoken = "src_lang: de, tgt_lang: en, "
    assert steps_of(spoken, "lang_prefix_both") == (LangPrefixBoth("de", "en"),)
    assert steps_of(spoken + "extra_prefix: <BT>, ", "lang_prefix_both") == (
        LangPrefixBoth("de", "en", "<BT>"),
    )
    assert steps_of(spoken, "lang_prefix_both: {tgt_lang: fr}") == (LangPrefixBoth("de", "fr"),)
    assert steps_of(spoken, "lower") == (Lower(),)
    with pytest.raises(
        ConfigError, match=r"tasks.t.transforms\[1\]: tgt_lang: is missing; give it here"
    ):
        steps_of("src_lang: de, ", "lang_prefix_both")


def test_options_of_a_step_override_the_defaults():
    """A step's options override the task's, and the task's override `defaults`, which sources do
    not use."""
    prefixes = "{lang_prefix_both: {src_lang: fi, tgt_lang: sv, extra_prefix: <X>}}"
    for task, step, expected in (
        ("", "lang_prefix_both", ("fi", "sv", "<X>")),
        ("src_lang: de, ", "lang_prefix_both", ("de", "sv", "<X>")),
        (
            "src_lang: de, extra_prefix: <Y>, ",
            "lang_prefix_both: {src_lang: en}",
            ("en", "sv", "<Y>"),
        ),
    ):
        assert steps_of(task, step, defaults=prefixes) == (LangPrefixBoth(*expected),)
    defaults = "{lower: {fields: [tgt], if_cased: src}}"
    assert steps_of("", "lower", defaults=defaults) == (Lower((2,), 1),)
    assert steps_of("", "lower: [src]", defaults=defaults) == (Lower((1,), 1),)
    assert steps_of("", "{choice: [{weight: 1, transforms: [lower]}]}", defaults="{lower: [1]}")[
        0
    ].variants[0].transforms == (Lower((1,)),)
    assert parse_config(
        "sources: {s: {path: a, transforms: [lower]}}\ndefaults: {lower: [1]}"
    ).sources[0].transforms == (Lower(),)


@st.composite
def mixes(draw):
    """Draw points, sizes of batches and updates, and weights of three tasks, of which the first is
    never 0."""
    points = sorted(draw(st.sets(st.integers(1, 30), min_size=1, max_size=4)))
    weights = st.lists(
        st.integers(0, 9), min_size=len(points) + 1, max_size=len(points) + 1
    ).filter(any)
    listed = [draw(weights) for _ in range(3)]
    first = [weight + 1 for weight in listed[0]]
    return (
        points,
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3)),
        [[*map(float, one)] for one in (first, *listed[1:])],
    )


@settings(max_examples=examples(30))
@given(mixes(), st.sampled_from(["samples", "batches", "updates"]))
def test_schedules_are_exact_at_their_points(mix, unit):
    """A schedule of tasks in any unit changes weights at the exact sample; shares are exact within
    one sample."""
    points, batch, update, listed = mix
    size = {"samples": 1, "batches": batch, "updates": batch * update}[unit]
    more = {"samples": "", "batches": f", batch_samples: {batch}"}.get(
        unit, f", batch_samples: {batch}, update_batches: {update}"
    )
    tasks = [
        f"t{i}: {{type: mono, inputs: {{i: {{mono: a}}}}, weight: {one}}}"
        for i, one in enumerate(listed)
    ]
    config = parse_config(
        f"schedule: {{points: {points}, unit: {unit}{more}}}\ntasks: {{{', '.join(tasks)}}}"
    )
    at = [0, *(point * size for point in points)]
    assert [source.weight for source in config.sources] == [
        Schedule(tuple(zip(at, one, strict=True))) for one in listed
    ]
    mixture, turns = Mixture([source.weight for source in config.sources]), []
    named = {str(i): tuple(one) for i, one in enumerate(listed)}
    for n in sorted({*at, *(point + 1 for point in at), at[-1] + 17}):
        turns += mixture.turns(n - len(turns)).tolist()
        assert all(
            abs(turns.count(int(name)) - due) <= 1 for name, due in owed(n, named, at).items()
        )


def test_linear_lists_of_weights_become_linear_schedules():
    """A task's list of weights becomes a linear schedule if the section `schedule` has kind:
    linear."""
    text = "schedule: {points: [10], kind: linear}\ntasks: {t: {type: mono, inputs: {i: {mono: a}}, weight: [1, 3]}}"
    assert parse_config(text).sources[0].weight == Schedule(((0, 1.0), (10, 3.0)), "linear")


def test_linear_schedules_change_shares_linearly():
    """A linear schedule from 1 to 9 beside a weight of 1 has the share 0.7 half-way, as its
    documentation says."""
    found = compute_shares([Schedule(((0, 1.0), (1000, 9.0)), "linear"), 1.0])
    shares = [found.units[found.lengths_from(sample)[0]][0] / UNIT for sample in (0, 500, 1000)]
    assert shares == pytest.approx([0.5, 0.7, 0.9], abs=0.01)
    for model, field in (
        (ScheduleOptions, "kind"),
        (TaskScheduleOptions, "kind"),
        (TaskOptions, "weight"),
    ):
        text = " ".join(str(model.model_fields[field].description).split())
        assert "changes steadily between points" in text
        assert "0.7 half-way" in text


def test_a_tab_in_a_mono_line_is_a_fault(tmp_path):
    """A tab in a line of a mono task is an error with file and line."""
    write_lines(tmp_path / "a", ["x", "y\tz"])
    (tmp_path / "s.yaml").write_text(
        "tasks: {t: {type: mono, inputs: {i: {mono: a}}, shuffle: none}}"
    )
    with (
        Stream.from_config(tmp_path / "s.yaml") as stream,
        pytest.raises(StreamError, match=r"a:2: columns: 2 fields, allows 1"),
    ):
        list(islice(stream, 2))


def test_a_source_may_have_several_pairs(tmp_path):
    """A source reads several pairs of files in turn; files or lists of different lengths are an
    error."""
    for name, n in (("a.de", 2), ("a.en", 2), ("b.de", 1), ("b.en", 1), ("c.en", 2)):
        write_lines(tmp_path / name, [f"{name} {i}" for i in range(n)])
    text = "sources: {s: {pair: {src: [a.de, b.de], tgt: [a.en, b.en]}, shuffle: none, epochs: 1}}"
    (tmp_path / "s.yaml").write_text(text)
    with Stream.from_config(tmp_path / "s.yaml") as stream:
        assert list(stream) == ["a.de 0\ta.en 0", "a.de 1\ta.en 1", "b.de 0\tb.en 0"]
    (tmp_path / "s.yaml").write_text(text.replace("b.en", "c.en"))
    with pytest.raises(StreamError, match=r"b.de has 1 line, .*c.en has 2 lines"):
        Stream.from_config(tmp_path / "s.yaml")
    (tmp_path / "s.yaml").write_text(text.replace("[a.en, b.en]", "a.en"))
    with pytest.raises(
        ConfigError, match=r"s.yaml:1: sources.s.pair.tgt: has 1 file, but src has 2; give equally"
    ):
        load_config(tmp_path / "s.yaml")
    with pytest.raises(ConfigError, match="2 names and 3 paths; give one file for each field"):
        Source("s", ("a", "b", "c"), names=("src", "tgt"))


HEAD = """\
schedule:
  points: [10, 20]
tasks:
  de_en:
    type: para
    inputs:
      wmt: {src: a.de, tgt: a.en}
"""
MONO = """\
  auto:
    type: mono
    inputs: {ted: {mono: ted.en}}
"""


def test_tasks_read_their_shards(tmp_path):
    """Tasks with `shards` read their shards, also without the inputs; missing shards are an error
    with a line."""
    write_lines(tmp_path / "a.de", ["eins", "zwei", "drei"])
    write_lines(tmp_path / "a.en", ["one", "two", "three"])
    text = HEAD + "    n_shards: 2\n  again: {type: para, share_inputs: de_en}\nshards: made\n"
    (tmp_path / "s.yaml").write_text(text)
    made = tmp_path / "made"
    config = load_config(tmp_path / "s.yaml", use_shards=False)
    [manifest] = shard(config.tasks, made, lines=3)
    for side in ("de", "en"):
        (tmp_path / f"a.{side}").unlink()
    config = load_config(tmp_path / "s.yaml")
    assert [(source.name, source.names, source.paths) for source in config.sources] == [
        (name, ("src", "tgt"), manifest.paths) for name in ("de_en", "again")
    ]
    assert (config.shards, len(manifest.paths)) == (made, 4)
    with pytest.raises(ConfigError, match=r"a.de: no such file"):
        load_config(tmp_path / "s.yaml", use_shards=False)
    (tmp_path / "s.yaml").write_text(text.replace("shards: made", f"{MONO}shards: made"))
    with pytest.raises(
        ConfigError, match=r"s.yaml:10: tasks.auto: .*no shards of task 'auto'; make them: volt"
    ):
        load_config(tmp_path / "s.yaml")


def test_files_of_tasks_must_exist(tmp_path):
    """A task's missing file is an error with its line; a pair's files must have equally many lines."""
    (tmp_path / "s.yaml").write_text(HEAD + MONO)
    with pytest.raises(ConfigError) as error:
        load_config(tmp_path / "s.yaml")
    for line, key in ((7, "wmt.src"), (7, "wmt.tgt"), (10, "ted.mono")):
        assert any(
            f"s.yaml:{line}: " in error_text and key in error_text
            for error_text in str(error.value).split("\n")
        )
    for name, n in (("a.de", 3), ("a.en", 2), ("ted.en", 1)):
        write_lines(tmp_path / name, ["x"] * n)
    with pytest.raises(
        StreamError,
        match=r"source 'de_en': .*a.de has 3 lines, .*a.en has 2 lines; files of a pair",
    ):
        Stream.from_config(tmp_path / "s.yaml")
    (tmp_path / "ted.en").write_text("")
    with pytest.raises(StreamError, match=r"source 'auto': no line in .*ted.en; name other files"):
        Stream.from_config(tmp_path / "s.yaml", tasks=["auto"])


def test_splits_and_names_are_checked():
    """check_configuration refuses an unknown split, and a text in place of a list of names."""
    with pytest.raises(ConfigError, match="split"):
        parse_config(HEAD, split="test")
    with pytest.raises(ConfigError, match="give a list of names of tasks"):
        parse_config(HEAD, tasks="de_en")
