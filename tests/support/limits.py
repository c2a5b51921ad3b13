"""The message with which a call is refused, and the least value of a limit with which it passes."""

from itertools import count

import pytest

from volt.errors import VoltError


def refused(call):
    """Call a function, and return the message of its VoltError; "" if it raises none."""
    try:
        call()
    except VoltError as error:
        return str(error)
    return ""


def least(module, limit, call):
    """Return the least value of a module's constant `limit` with which a call does not raise a
    VoltError.
    """
    with pytest.MonkeyPatch.context() as patch:
        return next(n for n in count() if not (patch.setattr(module, limit, n) or refused(call)))
