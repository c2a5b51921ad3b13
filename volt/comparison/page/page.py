r"""`Comparison` → one HTML file that shows it, even offline; and its charts as PNG and SVG.

`page.html` is a template with tables; scripts draw the charts, sort tables, and split text by the
vocabulary of every searched size, as the encoder does. A content security policy allows these
scripts by their hashes and nothing else. Data enter the file in autoescaped templates or as text
nodes.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.comparison import tables
from volt.comparison.page.charts import CONFIG, picked_sizes, specifications, write_charts
from volt.encode.pretokens import split_lines
from volt.files.atomic import check_distinct, write_atomic

if TYPE_CHECKING:
    from volt.choose.search import SearchResult
    from volt.comparison.result import Comparison
    from volt.learn.candidates import Candidates

TITLES = {
    "entropy": "Entropy over vocabulary size, with what every rule picks",
    "muv": "Marginal utility (Eq. 1) over vocabulary size",
    "profile": "Token counts by rank, chosen vocabulary",
    "lengths": "Lengths of tokens and of pieces, chosen vocabulary",
    "fertility": "Pieces per word of every system, training text",
}
SCRIPTS = ("bpe.js", "tables.js", "page.js")
# Characters that could end the script element, start another, or reorder the file for its readers.
_UNSAFE = re.compile("[<>&\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\U000e0000-\U000e0fff]"
)


def write_page(
    comparison: Comparison, path: str | Path, *, reword: Callable[[str], str] = str
) -> None:
    """Write the page, whole or not at all. reword: see `Comparison.as_data`

    Raises ConfigError if `path` is one of the comparison's text files.
    """
    check_distinct([path], comparison.files)
    page = render_page(comparison, reword=reword).encode()
    with write_atomic(path) as file:
        file.write(page)


def write_plots(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Write the page's charts as PNG and SVG into a folder; return the paths."""
    check_distinct(plot_files(folder), comparison.files)
    return write_charts(comparison.as_data(), folder)


def plot_files(folder: str | Path) -> list[Path]:
    """Return the paths of the pictures that `write_plots` writes."""
    return [Path(folder, f"{name}.{ending}") for name in TITLES for ending in ("png", "svg")]


def render_page(comparison: Comparison, *, reword: Callable[[str], str] = str) -> str:
    """Return the page as HTML. reword: see `Comparison.as_data`"""
    from jinja2 import Environment, StrictUndefined

    data = comparison.as_data(reword=reword)
    samples = data["samples"]["samples"]
    slider = slider_data(comparison.search, [sample["line"] for sample in samples])
    charts = {"config": CONFIG | {"background": "transparent"}, "charts": specifications(data)}
    code = "\n".join(map(read_resource, SCRIPTS))
    page_script = f'"use strict";\n(() => {{\n{code}}})();\n'
    scripts = {"library": _bundle_vega(), "page": _normalise_line_ends(page_script)}
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(count=lambda value: f"{value:,}", visible=visible)
    return environment.from_string(read_resource("page.html")).render(
        data=data,
        verdict=tables.verdict(data),
        tables={
            "answer": [tables.pick_table(data)],
            "systems": [*tables.system_tables(data), tables.cost_table(data)],
            "sources": tables.source_tables(data),
            "study": tables.study_tables(data),
            "made": [tables.corpus_table(data)],
        },
        samples=samples,
        slider=slider,
        jumps=picked_sizes(data),
        titles={name: title for name, title in TITLES.items() if name in charts["charts"]},
        scripts=scripts,
        policy=_security_policy(*scripts.values()),
        style=read_resource("page.css"),
        embedded={
            "comparison": embed_json(data),
            "slider": embed_json(slider),
            "charts": embed_json(charts),
        },
    )


def slider_data(result: SearchResult, lines: Sequence[str]) -> dict[str, Any]:
    """Return what the script needs to split text by the vocabulary of every searched size.

    changes: for each size, the tokens whose counts differ from the size before, and the new counts
    dropped: for each size, the tokens that merges make but the vocabulary drops (scaffolding)
    samples: the lines, split into pre-tokens
    """
    candidates = result.candidates
    vocabulary = result.vocabulary
    pretokenizer = vocabulary.pretokenizer
    sizes = [step.size for step in result.steps]
    # The script splits text that a reader types at spaces only, and knows no user tokens.
    splits_at_spaces = pretokenizer.name in ("whitespace", "metaspace")
    return {
        "marker": vocabulary.marker,
        "normalizer": vocabulary.normalizer.label,
        "pretokenizer": pretokenizer.name,
        "keeps_spaces": pretokenizer.keeps_spaces,
        "typeable": splits_at_spaces and not vocabulary.special.user,
        "n_atoms": candidates.n_atoms,
        "merges": candidates.parts.ravel().tolist(),
        "sizes": sizes,
        "n_merges": [candidates.merges_at(size) for size in sizes],
        "changes": [list(change) for change in count_changes(candidates, sizes)],
        "dropped": [np.flatnonzero(~step.kept).tolist() for step in result.steps],
        "samples": split_lines(vocabulary, lines),
    }


def count_changes(
    candidates: Candidates, sizes: Sequence[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield for each size the tokens whose counts differ from the size before, and their counts."""
    before = np.zeros(candidates.n_tokens, np.int64)
    for size in sizes:
        counts = np.zeros(candidates.n_tokens, np.int64)
        counts[:size] = candidates.counts_at(size)
        tokens = np.flatnonzero(counts != before)
        yield tokens.tolist(), counts[tokens].tolist()
        before = counts


def embed_json(data: Any) -> str:
    """Return JSON that is safe within a script element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def visible(text: object) -> str:
    """Return the text with control, invisible and direction-changing characters spelled out."""
    return _UNSEEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", str(text))


@cache  # bundling takes seconds, and the text depends only on the installed vl-convert
def _bundle_vega() -> str:
    from vl_convert import javascript_bundle

    return _normalise_line_ends(javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _normalise_line_ends(script: str) -> str:
    """Replace line ends by "\\n", as browsers do before they hash a script."""
    assert "</script" not in script.lower(), (
        "a script that contains its own end tag cannot be part of a page"
    )
    return script.replace("\r\n", "\n").replace("\r", "\n")


def _security_policy(*scripts: str) -> str:
    """Return a content security policy that allows only these scripts, by their hashes."""
    hashes = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'"
    )


def read_resource(name: str) -> str:
    """Return a file of this package as text, such as "page.css"."""
    return files(__package__ or "").joinpath(name).read_text(encoding="utf-8")
