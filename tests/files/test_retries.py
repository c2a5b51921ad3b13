"""Laws of retries: how long they wait, what a server may ask for, what is final, and what a file gives in the end."""

from __future__ import annotations

import random
import socket
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from web_servers import Clock, Web, web_server

from volt.errors import ConfigError, CorpusError
from volt.files import remote, remote_files, retries
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
DATA = b"".join(b"low newest %d\n" % number for number in range(9_000))
MEMORY = "memory://a"


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Web]:
    """A server of a file that is read by small ranges; who is silent for a moment is left."""
    for module, name, value in (
        (remote_files, "HEAD", 1_000),
        (remote_files, "STEP", 9_000),
        (remote, "_SILENT", 0.1),
        (remote, "_systems", {}),
    ):
        monkeypatch.setattr(module, name, value)
    with web_server(files={"/a.txt": DATA}) as server:
        yield server


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Restores the variable that holds the limit."""
    monkeypatch.setenv("VOLT_RETRY_FOR", "5m")
    return monkeypatch


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "whole"])
@pytest.mark.parametrize("share", [0.3, 0.7])
@pytest.mark.parametrize("retry_after", ["", "7"])
def test_a_server_that_refuses_many_requests_gives_the_bytes_of_the_file(
    web, ranges, share, retry_after
):
    """30 or 70 % of its answers are refusals of several kinds, stalls or cut; the bytes are those of the file."""
    draw, kinds = random.Random(5), ("503", "429", "500", "408", "cut", "cut", "stall")
    web.ranges, web.retry_after = ranges, retry_after
    web.faults = iter(lambda: draw.choice(kinds) if draw.random() < share else "", None)
    assert b"".join(read_raw(f"{web.url}/a.txt")) == DATA


@pytest.mark.parametrize("length", ["90s", "10m", "1h"])
def test_a_server_that_fails_is_left_when_the_time_is_over(web, clock, limit, length):
    """Not before, not much later; the error says how often and how long it was asked, and what to do."""
    retry_for(length)
    web.faults = iter(lambda: "503", None)
    with pytest.raises(
        CorpusError,
        match=r"\d+ tries in [\d,]+ s failed, the last with: .*503.*or raise retry_for$",
    ):
        expand(f"{web.url}/a.txt")
    assert patience() <= clock.now - 1 <= patience() + 1
    assert (
        25 <= len(web.asked) // 2 <= 90
    )  # so that two refusals of three are no failure, nor a flood


def test_pauses_are_drawn_from_growing_ranges(clock, limit):
    """Each of the tenth part of a range is drawn, and the range doubles up to a minute."""
    retry_for("999999999h")
    drawn: list[list[float]] = [[] for _ in range(12)]
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
def test_a_request_to_wait_is_granted(web, clock, status, is_date):
    """As seconds or as a date: nobody asks before, and the first to ask again does so within a moment."""
    web.retry_after = (
        format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
        if is_date
        else "100"
    )
    web.faults = iter([status] * 2)  # by HEAD, and by GET
    assert expand(f"{web.url}/a.txt")
    assert 95 <= clock.now - 1 <= 100 + FIRST


def test_a_request_to_wait_longer_than_the_limit_is_refused_at_once(web, clock):
    """Nothing is gained by waiting; the error names the wait."""
    web.retry_after, web.faults = "3600", iter(lambda: "503", None)
    with pytest.raises(
        CorpusError,
        match=r"1 try in 0 s failed, the last with: .*503.*, and a request to wait 3,600",
    ):
        expand(f"{web.url}/a.txt")
    assert clock.now == 1


@pytest.mark.parametrize(
    "header", [None, "", "soon", "-5", "nan", "1e999", "9" * 400, "Wed, 99 Oct 2015 07:28:00 GMT"]
)
def test_a_request_that_says_nothing_is_none(header):
    """No damaged header makes a wait."""
    assert requested_wait(header) == 0


def test_a_first_failure_is_retried_however_late_it_comes(clock):
    """The time runs from the first failure, as a transfer may take longer than the limit before it breaks."""
    tries = Retries(MEMORY)
    clock.sleep(100_000)
    tries.pause("cut")
    assert clock.now - 100_001 <= FIRST


def test_a_duration_is_seconds_or_a_number_with_its_unit(limit):
    """As text or as a number."""
    for duration, seconds in (
        (90, 90),
        (0.5, 0.5),
        ("1.5m", 90),
        ("2h", 7_200),
        ("90", 90),
        ("7s", 7),
    ):
        retry_for(duration)
        assert patience() == seconds


def test_a_limit_of_zero_is_no_retry(clock, limit):
    """One request, one error."""
    retry_for("0")
    with pytest.raises(ServerError, match=r"^.*1 try in 0 s failed, the last with: busy$"):
        Retries(MEMORY).pause("busy")
    assert clock.now == 1


@pytest.mark.parametrize(
    "duration", ["", "soon", "-1m", "10 m", "1d", "inf", "1e3", "0x9", "٣s", 5.5e300]
)
def test_a_duration_that_is_none_is_refused(duration, limit):
    """By the function at once, with the remedy; by the variable when it is read."""
    with pytest.raises(
        ConfigError, match=r"^retry_for is .*; give a duration, such as 30s, 10m or 2h$"
    ):
        retry_for(duration)
    limit.setenv("VOLT_RETRY_FOR", f"{duration} ")
    with pytest.raises(ConfigError, match=r"^VOLT_RETRY_FOR is "):
        patience()


def test_an_invalid_variable_is_refused_before_the_first_failure(web, limit):
    """Also if the server answers at once."""
    limit.setenv("VOLT_RETRY_FOR", "soon")
    with pytest.raises(ConfigError, match=r"^VOLT_RETRY_FOR is 'soon'; give a duration"):
        expand(f"{web.url}/a.txt")


def test_a_long_failure_is_warned_of_without_secrets(clock):
    """Once per server, after ten seconds, and with nothing of the path."""
    tries = Retries("https://me:hunter2@host/a.txt?Signature=hunter2")
    with pytest.warns(RetryWarning) as caught:
        tries.pause("busy", wait=30)
    assert [str(one.message) for one in caught] == [
        "https://host fails; requests are retried for 300 s"
    ]


def test_what_no_retry_can_help_is_final():
    """An unknown host, a method that a server lacks, and faults of programs; a resolver that is busy is asked again."""
    address = aiohttp.client_reqrep.ConnectionKey("host", 80, False, True, None, None, None)
    for code, is_final in ((socket.EAI_NONAME, True), (socket.EAI_AGAIN, False)):
        error = aiohttp.ClientConnectorDNSError(address, socket.gaierror(code, "x"))
        error.__cause__ = error.os_error
        assert (remote.failure(error) is not None) == is_final
    assert all(
        remote.failure(kind("x")) for kind in (TypeError, ValueError, KeyError, AttributeError)
    )
    assert not any(
        remote.failure(kind("x"))
        for kind in (OSError, TimeoutError, ConnectionResetError, EOFError)
    )


def test_what_botocore_says_of_its_settings_is_final():
    """And what it says of the network is not."""
    errors = pytest.importorskip("botocore.exceptions", reason="botocore is not installed")
    lasting = (
        errors.ParamValidationError(report="x"),
        errors.ProfileNotFound(profile="x"),
        errors.NoRegionError(),
    )
    passing = (
        errors.EndpointConnectionError(endpoint_url="x"),
        errors.ReadTimeoutError(endpoint_url="x"),
        errors.IncompleteReadError(actual_bytes=1, expected_bytes=2),
        errors.ResponseParserError("x") if hasattr(errors, "ResponseParserError") else OSError(),
    )
    assert all(map(remote.failure, lasting))
    assert not any(map(remote.failure, passing))


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "whole"])
def test_a_file_that_is_gone_or_changed_in_the_middle_is_not_waited_for(web, clock, ranges):
    """It is reported at once."""
    web.ranges = ranges
    for content, message in ((DATA[:5_000], "changed while it was read"), (None, "no such file")):
        web.files["/a.txt"] = DATA
        blocks = read_blocks(f"{web.url}/a.txt", block_size=100)
        next(blocks)
        web.files.pop("/a.txt")
        if content:
            web.files["/a.txt"] = content
        web.faults = iter(["cut"]) if not ranges else web.faults
        with pytest.raises(CorpusError, match=message):
            list(blocks)
    assert clock.now - 1 < 5 * FIRST
    assert retries.clock is clock


def test_the_command_line_sets_the_limit(web, clock, limit, run):
    """For any command, which warns of a long failure unless it is quiet; a duration that is none is wrong usage."""
    web.faults = iter(lambda: "503", None)
    warnings.simplefilter("always")  # the test's own filters return when it ends
    for options, warned in (((), True), (("-q",), False)):
        done = run(
            "--retry-for", "30s", "search", f"{web.url}/a.txt?key=hunter2", *options, status=1
        )
        message = done.stderr.decode()
        assert "tries in 30 s failed" in message
        assert message.endswith("or retry longer: volt --retry-for 1h\n")
        assert message.startswith("warning") == warned
        assert "hunter2" not in message
    for text in ("soon", ""):
        done = run("--retry-for", text, "search", "corpus.txt", status=2)
        assert done.stderr.startswith(f"error --retry-for is '{text}'".encode())
