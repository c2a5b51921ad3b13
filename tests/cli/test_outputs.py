"""What a command writes is none of what it reads: every option that names an output against each that names an input.

The options are those of the commands themselves, so a new one must be given its place in the tables below.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from commands import Run, listed
from typer.main import get_command

from volt.vocabulary import Vocabulary
from volt_cli.__main__ import app

TREE: Any = get_command(app)
COMMANDS: dict[str, Any] = {
    **{name: command for name, command in TREE.commands.items() if name != "stream"},
    **{f"stream {name}": command for name, command in TREE.commands["stream"].commands.items()},
}
# What the values of options are called: those that name files, and those that do not.
FILES = {"FILE", "PLACE", "FOLDER", "CORPUS", "TEXT", "MODEL", "PATH", "CONFIG", "SYSTEM", "N|FILE", "FILE|N"}
PLAIN = {None, "START:STOP:STEP", "RULE", "NAME", "N,N", "N", "TOKEN", "X", "P", "MARK", "FORMAT", "T", "RATE", "S",
         "TRANSFORM"}  # fmt: skip
VOCABULARY = Vocabulary(merges=(("t", "h"), ("th", "e</w>")), tokens=("t", "h", "e</w>", "th", "the</w>"))
OUTPUTS = {"out", "markdown", "plots", "state", "summary"}
INPUTS = {"corpus", "candidates", "model", "files", "text", "path", "merges", "sample", "heldout", "systems", "config",
          "from_state", "ack"}  # fmt: skip
NO_FILES = {("inspect", "text")}
REPLACED = {("stream run", "state", "from_state")}  # a state makes way for the one that follows
# What an option must be given where the others do not say.
NEEDED = {"corpus": "corpus.txt", "model": "m.volt", "path": "m.volt", "config": "stream.yaml"}
WITH = {("export", "text"): ["--check"]}
ALWAYS = {"export": ["--to", "subword-nmt"]}
OWN = {"model": "m.volt", "systems": "m.volt", "path": "m.volt", "merges": "m.volt", "candidates": "codes",
       "config": "stream.yaml"}  # fmt: skip


def parameters(command: str) -> dict[str, Any]:
    """The parameters of a command that name files, by their names."""
    return {
        parameter.name: parameter
        for parameter in COMMANDS[command].params
        if parameter.metavar in FILES and (command, parameter.name) not in NO_FILES
    }


def pairs() -> Iterator[tuple[str, str, str]]:
    """Command, output, and an input or another output that may not be the same file."""
    for command in COMMANDS:
        names = parameters(command)
        outputs = [name for name in names if name in OUTPUTS]
        yield from ((command, output, other) for output in outputs for other in names if other in INPUTS)
        yield from ((command, *both) for both in combinations(outputs, 2))


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    """A corpus, a vocabulary, codes, and a configuration."""
    VOCABULARY.save("m.volt")
    (tmp_path / "codes").write_text("#version: 0.2\nt h\nth e</w>\n")
    (tmp_path / "stream.yaml").write_text("sources: {one: {path: corpus.txt}}\n")
    (tmp_path / "other.txt").write_text("12\n")
    return tmp_path


def words(command: str, given: dict[str, str]) -> list[str]:
    """A command line with these values, and those that the command needs besides."""
    named = {name: NEEDED[name] for name in parameters(command) if name in NEEDED} | given
    line = [*command.split(), *ALWAYS.get(command, [])]
    for name, value in named.items():
        parameter = parameters(command)[name]
        is_option = parameter.param_type_name == "option"
        line += [*([parameter.opts[-1]] if is_option else []), value, *WITH.get((command, name), [])]
    return line


def test_every_option_has_its_place_in_the_tables() -> None:
    """Whatever a command calls the values of its options is known here, and each file is an output or an input."""
    for command, found in COMMANDS.items():
        flags = [parameter for parameter in found.params if getattr(parameter, "is_flag", False)]
        for parameter in found.params:
            assert parameter in flags or parameter.metavar in FILES | PLAIN, (command, parameter.name)
        for name in parameters(command):
            assert (name in OUTPUTS) != (name in INPUTS), (command, name)


@pytest.mark.parametrize(("command", "output", "other"), [pair for pair in pairs() if pair not in REPLACED])
def test_no_output_is_an_input_or_another_output(command: str, output: str, other: str, run: Run, folder: Path) -> None:
    """Status 2 and one line with both names, whatever links lead there; no byte is changed, nothing appears."""
    target = OWN.get(other, "other.txt" if other in INPUTS else "new.html")
    twin = _spelled_otherwise(target, charts=output == "plots")
    if other == "plots":
        target, twin = "plots", "plots/muv.svg"
    before = _content(folder)
    told = run(*words(command, {output: twin, other: target}), status=2).stderr.decode()
    assert "would be written over" in told
    assert told.count("\n") == 1
    assert _content(folder) == before


def _spelled_otherwise(target: str, *, charts: bool) -> str:
    """Another way to the same file: through a hard link, or, where there is no file, a folder's link."""
    if charts:
        Path("charts").mkdir()
        Path("charts/entropy.png").symlink_to(f"../{target}")
        return "charts"
    if Path(target).exists():
        Path("twin").hardlink_to(target)
        return "twin"
    Path("here").symlink_to(".")
    return f"here/{target}"


def _content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in listed(folder) if (folder / name).is_file()}


@pytest.mark.parametrize("place", ["encoded/", "./"])
def test_outputs_in_a_folder_are_no_inputs(place: str, run: Run, folder: Path) -> None:
    """`encode -o FOLDER` looks at all that it would write: outputs, their offsets, the list of both."""
    os.makedirs(place, exist_ok=True)
    for name in ("corpus.txt.npy", "corpus.txt.offsets.npy", ".volt-encoded.json"):
        os.replace("m.volt", Path(place, name))
        before = _content(Path(place))
        told = run("encode", "-m", f"{place}{name}", "corpus.txt", "--form", "npy", "-o", place, status=2).stderr
        assert f"{place.removeprefix('./')}{name}: would be written over".encode() in told
        assert _content(Path(place)) == before
        os.replace(Path(place, name), "m.volt")
    Path("corpus.txt.offsets").write_text("low\n")
    files = ["corpus.txt", "corpus.txt.offsets"]
    assert (
        b"which is written too" in run("encode", "-m", "m.volt", *files, "--form", "npy", "-o", place, status=2).stderr
    )


def test_what_belongs_to_a_model_is_no_output(run: Run, folder: Path) -> None:
    """The vocabulary beside codes, and the files of a folder, are read with the one that is named."""
    run("export", "-m", "m.volt", "--to", "huggingface", "--closed", "-o", "hf", "-q")
    for model, out in (
        ("codes", "codes.vocab"),
        ("hf", "hf/tokenizer.json"),
        ("hf/tokenizer.json", "hf/tokenizer_config.json"),
    ):
        assert b"which is read" in run("import", model, "-o", out, status=2).stderr
    assert b"which is read" in run("export", "-m", "hf", "--to", "huggingface", "-o", "./hf", status=2).stderr
    assert b"which is read" in run("export", "-m", "codes", "--to", "subword-nmt", "-o", "codes", status=2).stderr
