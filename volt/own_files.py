"""Recognise files that only this user and root can change, which are safe to load.

Caches contain machine code and arrays, and another user who could change them could run code as
this user. Where Python reports no owners (Windows), all files count as the user's own.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def find_shared(folder: Path) -> Path | None:
    """Return the first of a folder and its parents that other users can change, or None.

    folder: an existing folder, whose path contains no links

    A parent with the sticky bit, such as /tmp, may be writable, because others cannot rename or
    remove this user's folders in it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name).resolve()
    ...     before = find_shared(folder)
    ...     folder.chmod(0o777)
    ...     before, find_shared(folder) == folder
    (None, True)
    """
    if not is_own(folder):
        return folder
    for parent in folder.parents:
        is_sticky = bool(parent.stat().st_mode & stat.S_ISVTX)
        if not is_own(parent, any_mode=is_sticky):
            return parent
    return None


def is_own(place: Path | int, *, any_mode: bool = False) -> bool:
    """Check that a file belongs to this user or root, and that no other user can write to it.

    place: the file's path or descriptor
    any_mode: check only the owner, not who can write
    """
    if not hasattr(os, "geteuid"):
        return True
    status = os.stat(place)
    if status.st_uid not in (0, os.geteuid()):
        return False
    if any_mode or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return True
    return not status.st_mode & stat.S_IWOTH and _is_private(status.st_gid) and not _has_acl(place)


def _is_private(group: int) -> bool:
    """Check that a group has only this user: the primary group, of the user's name, without others."""
    import grp
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid())
        members = grp.getgrgid(group)
    except KeyError:
        return False
    is_primary = user.pw_gid == group and members.gr_name == user.pw_name
    return is_primary and set(members.gr_mem) <= {user.pw_name}


def _has_acl(place: Path | int) -> bool:
    """Check for an access list (ACL), which may let other users write, whatever the mode says."""
    return hasattr(os, "listxattr") and "system.posix_acl_access" in os.listxattr(place)
