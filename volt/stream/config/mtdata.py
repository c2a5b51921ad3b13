"""Data sets that MTData knows, by name → their two files, downloaded once. It is run as the command `mtdata`.

>>> folder_of("deu-eng").name
'deu-eng'
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from volt.errors import ConfigError, MissingLibraryError, StreamError, reason, shown

_CODES = re.compile(r"[a-z]{3}(_\w+)*-[a-z]{3}(_\w+)*")


def folder_of(langs: str) -> Path:
    """Where the data sets of two languages are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "volt" / "mtdata" / langs


def downloaded(name: str, *, langs: str) -> dict[str, str]:
    """The files of a data set, by their languages' codes: the first is the source side.

    langs: the codes of ISO 639-3 of both languages, as in deu-eng
    Raises MissingLibraryError if there is no MTData, ConfigError if a name cannot be one, StreamError if it gives none.
    """
    if not _CODES.fullmatch(langs):
        raise ConfigError(f"langs={shown(langs)}: give two codes of three letters, as in deu-eng")
    if not re.fullmatch(r"[\w.-]+", name) or name.startswith(("-", ".")):
        raise ConfigError(f"{shown(name)}: no name of a data set; mtdata list -l {langs} names them")
    folder, codes = folder_of(langs) / name, langs.split("-")
    if not folder.exists():
        _download(name, langs, folder)
    found = {code: str(folder / "train-parts" / f"{name}.{code}.gz") for code in codes}
    if gone := [path for path in found.values() if not os.path.isfile(path)]:
        raise StreamError(f"{gone[0]}: not what MTData has made of {name}; remove {folder}, and look what it says")
    return found


def _download(name: str, langs: str, folder: Path) -> None:
    """Have MTData write a data set to a folder, which appears when it is whole."""
    program = shutil.which("mtdata")
    if program is None:
        raise MissingLibraryError("mtdata is not installed; pip install mtdata, or name files with multistream")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as made:
            command = [program, "get", "-l", langs, "-tr", name, "--compress", "-o", f"{made}/{name}"]
            status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2).returncode
            if status:
                raise StreamError(f"mtdata get {name} ended with status {status}; see what it says above")
            os.rename(f"{made}/{name}", folder)
    except OSError as error:
        raise StreamError(f"{folder}: cannot be made: {reason(error)}; mend it, or set XDG_CACHE_HOME") from None
