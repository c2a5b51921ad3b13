"""Laws of temporary folders."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from volt.files.scratch import scratch_folder


def test_a_folder_is_gone_afterwards_and_one_that_a_killed_process_left_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no owner is removed by the next; folders in use, links and others' folders stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f"volt-{os.getuid()}-left"
    (left / "deep").mkdir(parents=True)
    (left / "deep/file").write_bytes(b"x")
    (tmp_path / "kept").mkdir()
    (tmp_path / f"volt-{os.getuid()}-link").symlink_to("kept")
    with scratch_folder() as folder, scratch_folder() as other:
        assert folder.is_dir()
        assert other != folder
        assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", f"volt-{os.getuid()}-link"]
