"""Connect to Ray while a block runs: to the current cluster, to a cluster at an address, or to a
new cluster.

A new cluster consists of this machine only. It prints nothing, sends no usage statistics, and ends
with the block, or when this process is killed.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from volt.errors import ConfigError, missing, quoted, reason, shown
from volt.ext.ray_cleanup import kill_at_end
from volt.files.temporary import scratch_folder
from volt.files.threads import available_cores

try:
    import ray
except ImportError:
    raise missing("ray", extra="ray") from None

_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # otherwise Ray warns of a future change
}
_PATIENCE = 10  # seconds
# The address of the cluster that `connected` has joined, as its caller spelt it
_JOINED = list[str]()


@contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Connect to Ray while the block runs. An existing connection is used, and is not closed.

    address: a cluster's address: "auto", HOST:PORT or ray://HOST:PORT; None for a new cluster of
        this machine

    Raises ConfigError if the cluster does not answer or start, or if Ray is already connected to
    another cluster.
    """
    if ray.is_initialized():
        _check_in_use(address)
        yield
        return
    with _start_cluster() if address is None else _join_cluster(address):
        yield


def _check_in_use(address: str | None) -> None:
    if address in (None, "auto", *_JOINED):
        return
    current = ray.get_runtime_context().gcs_address
    if not _is_same_cluster(str(address), current):
        raise ConfigError(
            f"Ray is connected to the cluster at {shown(current)}, but the address is {quoted(str(address))}; "
            "remove the address, or call ray.shutdown() first"
        )


def _is_same_cluster(address: str, current: str) -> bool:
    """Check whether `address`, HOST:PORT, means the current cluster, whose numeric address is
    `current`."""
    host, _, port = address.rpartition(":")
    current_host, _, current_port = current.rpartition(":")
    try:
        number = socket.gethostbyname(host.strip("[]"))
    except (OSError, UnicodeError):
        return address == current
    is_local = number.startswith("127.") and current_host == ray.util.get_node_ip_address()
    return port == current_port and (number == current_host or is_local)


@contextmanager
def _start_cluster() -> Iterator[None]:
    try:
        with scratch_folder() as folder:
            options = {
                "num_cpus": available_cores(),
                "include_dashboard": False,
                "_temp_dir": str(folder),
            }
            with kill_at_end(str(folder)), _reraise_exits():
                try:
                    _init("local", options)
                    yield
                finally:
                    ray.shutdown()
    except _StartError as error:
        raise ConfigError(
            f"Ray cannot start: {error}; set TMPDIR to a folder with room and a short name, "
            "or give the address of a cluster"
        ) from error


@contextmanager
def _join_cluster(address: str) -> Iterator[None]:
    try:
        _check_listening(address)
        _init(address, {})
    except _StartError as error:
        raise ConfigError(
            f"no cluster of Ray at address {quoted(address)}: {error}; "
            "start one with `ray start --head`, or remove the address"
        ) from error
    _JOINED.append(address)
    try:
        with _reraise_exits():
            yield
    finally:
        _JOINED.remove(address)
        ray.shutdown()


def _check_listening(address: str) -> None:
    """Raise _StartError if nothing listens at HOST:PORT. Ray itself would try for ten minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except OverflowError as error:
        raise _StartError("no such port") from error
    except OSError as error:
        raise _StartError(reason(error)) from error


class _StartError(Exception):
    """The reason that Ray reports for a failed start."""


@contextmanager
def _reraise_exits() -> Iterator[None]:
    """Re-raise the exceptions of signal handlers: Ray turns them into SystemExit(1)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised = list[BaseException]()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            handlers[signal.Signals(number)](number, frame)  # type: ignore[operator, misc]
        except BaseException as error:
            raised.append(error)
            raise

    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, handle)
    try:
        yield
    except SystemExit:
        if raised:
            raise raised[0] from None
        raise
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)


def _init(address: str, options: dict[str, Any]) -> None:
    """Connect to Ray, and restore the SIGTERM handler that Ray replaces, even if the signal arrives
    meanwhile."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    new = {name: value for name, value in _SETTINGS.items() if name not in os.environ}
    try:
        os.environ |= new
        ray.init(address=address, **options, **_QUIET)
    except (OSError, ValueError) as error:  # includes ConnectionError
        raise _StartError(first_sentence(reason(error))) from error
    except RuntimeError as error:  # other versions of Ray or Python, or its processes have ended
        raise _StartError(first_sentence(str(error))) from error
    except SystemExit as error:  # only Ray's handler of SIGTERM raises it
        if is_main and before is not None:
            signal.signal(signal.SIGTERM, before)
            signal.raise_signal(signal.SIGTERM)
        raise _StartError("SIGTERM arrived") from error
    finally:
        for name in new:
            os.environ.pop(name, None)
        if is_main and before is not None:
            signal.signal(signal.SIGTERM, before)


def first_sentence(text: str) -> str:
    return shown(text.strip().split("\n")[0].split(". ")[0].rstrip("."), 300)
