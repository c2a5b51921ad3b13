"""Laws of `scratch_folder` and of temporary names."""

import os
from pathlib import Path

import pytest

from volt.errors import OutputError
from volt.files.temporary import _temporary_name, scratch_folder


def test_scratch_folders_of_ended_processes_are_removed(tmp_path, monkeypatch):
    """`scratch_folder` removes its folder at the end, and folders that killed processes left.

    Folders in use, links and other names are not removed.
    """
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


def test_scratch_folder_uses_only_tmpdir(tmp_path, monkeypatch):
    """`scratch_folder` uses TMPDIR, which may be relative.

    If it cannot, the error names TMPDIR, and no other folder is used.
    """
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
    """A temporary name contains the file's name up to 240 bytes, and a digest of longer names."""
    names = [
        Path(_temporary_name(Path("d", name), 17)).name
        for name in ("ö" * 120, "x" * 241, "x" * 255)
    ]
    assert names[0] == f".{'ö' * 120}.00000011.part"
    assert names[1] == ".af201a5d8178d8b51488bc8258328e1d.00000011.part"
    assert names[1] != names[2]
