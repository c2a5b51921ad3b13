"""A search and a comparison print equal figures of one vocabulary and text, in the command and in
Python.
"""

import json
from pathlib import Path

import pytest
from support.commands import TEXT

from volt.choose.report import as_data
from volt.choose.scaling_law import LanguageModel
from volt.choose.search import search
from volt.comparison.compare import compare
from volt.comparison.texts import NamedText
from volt.count.corpus import count_words
from volt.learn.bpe import learn_bpe
from volt.text.special_tokens import SpecialTokens

FIGURES = ("n_pieces", "entropy", "f95", "renyi", "tokens_per_byte", "serving_flops_per_byte")
TEXTS = {
    "corpus": TEXT,
    "repeated": "low lower lowest newest widest\n" * 5 + "low lower new\n",
    "greek": "αβγ αβγ αβδ low low x\n" * 7,
}
MODEL = LanguageModel(params=1e6, width=64)
OPTIONS = {
    "usual": ([], {}, {}),
    "user tokens": (["--special", "<url>"], {}, {"special": SpecialTokens(user=("<url>",))}),
    "bytes": (["--byte-fallback"], {}, {"byte_fallback": True}),
    "prefix": (["--marker", "prefix"], {"marker": "prefix"}, {}),
}


def _figures(data):
    return [pytest.approx(data[name], rel=1e-12) for name in FIGURES]


def _of_file(data):
    [system] = [system for system in data["systems"] if system["family"] == "file"]
    assert system["n_scaffolding"] == system["training"]["n_types"] - system["size"]
    return [system["training"][name] for name in FIGURES]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("text", TEXTS)
def test_both_commands_and_python_agree(run, tmp_path, text, options):
    """`volt search`, `volt compare` and both calls of Python count tokens equally, with
    scaffolding, user and byte tokens.
    """
    Path("text.txt").write_text(TEXTS[text])
    words, learning, searching = OPTIONS[options]
    model = ["--model-params", "1e6", "--model-width", "64"]
    printed = json.loads(run("search", "text.txt", "--json", "-o", "v.volt", *model, *words).stdout)
    compared = json.loads(run("compare", "text.txt", "--with", "v.volt", "--json", *model).stdout)
    counts = count_words("text.txt", special=searching.get("special"))
    result = search(learn_bpe(counts, **learning), model=MODEL, **searching)
    in_python = as_data(result)
    comparison = compare(NamedText("text", counts), systems="v.volt", model=MODEL).as_data()
    expected = _figures(printed["best"])
    assert in_python["best"]["size"] == printed["best"]["size"]
    assert [in_python["best"][name] for name in FIGURES] == expected
    assert _of_file(compared) == expected
    assert _of_file(comparison) == expected
    steps = {step["size"]: step for step in compared["search"]["steps"]}
    for system in compared["systems"]:
        if system["family"] == "volt":
            step = steps[system["size"] + system["n_scaffolding"]]
            assert [system["training"][name] for name in FIGURES] == _figures(step), system["name"]
