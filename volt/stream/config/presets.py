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


def _download(name: str, langs: str) -> dict[str, str]:
    """Return language → file of an MTData data set. Download it if it is not in the cache.

    langs: the codes of both languages, as in deu-eng
    """
    if not _CODES.fullmatch(langs):
        raise ConfigError(f"langs is {shown(langs)}; give two three-letter codes, as in deu-eng")
    if not re.fullmatch(r"\w[\w.-]*", name):
        fault = f"{shown(name)}: not the name of a data set"
        raise ConfigError(f"{fault}; mtdata list -l {langs} lists the names")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "volt" / "mtdata" / langs / name
    if not folder.exists():
        program = shutil.which("mtdata")
        if program is None:
            remedy = "pip install mtdata, or give files to multistream"
            raise MissingLibraryError(f"mtdata is not installed; {remedy}")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as parent:
                output = f"{parent}/{name}"
                command = [program, "get", "-l", langs, "-tr", name, "--compress", "-o", output]
                status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2).returncode
                if status:
                    fault = f"mtdata get {name} ended with status {status}"
                    raise StreamError(f"{fault}; see its message above")
                os.rename(output, folder)
        except OSError as error:
            fault = f"{folder}: cannot be created: {reason(error)}"
            raise StreamError(f"{fault}; fix it, or set XDG_CACHE_HOME") from None
    result = dict[str, str]()
    for code in langs.split("-"):
        path = str(folder / "train-parts" / f"{name}.{code}.gz")
        result[code] = path
        if not os.path.isfile(path):
            fault = f"{path}: MTData has not written this file of {name}"
            raise StreamError(f"{fault}; remove {folder}, and retry")
    return result


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

    about: its description
    n_sources: the number of sources; None for any number
    names: the names of the sources; by default the names of their files
    steps: the transforms of each source
    is_mtdata: whether its sources are names of MTData data sets
    """

    about: str
    n_sources: int | None = None
    names: tuple[str, ...] = ()
    steps: tuple[tuple[Any, ...], ...] = ()
    is_mtdata: bool = False


PIPELINES = {
    "default": Pipeline("one source, unchanged", n_sources=1),
    "example": Pipeline(
        "parallel and back-translated data, with a tag and case noise",
        n_sources=2,
        names=("parallel", "backtranslated"),
        steps=((_CASE_NOISE,), (_CASE_NOISE, {"tag": "[BT]"})),
    ),
    "multistream": Pipeline("any number of sources, mixed by weight"),
    "mtdata": Pipeline("data sets that MTData downloads, mixed by weight", is_mtdata=True),
}


def parse_weights(text: str) -> tuple[float, ...]:
    """Parse weights separated by commas.

    Raises ConfigError if one is negative or invalid, or all are 0.

    >>> parse_weights("2,1"), parse_weights("0.5, 1")
    ((2.0, 1.0), (0.5, 1.0))
    """
    try:
        weights = tuple(map(float, text.split(",")))
    except ValueError:
        weights = ()
    if not any(weights) or min(weights) < 0 or not all(map(math.isfinite, weights)):
        remedy = "give one number from 0 up for each source, as in 2,1"
        raise ConfigError(f"weights is {shown(text)}; {remedy}")
    return weights


def pipeline_config(
    name: str,
    sources: Sequence[str],
    *,
    weights: Sequence[float] = (),
    langs: str = "",
    seed: int = 0,
) -> Configuration:
    """Return the configuration of a named stream.

    Raises ConfigError if the number of sources or weights is wrong.

    sources: files, folders and globs; for mtdata, data set names
    weights: a weight for each source; equal by default
    langs: for mtdata, the codes of both languages, as in deu-eng
    """
    from volt.stream.config.configuration import check_configuration
    from volt.stream.config.yaml_document import Document

    pipeline = PIPELINES[name]
    n_sources = counted(len(sources), "source")
    if not sources or pipeline.n_sources not in (None, len(sources)):
        remedy = f"give {pipeline.n_sources or '1 or more'}"
        if pipeline.names:
            remedy += f" ({', '.join(pipeline.names)})"
        raise ConfigError(f"{name} has {n_sources}; {remedy}")
    if weights and len(weights) != len(sources):
        n_weights = counted(len(weights), "weight")
        raise ConfigError(f"{name} has {n_weights} for {n_sources}; give one for each")
    if pipeline.is_mtdata and not langs:
        fault = f"{name}: no languages are given; pass their codes, as in"
        raise ConfigError(fault, hint={"langs": "deu-eng"})
    if langs and not pipeline.is_mtdata:
        fault = f"langs is {langs}, but {name} reads files, which need no language codes"
        raise ConfigError(f"{fault}; remove it")

    names = list(sources)
    if pipeline.is_mtdata:
        inputs: list[dict[str, Any]] = [{"pair": _download(path, langs)} for path in sources]
    else:
        inputs = [{"path": path} for path in sources]
        short_names = pipeline.names or tuple(map(name_of, sources))
        if len({*short_names}) == len(sources):
            names = list(short_names)
    for index, source in enumerate(names):
        if source in names[:index]:
            remedy = "give it once, with the sum of the weights"
            raise ConfigError(f"source {shown(source)} is given twice; {remedy}")
        if weights:
            inputs[index]["weight"] = float(weights[index])
        if pipeline.steps:
            inputs[index]["transforms"] = list(pipeline.steps[index])
    named = dict(zip(names, inputs, strict=True))
    document = Document(name, {"seed": seed, "sources": named}, {})
    return check_configuration(document, user_code=False)
