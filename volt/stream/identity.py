"""What a stream is, apart from where it stands: its options, and what its lines depend on, for the state to hold.

>>> check_options([], ends="never", n_workers=0, start_method="spawn")
Traceback (most recent call last):
    ...
volt.errors.ConfigError: sources []: a stream needs one or more, with distinct names
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from volt.errors import ConfigError
from volt.stream.reading.source import OpenSource, Source
from volt.stream.running.state import fingerprint


def check_options(sources: Sequence[Source | OpenSource], *, ends: str, n_workers: int, start_method: str) -> None:
    """Raise ConfigError if the options of a stream are out of range.

    >>> check_options([], ends="stop", n_workers=0, start_method="spawn")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: sources []: a stream needs one or more, with distinct names
    """
    names = [source.name for source in sources]
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"sources {names}: a stream needs one or more, with distinct names")
    if ends not in ("stop", "drop"):
        raise ConfigError(f"ends={ends!r}: choose stop or drop")
    if n_workers < 0 or start_method not in ("spawn", "fork"):
        raise ConfigError(f"n_workers={n_workers}, start_method={start_method!r}: give 0 or more, and spawn or fork")


def fingerprints(source: OpenSource) -> dict[str, Any]:
    """A source's configuration, short: large values by fingerprint, each transform by name and fingerprint."""
    signature = dict(source.signature)
    names = [transform.name for transform in source.source.transforms]
    steps: Any = signature.pop("transforms")
    transforms = [f"{name} {fingerprint(step)}" for name, step in zip(names, steps, strict=True)]
    return {**signature, "lines": fingerprint(signature["lines"]), "transforms": transforms}
