"""A vocabulary with many unknown pieces is not ranked: reports show dashes and a warning."""

import json
import re
from dataclasses import fields

import pytest

import volt
from volt.comparison.compare import NamedText
from volt.comparison.measures import Measures
from volt.comparison.page.charts import fertility_chart
from volt.comparison.tables import as_markdown, report_tables, warnings

SLOVENIAN = (
    "dober dan vsi ljudje se rodijo svobodni in imajo enako dostojanstvo in enake pravice "
    "obdarjeni so z razumom"
)
TAMIL = (
    "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர் அவர்கள் மதிப்பிலும் உரிமைகளிலும் "
    "சமமானவர்கள் அவர்கள் நியாயத்தையும்"
)
RANKED = [field.name for field in fields(Measures) if field.default is None]  # what ranks systems
MIXED = f"{TAMIL} in 2026"  # the Slovenian vocabulary knows a part of it


def counts_of(text, n=50):
    """Count the words of a text, n times."""
    return volt.WordCounts.from_pairs(dict.fromkeys(text.split(), n))


def slovenian(path):
    """Write a vocabulary of Slovenian."""
    volt.search(volt.learn_bpe(counts_of(SLOVENIAN), 60)).vocabulary.save(path)
    return str(path)


def wordpiece(path):
    """Write a vocabulary in which an unknown word is one piece, so that its fertility is low."""
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
    texts = [NamedText("ta", counts_of(TAMIL)), NamedText("mixed", counts_of(MIXED))]
    return volt.compare(texts, heldout=texts[:1], systems=[path])


def test_measures_that_rank_are_none(comparison):
    """Measures that rank systems are None for the text and each source; other systems have theirs."""
    *others, useless = comparison.systems
    for measures in (useless.training, useless.heldout, *useless.by_source.values()):
        assert measures.unknown_rate > 0.9
        assert {getattr(measures, name) for name in RANKED} == {None}
    for system in others:
        assert system.training.entropy is not None
        assert None not in [measures.parity for measures in system.by_source.values()]


def test_reports_show_dashes_and_a_warning(comparison):
    """Tables, chart and notebook lack the measures; a warning gives the share of unknown pieces."""
    data = comparison.as_data()
    useless = data["systems"][-1]["name"]
    shown = {"system", "source", "share", "unk.", "size", "scaffolding", "seconds", "MB", "why"}
    for table in report_tables(data):
        heads = [column.head for column in table.columns]
        for row in table.rows:
            if row[0].text == useless and "unk." in heads:
                cells = dict(zip(heads, row, strict=True))
                assert cells["unk."].value > 0.9
                assert {cells[head].text for head in heads if head not in shown} == {"–"}
    [warning] = [warning for warning in warnings(data) if "are unknown" in warning]
    shares = r"\(.* % of the training text, .* % of the held-out text"
    assert re.search(f"{re.escape(useless)} {shares}", warning)
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
    problems = volt.compare(NamedText("ta", counts_of(TAMIL)), systems=files).problems
    [warning] = [problem for problem in problems if "are unknown" in problem]
    for file in files:
        assert f"file {file} (100 % of the training text)" in warning
