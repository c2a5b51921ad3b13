"""Laws of representations: objects in a line, in a notebook, and by help()."""

import inspect
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from support.golden import check
from support.held import CANDIDATES, COUNTS, ENCODER, PUBLIC, RESULT

import volt
from volt.batches import ByTokens, SampleFormat, Steps
from volt.comparison import NamedText
from volt.errors import VoltError, VoltWarning
from volt.stream import Batch, Checks, ErrorPolicy, Mixture, Schedule, Source


def objects(folder):
    """Return a large object of every public class."""
    comparison = volt.compare(NamedText("en", COUNTS), systems=[])
    (folder / "a.tsv").write_text("".join(f"{n}\n" for n in range(1000)))
    source = Source(
        "a" * 500,
        (str(folder / "a.tsv"),),
        weight=Schedule([(n, 1.0) for n in range(500)]),
        epochs=1,
    )
    stream = volt.Stream([source])
    steps = Steps(
        stream, SampleFormat({"src": RESULT.vocabulary}), ByTokens(max_tokens=8), rank=1, world=2
    )
    problem = volt.TransportProblem(
        sparse.csr_array(np.ones((500, 500))), np.ones(500), np.ones(500)
    )
    plan = replace(volt.Sinkhorn(max_iters=2)(problem), row_residual=0.0, column_residual=0.25)
    needs = replace(
        volt.stream.plan(stream, at=9, seconds=0), memory=1_000_000
    )  # measured, so never twice the same
    return {
        "vocabulary": volt.Vocabulary(
            tuple((a, a) for a in map(chr, range(0x4E00, 0x5000))),
            tuple(map(chr, range(0x4E00, 0x5000))),
        ),
        "counts": COUNTS,
        "candidates": CANDIDATES,
        "result": RESULT,
        "step": RESULT.best,
        "curve": RESULT.curve,
        "encoder": ENCODER,
        "encoded": ENCODER.encode_batch(["low"] * 500),
        "comparison": comparison,
        "text": NamedText("n" * 500, COUNTS),
        "problem": problem,
        "plan": plan,
        "potentials": plan.potentials,
        "parameters": volt.SearchParameters(),
        "solver": volt.Sinkhorn(),
        "stream": stream,
        "source": source,
        "summary": stream.summary(),
        "audit": volt.stream.audit(stream, turns=100),
        "trace": next(volt.stream.trace(stream, [7])),
        "batch": Batch.of(["low" * 9] * 500),
        "mixture": Mixture([1.0] * 500),
        "checks": Checks(),
        "policy": ErrorPolicy(),
        "steps": steps,
        "reach": volt.encode.reach(RESULT.vocabulary),
        "plan of a stream": needs,
    }


def test_every_object_has_a_short_representation(tmp_path):
    """The repr of a large object equals the golden line, which has at most 220 characters."""
    shown = {name: repr(value) for name, value in objects(tmp_path).items()}
    for name, text in shown.items():
        assert len(text) <= (220 if name in ("parameters", "policy") else 120), text
        assert "\n" not in text
    check("representations", shown)


def test_notebooks_show_texts_as_they_are():
    """Markup in words, tokens and names is shown as text, and the searched sizes are drawn."""
    words = {f"low<script>alert(1)</script>&amp;{end}": 5 for end in ("", "er", "est")}
    result = volt.search(
        volt.learn_bpe(words, 60),
        sizes=[30, 35, 40],
        select=35,
        special=volt.SpecialTokens(user=("<script>",)),
    )
    comparison = volt.compare(NamedText("<script>", words), systems=["bpe:30", "bpe:9000"])
    for value in (result, result.vocabulary, comparison):
        page = value._repr_html_()
        assert "<script" not in page
        assert len(page) < 20_000
    assert "low&lt;script&gt;alert(1)&lt;/script" in result._repr_html_()
    assert result._repr_html_().count("<circle") == len(result.steps) + 1
    assert "&lt;script&gt;" in result.vocabulary._repr_html_()
    assert "bpe:9000" in comparison._repr_html_()


def documented():
    """Return every public function and constructor, and the methods of public classes."""
    found = {}
    for name, value in PUBLIC.items():
        if callable(value) and value not in (VoltError, VoltWarning):
            found[name] = value
        if inspect.isclass(value):
            own = {
                method: getattr(value, method)
                for method in vars(value)
                if not method.startswith("_")
            }
            found |= {
                f"{name}.{method}": made
                for method, made in own.items()
                if inspect.isfunction(made) or inspect.ismethod(made)
            }
    return found


@pytest.mark.parametrize("name", documented())
def test_help_describes_every_parameter(name):
    """A docstring describes each parameter; functions and classes also have an example."""
    value = documented()[name]
    text = inspect.getdoc(value) or ""
    described = set()
    for names in re.findall(r"^ *((?:\w+, )*\w+): ", text.partition(">>>")[0], re.MULTILINE):
        described |= set(names.split(", "))
    is_protocol = getattr(value, "_is_protocol", False)
    message = (
        ()
        if is_protocol
        else (name for name in inspect.signature(value).parameters if name != "self")
    )
    assert set(message) <= described | {"args", "kwargs"}
    assert ">>>" in text or name not in PUBLIC
