"""`volt trial`: its report, and refused options."""

import json
import re
import sys
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from support.commands import listed

pytest.importorskip("torch", reason="trials need torch")
OPTIONS = "--hours 1 --read 50K --jobs 1 --device"
COMMAND = f"trial corpus.txt {OPTIONS} cpu"


@pytest.fixture(autouse=True)
def trained(monkeypatch, tmp_path, run):
    """Write a text, and replace trainings by a function of size and seed."""
    from volt.trial.processes import ChildProcesses, Ended

    def answer(self, command, **_):
        options = json.loads(command[-1])
        from volt.trial.texts import Texts

        sides = ("src", "tgt") if "source" in options else ("txt",)
        superwords = options.get("superwords", 0)
        bits = 2 + abs(options["size"] - 1500) / 10_000 + options["seed"] / 1e4 + superwords / 1e5
        values = {
            "crossing": superwords,
            "tokens": 10_000 - superwords,
            "operations": [(1 - superwords / 2000) * n for n in range(1, 11)],
            "text": Texts.read(Path(options["folder"]), sides).fingerprint,
            "translations": Path(options["folder"], f"test.{sides[-1]}").read_text().splitlines(),
            "millions": [0.005 * n for n in range(1, 11)],
            "dev": [3.0] * 9 + [bits],
            "test": [3.0] * 9 + [bits],
            "seconds": 3.0,
            "learning_seconds": 1.0,
            "reading_seconds": 1.0,
        }
        return Ended(0, json.dumps(values), "")

    monkeypatch.setattr(ChildProcesses, "run", answer)
    (tmp_path / "corpus.txt").write_text("\n".join(topics.values())[:40_000], encoding="utf-8")


def test_a_trial_reports_the_best_size(run, tmp_path):
    """`volt trial` prints the best size and each rule's loss; a second call trains nothing, and
    --json has equal values."""
    done = run(COMMAND)
    report = done.stdout.decode()
    assert done.message.splitlines()[-1] == "wrote corpus.trial/trial.html"
    again = run(f"{COMMAND} --json")
    data = json.loads(again.stdout)
    assert report.startswith(f"answer    {data['best']:,} tokens: ")
    assert f"next: volt search corpus.txt --select fixed:{data['best']}\n" in done.message
    assert all(f"\n{rule}" in report for rule in ("trained", "balanced", "knee", "f95"))
    assert "seed 1" in done.message
    assert "seed 1" not in again.message
    assert data["output"] == "corpus.trial"
    names = " ".join(listed(tmp_path / "corpus.trial"))
    assert names == "dev.txt test.txt train.txt trial.html trial.jsonl"
    assert "<svg" in (tmp_path / "corpus.trial" / "trial.html").read_text(encoding="utf-8")
    assert run(f"{COMMAND} -q").stdout == b""


@pytest.fixture
def pairs(tmp_path):
    """Write two files whose lines are pairs."""
    lines = (tmp_path / "corpus.txt").read_text(encoding="utf-8").split("\n")
    lines = [line for line in lines if line.strip()][:600]
    for name, text in (("a b.de", lines), ("b.en", [line[::-1] for line in lines])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return "--target b.en"


def test_a_translation_gets_a_size_for_each_side(run, tmp_path, pairs):
    """`volt trial --source --target` prints the best pair, and a search for each side; a second
    call trains nothing."""
    command = f"trial {pairs} {OPTIONS} cpu -o out"
    done = run(command, "--source", "a b.de")
    report = done.stdout.decode()
    again = run(f"{command} --json", "--source", "a b.de")
    data = json.loads(again.stdout)
    source, target = (data["best"][side] for side in ("source", "target"))
    assert report.startswith(f"answer    source {source:,}, target {target:,}: ")
    assert f"next: volt search 'a b.de' --select fixed:{source}\n" in done.message
    assert f"next: volt search b.en --select fixed:{target}\n" in done.message
    assert "seed 1" not in again.message
    names = " ".join(listed(tmp_path / "out"))
    assert names == "dev.src dev.tgt test.src test.tgt train.src train.tgt trial.html trial.jsonl"
    page = (tmp_path / "out" / "trial.html").read_text(encoding="utf-8")
    assert f"{source:,} + {target:,}</span> tokens" in page
    assert run(f"{command} -q", "--source", "a b.de").stdout == b""
    assert "contains trainings on another text" in run(f"{COMMAND} -o out", status=2).message


def test_the_next_searches_of_a_translation_run(run, pairs):
    """The searches that `volt trial` advises write one file each, with a size that the whole text
    allows, also if the texts of the trainings lack characters."""
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 1500)))
    for folder in ("de", "en"):
        Path(folder).mkdir()
        lines = Path("b.en").read_text(encoding="utf-8").splitlines()
        lines.append(f"{folder} {rare}")  # too long for a pair
        Path(folder, "train.txt").write_text(
            "".join(f"{line}\n" for line in lines), encoding="utf-8"
        )
    command = f"trial --source de/train.txt --target en/train.txt {OPTIONS} cpu"
    searches = re.findall(r"next: volt (.*)", run(command).message)
    assert len(searches) == 2
    for search in searches:
        run(f"{search} -q")
    assert {"source.volt", "target.volt"} <= {*listed(Path())}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("", 2, "--source and --target are the two files of a translation; give both"),
        ("--source no.de", 1, "no.de: no such file"),
        ("--source corpus.txt", 1, "corpus.txt has "),
        ("--source b.en --superwords auto", 2, "exclude --superwords; remove one of them"),
        ("corpus.txt --source b.en", 2, "--source and --target replace CORPUS"),
        ("--source b.en", 1, "source and target are the same text; name two files"),
        ("--source *.*", 2, "--source and --target name 4 files; name one for each side"),
        ("--source . --select f95", 2, "--select picks the size of a trial of superwords"),
        ("--source b.en --encoding-errors skip", 2, "pass --encoding-errors replace"),
    ],
)
def test_wrong_pairs_are_refused_in_one_line(run, pairs, arguments, status, message):
    """Wrong use of `volt trial` with a translation gives one line that states the fault."""
    assert message in run(f"trial {pairs} {arguments} {OPTIONS} cpu", status=status).message


def test_a_trial_of_superwords_reports_both_comparisons(run, tmp_path):
    """`volt trial --superwords` prints a row for each number, a verdict and the next search; a second
    call trains nothing, and --json has equal values.
    """
    command = f"{COMMAND} --select fixed:1500 --superwords auto"
    done = run(command)
    report = done.stdout.decode()
    again = run(f"{command} --json")
    data = json.loads(again.stdout)
    assert re.sub(r"\s+", " ", report).startswith(f"answer {data['answer']}")
    assert [row["superwords"] for row in data["superwords"]] == [0, 75, 150, 300]
    assert {row["seeds"] for row in data["superwords"]} == {2}
    for row in data["superwords"]:
        assert f"{row['same_text']['bits']:.4f}" in report
        assert f"{row['same_operations']['bits']:.4f}" in report
    assert data["best"] == 300
    search = "volt search corpus.txt --level bytes --select fixed:1500 --superwords 300\n"
    assert f"next: {search}" in done.message
    assert "training with 1,500 tokens, 300 superwords, seed 2" in done.message
    assert "training with" not in again.message
    page = (tmp_path / "corpus.trial" / "trial.html").read_text(encoding="utf-8")
    assert "Numbers of superwords" in page
    sizes = json.loads(run(f"{COMMAND} --json").stdout)  # in the same folder
    assert "superwords" not in sizes["trainings"][0]


def test_the_answer_comes_before_the_page(run, monkeypatch):
    """If the page cannot be written, `volt trial` has printed the answer."""

    def fail(result):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("volt.trial.report.as_page", fail)
    assert run(COMMAND, status=1).stdout.startswith(b"answer ")


def test_a_trial_reads_stdin(run, tmp_path):
    """`volt trial` without CORPUS reads stdin, and advises no search, which could not read it again."""
    text = (tmp_path / "corpus.txt").read_bytes()
    assert "next:" not in run(f"trial {OPTIONS} cpu -o a", stdin=text).message
    run(f"{COMMAND} -o b -q")
    trained, expected = (tmp_path / name / "train.txt" for name in "ab")
    assert trained.read_bytes() == expected.read_bytes()


def test_the_next_command_reads_the_same_texts(run, tmp_path):
    """The command that `volt trial` advises has the options of reading that the trial had."""
    lines = (tmp_path / "corpus.txt").read_text(encoding="utf-8").splitlines()
    rows = "".join(json.dumps({"a b": line}) + "\n" for line in lines)
    (tmp_path / "corpus.jsonl").write_text(rows, encoding="utf-8")
    command = f"trial corpus.jsonl {OPTIONS} cpu --encoding-errors skip --max-line none"
    message = run(command, "--column", "a b").message
    [advice] = re.findall(r"next: (.*)", message)
    assert advice.startswith("volt search corpus.jsonl ")
    assert "--column 'a b'" in advice
    assert "--encoding-errors skip" in advice
    assert "--max-line none" in advice


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("trial corpus.txt", 2, "Missing option '--hours'"),
        ("trial nothing --hours 1", 1, "nothing: no such file; check the path"),
        ("trial corpus.txt --hours 0", 2, "hours is 0; give a number above 0"),
        ("trial corpus.txt --hours 1 --epochs 0", 2, "epochs is 0; give a number above 0"),
        (
            f"{COMMAND} --epochs 3",
            2,
            "epochs and read both give the length of a training; remove one",
        ),
        (
            f"trial corpus.txt {OPTIONS} abacus",
            2,
            "device 'abacus' cannot be used here; choose auto or cpu",
        ),
        ("trial corpus.txt --hours 0.0001", 2, "minutes are needed; for 5, pass --hours 0."),
        (f"{COMMAND} -o -", 2, "-o -: the results are several files"),
        (f"{COMMAND} --superwords 1.5", 2, "a share above 0 and below 1"),
        (f"{COMMAND} --superwords 500 --select fixed:300", 2, "choose a larger size with --select"),
        (f"{COMMAND} --superwords 9 --select nosuch", 2, "unknown rule 'nosuch'"),
        (f"{COMMAND} --select knee", 2, "--select picks the size of a trial of superwords"),
        (f"{COMMAND} -o corpus.txt", 1, "corpus.txt: cannot be created"),
    ],
)
def test_wrong_use_is_refused_in_one_line(arguments, status, message, run):
    """Wrong use of `volt trial` gives one line that states the fault, and nothing is trained."""
    assert message in run(arguments, status=status).message


def test_a_trial_does_not_read_what_it_writes(run):
    """`volt trial` refuses a corpus that it would replace."""
    run(f"{COMMAND} -q")
    command = "trial corpus.trial/train.txt --hours 1 -o corpus.trial"
    assert "would be written over" in run(command, status=2).message


def test_a_trial_does_not_replace_foreign_files(run, tmp_path):
    """`volt trial` does not replace a train.txt that no trial wrote, nor read its own results as
    text."""
    (tmp_path / "train.txt").write_text("mine\n")
    message = run(f"{COMMAND} -o . -q", status=2).message
    assert "train.txt: exists, but trial.jsonl does not" in message
    assert (tmp_path / "train.txt").read_text() == "mine\n"
    (tmp_path / "trial.jsonl").write_text("")
    assert "which is read" in run("trial trial.jsonl --hours 1 -o . -q", status=2).message


def test_without_torch_a_trial_says_what_to_install(run, monkeypatch):
    """`volt trial` without PyTorch ends with status 1, and one line names the package."""
    for name in [name for name in sys.modules if name.startswith("volt.trial.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    message = b"error torch is not installed; pip install 'volt-vocab[torch]'\n"
    assert run(COMMAND, status=1).stderr == message
