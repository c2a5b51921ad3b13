"""`--model-params` and `--model-width`: the size that a language model deserves, and what each byte costs it."""

from __future__ import annotations

import json
import re

import pytest
from commands import Run

MODEL = ("--model-params", "1e6", "--model-width", "3000000")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (
            ["--select", "scaling"],
            "the rule scaling needs a language model; give --model-params and --model-width",
        ),
        (["--model-params", "1e9"], "--model-width is missing"),
        (["--model-width", "512"], "--model-params is missing"),
        (["--model-params", "nan", "--model-width", "512"], "params is nan"),
        (["--model-params", "1e400", "--model-width", "512"], "params is inf"),
        (["--model-params", "-1", "--model-width", "512"], "params is -1"),
        (["--model-params", "0", "--model-width", "512"], "params is 0"),
        (["--model-params", "1e9", "--model-width", "0"], "width is 0"),
    ],
)
def test_half_a_model_is_refused(given: list[str], found: str, run: Run) -> None:
    """What is missing or impossible is one line that names the option, for both commands, before anything is read."""
    for command in ("search", "compare"):
        message = run(command, "corpus.txt", *given, status=2).stderr.decode()
        assert found in message
        assert message.startswith("error ")


def test_the_report_shows_the_rule_and_the_cost(run: Run) -> None:
    """With a model there is one rule more and one column more; tokens per byte are always there, and all is in the
    JSON."""
    plain, shown = (
        run("search corpus.txt -o x.volt", *more).stdout.decode() for more in ([], MODEL)
    )
    assert "tokens/byte" in plain
    assert "GFLOP/byte" not in plain
    assert not re.search(r"^scaling ", plain, flags=re.MULTILINE)
    assert "GFLOP/byte" in shown
    assert re.search(
        r"^scaling +\d+ +1e\+06 parameters of width 3,000,000 deserve", shown, flags=re.MULTILINE
    )
    data = json.loads(run("search corpus.txt --json --select scaling", *MODEL).stdout)
    assert data["pick"]["rule"] == "scaling"
    for step in data["steps"]:
        expected = 2 * (1e6 + step["size"] * 3e6) * step["tokens_per_byte"]
        assert step["serving_flops_per_byte"] == pytest.approx(expected)
