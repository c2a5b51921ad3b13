"""The least value of a limit with which a call passes, and the message with which a call is refused."""

from itertools import count

import pytest

from volt.errors import VoltError


def refused(call):
    """Return the message with which a call is refused, or ""."""
    try:
        call()
    except VoltError as error:
        return str(error)
    return ""


def least(module, limit, call):
    """Return the least value of a module's limit with which a call passes."""
    with pytest.MonkeyPatch.context() as patch:
        return next(n for n in count() if not (patch.setattr(module, limit, n) or refused(call)))
