"""Named streams: turn the files and weights of a command line into a configuration.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     pipeline_config("default", [file.name], seed=7).seed
7
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt.display import counted
from volt.errors import ConfigError, MissingLibraryError, StreamError, reason, shown
from volt.urls import name_of

if TYPE_CHECKING:
    from volt.stream.config.configuration import Configuration


_CODES = re.compile(r"[a-z]{3}(_\w+)*-[a-z]{3}(_\w+)*")


def _downloaded(name: str, langs: str) -> dict[str, str]:
    if not _CODES.fullmatch(langs):
        raise ConfigError(f"langs is {shown(langs)}; give two three-letter codes, as in deu-eng")
    if not re.fullmatch(r"[\w.-]+", name) or name.startswith(("-", ".")):
        raise ConfigError(
            f"{shown(name)}: not the name of a data set; mtdata list -l {langs} lists the names"
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "volt" / "mtdata" / langs / name
    if not folder.exists():
        _download(name, langs, folder)
    result = {code: str(folder / "train-parts" / f"{name}.{code}.gz") for code in langs.split("-")}
    if missing := [path for path in result.values() if not os.path.isfile(path)]:
        raise StreamError(
            f"{missing[0]}: MTData has not written this file of {name}; remove {folder}, and retry"
        )
    return result


def _download(name: str, langs: str, folder: Path) -> None:
    program = shutil.which("mtdata")
    if program is None:
        raise MissingLibraryError(
            "mtdata is not installed; pip install mtdata, or give files to multistream"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as output:
            command = [
                program,
                "get",
                "-l",
                langs,
                "-tr",
                name,
                "--compress",
                "-o",
                f"{output}/{name}",
            ]
            status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2).returncode
            if status:
                raise StreamError(
                    f"mtdata get {name} ended with status {status}; see its message above"
                )
            os.rename(f"{output}/{name}", folder)
    except OSError as error:
        raise StreamError(
            f"{folder}: cannot be created: {reason(error)}; fix it, or set XDG_CACHE_HOME"
        ) from None


_CASE_NOISE = {
    "choice": [
        {"weight": 0.95},
        {"weight": 0.04, "transforms": [{"lower": {"fields": [1]}}]},
        {"weight": 0.01, "transforms": [{"title": {"fields": [1, 2]}}]},
    ]
}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A named stream.

    least, most: the minimum and maximum number of sources; None for no maximum.
    names: the sources' names; by default their files' names. steps: the transforms of each source.
    is_mtdata: whether its sources are MTData data set names.
    """

    about: str
    least: int = 1
    most: int | None = None
    names: tuple[str, ...] = ()
    steps: tuple[tuple[Any, ...], ...] = ()
    is_mtdata: bool = False


PIPELINES = {
    "default": Pipeline("one source, unchanged", most=1),
    "example": Pipeline(
        "parallel and back-translated data, with a tag and case noise",
        least=2,
        most=2,
        names=("parallel", "backtranslated"),
        steps=((_CASE_NOISE,), (_CASE_NOISE, {"tag": "[BT]"})),
    ),
    "multistream": Pipeline("any number of sources, mixed by weight"),
    "mtdata": Pipeline("data sets that MTData downloads, mixed by weight", is_mtdata=True),
}


def parsed_weights(text: str) -> tuple[float, ...]:
    """Parse weights separated by commas. Raises ConfigError if one is negative or invalid, or all are 0.

    >>> parsed_weights("2,1"), parsed_weights("0.5, 1")
    ((2.0, 1.0), (0.5, 1.0))
    """
    try:
        weights = tuple(float(part) for part in text.split(","))
    except ValueError:
        weights = ()
    if not any(weights) or not all(math.isfinite(weight) and weight >= 0 for weight in weights):
        raise ConfigError(
            f"weights is {shown(text)}; give one number from 0 up for each source, as in 2,1"
        )
    return weights


def pipeline_config(
    name: str,
    sources: Sequence[str],
    *,
    weights: Sequence[float] = (),
    langs: str = "",
    seed: int = 0,
) -> Configuration:
    """Return the configuration of a named stream. Raises ConfigError if the number of sources or weights is wrong.

    sources: files, folders and globs; for mtdata, data set names
    weights: a weight for each source; equal by default
    langs: for mtdata, the codes of both languages, as in deu-eng
    """
    from volt.stream.config.configuration import config_of_values

    pipeline = PIPELINES[name]
    _check(name, pipeline, sources, weights, langs)
    if pipeline.is_mtdata:
        values: dict[str, dict[str, Any]] = {
            source: {"pair": _downloaded(source, langs)} for source in sources
        }
    else:
        names = list(pipeline.names) or list(map(name_of, sources))
        if len(set(names)) < len(names):
            names = list(sources)
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise ConfigError(
                f"source {shown(twice)} is given twice; give it once, with the sum of the weights"
            )
        values = {name: {"path": path} for name, path in zip(names, sources, strict=True)}
    for source, weight in zip(values.values(), weights, strict=False):
        source["weight"] = float(weight)
    for source, steps in zip(values.values(), pipeline.steps, strict=False):
        source["transforms"] = list(steps)
    return config_of_values({"seed": seed, "sources": values}, path=name)


def _check(
    name: str, pipeline: Pipeline, sources: Sequence[str], weights: Sequence[float], langs: str
) -> None:
    n_sources = counted(len(sources), "source")
    if len(sources) < pipeline.least or (
        pipeline.most is not None and len(sources) > pipeline.most
    ):
        wanted = f"{pipeline.least} or more" if pipeline.most is None else f"{pipeline.most}"
        meaning = f" ({', '.join(pipeline.names)})" * bool(pipeline.names)
        raise ConfigError(f"{name} has {n_sources}; give {wanted}{meaning}")
    if weights and len(weights) != len(sources):
        raise ConfigError(
            f"{name} has {counted(len(weights), 'weight')} for {n_sources}; give one for each"
        )
    if pipeline.is_mtdata and not langs:
        raise ConfigError(
            f"{name}: no languages are given; pass their codes, as in", hint={"langs": "deu-eng"}
        )
    if langs and not pipeline.is_mtdata:
        raise ConfigError(
            f"langs is {langs}, but {name} reads files, which need no language codes; remove it"
        )
