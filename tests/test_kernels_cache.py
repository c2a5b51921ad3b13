"""Compiled loops are kept where the user can write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import volt

ENCODE = """
from volt.encode.encoder import Encoder
from volt.kernels.ready import compile_kernels, is_compiled
from volt.vocabulary import Vocabulary

print(is_compiled("encode"))
compile_kernels("encode")
print(Encoder(Vocabulary((), ("a</w>",))).encode_text(b"a a").decode())
"""


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run")
def test_compiled_code_is_cached_per_user_when_the_package_cannot_be_written_to(tmp_path: Path) -> None:
    """A second process finds what the first compiled, in the user's folder."""
    package, home = tmp_path / "volt", tmp_path / "home"
    shutil.copytree(Path(volt.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "kernels" / "__pycache__").write_text("a file in the place of the folder: nothing can be written there")
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        environment.pop(name, None)
    first, second = (
        subprocess.run(
            [sys.executable, "-c", ENCODE], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        for _ in range(2)
    )
    assert first.stdout == "False\na</w> a</w>\n\n", first.stderr
    assert second.stdout == "True\na</w> a</w>\n\n", second.stderr
    assert list(home.rglob("units.encode_units-*.nbi"))
