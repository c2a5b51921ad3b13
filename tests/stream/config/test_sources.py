"""Sources of a configuration: pairs, patterns, tables, variables in paths, and mixing by lines."""

import pytest
from support.configurations import WMT, parse_config

from volt.errors import ConfigError
from volt.stream import Sampling
from volt.stream.config.configuration import load_config
from volt.stream.mixing.schedule import Schedule
from volt.stream.running.stream import Stream
from volt.stream.transforms.case import Lower, Title, Upper
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.field_edits import Copy
from volt.stream.transforms.filters import Where
from volt.stream.transforms.tags import Tag


def test_a_pair_names_its_fields(tmp_path):
    """Options of transforms, also of common ones, may name the fields of a pair."""
    for name in ("a.de", "a.en", "b.tsv"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "stream.yaml").write_text(
        """\
sources:
  wmt:
    pair: {src: a.de, tgt: a.en}
    transforms: [lower: [tgt], copy: {from: tgt, to: src}, choice: [{weight: 1, transforms: [title: {if_cased: src}]}]]
  same:
    pair: {tgt: a.en, src: a.de}
transforms:
  - upper: {fields: [src]}
""".replace(
            "[lower: [tgt], copy: {from: tgt, to: src}, choice:",
            "[lower: [tgt], {copy: {from: tgt, to: src}}, choice:",
        )
    )
    wmt, same = load_config(tmp_path / "stream.yaml").sources
    assert (wmt.paths, wmt.names) == (
        (str(tmp_path / "a.de"), str(tmp_path / "a.en")),
        ("src", "tgt"),
    )
    titled = Choice((Variant(1.0, (Title(if_cased=1),)),))
    assert wmt.transforms == (Lower(fields=(2,)), Copy(from_=2, to=1), titled, Upper(fields=(1,)))
    assert same.transforms == (Upper(fields=(2,)),)
    document = (
        """sources: {wmt: {pair: {src: a.de, tgt: a.en}, transforms: [where: "src <> ''"]}}"""
    )
    (tmp_path / "where.yaml").write_text(document)
    assert load_config(tmp_path / "where.yaml").sources[0].transforms == (
        Where("src <> ''", ("src", "tgt")),
    )
    (tmp_path / "a.en").unlink()
    with pytest.raises(
        ConfigError, match=r"stream.yaml:3: sources.wmt.pair.tgt: .*a.en: no such file"
    ):
        load_config(tmp_path / "stream.yaml")


def test_each_makes_a_source_of_every_file(tmp_path):
    """`each` makes a source of each file, named by the text that `*` matches, with a weight that
    follows from lines and temperature."""
    for name, n in (("de", 1600), ("no", 100), ("x.y", 1)):
        (tmp_path / f"mono.{name}.tsv").write_text("x\n" * n)
        (tmp_path / f"{name}.src").write_text("x\n" * n)
        (tmp_path / f"{name}.tgt").write_text("x\n" * n)
    (tmp_path / "stream.yaml").write_text("""\
sources: {first: {path: de.src}}
each: {path: mono.*.tsv, temperature: 2, weight: 3, epochs: 1, transforms: [tag: "<2{name}>"]}
""")
    first, *found = load_config(tmp_path / "stream.yaml").sources
    assert first.weight == 1
    assert [source.name for source in found] == ["de", "no", "x.y"]
    assert [source.paths for source in found] == [
        (str(tmp_path / f"mono.{s.name}.tsv"),) for s in found
    ]
    assert [source.weight for source in found] == pytest.approx(
        [3 * 40 / 51, 3 * 10 / 51, 3 * 1 / 51]
    )
    assert [source.transforms for source in found] == [
        (Tag(text=f"<2{source.name}>"),) for source in found
    ]
    assert {source.epochs for source in found} == {1}
    (tmp_path / "stream.yaml").write_text(
        "each: {pair: {a: '*.src', b: '*.tgt'}, weight: {points: [[0, 1], [9, 2]]}, transforms: [lower: [b]]}"
    )
    de, no, _ = load_config(tmp_path / "stream.yaml").sources
    assert (de.paths, no.names) == (
        (str(tmp_path / "de.src"), str(tmp_path / "de.tgt")),
        ("a", "b"),
    )
    assert isinstance(no.weight, Schedule)
    assert no.weight.points == ((0, pytest.approx(100 / 1701)), (9, pytest.approx(200 / 1701)))
    assert no.transforms == (Lower(fields=(2,)),)
    (tmp_path / "de.tgt").unlink()
    with pytest.raises(ConfigError, match=r"stream.yaml:1: each.pair.b: .*de.tgt: no such file"):
        load_config(tmp_path / "stream.yaml")
    (tmp_path / "stream.yaml").write_text("sources: {de: {path: de.src}}\neach: {path: '*.src'}")
    with pytest.raises(
        ConfigError, match=r"stream.yaml:2: each: source 'de' is among sources, too"
    ):
        load_config(tmp_path / "stream.yaml")


def test_home_and_variables_are_expanded(tmp_path, monkeypatch):
    """`~` and `$NAME` are expanded in every path of a configuration."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CORPORA_1", str(tmp_path))
    (tmp_path / "a.tsv").write_text("x\n")
    (tmp_path / "f.py").write_text("def f(fields): return fields\n")
    text = """\
sources: {a: {path: ~/a.tsv, transforms: [user: {file: $CORPORA_1/f.py, function: f}]}, b: {path: "${CORPORA_1}/*.tsv"}}
cache: ~/cache
errors: {on_fault: quarantine, quarantine: $CORPORA_1/bad}
"""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "stream.yaml").write_text(text)
    found = load_config(tmp_path / "inside" / "stream.yaml")
    assert [source.paths for source in found.sources] == [
        (str(tmp_path / "a.tsv"),),
        (str(tmp_path / "*.tsv"),),
    ]
    assert (found.cache, found.policy.quarantine) == (tmp_path / "cache", str(tmp_path / "bad"))
    for unset in ("cache: $NOWHERE_1", "errors: {on_fault: quarantine, quarantine: $NOWHERE_1/x}"):
        with pytest.raises(
            ConfigError, match=r"stream.yaml:4: .*the variable NOWHERE_1 is not set; set it"
        ):
            parse_config(WMT + unset)


def test_tables_have_columns(tmp_path):
    """`columns` names the fields of JSON lines, also for options of transforms."""
    (tmp_path / "a.jsonl").write_text(
        '{"de": "Haus", "to": {"en": "house"}}\n{"de": "Tier", "to": {"en": "animal"}}\n'
    )
    message = "sources: {a: {path: a.jsonl, epochs: 1, columns: {src: de, tgt: to.en}, transforms: [upper: {fields: [tgt]}]}}"
    (tmp_path / "stream.yaml").write_text(message)
    assert sorted(Stream.from_config(tmp_path / "stream.yaml")) == ["Haus\tHOUSE", "Tier\tANIMAL"]
    (tmp_path / "stream.yaml").write_text("sources: {a: {path: a.jsonl, columns: {}}}")
    with pytest.raises(
        ConfigError, match=r"stream.yaml:1: sources.a.columns: needs path and at least one field"
    ):
        Stream.from_config(tmp_path / "stream.yaml")


MIXED = """\
mix: {%s}
sources:
  de: {path: de.tsv}
  lb: {path: lb.tsv}
"""


@pytest.fixture
def corpora(tmp_path):
    """Return a folder with 90 lines of de and 10 of lb."""
    for name, n in (("de", 90), ("lb", 10)):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{name} {i}\n" for i in range(n)))
    return tmp_path


def opened(folder, text, **options):
    (folder / "stream.yaml").write_text(text)
    return Stream.from_config(folder / "stream.yaml", cache=folder / "cache", **options)


@pytest.mark.parametrize(
    ("text", "mix", "weights", "lines"),
    [
        ("temperature: 2", Sampling("temperature", 2), [0.75, 0.25], 120),
        ("", Sampling(), [0.812268223213, 0.187731776787], 110),  # temperature 1.5
        ("by: uniform", Sampling("uniform"), [1.0, 1.0], 150),
        ("by: concatenation", Sampling("concatenation"), [90.0, 10.0], 100),
        ("by: weights", None, [1.0, 1.0], 150),
    ],
)
def test_weights_follow_from_the_lines(corpora, text, mix, weights, lines):
    """Each kind of `mix` gives the weights and the virtual epoch of its formula."""
    with opened(corpora, MIXED % text) as stream:
        assert [source.source.weight for source in stream.sources] == weights
        assert stream.epoch_lines == lines
    assert load_config(corpora / "stream.yaml").mix == mix


def test_patterns_and_tasks_are_mixed(corpora):
    """`mix` also weights sources of `each` and tasks of split train, but not validation."""
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


def test_a_source_that_gets_nothing_is_named(corpora):
    """A source of `each` or `mix` whose share rounds to 0 is an error with a remedy."""
    source = r"source 'lb' \(10 lines against 90\)"
    message = rf"stream.yaml:1: mix: temperature 0.05 leaves nothing to {source}; raise the temp"
    with pytest.raises(ConfigError, match=message):
        opened(corpora, MIXED % "temperature: 0.05")


def test_mixing_by_weights_and_without_an_end(corpora):
    """`mix` accepts sources with `epochs: null`; with `by: weights`, sources have their own weights
    and ends."""
    sources = parse_config(
        f"mix: {{}}\nsources: {{de: {{path: {corpora / 'de.tsv'}, epochs: null}}}}"
    ).sources
    assert [source.epochs for source in sources] == [None]
    with opened(
        corpora, "mix: {by: weights}\nsources: {de: {path: de.tsv, weight: 2, epochs: 1}}\n"
    ) as stream:
        assert "mix" not in stream.configuration
        assert len(list(stream)) == 90
