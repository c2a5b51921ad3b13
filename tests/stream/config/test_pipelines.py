"""Named streams as configurations: names, weights, transforms, and what each name refuses."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from volt.errors import ConfigError, StreamError, VoltError
from volt.stream.config import pipelines
from volt.stream.config.pipelines import parsed_weights, pipeline_config

N_OR_MORE = "give one number from 0 up for each source, as in 2,1"
FAULTS: list[tuple[str, list[str], dict[str, Any], str]] = [
    ("default", [], {}, "default has 0 sources; give 1"),
    ("default", ["a", "b"], {}, "default has 2 sources; give 1"),
    ("example", ["a"], {}, "example has 1 source; give 2 (parallel, backtranslated)"),
    ("example", ["a", "b", "c"], {}, "example has 3 sources; give 2 (parallel, backtranslated)"),
    ("multistream", [], {}, "multistream has 0 sources; give 1 or more"),
    ("multistream", ["a", "a", "b"], {}, "source a is given twice; give it once, with the sum of the weights"),
    ("multistream", ["a", "b"], {"weights": (1,)}, "multistream has 1 weight for 2 sources; give one for each"),
    ("multistream", ["a"], {"langs": "deu-eng"}, "langs is deu-eng, but multistream reads files, which need no"),
    ("mtdata", ["a"], {}, "mtdata: no languages are given; pass their codes, as in langs='deu-eng'"),
    ("mtdata", ["a"], {"langs": "de-en"}, "langs is de-en; give two codes of three letters, as in deu-eng"),
    ("mtdata", ["a"], {"langs": "deu-engl"}, "langs is deu-engl; give two codes of three letters"),
    ("mtdata", ["-a"], {"langs": "deu-eng"}, "-a: not the name of a data set; mtdata list -l deu-eng names them"),
    ("mtdata", [".a"], {"langs": "deu-eng"}, ".a: not the name of a data set"),
    ("mtdata", ["a/b"], {"langs": "deu-eng"}, "a/b: not the name of a data set"),
    ("mtdata", ["a"], {"langs": "deu-eng"}, "mtdata is not installed; pip install mtdata, or name files with"),
]


@pytest.mark.parametrize(("name", "sources", "options", "message"), FAULTS)
def test_wrong_arguments_are_refused(
    name: str, sources: list[str], options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """Numbers of sources and weights, names that repeat, and languages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(VoltError) as caught:
        pipeline_config(name, sources, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "a", "1,", "0", "0,0", "1,-1", "nan", "1,inf"])
def test_weights_are_numbers_of_which_one_is_above_zero(text: str) -> None:
    """Several weights are separated by commas."""
    assert parsed_weights("0,1.5") == (0.0, 1.5)
    with pytest.raises(ConfigError, match=f"^weights is .*; {N_OR_MORE}$"):
        parsed_weights(text)


def test_sources_get_names_weights_and_transforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are those of the files, or the whole paths where they would repeat; all weights are 1 by default."""
    monkeypatch.chdir(tmp_path)
    for folder in "xy":
        Path(folder).mkdir()
        Path(folder, "a.tsv").write_text("1\t2\n")
    Path("b.tsv").write_text("1\t2\n")

    def shown(*arguments: Any, **options: Any) -> list[Any]:
        found = pipeline_config(*arguments, **options)
        return [found.seed, *((one.name, one.weight, len(one.transforms)) for one in found.sources)]

    assert shown("default", ["b.tsv"]) == [0, ("b.tsv", 1.0, 0)]
    named = [7, ("a.tsv", 2.0, 0), ("b.tsv", 0.5, 0)]
    assert shown("multistream", ["x/a.tsv", "b.tsv"], weights=(2, 0.5), seed=7) == named
    paths = ["x/a.tsv", "y/a.tsv", "b.tsv"]
    assert shown("multistream", paths) == [0, *((path, 1.0, 0) for path in paths)]
    assert shown("example", ["b.tsv", "x/a.tsv"]) == [0, ("parallel", 1.0, 1), ("backtranslated", 1.0, 2)]
    noise, tag = pipeline_config("example", ["b.tsv", "x/a.tsv"]).sources[1].transforms
    assert [
        (variant.weight, [(type(step).__name__, step.fields) for step in variant.transforms])
        for variant in getattr(noise, "variants", ())
    ] == [(0.95, []), (0.04, [("Lower", (1,))]), (0.01, [("Title", (1, 2))])]
    assert getattr(tag, "text", None) == "[BT]"


def test_data_sets_are_pairs_that_are_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache holds a file for each language; a file that is missing is named, with the folder to remove."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "volt" / "mtdata" / "deu-eng" / "news"
    parts = [folder / "train-parts" / f"news.{code}.gz" for code in ("deu", "eng")]
    parts[0].parent.mkdir(parents=True)
    parts[0].write_bytes(gzip.compress(b"x\n"))
    with pytest.raises(StreamError, match=rf"^{parts[1]}: MTData has not .* of news; remove {folder}, and retry"):
        pipeline_config("mtdata", ["news"], langs="deu-eng")
    parts[1].write_bytes(gzip.compress(b"y\n"))
    monkeypatch.setattr(pipelines, "_download", None)
    [source] = pipeline_config("mtdata", ["news"], langs="deu-eng", weights=(3,)).sources
    assert (source.names, source.paths, source.weight) == (("deu", "eng"), tuple(map(str, parts)), 3.0)
