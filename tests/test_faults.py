"""The campaign of faults (experiments/faults): a slice of it finds nothing here, and finds what is planted."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT

from experiments.faults import disk, kills
from experiments.faults.child import Child
from experiments.faults.disk import Injection
from experiments.faults.fuzz_worker import outcome
from experiments.faults.injector import compiled_shim
from experiments.faults.mutate import damaged
from experiments.faults.reading import prepare, targets
from experiments.faults.runner import Server
from experiments.faults.stage import Stage, make_inputs
from experiments.faults.table import Finding

HARMLESS = (
    "search/write:1:EIO/old",
    "search/rename:1:ENOSPC/new",
    "search/read:2:half/new",
    "encode-file/close:3:EIO/new",
)
PLANTED = {"in place": "lost", "ignored": "lost", "input": "lost", "crash": "traceback", "folder": "left"}
MODULES = sorted(path.stem for path in (ROOT / "experiments" / "faults").glob("[a-z]*.py"))


class Ground(NamedTuple):
    """Where commands run."""

    server: Server
    stage: Stage
    injector: str

    def inject(self, name: str, *, planted: str = "") -> list[Finding]:
        """What is wrong after a fault."""
        task = Injection.parse(f"{name}/{self.injector}")
        self.stage.lay(task.case.inputs)
        ended = disk._run(self.server, self.stage, task.case, disk.Fault("", 0, ""))
        known = {task.case.name: disk.Undisturbed(self.stage.look(), ended.counts)}
        found = disk.inject(self.server, self.stage, task, known, planted)
        assert found is not None, "the fault did not happen"
        return found


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A server with the finest injector that this machine has."""
    folder = tmp_path_factory.mktemp("faults")
    shim = compiled_shim(folder)
    with Server(shim) as server:
        make_inputs(folder / "inputs", server, n_lines=60, formats=())
        yield Ground(server, Stage(folder / "work", folder / "inputs"), "shim" if shim else "python")


@pytest.mark.parametrize("name", HARMLESS)
def test_nothing_is_lost_when_a_call_fails(ground: Ground, name: str) -> None:
    """The output is absent, old or whole, the input as it was; half a read is read on."""
    assert ground.inject(name) == []


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_is_found(ground: Ground, planted: str) -> None:
    """A command that writes in place, passes over errors, cuts its input, … is told as what it is."""
    found = ground.inject("search/write:1:ENOSPC/new", planted=planted)
    assert PLANTED[planted] in {finding.kind for finding in found}


def test_a_kill_leaves_a_file_whole_or_absent(ground: Ground) -> None:
    """A command that is killed midway does again what it would have done; one that writes in place is found out."""
    task = kills.Kill.parse("search/SIGKILL/0.500000/forked/new")
    ground.stage.lay(task.case.inputs)
    ended = kills._run(ground.server, ground.stage, task.case)
    known = kills.Undisturbed(ground.stage.look(), (ended.seconds, ended.seconds))
    found = kills.kill(ground.server, ground.stage, task, known)
    assert not {finding.kind for finding in found} - {"left"}
    late = kills.Kill.parse("search/SIGKILL/4.000000/forked/new")
    assert "lost" in {finding.kind for finding in kills.kill(ground.server, ground.stage, late, known, "slow")}


@settings(max_examples=examples(150))
@given(draws=st.data())
def test_damaged_files_are_refused_in_words(draws: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Codes, tables and packed texts with damage are read, or refused by a VoltError that people can read."""
    folder = tmp_path_factory.getbasetemp()
    readers = targets(folder)
    target = readers[draws.draw(st.sampled_from(["codes", "gz", "table", "zst"]))]
    assert outcome(target.read, folder / "example", draws.draw(damaged(target.seeds()))) == ("", "")


def test_what_no_reader_may_do_is_told(tmp_path: Path) -> None:
    """An exception of another kind and a message of pages are findings; a file that is read is none."""

    def read(path: Path) -> None:
        from volt.errors import VoltError

        if content := path.read_bytes():
            raise {b"k": KeyError("x"), b"v": VoltError(("x" * 1900 + "\n") * 100), b"s": VoltError("too short")}[
                content
            ]

    prepare(tmp_path)
    kinds = [outcome(read, tmp_path / "example", data)[0] for data in (b"", b"k", b"v", b"s")]
    assert kinds == ["", "traceback", "message", ""]


def test_replies_that_come_together_are_two(tmp_path: Path) -> None:
    """Each of two replies that are written at once is given when it is asked for; then there is none."""
    (tmp_path / "both.py").write_text('import os\nos.write(1, b\'{"a": 1}\\n{"b": 2}\\n\')\ninput()\n')
    with Child("both", env={"PYTHONPATH": str(tmp_path)}) as child:
        assert [child.reply(60), child.reply(1), child.reply(0)] == [{"a": 1}, {"b": 2}, None]


@pytest.mark.parametrize("name", MODULES)
def test_the_campaign_is_what_its_examples_say(name: str) -> None:
    """The examples in its modules hold."""
    assert not doctest.testmod(import_module(f"experiments.faults.{name}")).failed
