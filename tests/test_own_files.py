"""Laws of folders that other users can change: they are recognised by owners, modes and parents."""

import grp
import os
import pwd
from types import SimpleNamespace

import pytest

from volt.own_files import find_shared, is_own

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


@pytest.fixture
def inner(tmp_path):
    """Return a folder in a folder of this user."""
    folder = tmp_path.resolve() / "outer" / "inner"
    folder.mkdir(0o755, parents=True)
    folder.parent.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("inner_mode", "outer_mode", "unsafe"),
    [
        (0o755, 0o755, None),
        (0o700, 0o755, None),
        (0o700, 0o1777, None),  # as /tmp: others cannot rename the inner folder
        (0o757, 0o700, "inner"),
        (0o1777, 0o755, "inner"),  # others can add files
        (0o700, 0o757, "outer"),
        (0o700, 0o777, "outer"),
    ],
)
def test_no_other_user_may_write_to_a_folder_or_its_parents(inner, inner_mode, outer_mode, unsafe):
    """`find_shared` returns the first folder that other users can change; a parent with the sticky
    bit counts as safe."""
    inner.chmod(inner_mode)
    inner.parent.chmod(outer_mode)
    shared = find_shared(inner)
    assert (shared and shared.name) == unsafe


@needs_root
@pytest.mark.parametrize(("name", "mode"), [("inner", 0o700), ("outer", 0o755), ("outer", 0o1777)])
def test_no_folder_may_belong_to_another_user(inner, name, mode):
    """For `find_shared`, a folder of another user is unsafe in every mode, because the owner can
    change its files."""
    folder = {"inner": inner, "outer": inner.parent}[name]
    folder.chmod(mode)
    os.chown(folder, NOBODY, NOBODY)
    assert find_shared(inner) == folder


@needs_root
def test_folders_of_root_are_safe_for_other_users(inner):
    """A user trusts folders of root and its own folders, and no others."""
    os.chown(inner, NOBODY, NOBODY)
    folders = [os.open(folder, os.O_RDONLY) for folder in (inner, inner.parent)]
    assert list(map(is_own, folders)) == [False, True]
    os.seteuid(NOBODY)
    try:
        assert list(map(is_own, folders)) == [True, True]
    finally:
        os.seteuid(0)
        for folder in folders:
            os.close(folder)


@pytest.mark.parametrize(
    ("user", "primary", "members", "is_private"),
    [
        ("ada", True, [], True),
        ("ada", True, ["ada"], True),
        ("ada", True, ["bob"], False),
        ("users", True, [], False),  # a group that many users share
        ("ada", False, [], False),
    ],
)
def test_a_group_of_only_this_user_may_write(
    inner,
    monkeypatch,
    user,
    primary,
    members,
    is_private,
):
    """A group may write to a safe file only if it is the user's primary group, has the user's name,
    and lists nobody else."""
    inner.chmod(0o775)
    group = inner.stat().st_gid
    account = SimpleNamespace(pw_name="ada", pw_gid=group if primary else group + 1)
    monkeypatch.setattr(pwd, "getpwuid", lambda number: account)
    monkeypatch.setattr(
        grp, "getgrgid", lambda number: SimpleNamespace(gr_name=user, gr_mem=members)
    )
    assert is_own(inner) == is_private
    inner.chmod(0o777)
    assert not is_own(inner)
    monkeypatch.setattr(os, "listxattr", lambda place: ["system.posix_acl_access"], raising=False)
    inner.chmod(0o775)
    assert not is_own(inner)
    inner.chmod(0o755)
    assert is_own(inner)


def test_all_folders_are_trusted_without_owners(inner, monkeypatch):
    """On Windows, where Python reports no owners, `is_own` accepts all folders."""
    inner.chmod(0o777)
    monkeypatch.delattr(os, "geteuid")
    assert find_shared(inner) is None
