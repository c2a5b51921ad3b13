"""Wait before a failed request is sent again, and give up after a limit of time (`retry_for`, 5
minutes by default).

Pause n lasts from 0 to min(0.2 · 2ⁿ, 120, limit / 20) seconds, drawn at random ("full jitter"), so
that many machines do not return at the same moment. If the server names a time (`Retry-After`), the
pause begins then.
"""

from __future__ import annotations

import errno
import os
import random
import re
import time
import warnings
from contextlib import suppress

from volt.display import counted
from volt.errors import ConfigError, VoltWarning, quoted, shown_path

FIRST = 0.2  # seconds, the limit of the first pause
LONGEST = 120.0  # seconds, the limit of every pause
SHARE = 1 / 20  # of the time for retries, the limit of every pause
_STEP = 0.1  # seconds; waits are short, because after a Polars query SIGINT cannot interrupt a wait
_QUIET = 10.0  # seconds without success after which a warning is issued
VARIABLE = "VOLT_RETRY_FOR"  # of the environment, so that child processes inherit it
_DEFAULT = "5m"
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
sleep = time.sleep
clock = time.monotonic
draw = random.uniform


class ServerError(OSError):
    """A server failed in every try (errno ETIMEDOUT), or rejected the request."""

    remedy = "run it again when the server answers, or raise retry_for"


class RetryWarning(VoltWarning):
    """A server has failed for some seconds; its requests are retried."""


def retry_for(duration: str | float) -> None:
    """Set how long a failing request is retried, in this process and those it starts; by default
    five minutes.

    duration: seconds, or a text such as 30s, 10m or 2h; 0 for no retry
    The variable VOLT_RETRY_FOR sets the same. Raises ConfigError if the duration is invalid.

    >>> retry_for("10m"), patience()
    (None, 600.0)
    >>> retry_for("5m")
    """
    _seconds(duration, "retry_for")
    os.environ[VARIABLE] = str(duration)


def patience() -> float:
    """Return the seconds for which a failing request is retried. Raises ConfigError."""
    return _seconds(os.environ.get(VARIABLE) or _DEFAULT, VARIABLE)


def _seconds(duration: str | float, name: str) -> float:
    text = str(duration)
    match = re.fullmatch(rf"({_NUMBER})([smh]?)", text)
    if not match:
        raise ConfigError(f"{name} is {quoted(text)}; give a duration, such as 30s, 10m or 2h")
    return float(match[1]) * _UNITS[match[2]]


def requested_wait(header: str | None) -> float:
    """Return the seconds to wait by a `Retry-After` header, a number or an HTTP date; 0 if it is
    missing or invalid.

    >>> requested_wait("120"), requested_wait("Wed, 21 Oct 2015 07:28:00 GMT"), requested_wait("soon")
    (120.0, 0.0, 0.0)
    """
    from email.utils import parsedate_to_datetime  # takes a while

    text = (header or "").strip()
    if re.fullmatch(_NUMBER, text):
        return float(text)
    with suppress(ValueError, OverflowError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0


class Retries:
    """The pauses between the tries of one request, whose time runs from its first failure."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._n_tries = 0
        self._start = 0.0
        self._limit = patience()

    def pause(self, message: str, *, wait: float = 0.0) -> None:
        """Sleep before the next try.

        Raises ServerError if the time for retries has passed, or would pass during the wait that
        the server requests.

        message: the message of the last failure
        wait: seconds that the server requests (`requested_wait`)
        """
        now = clock()
        self._n_tries += 1
        self._start = self._start or now
        passed = now - self._start
        limit = self._limit
        deadline = self._start + limit
        if now >= deadline or passed + wait > limit:
            fault = (
                f"{counted(self._n_tries, 'try', 'tries')} in {passed:,.0f} s failed, "
                f"the last with: {message}"
            )
            if wait:
                fault += f", and a request to wait {wait:,.0f} s"
            raise ServerError(errno.ETIMEDOUT, fault)

        if passed + wait >= _QUIET:
            host = "/".join(shown_path(self.url).split("/")[:3])
            notice = f"{host} fails; requests are retried for {limit:,.0f} s"
            warnings.warn(notice, RetryWarning, stacklevel=2)

        longest = min(FIRST * 2 ** min(self._n_tries - 1, 20), LONGEST, limit * SHARE)
        end = min(now + wait + draw(0, longest), deadline)
        while (remaining := end - clock()) > 0:
            sleep(min(remaining, _STEP))
