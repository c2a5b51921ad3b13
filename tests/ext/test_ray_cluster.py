"""Connections to Ray: which cluster is used, errors for wrong addresses, and clusters that end with their process."""

import signal
import subprocess
import sys
import time

import pytest
from support.places import environment

from volt.errors import ConfigError

ray = pytest.importorskip("ray", reason="needs ray: make ray")

from volt.ext import ray_cluster  # noqa: E402
from volt.ext.ray_cluster import connected  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning:ray")


@pytest.fixture
def address():
    """The address of a cluster of this machine. Its end disconnects, and restores signal handlers."""
    numbers = signal.SIGTERM, signal.SIGHUP
    handlers = [signal.getsignal(number) for number in numbers]
    with connected():
        yield ray.get_runtime_context().gcs_address
    assert [signal.getsignal(number) for number in numbers] == handlers
    assert not ray.is_initialized()


def test_messages_of_ray_are_shortened():
    """`first_sentence` returns the first sentence of the first line of a message, at most 300
    characters."""
    for text in ("One. Two.", " One.\nTwo. Three.", "One"):
        assert ray_cluster.first_sentence(text) == "One"
    assert [ray_cluster.first_sentence("x" * n) == "x" * n for n in (300, 301)] == [True, False]


@pytest.mark.parametrize(
    ("address", "message"),
    [("localhost:1", "connection refused"), ("ray://localhost:99999999", "")],
    indirect=False,
)
def test_an_address_without_a_cluster_is_refused(address, message):
    """`connected` refuses an address without a cluster at once.

    Ray itself would try for minutes, and then end the process.
    """
    expected = f"no cluster of Ray at address '{address}': {message}.*`ray start --head`"
    with pytest.raises(ConfigError, match=expected):
        ray_cluster._join_cluster(address).__enter__()


def test_an_address_of_another_cluster_is_refused(address):
    """While Ray is connected, `connected` accepts the current cluster's address in any spelling,
    and "auto"; it refuses other addresses."""
    port = address.rpartition(":")[2]
    for same in (address, f"localhost:{port}", "auto"):
        with connected(same):
            pass
    assert ray.is_initialized()
    for other in (
        "localhost:1",
        f"192.0.2.99:{port}",
        f"nowhere.invalid:{port}",
        "ray://localhost:10001",
    ):
        with pytest.raises(ConfigError) as error, connected(other):
            pass
        assert str(error.value) == (
            f"Ray is connected to the cluster at {address}, but the address is '{other}'; remove the address, or "
            "call ray.shutdown() first"
        )


def names_of(processes):
    """Return the commands of processes that still run."""
    import psutil

    names = []
    for process in processes:
        try:
            names += process.cmdline()
        except psutil.Error:
            names += ["ended"]
    return "\n".join(names)


def search(folder, *options):
    command = [
        sys.executable,
        "-m",
        "volt_cli",
        "search",
        folder,
        "--sizes",
        "9:13:1",
        "-q",
        *options,
    ]
    return subprocess.Popen(list(map(str, command)), env=environment(), stderr=subprocess.PIPE)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("name", "number", "status"),
    [
        ("/gcs_server", signal.SIGTERM, 143),
        ("/raylet", signal.SIGTERM, 143),
        ("ray::_run_task", signal.SIGTERM, 143),
        ("ray::_run_task", signal.SIGKILL, -9),
        ("ray::_run_task", signal.SIGINT, 130),
        ("", None, 0),
    ],
)
def test_a_command_that_ends_also_ends_its_cluster(tmp_path, name, number, status):
    """When a command ends by any signal, also while Ray starts, all processes of its cluster end.

    The output exists only if the command succeeds.

    name: the process of the cluster whose start triggers the signal
    """
    import psutil

    corpus = tmp_path / "corpus"
    output = tmp_path / "ray.volt"
    local = tmp_path / "local.volt"
    corpus.mkdir()
    for letter in "abcdef":
        (corpus / f"{letter}.txt").write_bytes(b"low lower newest\n" * 200_000)
    process = search(corpus, "--engine", "ray", "-o", output)
    driver = psutil.Process(process.pid)
    seen = set()
    while process.poll() is None:
        seen |= set(driver.children(recursive=True))
        if number is not None and name in names_of(seen):
            process.send_signal(number)
            break
        time.sleep(0.01)
    _, message = process.communicate(timeout=60)
    assert process.returncode == status, message
    if number is signal.SIGTERM:
        assert message == b"ended by SIGTERM\n"
    end = time.monotonic() + 20
    while (left := [child for child in seen if child.is_running()]) and time.monotonic() < end:
        time.sleep(0.2)
    assert seen
    assert not left
    assert output.exists() == (number is None)
    if number is None:
        assert search(corpus, "-o", local).wait() == 0
        assert output.read_bytes() == local.read_bytes()
