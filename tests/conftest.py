"""Fixtures: optional corpora, subword-nmt as an oracle on word counts, `volt` as a command."""

import gc
import gzip
import io
import os
import signal
import subprocess
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

import pytest
from hypothesis import settings
from support.commands import TEXT, VOLT, Done, foreign_options, status_of
from support.drawn import LINES_SHARE, examples
from support.stream_commands import CONFIG, DEADLINE
from support.web_servers import Clock

Lines = Callable[..., list[str]]
JOINED = "\ue000"  # for "@@", which text may hold
pytest.register_assert_rewrite(
    "support.encoders", "support.exports", "support.merges", "support.streams", "support.writers"
)  # their asserts tell what differs, too


def pytest_configure(config):
    """Set no deadline for examples, because other workers use the processor, too; see drawn.py for their number.

    Compiled loops wrap integers silently when they hash; run as plain Python, for coverage, they say so.
    Indices of streams and arrays go to a cache folder of this run, also those of child processes.
    """
    _let_children_hear()
    cache = TemporaryDirectory(prefix="volt-tests-", ignore_cleanup_errors=True)
    os.environ["XDG_CACHE_HOME"] = cache.name
    config.add_cleanup(cache.cleanup)
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # torch's threads would wait for each other; tests run side by side
    settings.register_profile("untimed", parent=settings(), deadline=None, max_examples=examples())
    settings.load_profile("untimed")
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        config.addinivalue_line(
            "filterwarnings", "ignore:overflow encountered in scalar:RuntimeWarning"
        )


def _let_children_hear():
    """Let child processes obey SIGINT and SIGHUP, even if this run ignores them."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    """Compile what is missing before tests and workers start: messages of compiling would be in what they compare."""
    from volt.kernels.warmup import JOBS, missing

    if not hasattr(session.config, "workerinput") and missing(*JOBS):
        subprocess.run([*VOLT, "warmup", "--quiet"], check=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Pause garbage collection during imports, and hide what was imported, which stays, from it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_teardown(item, nextitem):
    """Free the objects that cached functions of a file of tests hold, such as encoders, after its last test."""
    module = getattr(item, "module", None)
    if module is None or module is getattr(nextitem, "module", None):
        return
    owners = module.__name__, "support.encoders"
    for value in vars(module).values():
        if hasattr(value, "cache_clear") and value.__module__ in owners:
            value.cache_clear()


@pytest.fixture(scope="session")
def data():
    """Return the folder of real corpora (multi30k/train.en.gz, ted/Finnish.txt.gz, …)."""
    folder = os.environ.get("VOLT_DATA")
    if not folder:
        pytest.skip(
            "set VOLT_DATA to a folder with multi30k/*.gz and ted/*.txt.gz to run this test"
        )
    return Path(folder)


@pytest.fixture(scope="session")
def lines(data):
    """Reads the first lines of a corpus in that folder, without their line ends: a twelfth of n outside campaigns."""

    def read(name, n=None):
        path = data / name
        if not path.exists():
            pytest.skip(f"{path} is missing")
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            return [
                line.removesuffix("\n")
                for line in islice(file, None if n is None else examples(n, LINES_SHARE))
            ]

    return read


class SubwordNmt:
    """subword-nmt as functions of plain values: it learns from word counts, and applies merges."""

    def learn(self, word_counts, n_merges, *, min_pair_count=2):
        from subword_nmt.learn_bpe import learn_bpe

        table = io.StringIO("".join(f"{word} {count}\n" for word, count in word_counts.items()))
        codes = io.StringIO()
        learn_bpe(table, codes, n_merges, min_frequency=min_pair_count, is_dict=True)
        rows = codes.getvalue().split("\n")[1:-1]
        return [(left, right) for left, right in (row.split(" ") for row in rows)]

    def bpe(self, merges, *, kept=None):
        """Return its encoder; `kept` has VOLT's spelling, with "</w>"."""
        from subword_nmt.apply_bpe import BPE

        codes = io.StringIO(
            "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges)
        )
        return BPE(
            codes,
            separator=JOINED,
            vocab=None if kept is None else {_theirs(token) for token in kept},
        )

    def pieces(self, bpe, line):
        """Return the pieces of a line in VOLT's spelling."""
        return [_ours(piece) for piece in bpe.process_line(line).split(" ") if piece]


def _theirs(token):
    return token.removesuffix("</w>") if token.endswith("</w>") else token + JOINED


def _ours(piece):
    return piece.removesuffix(JOINED) if piece.endswith(JOINED) else piece + "</w>"


@pytest.fixture(scope="session")
def subword_nmt():
    """Return the oracle; skip if subword-nmt is not installed."""
    pytest.importorskip("subword_nmt")
    return SubwordNmt()


@pytest.fixture
def run(tmp_path, monkeypatch, capsysbinary):
    """Run volt in this process, in a folder with corpus.txt; the first argument is split into words."""
    (tmp_path / "corpus.txt").write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run_volt(command="", *others, stdin=b"", status=0):
        arguments = [*command.split(), *others]
        result = status_of(arguments, stdin=stdin)
        done = Done(*capsysbinary.readouterr())
        message = done.stderr.decode()
        assert result == status, message
        assert not (status and foreign_options(arguments, message)), message
        return done

    return run_volt


@pytest.fixture
def stream_folder(tmp_path, monkeypatch):
    """Write two sources and a configuration, and change to their folder."""
    (tmp_path / "one.tsv").write_text("".join(f"a{n}\tb{n}\n" for n in range(200)))
    (tmp_path / "two.tsv.gz").write_bytes(
        gzip.compress("".join(f"c{n}\td{n}\n" for n in range(300)).encode())
    )
    (tmp_path / "stream.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def volt_stream(stream_folder, capfdbinary):
    """Run `volt stream` in this process; the first argument is split into words."""

    def run_volt(command, *others, status=0):
        arguments = ["stream", *command.split(), *others]
        result = status_of(arguments)
        done = Done(*capfdbinary.readouterr())
        message = done.stderr.decode()
        assert result == status, message
        assert not (status and foreign_options(arguments, message)), message
        return done

    return run_volt


@pytest.fixture
def start_stream(stream_folder):
    """Start `volt stream` in another process, which does not outlive the test."""
    started = []

    def start_volt(command, *others, **options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        words = [*VOLT, "stream", *command.split(), *map(str, others)]
        process = subprocess.Popen(words, cwd=stream_folder, **pipes)
        started.append((process, Timer(DEADLINE, process.kill)))
        started[-1][1].start()
        return process

    yield start_volt
    for process, timer in started:
        timer.cancel()
        process.kill()
        process.wait(DEADLINE)
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock of retries, so that pauses take no time."""
    from volt.files import retries

    result = Clock()
    monkeypatch.setattr(retries, "sleep", result.sleep)
    monkeypatch.setattr(retries, "clock", result)
    return result
