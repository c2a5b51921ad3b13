"""The programs in examples: each runs as it is, in an empty folder, and shows what it promises."""

import re
import runpy
import shutil
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from itertools import islice
from pydoc_data.topics import topics

import pytest
import yaml
from support.commands import status_of
from support.drawn import DRAWS_ALL
from support.places import ROOT
from support.programs import start

FOLDER = ROOT / "examples"
Program = Callable[..., str]


@pytest.fixture
def program(tmp_path, monkeypatch, capsys):
    """Run a Python program of the folder in this process, and return its stdout."""
    monkeypatch.chdir(tmp_path)

    def run(name, *words, status=0):
        monkeypatch.setattr(sys, "argv", [name, *words])
        found = 0
        try:
            runpy.run_path(str(FOLDER / name), run_name="__main__")
        except SystemExit as ended:
            found = int(ended.code or 0)
        out, err = capsys.readouterr()
        assert found == status, err
        return out

    return run


def needs(*names):
    """Skip if a library is missing."""
    for name in names:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


def test_the_table_lists_every_program():
    """The table in the folder's README has a row for each file."""
    rows = re.findall(
        r"^\| \[(\S+)\]", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(rows) == sorted(
        path.name for path in FOLDER.iterdir() if path.suffix in {".py", ".sh", ""}
    )


@pytest.mark.slow
@pytest.mark.campaign
def test_a_language_model_learns(tmp_path):
    """Bits per byte fall below those of an untrained model."""
    needs("torch", "transformers")
    assert_learns(
        start(sys.executable, FOLDER / "language_model.py", "--steps", "40", folder=tmp_path)
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore")  # of transformers
def test_a_language_model_learns_a_few_topics(tmp_path, monkeypatch, program):
    """Trained on a small part of its text, with one thread, the program learns."""
    needs("torch", "transformers")
    import torch

    monkeypatch.setattr("pydoc_data.topics.topics", dict(islice(topics.items(), 8)))
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert_learns(program("language_model.py", "--steps", "20"))
    finally:
        torch.set_num_threads(n_threads)
    assert not list(tmp_path.iterdir())


def assert_learns(printed):
    """Assert that a model needs fewer bits per byte after training."""
    before, after = map(float, re.findall(r"([\d.]+) bits per byte", printed))
    assert 0 < after < 0.9 * before


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.skipif(shutil.which("marian") is not None, reason="marian would be trained")
def test_a_stream_for_marian_goes_on(tmp_path):
    """A second run continues the first; in campaigns, both together equal one long run."""
    needs("sentencepiece")
    for name, n in (
        (("parts", 70), ("parts", 50), ("whole", 120))
        if DRAWS_ALL
        else (("parts", 70), ("parts", 50))
    ):
        found = start(
            "bash", FOLDER / "marian.sh", name, folder=tmp_path, N_LINES=str(n), MARIAN=""
        )
        assert int(found) == n
        if name == "parts" and not (tmp_path / "whole").exists():
            # the same data and vocabulary, made once
            shutil.copytree(tmp_path / "parts", tmp_path / "whole")
            for used in ("state.json", "read.tsv"):
                (tmp_path / "whole" / used).unlink()
    parts = (tmp_path / "parts" / "read.tsv").read_bytes()
    assert len(parts.splitlines()) == 120
    if DRAWS_ALL:
        assert (tmp_path / "whole" / "read.tsv").read_bytes() == parts


@pytest.mark.slow
def test_a_loop_of_lightning_goes_on(tmp_path):
    """A resumed run counts on, and has the weights of an uninterrupted run."""
    needs("torch", "lightning")
    start("volt", "stream", "example", "batches", "-o", "steps", folder=tmp_path)
    program = [
        sys.executable,
        FOLDER / "lightning_loop.py",
        "steps/stream.yaml",
        "--output",
        "run",
        "--steps",
    ]
    assert "10 steps, loss " in start(*program, "10", folder=tmp_path)
    assert "20 steps, loss " in start(*program, "20", "--resume", "run/last.ckpt", folder=tmp_path)
    program[program.index("run")] = "whole"
    start(*program, "20", folder=tmp_path)
    import torch

    resumed, whole = (
        torch.load(tmp_path / name / "last.ckpt")["state_dict"] for name in ("run", "whole")
    )
    assert resumed.keys() == whole.keys()
    assert all(torch.equal(value, whole[name]) for name, value in resumed.items())


@pytest.mark.slow
def test_a_trainer_of_transformers_goes_on(tmp_path):
    """A resumed run writes the weights of an uninterrupted run."""
    needs("torch", "transformers", "accelerate")
    start("volt", "stream", "example", "batches", "-o", "steps", folder=tmp_path)
    header = (FOLDER / "hf_trainer.py").read_text(encoding="utf-8").split('"""')[1]
    config = textwrap.dedent(header[header.index("    sources:") :])
    (tmp_path / "steps" / "packed.yaml").write_text(config, encoding="utf-8")
    program = [sys.executable, FOLDER / "hf_trainer.py", "steps/packed.yaml", "--save-every", "2"]
    start(*program, "--output", "run", "--steps", "3", folder=tmp_path)
    start(
        *program, "--output", "run", "--steps", "4", "--resume", "run/checkpoint-2", folder=tmp_path
    )
    start(*program, "--output", "whole", "--steps", "4", folder=tmp_path)
    resumed, whole = (
        (tmp_path / name / "checkpoint-4" / "model.safetensors").read_bytes()
        for name in ("run", "whole")
    )
    assert resumed == whole


def test_a_tokenizer_grows_and_shrinks(program):
    """New text takes fewer pieces after extending, also after shrinking to the old size."""
    found = program("extend_a_tokenizer.py")
    ids = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) ids", found)]
    old, extended, shrunk = map(float, re.findall(r"([\d.]+) pieces per word", found))
    assert ids[0] == ids[2] < ids[1]
    assert extended <= shrunk < old


def test_a_job_fails_where_the_vocabulary_no_longer_fits(tmp_path, program):
    """The status is 0 for a fresh vocabulary, 1 for another text's, and 2 without a file."""
    text = "\n".join(topics.values())[:100_000]
    half = len(text) // 2
    for name, part in (
        ("train.txt", text[:half]),
        ("heldout.txt", text[half:]),
        ("other.txt", text[:half].upper()),
    ):
        (tmp_path / name).write_text(part, encoding="utf-8")
    for name in ("train", "other"):
        assert not status_of(
            ["search", f"{name}.txt", "--select", "fixed:500", "-o", f"{name}.volt", "-q"]
        )
    texts = ["train.txt", "heldout.txt"]
    assert program("compare_in_ci.py", "train.volt", *texts).endswith(": fine\n")
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert program("compare_in_ci.py", "other.volt", *texts, status=1).endswith(": too many\n")
    assert program("compare_in_ci.py", "none.volt", *texts, status=2) == ""


def test_a_job_of_kubernetes_runs_the_script_of_its_image():
    """The image has the script; all pods use one image and one version of Ray; variables are
    set."""
    folder = FOLDER / "kubernetes"
    script = (folder / "search_and_encode.sh").read_text(encoding="utf-8")
    image = (folder / "Dockerfile").read_text(encoding="utf-8")
    spec = yaml.safe_load((folder / "rayjob.yaml").read_text(encoding="utf-8"))["spec"]
    cluster = spec["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    images = [
        container["image"]
        for group in groups
        for container in group["template"]["spec"]["containers"]
    ]
    copied = dict(re.findall(r"^COPY --chown=\S+ (\S+) (\S+)$", image, re.MULTILINE))
    assert all((ROOT / path).exists() for path in copied)
    assert (
        spec["entrypoint"]
        == f"bash {copied['examples/kubernetes/search_and_encode.sh']}search_and_encode.sh"
    )
    assert {f"FROM rayproject/ray:{cluster['rayVersion']}-py311"} == set(
        re.findall(r"^FROM.*", image, re.MULTILINE)
    )
    assert {
        f"docker build -f examples/kubernetes/Dockerfile -t {name} ." in image for name in images
    } == {True}
    variables = yaml.safe_load(spec["runtimeEnvYAML"])["env_vars"]
    assert set(re.findall(r"\$\{([A-Z]+):", script)) <= set(variables)
