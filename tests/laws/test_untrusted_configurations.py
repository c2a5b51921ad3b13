"""Configurations of other people run no code, as SECURITY.md promises."""

import inspect
from pathlib import Path

import pytest
from support.configurations import parse_config

import volt
from volt.errors import ConfigError
from volt.stream.config.configuration import load_config
from volt.stream.transforms.registry import TRANSFORMS

NAMING = "sources: {one: {path: one.tsv, transforms: [%s]}}\n"
CODE = "{user: {file: mine.py, function: mine}}"
PLACES = {
    "a source's": NAMING % CODE,
    "all sources'": f"transforms: [{CODE}]\n" + NAMING % "",
    "within a choice": NAMING % f"choice: [{{weight: 1, transforms: [{CODE}]}}, {{weight: 1}}]",
    "by an alias": f"transforms: [&code {CODE}]\n" + NAMING % "*code",
    "beside a fault": "wrong: 1\n" + NAMING % CODE,
}


@pytest.mark.parametrize("text", PLACES.values(), ids=PLACES)
def test_no_code_runs_if_user_code_is_refused(text, stream_folder, volt_stream):
    """A `user` transform at any place is reported with its line, and its file does not run."""
    Path("mine.py").write_text(
        "from pathlib import Path\nPath('ran').touch()\ndef mine(fields): return fields\n"
    )
    Path("theirs.yaml").write_text(text)
    for load in (load_config, volt.Stream.from_config):
        with pytest.raises(
            ConfigError,
            match=r"theirs.yaml:\d: .*would run .* mine.py; .* then trust it \(user_code\)",
        ):
            load("theirs.yaml", user_code=False)
    for command in (["preview"], ["plan"], ["audit"], ["trace", "0"]):
        message = volt_stream(command[0], "theirs.yaml", *command[1:], status=2).stderr.decode()
        assert "would run the code in mine.py; read it, then add --trust" in message
    message = volt_stream("run", "theirs.yaml", "--no-user-code", status=2).stderr.decode()
    assert "would run the code in mine.py; read it, then remove --no-user-code" in message
    assert not Path("ran").exists()
    if "wrong" not in text:
        load_config("theirs.yaml")
        assert Path("ran").exists()


@pytest.mark.parametrize(
    "command",
    [["run", "--limit", 3], ["preview", "--trust"], ["trace", 0, "--trust"], ["audit", "--trust"]],
)
def test_trusted_code_runs(command, stream_folder, volt_stream):
    """`run` runs the code that the configuration names; other commands need --trust."""
    Path("mine.py").write_text(
        "from pathlib import Path\nPath('ran').touch()\ndef mine(fields): return fields\n"
    )
    Path("ours.yaml").write_text(NAMING % CODE)
    volt_stream(command[0], "ours.yaml", *command[1:])
    assert Path("ran").exists()


def test_user_code_does_not_matter_without_code(stream_folder):
    """A configuration without Python files gives the same stream, with user code or without."""
    with (
        volt.Stream.from_config("stream.yaml", user_code=False) as one,
        volt.Stream.from_config("stream.yaml") as two,
    ):
        assert one.configuration == two.configuration


def test_only_one_transform_runs_python():
    """Only the module of `user` imports the module that executes source code."""
    used = "transforms.user_file import"
    running = {
        name
        for name, kind in TRANSFORMS.items()
        if used in inspect.getsource(inspect.getmodule(kind))
    }
    assert running == {"user"}


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system", "!!python/name:os.system", "!!python/module:os"]
)
def test_yaml_tags_make_no_objects(tag, tmp_path):
    """YAML's tags for Python objects are errors, with their line."""
    with pytest.raises(ConfigError, match=r"^stream.yaml:1: "):
        parse_config(f"sources: {tag} ['touch {tmp_path}/ran']")
    assert not list(tmp_path.iterdir())
