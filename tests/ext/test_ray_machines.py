"""In a cluster whose machines differ, a task that fails on one runs on another, and an error names the machine."""

import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from support.places import environment
from support.web_servers import web_server

from volt import Encoder, WordCounts, count_words, learn_bpe, search
from volt.count.counting import ShardCounter
from volt.encode.files import EncodeJob, encode_each
from volt.errors import CorpusError, OutputError
from volt.text.normalizer import as_normalizer
from volt.text.pretokenizer import as_pretokenizer

ray = pytest.importorskip("ray", reason="needs ray: make ray")

from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

from volt.ext import ray_tasks  # noqa: E402
from volt.ext.ray import RayMap, RayWriter  # noqa: E402
from volt.ext.ray_tasks import run_tasks  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning:ray"),
    pytest.mark.skipif(
        subprocess.run(
            ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True
        ).returncode
        != 0,
        reason="no machine can be played whose folders differ: needs root",
    ),
]
TEXT = "".join(f"low lower newest {number % 97}\n" for number in range(3_000))
RAY = Path(sys.executable).with_name("ray")


@pytest.fixture(scope="module")
def cluster(request, tmp_path_factory):
    """A driver on a machine with `request.param` cores, and a second machine with one core; neither retries.

    The folder holds `shared` and `hidden`, with files; `hidden` is an empty disk on the second machine, and `full` is
    a disk of 4 kB there.
    """
    from ray.cluster_utils import Cluster

    folder = tmp_path_factory.mktemp("machines")
    for name in ("shared", "hidden", "full"):
        (folder / name).mkdir()
    for name in "abcdef":
        for place in ("shared", "hidden"):
            (folder / place / f"{name}.txt").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOLT_RETRY_FOR", "0")
        both = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": request.param, "include_dashboard": False},
        )
        mounts = "mount -t tmpfs none hidden && mount -t tmpfs -o size=4k none full"
        start = f"{mounts} && exec {RAY} start --address={both.address} --num-cpus=1 --block"
        variables = environment() | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}
        command = ["unshare", "-m", "sh", "-c", start]
        second = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.DEVNULL)
        try:
            ray.init(address=both.address, log_to_driver=False, logging_level="ERROR")
            end = time.monotonic() + 120
            while ray.cluster_resources().get("CPU", 0) < request.param + 1:
                assert time.monotonic() < end, "the second machine has not started"
                time.sleep(0.1)
            yield folder
        finally:
            ray.shutdown()
            second.terminate()
            second.wait(30)
            both.shutdown()


each_has_a_core = pytest.mark.parametrize("cluster", [1], indirect=True)


@ray.remote(num_cpus=1)
class BusyCore:
    """An actor that occupies the only core of a machine."""

    def is_running(self):
        return True


@pytest.fixture
def moved(cluster, monkeypatch):
    """The numbers of the tasks that ran again on another machine.

    The driver's core is busy until the first task has failed on the second machine.
    """
    driver = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    busy_core = BusyCore.options(scheduling_strategy=driver).remote()
    assert ray.get(busy_core.is_running.remote())
    numbers = []
    choose = ray_tasks._choose_other_node

    def recorded(failing, number, *, n_cores):
        ray.kill(busy_core)
        numbers.append(number)
        return choose(failing, number, n_cores=n_cores)

    monkeypatch.setattr(ray_tasks, "_choose_other_node", recorded)
    yield numbers
    ray.kill(busy_core)


@pytest.fixture(scope="module")
def encoder():
    counts = WordCounts.from_pairs(Counter(TEXT.split()).items())
    return Encoder(search(learn_bpe(counts, 30), sizes=[30, 40]).vocabulary)


@each_has_a_core
def test_a_folder_that_one_machine_lacks_is_read_on_another(cluster, encoder, tmp_path, moved):
    """If one machine lacks a folder, its tasks run on another machine, and the counts are those of
    one process."""
    corpus = cluster / "hidden"
    assert count_words(str(corpus), map=RayMap()) == count_words(str(corpus))
    assert moved
    paths = sorted(map(str, corpus.iterdir()))
    found = [*encode_each(encoder, paths, tmp_path, job=EncodeJob(), write=RayWriter())]
    assert {outcome.n_lines for outcome in found} == {3_000}


@each_has_a_core
def test_an_output_that_one_machine_cannot_store_is_written_by_another(
    cluster, encoder, tmp_path, moved
):
    """If the disk of one machine is full, another machine writes the file.

    No temporary file remains.
    """
    paths = sorted(map(str, (cluster / "shared").iterdir()))
    out = cluster / "full"
    list(encode_each(encoder, paths, tmp_path, job=EncodeJob("ids")))
    list(encode_each(encoder, paths, out, job=EncodeJob("ids"), write=RayWriter()))
    assert moved
    for path in out.glob("*.ids"):
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()
    assert len(list(out.glob("*.ids"))) == len(paths)
    assert not list(out.glob(".*.part"))


@pytest.mark.parametrize("cluster", [0], indirect=True)
def test_errors_name_the_machine(cluster, encoder):
    """If only the driver has a file, or only the worker has an output, the error names the machine,
    the file and a remedy."""
    hidden = cluster / "hidden"
    node = ray.util.get_node_ip_address()
    with pytest.raises(CorpusError) as error:
        count_words(str(hidden), map=RayMap())
    assert str(error.value).startswith(
        f"node {node}: {hidden}/a.txt: cannot be read: no such file or directory"
    )
    share = "exists on the driver, so choose a folder that all machines share"
    assert str(error.value).endswith(f"; {hidden}/a.txt {share}")
    shared = [f"{cluster}/shared/a.txt"]
    message = rf"a.txt.pieces: written on node {node}, but is missing on the driver; choose a folder that all mach"
    with pytest.raises(OutputError, match=message):
        list(encode_each(encoder, shared, hidden, job=EncodeJob(), write=RayWriter()))
    with pytest.raises(OutputError) as caught:
        list(encode_each(encoder, shared, hidden / "in", job=EncodeJob(), write=RayWriter()))
    assert str(caught.value).startswith(
        f"node {node}: {hidden}/in/a.txt.pieces: cannot be written: no such"
    )
    assert str(caught.value).endswith(f"; {hidden}/in {share}")


@each_has_a_core
def test_a_task_that_a_server_refuses_is_repeated(cluster):
    """If a server refuses a task's requests, the task runs twice more, then the server's error is
    raised. A missing file is not requested again."""
    with web_server(files={"/a.txt": TEXT.encode()}) as web:
        url = f"http://me:hunter2@{web.url.removeprefix('http://')}/a.txt?Signature=hunter2"
        [(_, expected)] = _counted(url)
        n_asked = [len(web.asked)]
        for n_failing in (1, 2):
            # a task looks twice, by HEAD and by GET
            web.faults = iter(["503"] * n_failing * 4)
            [(_, found)] = _counted(url)
            assert ray.get(found) == ray.get(expected)
            n_asked.append(len(web.asked))
        assert [
            after - before - 4 * n for n, (before, after) in enumerate(pairwise(n_asked), 1)
        ] == n_asked[:1] * 2
        web.faults = iter(lambda: "503", None)
        with pytest.raises(
            CorpusError, match=r"^node [\d.]+: http://.*: cannot be read: 1 try in 0 s failed"
        ) as error:
            _counted(url)
        assert len(web.asked) - n_asked[-1] == 3 * 4
        web.faults = iter(())
        n_before = len(web.asked)
        web.files.clear()
        with pytest.raises(
            CorpusError,
            match=r"^node [\d.]+: http://.*: cannot be read: no such file or directory; check",
        ):
            _counted(url)
        assert len(web.asked) - n_before == 4
        assert "hunter2" not in str(error.value)


def _counted(url):
    """Count a URL that only workers read."""
    counter = ShardCounter(as_normalizer("none"), as_pretokenizer("whitespace"))
    return list(run_tasks(counter, [url], tally=Counter()))


@pytest.mark.campaign
@pytest.mark.parametrize("quiet", [True, False])
def test_a_machine_that_dies_is_mentioned_in_one_line(tmp_path, quiet):
    """If a machine dies, a command prints one line with the number of repeated tasks, nothing with
    -q, and no message of Ray."""
    from ray.cluster_utils import Cluster

    text = b"".join(b"low lower newest %d\n" % (number % 977) for number in range(2_000_000))
    (tmp_path / "corpus").mkdir()
    for number in range(12):
        (tmp_path / "corpus" / f"{number}.txt").write_bytes(text)
    both = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        node = both.add_node(num_cpus=1)
        options = f"--engine ray --address {both.address} --select fixed:99 --keep kept -o a.volt"
        command = [sys.executable, "-m", "volt_cli", "search", "corpus", *options.split()]
        process = subprocess.Popen(
            command + ["-q"] * quiet,
            env=environment(),
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        end = time.monotonic() + 90
        while not [*tmp_path.glob("kept/*.volt-counts")] and time.monotonic() < end:
            time.sleep(0.01)
        assert process.poll() is None
        node.kill_raylet()
        _, message = process.communicate(timeout=180)
    finally:
        both.shutdown()
    assert process.returncode == 0, message
    lines = message.splitlines()
    if quiet:
        assert lines == []
        return
    assert "raylet" not in message
    [summary] = [line for line in lines if line.startswith("Ray: ")]
    assert 0 < int(summary.split()[3]) <= 3, summary
