"""A process that has imported VOLT and loaded its loops, and forks a child for each command that it is asked to run.

    python -m experiments.faults.server            (started by runner.Server; requests on stdin, replies on stdout)

A child takes the request's arguments, folder, descriptors and environment, arms its fault, and falls out of the loop
below: it then *is* the command, with real signals, real descriptors and a real end of the interpreter. The server kills
it where it is told to, waits, and sees whether its process group is empty afterwards.

What a fork would lose is not there yet: no thread is running (Polars' own is needed for nothing that commands do).
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NoReturn

LOADED = ("polars", "yaml", "pydantic", "zstandard", "rich.console", "rich.table", "scipy.sparse", "altair", "jinja2")
GRACE = 4.0  # seconds in which a command's own processes must have ended when the command has
_PDEATHSIG, _SUBREAPER = 1, 36  # of prctl


def main() -> dict[str, Any] | None:
    """Serve; returns twice: None in the server when requests end, and the request in each child."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)
    injector = _ready()
    os.write(replies, b'{"ready": true}\n')
    while line := requests.readline():
        request: dict[str, Any] = json.loads(line)
        injector.counts()
        start = time.monotonic()
        if (child := os.fork()) == 0:
            os.close(replies)
            _become(request, injector)
            return request
        reply = _watched(child, request, start)
        os.write(replies, json.dumps({**reply, "counts": injector.counts()}).encode() + b"\n")
    return None


def _ready() -> Any:
    """Load all that commands load, and choose the injector."""
    from experiments.faults.injector import PythonInjector, Shim

    _prctl(_SUBREAPER, 1)
    from typer.main import get_command

    import volt
    import volt_cli.__main__
    from volt.kernels.ready import JOBS, compile_kernels

    for library in LOADED:
        import_module(library)
    for package in (volt, volt_cli):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__") and not module.name.startswith("volt.ext."):  # no command's
                import_module(module.name)
    get_command(volt_cli.__main__.app)
    _read_an_option()
    compile_kernels(*JOBS)
    gc.collect()
    gc.freeze()
    return Shim() if Shim.is_loaded() else PythonInjector()


def _read_an_option() -> None:
    """Load what typer loads when it reads the first option that is no text."""
    import typer

    def command(number: int = 0) -> None:
        pass

    app = typer.Typer()
    app.command()(command)
    app(["--number", "1"], standalone_mode=False)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _become(request: dict[str, Any], injector: Any) -> None:
    """Put a child where its command is to run."""
    os.setpgid(0, 0)
    _prctl(_PDEATHSIG, signal.SIGKILL)
    os.chdir(request["cwd"])
    os.environ.update(request["env"])
    os.environ.pop("LD_PRELOAD", None)
    flags = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_APPEND, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number, (name, flag) in enumerate(zip(("stdin", "stdout", "stderr"), flags, strict=True)):
        opened = os.open(request.get(name) or os.devnull, flag, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["volt", *request["argv"]]
    if request.get("fresh"):
        os.execv(sys.executable, [sys.executable, "-m", "volt_cli", *request["argv"]])
    if request.get("planted"):
        from experiments.faults.planted import plant

        plant(request["planted"])
    if request.get("folder"):
        from experiments.faults.injector import Fault

        injector.arm(request["folder"], Fault(*request["fault"]))


def _watched(child: int, request: dict[str, Any], start: float) -> dict[str, Any]:
    """Send the signal when it is due, wait for the end, and see who is left."""
    handle = os.pidfd_open(child)
    late, killed = False, False
    try:
        if request.get("kill"):
            after, number = request["kill"]
            if not select.select([handle], [], [], max(0.0, after))[0]:
                os.kill(child, number)
                killed = True
        if not select.select([handle], [], [], request["limit"])[0]:
            late = True
            os.killpg(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(handle)
    seconds = time.monotonic() - start
    left = _left(child)
    return {"status": status, "seconds": seconds, "late": late, "killed": killed, "left": left}


def _left(group: int) -> list[str]:
    """The processes of a group that do not end by themselves in time; they are ended."""
    deadline = time.monotonic() + GRACE
    while True:
        _reap()
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return []
        if time.monotonic() > deadline:
            found = _commands(group)
            os.killpg(group, signal.SIGKILL)
            _wait_for(group)
            return found
        time.sleep(0.005)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _wait_for(group: int) -> None:
    """Wait until all of a group have ended: what their parents leave behind are children of this process."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)


def _commands(group: int) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:100])
        except (OSError, ValueError):
            continue
    return found or ["a process"]


def _run(request: dict[str, Any]) -> NoReturn:
    """Be the command. thorough: end as Python ends, touching all memory; else do what of it can go wrong."""
    from volt_cli.__main__ import main as volt

    if request.get("thorough"):
        volt()
        raise SystemExit(0)
    try:
        volt()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    os._exit(_ended(status))


def _ended(status: int) -> int:
    """The status after what runs when Python ends: threads, registered functions, the rest of what was printed."""
    try:
        vars(threading)["_shutdown"]()
        vars(atexit)["_run_exitfuncs"]()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        return status or 120
    return status


if __name__ == "__main__" and (asked := main()) is not None:
    _run(asked)
