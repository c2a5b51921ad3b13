"""Laws of temporary folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from volt.errors import OutputError
from volt.files.temporary import _temporary_name, scratch_folder


def test_a_folder_is_gone_afterwards_and_one_that_a_killed_process_left_is_swept(
    tmp_path, monkeypatch
):
    """The next process removes it; folders in use, links and others' folders stay."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
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


def test_the_folder_that_was_asked_for_is_used_or_refused(tmp_path, monkeypatch):
    """TMPDIR may be relative, and no other folder replaces it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("TMPDIR", "there")
    with scratch_folder() as folder:
        assert folder.parent == tmp_path / "there"
    for name, said in (("nowhere", "no such file or directory"), ("file", "not a directory")):
        monkeypatch.setenv("TMPDIR", name)
        with pytest.raises(OutputError) as message, scratch_folder():
            pass
        remedy = "set TMPDIR to a folder that can be written"
        assert (
            str(message.value) == f"TMPDIR={name}: no folder can be created there: {said}; {remedy}"
        )


def test_a_temporary_name_contains_a_short_name():
    """Names up to 240 bytes are in the temporary name; longer names are replaced by a digest."""
    names = [
        Path(_temporary_name(Path("d", name), 17)).name
        for name in ("ö" * 120, "x" * 241, "x" * 255)
    ]
    assert names[0] == f".{'ö' * 120}.00000011.part"
    assert names[1] == ".af201a5d8178d8b51488bc8258328e1d.00000011.part"
    assert names[1] != names[2]
