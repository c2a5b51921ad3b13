"""A vocabulary with many unknown pieces is not ranked: reports show dashes and a warning."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from functools import partial

import numpy as np
import pytest

import volt
from volt.comparison import measures
from volt.comparison.compare import NamedText
from volt.comparison.measures import Measures
from volt.comparison.page.charts import fertility_chart
from volt.comparison.tables import as_markdown, report_tables, warnings

SLOVENIAN = "dober dan vsi ljudje se rodijo svobodni in imajo enako dostojanstvo in enake pravice obdarjeni so z razumom"
TAMIL = "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர் அவர்கள் மதிப்பிலும் உரிமைகளிலும் சமமானவர்கள் அவர்கள் நியாயத்தையும்"
measure = partial(measures.measure, always=np.array(True), length="type", model=None)
RANKED = [field.name for field in fields(Measures) if field.default is None]  # what ranks systems
LATIN = "in 2026"  # of which the Slovenian vocabulary knows a part


def counts_of(text, n=50):
    """Count the words of a text, n times."""
    return volt.WordCounts.from_pairs(dict.fromkeys(text.split(), n))


def slovenian(path):
    """Write a vocabulary of Slovenian."""
    volt.search(volt.learn_bpe(counts_of(SLOVENIAN), 60)).vocabulary.save(path)
    return str(path)


def wordpiece(path):
    """Write a vocabulary in which every unknown word is a single piece, which makes its fertility
    low.
    """
    tokenizers = pytest.importorskip("tokenizers")
    tokens = dict.fromkeys(["[UNK]", *sorted(set(SLOVENIAN.replace(" ", ""))), "in"])
    vocab = {token: number for number, token in enumerate(tokens)}
    model = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    model.save(str(path))
    return str(path)


@pytest.fixture(params=[slovenian, wordpiece])
def comparison(request, tmp_path):
    """Return a comparison on Tamil with a vocabulary of Slovenian."""
    path = request.param(tmp_path / ("sl.volt" if request.param is slovenian else "sl.json"))
    texts = [NamedText("ta", counts_of(TAMIL)), NamedText("mixed", counts_of(f"{TAMIL} {LATIN}"))]
    return volt.compare(texts, heldout=texts[:1], systems=[path])


def test_measures_that_rank_are_none(comparison):
    """Measures that rank systems are None for the text and each source; other systems have theirs."""
    *own, useless = comparison.systems
    for one in (useless.training, useless.heldout, *useless.by_source.values()):
        assert one is not None
        assert one.unknown_rate > 0.9
        assert [name for name in RANKED if getattr(one, name) is not None] == []
        assert one.parity is one.premium is None
    for system in own:
        assert system.training.entropy is not None
        assert all(one.parity is not None for one in system.by_source.values())


def test_reports_show_dashes_and_a_warning(comparison):
    """Tables, JSON, chart and notebook lack the measures, and a warning gives the share of unknown
    pieces.
    """
    data = comparison.as_data()
    useless = data["systems"][-1]["name"]
    kept = {
        "system",
        "source",
        "share",
        "unk.",
        "size",
        "scaffolding",
        "seconds",
        "MB",
        "on edge",
        "why",
    }
    for table in report_tables(data):
        for row in table.rows:
            if row[0].text == useless:
                named = dict(zip((column.head for column in table.columns), row, strict=True))
                if "unk." in named:
                    assert {cell.text for head, cell in named.items() if head not in kept} == {"–"}
                    assert named["unk."].value > 0.9
    [warning] = [warning for warning in warnings(data) if "are unknown" in warning]
    assert re.search(
        rf"{re.escape(useless)} \(.* % of the training text, .* % of the held-out text", warning
    )
    assert "are unknown" in as_markdown(data)
    json.dumps(data, allow_nan=False)
    [rows] = fertility_chart(data).to_dict()["datasets"].values()
    assert {row["system"] for row in rows} == {system["name"] for system in data["systems"][:-1]}
    assert "–" in comparison._repr_html_()


def test_the_command_warns_of_unknown_pieces(run, tmp_path):
    """`volt compare` names the vocabulary and the share of unknown pieces."""
    slovenian(tmp_path / "sl.volt")
    (tmp_path / "ta.txt").write_text(f"{TAMIL}\n" * 50, encoding="utf-8")
    for option in ("--with", "-m"):
        message = " ".join(run("compare", "ta.txt", option, "sl.volt").stdout.decode().split())
        assert "warning more than 1 % of the pieces are unknown" in message
        assert "file sl.volt (100 % of the training text)" in message


def test_one_warning_names_all_systems(tmp_path):
    """One warning names all systems with too many unknown pieces."""
    files = [slovenian(tmp_path / name) for name in ("one.volt", "two.volt")]
    [warning] = [
        problem
        for problem in volt.compare(NamedText("ta", counts_of(TAMIL)), systems=files).problems
        if "are unknown" in problem
    ]
    assert all(f"file {file} (100 % of the training text)" in warning for file in files)
