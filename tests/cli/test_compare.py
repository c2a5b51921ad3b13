"""`volt compare`: tables, JSON, files, and refused options."""

import json
import resource
from pathlib import Path

import pytest
from support.commands import Done, status_of

ENDS = ("", "s", "ed", "er", "est", "ing")
STEMS = ("walk", "talk", "jump", "bump", "sing", "ring", "strong", "long", "cold", "bold")
TEXT = "".join(
    " ".join(stem + end for end in ENDS[: 2 + i % 4]) + "\n" for i, stem in enumerate(STEMS * 5)
)


@pytest.fixture
def run(tmp_path, monkeypatch, capsysbinary):
    """Run volt compare in this process, in a folder with a.en, b.en (held out) and a.xx."""
    for name, text in (("a.en", TEXT), ("b.en", TEXT[:300]), ("a.xx", TEXT[::-1].strip() + "\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run_volt(command, status=0):
        result = status_of(["compare", *command.split()], stdin=b"")
        done = Done(*(text.decode() for text in capsysbinary.readouterr()))
        assert result == status, done.stderr
        return done

    return run_volt


OURS = "--with bpe:40 --with bpe:60"


def test_compare_prints_its_tables(run):
    """`volt compare` prints systems, measures, the study, warnings and the signature, and writes no
    file."""
    done = run(f"a.en {OURS} --all")
    for expected in ("verdict", "volt knee", "bpe 40", "training text", "warning", "signature"):
        assert expected in done.stdout
    first_screen = run(f"a.en {OURS}").stdout
    assert "verdict" in first_screen
    assert "volt knee" not in first_screen
    assert "--all adds all measures" in first_screen
    assert len(first_screen.splitlines()) <= 40
    assert "held-out text" not in done.stdout
    assert len(list(Path().iterdir())) == 3


def test_reports_name_options(run):
    """Reasons of rules name options of the command line, and not arguments of Python."""
    done = run(f"a.en {OURS} --all --markdown report.md --json")
    page = run(f"a.en {OURS} -q -o report.html")
    for report in (done.stdout, Path("report.md").read_text(), Path("report.html").read_text()):
        assert "5 epochs (assumed; set --epochs N)" in report
        assert "set epochs=N" not in report
    assert page.stdout == ""


def test_json_is_all_that_reaches_stdout(run):
    """With --json, `volt compare` prints one JSON object on stdout, also with -q."""
    data = json.loads(run(f"a.en {OURS} --heldout b.en --json").stdout)
    assert [system["name"] for system in data["systems"]][-2:] == ["bpe 40", "bpe 60"]
    assert data["systems"][0]["heldout"]["n_words"] == len(TEXT[:300].split())
    assert data.keys() == json.loads(run(f"a.en {OURS} --json -q").stdout).keys()


def test_json_and_markdown_agree(run):
    """--json and --markdown of one comparison have equal numbers; with -q, nothing else is printed."""
    done = run(f"a.en a.xx {OURS} --json --markdown r.md -q")
    assert done.stderr == ""
    data, text = json.loads(done.stdout), Path("r.md").read_text()
    for system in data["systems"]:
        assert f"{system['training']['n_pieces']:,}" in text
    assert data["signature"] in text
    assert "parity, by source" in text


def test_options_reach_the_comparison(run):
    """Names, sizes, rule, candidates, temperature and samples of `volt compare` reach
    `volt.compare`."""
    Path("lines.txt").write_text("walking longer\n\nstrongest\n")
    texts = "left=a.en right=a.xx --heldout left=b.en"
    options = "--sizes 40:80:20 --select fixed:60 --candidates 70 --temperature 2 --separate"
    data = json.loads(run(f"{texts} {options} --sample lines.txt --json {OURS}").stdout)
    assert [source["name"] for source in data["corpus"]["sources"]] == ["left", "right"]
    assert data["corpus"]["temperature"] == 2
    assert set(data["samples"]["sizes"]) >= {40, 60, 80}
    assert data["chosen"] == "volt fixed:60"
    assert "merges:70" in data["signature"]
    assert data["systems"][-1]["name"] == "volt fixed:60, separate"
    lines = [sample["line"] for sample in data["samples"]["samples"]]
    assert lines == ["walking longer", "strongest"]
    assert "source 'right' has no held-out text" in data["problems"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("nowhere.txt", 1, "nowhere.txt"),
        ("a.en --heldout nowhere.txt", 1, "nowhere.txt"),
        ("a.en --with bpee:40", 2, "did you mean bpe"),
        ("a.en --select best", 2, "unknown rule"),
        ("a.en --sizes 9", 2, "START:STOP:STEP"),
        ("en=a.en en=a.xx", 2, "given twice"),
        ("a.en --temperature -1", 2, "temperature"),
        ("a.en --json -o -", 2, "--json and --output would both write to stdout"),
        ("a.en --markdown nowhere/r.md", 1, "cannot be written"),
        ("a.en -o nowhere/r.html", 1, "cannot be written"),
        ("a.en --plots a.xx", 2, "give a folder"),
        ("a.en --sample nowhere.txt", 1, "nowhere.txt"),
    ],
)
def test_wrong_use_is_refused_in_one_message(run, arguments, status, message):
    """`volt compare` ends with status 2 for wrong options, with 1 for bad files, and writes
    nothing."""
    done = run(f"{arguments} {OURS}", status=status)
    assert message in done.stderr
    assert done.stdout == ""
    assert sorted(path.name for path in Path().iterdir()) == ["a.en", "a.xx", "b.en"]


def test_an_unreachable_size_is_a_warning(run):
    """A size that the corpus does not reach gives a warning in a complete report."""
    done = run("a.en --with bpe:99999 --with bpe:40")
    assert "bpe:99999: the corpus gives only" in done.stdout
    assert "bpe 40" in done.stdout


def test_the_page_and_the_charts_are_written(run, monkeypatch):
    """-o writes an HTML page, --plots a folder of charts, and stderr names both."""
    monkeypatch.setattr("vl_convert.vegalite_to_png", lambda *_, **__: b"a picture")
    monkeypatch.setattr("vl_convert.vegalite_to_svg", lambda *_, **__: "a picture")
    done = run(f"a.en a.xx {OURS} -o r.html --plots plots")
    assert Path("r.html").read_bytes().lower().startswith(b"<!doctype html>")
    assert {path.suffix for path in Path("plots").iterdir()} == {".png", ".svg"}
    assert "wrote r.html" in done.stderr
    assert "wrote plots" in done.stderr


def test_a_full_disk_leaves_the_charts_unchanged(run, monkeypatch):
    """If one chart does not fit on the disk, no chart in the folder of --plots is replaced."""
    Path("plots").mkdir()
    Path("plots", "entropy.png").write_bytes(b"old")
    monkeypatch.setattr("vl_convert.vegalite_to_png", lambda *_, **__: b"a picture")
    monkeypatch.setattr(
        "vl_convert.vegalite_to_svg",
        lambda chart, **_: "x" * (1 << 21 if "Share" in str(chart) else 9),
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        message = run(f"a.en {OURS} --plots plots", status=1).stderr
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "plots/lengths.svg: cannot be written: file too large; it was not changed" in message
    [path] = Path("plots").iterdir()
    assert (path.name, path.read_bytes()) == ("entropy.png", b"old")
