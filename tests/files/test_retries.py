"""Laws of retries: how long they wait, what a server may request, and which errors are final."""

import random
import socket
import warnings
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from support.web_servers import LINES, READERS

from volt.errors import ConfigError, CorpusError
from volt.files import remote
from volt.files.blocks import read_blocks, read_raw
from volt.files.paths import expand
from volt.files.retries import (
    FIRST,
    LONGEST,
    Retries,
    RetryWarning,
    ServerError,
    patience,
    requested_wait,
    retry_for,
)

aiohttp = pytest.importorskip("aiohttp", reason="aiohttp is not installed")

pytestmark = pytest.mark.filterwarnings("ignore::volt.files.retries.RetryWarning")
MEMORY = "memory://a"


@pytest.fixture
def limit(monkeypatch):
    """Restores the variable that stores the limit."""
    monkeypatch.setenv("VOLT_RETRY_FOR", "5m")
    return monkeypatch


@READERS
@pytest.mark.parametrize("share", [0.3, 0.7])
@pytest.mark.parametrize("retry_after", ["", "7"])
def test_a_server_that_refuses_many_requests_gives_the_bytes_of_the_file(
    web, ranges, share, retry_after
):
    """If a server refuses, stalls or cuts 30 or 70 % of its answers, a URL still gives the bytes of
    the file."""
    draw = random.Random(5)
    kinds = "503", "429", "500", "408", "cut", "cut", "stall"
    web.ranges = ranges
    web.retry_after = retry_after
    web.faults = iter(lambda: draw.choice(kinds) if draw.random() < share else "", None)
    assert b"".join(read_raw(f"{web.url}/a.txt")) == LINES


@pytest.mark.parametrize("length", ["90s", "10m", "1h"])
def test_a_failing_server_is_given_up_after_the_limit(web, clock, limit, length):
    """A failing server is retried for the time of `retry_for` and at most a second longer.

    The error says how often and how long requests failed.
    """
    retry_for(length)
    web.faults = iter(lambda: "503", None)
    message = r"\d+ tries in [\d,]+ s failed, the last with: .*503.*or raise retry_for$"
    with pytest.raises(CorpusError, match=message):
        expand(f"{web.url}/a.txt")
    assert 0 <= clock.now - 1 - patience() <= 1
    assert 25 <= len(web.asked) // 2 <= 90  # neither two unlucky tries nor a flood


def test_pauses_are_drawn_from_growing_ranges(clock, limit):
    """`Retries.pause` draws from a range that doubles with each try up to its limit, and uses the
    whole range."""
    retry_for("999999999h")
    drawn = [[] for _ in range(12)]
    for _ in range(300):
        tries = Retries(MEMORY)
        for pauses in drawn:
            before = clock.now
            tries.pause("busy")
            pauses.append(clock.now - before)
    for number, pauses in enumerate(drawn):
        high = min(LONGEST, FIRST * 2**number)
        assert {min(9, int(10 * pause / high)) for pause in pauses} == set(range(10))
        assert max(pauses) <= high + 1e-6


@pytest.mark.parametrize("status", ["503", "429"])
@pytest.mark.parametrize("is_date", [False, True])
def test_a_requested_wait_is_granted(web, clock, status, is_date):
    """If a server requests a wait, in seconds or as a date, the next request is sent then or a
    moment later."""
    web.retry_after = "100"
    if is_date:
        web.retry_after = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    web.faults = iter([status] * 2)  # by HEAD, and by GET
    assert expand(f"{web.url}/a.txt")
    assert 95 <= clock.now - 1 <= 100 + FIRST


def test_a_requested_wait_beyond_the_limit_is_refused_at_once(web, clock):
    """If a server requests a longer wait than the limit, the error is raised at once, and states
    the wait."""
    web.retry_after = "3600"
    web.faults = iter(lambda: "503", None)
    message = r"1 try in 0 s failed, the last with: .*503.*, and a request to wait 3,600"
    with pytest.raises(CorpusError, match=message):
        expand(f"{web.url}/a.txt")
    assert clock.now == 1


@pytest.mark.parametrize(
    "header", [None, "", "soon", "-5", "nan", "1e999", "9" * 400, "Wed, 99 Oct 2015 07:28:00 GMT"]
)
def test_an_invalid_header_requests_no_wait(header):
    """`requested_wait` returns 0 for a missing or invalid header."""
    assert requested_wait(header) == 0


def test_a_first_failure_is_retried_however_late_it_comes(clock):
    """The time for retries counts from the first failure, because a transfer may take longer than
    the limit before it breaks."""
    tries = Retries(MEMORY)
    clock.sleep(100_000)
    tries.pause("cut")
    assert clock.now - 100_001 <= FIRST


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [(90, 90), (0.5, 0.5), ("1.5m", 90), ("2h", 7_200), ("90", 90), ("7s", 7)],
)
def test_a_duration_is_seconds_or_has_a_unit(limit, duration, seconds):
    """`retry_for` accepts seconds as a number or text, and text with the unit s, m or h."""
    retry_for(duration)
    assert patience() == seconds


def test_a_limit_of_zero_is_no_retry(clock, limit):
    """With retry_for(0), the first failure is raised."""
    retry_for("0")
    with pytest.raises(ServerError, match=r"^.*1 try in 0 s failed, the last with: busy$"):
        Retries(MEMORY).pause("busy")
    assert clock.now == 1


@pytest.mark.parametrize(
    "duration", ["", "soon", "-1m", "10 m", "1d", "inf", "1e3", "0x9", "٣s", 5.5e300]
)
def test_an_invalid_duration_is_refused(duration, limit):
    """`retry_for` refuses an invalid duration at once; `patience` refuses an invalid
    VOLT_RETRY_FOR."""
    remedy = "give a duration, such as 30s, 10m or 2h$"
    with pytest.raises(ConfigError, match=f"^retry_for is .*; {remedy}"):
        retry_for(duration)
    limit.setenv("VOLT_RETRY_FOR", f"{duration} ")
    with pytest.raises(ConfigError, match=f"^VOLT_RETRY_FOR is .*; {remedy}"):
        patience()


def test_an_invalid_variable_is_refused_before_the_first_failure(web, limit):
    """An invalid VOLT_RETRY_FOR is refused even if the server answers the first request."""
    limit.setenv("VOLT_RETRY_FOR", "soon")
    with pytest.raises(ConfigError, match=r"^VOLT_RETRY_FOR is 'soon'; give a duration"):
        expand(f"{web.url}/a.txt")


def test_a_long_failure_is_warned_of_without_secrets(clock):
    """After ten seconds of failures, a warning names the server without secrets."""
    tries = Retries("https://me:hunter2@host/a.txt?Signature=hunter2")
    message = r"^https://host fails; requests are retried for 300 s$"
    with pytest.warns(RetryWarning, match=message):
        tries.pause("busy", wait=30)


def test_an_unknown_host_is_final():
    """An unknown host is a final error; a busy resolver is asked again."""
    address = aiohttp.client_reqrep.ConnectionKey("host", 80, False, True, None, None, None)
    for code, is_final in ((socket.EAI_NONAME, True), (socket.EAI_AGAIN, False)):
        error = aiohttp.ClientConnectorDNSError(address, socket.gaierror(code, "x"))
        error.__cause__ = error.os_error
        assert (remote.final_error(error) is not None) == is_final


def test_faults_of_programs_are_final():
    """`final_error` returns an error for faults of a program, and None for faults of the
    network."""
    faults = TypeError, ValueError, KeyError, AttributeError
    assert all(remote.final_error(kind("x")) for kind in faults)
    passing = OSError, TimeoutError, ConnectionResetError, EOFError
    assert not any(remote.final_error(kind("x")) for kind in passing)


def test_errors_of_botocore_about_settings_are_final():
    """`final_error` returns an error for errors of botocore about settings, and None for its errors
    about the network."""
    errors = pytest.importorskip("botocore.exceptions", reason="botocore is not installed")
    assert remote.final_error(errors.ParamValidationError(report="x"))
    assert remote.final_error(errors.ProfileNotFound(profile="x"))
    assert remote.final_error(errors.NoRegionError())
    assert not remote.final_error(errors.EndpointConnectionError(endpoint_url="x"))
    assert not remote.final_error(errors.ReadTimeoutError(endpoint_url="x"))
    assert not remote.final_error(errors.IncompleteReadError(actual_bytes=1, expected_bytes=2))


@READERS
@pytest.mark.parametrize(
    ("content", "message"),
    [(LINES[:5_000], "changed while it was read"), (None, "no such file")],
    ids=["changed", "removed"],
)
def test_a_file_that_changes_or_disappears_in_the_middle_is_reported(
    web, clock, ranges, content, message
):
    """If a file is changed or removed while its URL is read, the error is raised without the pauses
    of retries."""
    web.ranges = ranges
    blocks = read_blocks(f"{web.url}/a.txt", block_size=100)
    next(blocks)
    del web.files["/a.txt"]
    if content:
        web.files["/a.txt"] = content
    if not ranges:
        web.faults = iter(["cut"])
    with pytest.raises(CorpusError, match=message):
        list(blocks)
    assert clock.now - 1 < 3 * FIRST


@pytest.mark.parametrize(("options", "is_warned"), [((), True), (("-q",), False)])
def test_the_command_line_sets_the_limit(web, clock, limit, run, options, is_warned):
    """`volt --retry-for` sets the limit of any command, which warns of a long failure unless it is
    quiet."""
    web.faults = iter(lambda: "503", None)
    warnings.simplefilter("always")  # the test's own filters return when it ends
    url = f"{web.url}/a.txt?key=hunter2"
    message = run("--retry-for", "30s", "search", url, *options, status=1).stderr.decode()
    assert "tries in 30 s failed" in message
    assert message.endswith("or retry longer: volt --retry-for 1h\n")
    assert message.startswith("warning") == is_warned
    assert "hunter2" not in message


@pytest.mark.parametrize("text", ["soon", ""])
def test_the_command_line_refuses_an_invalid_limit(run, limit, text):
    """`volt --retry-for` refuses an invalid duration as wrong usage, with exit status 2."""
    done = run("--retry-for", text, "search", "corpus.txt", status=2)
    assert done.stderr.startswith(f"error --retry-for is '{text}'".encode())
