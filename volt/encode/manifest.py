"""`OutputManifest`: what the outputs in a folder depend on; only outdated ones are rewritten.

    {"a.txt.ids": {"source": "/data/a.txt", "bytes": 512, "modified": 1764…, "vocabulary": "9f…",
                   "form": "ids", …, "files": [[size of a.txt.ids, time of its change]]}}

An *origin* is all that an output depends on: its source, the vocabulary, and options. The entry
"files" describes the output's files, and is added once they are complete; so an output whose origin
has no "files" may be incomplete.

The manifest is a JSON object. While outputs are written, the entry of each is appended as a line
with one more object, so that a killed process loses nothing and the time is linear in the number of
outputs. A manifest at a URL cannot be appended to; it is rewritten whenever an eighth of its
outputs are new.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from volt.encode.array_files import list_output_files
from volt.errors import OutputError
from volt.files.atomic import append, write_atomic
from volt.files.paths import is_file, mark_of
from volt.files.small_files import read_bytes
from volt.urls import url_of

MANIFEST = ".volt-encoded.json"
_MOST_UNSAVED = 1 / 8  # of the outputs, at a URL
Origin = dict[str, Any]


class OutputManifest:
    """The origins of the outputs in a folder, by the name of the output."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / MANIFEST
        self._origins = read_origins(folder)
        self._n_unsaved = 0

    def is_up_to_date(self, output: Path, origin: Origin, form: str) -> bool:
        """Check that an output is complete and unchanged, and has this origin."""
        files = _describe_files(output, form)
        if files is None:
            return False
        return self._origins.get(output.name) == origin | {"files": files}

    def plan(self, origins: Mapping[str, Origin]) -> None:
        """Record outputs before they are written: a killed process may leave incomplete files."""
        self._origins |= origins
        self._save()

    def add(self, output: Path, origin: Origin, form: str) -> None:
        """Record an output that is complete."""
        entry = {output.name: origin | {"files": _describe_files(output, form)}}
        self._origins |= entry
        self._n_unsaved += 1
        if url_of(self._path) is None:
            append(self._path, f"\n{json.dumps(entry, sort_keys=True)}".encode())
        elif self._n_unsaved >= _MOST_UNSAVED * len(self._origins):
            self._save()

    def close(self) -> None:
        """Write the manifest as one object. If that fails, the next run repeats the outputs."""
        if self._n_unsaved:
            with suppress(OutputError):
                self._save()

    def _save(self) -> None:
        with write_atomic(self._path) as file:
            file.write(json.dumps(self._origins, sort_keys=True).encode())
        self._n_unsaved = 0


def read_origins(folder: Path) -> dict[str, Origin]:
    """Return the origins in a folder's manifest, as far as it is valid, by outputs' names."""
    origins = dict[str, Any]()
    end = 0
    with suppress(OutputError, TypeError, ValueError):
        text = read_bytes(folder / MANIFEST, kind=OutputError).decode()
        while end < len(text):
            entries, end = json.JSONDecoder().raw_decode(text, end)
            origins |= entries
            end += text.startswith("\n", end)
    return {name: origin for name, origin in origins.items() if isinstance(origin, dict)}


def _describe_files(output: Path, form: str) -> list[list[int]] | None:
    """Return the size and time of change of each file of an output; None if one does not exist."""
    descriptions = []
    for file in list_output_files(output, form):
        mark = mark_of(file) if is_file(file) else None
        if mark is None:
            return None
        descriptions.append(list(mark))
    return descriptions
