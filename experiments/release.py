"""Turn a clean tree into a commit and a tag. Nothing is sent anywhere.

    make release VERSION=0.2.0
    python experiments/release.py 0.2.0 [--folder REPOSITORY] [--checks COMMAND …]

The version must be greater than all tags, the tree clean, the branch main, and CHANGELOG.md must list changes under
"Unreleased", or under a heading of the version without a date. Then pyproject.toml and CHANGELOG.md get the version and
the date, and the checks run. If all pass, both files are committed and tagged; if one fails, they are restored.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
CHECKS = ("make lint", "make test", "make docs", "make wheel")
HEADING = "## [Unreleased]\n"
FILES = ("pyproject.toml", "CHANGELOG.md")


class NotReady(Exception):
    """Why there is no release."""


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotReady(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def checked_version(text: str, tags: list[str]) -> Version:
    """Read the version. Raises NotReady if it is malformed, or not greater than all tags.

    >>> str(checked_version("0.2.0", ["v0.1.0"]))
    '0.2.0'
    """
    try:
        version = Version(text)
    except InvalidVersion:
        raise NotReady(f"{text!r} is not a version; give one such as 0.2.0") from None
    if str(version) != text:
        raise NotReady(f"{text!r} is written {version}; give that")
    released = [Version(tag[1:]) for tag in tags if re.fullmatch(r"v\d[\w.]*", tag)]
    if released and version <= max(released):
        raise NotReady(
            f"{text} is not greater than the tag v{max(released)}; choose a greater version"
        )
    return version


def dated(changelog: str, version: str, date: str) -> tuple[str, str]:
    """Return the changelog with a dated heading, and the changes. Raises NotReady if there are no changes.

    >>> dated("## [Unreleased]\\n\\n- low\\n\\n## [0.1.0] - 2026-01-01\\n- old\\n", "0.2.0", "2026-02-02")[1]
    '- low'
    >>> dated("## [Unreleased]\\n\\n## [0.1.0]\\n- low\\n", "0.1.0", "2026-01-01")
    ('## [Unreleased]\\n\\n## [0.1.0] - 2026-01-01\\n- low\\n', '- low')
    """
    own = f"## [{version}]\n"
    heading = own if own in changelog else HEADING
    before, found, rest = changelog.partition(heading)
    changes = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0].strip()
    if not (found and changes):
        raise NotReady(f"CHANGELOG.md: no changes under {heading.strip()!r}; list what is new")
    kept = "" if heading == own else f"{HEADING}\n"
    return f"{before}{kept}## [{version}] - {date}\n{rest}", changes


def release(folder: Path, text: str, checks: list[str]) -> None:
    version = checked_version(text, git(folder, "tag", "--list", "v*").split())
    if (branch := git(folder, "branch", "--show-current")) != "main":
        raise NotReady(f"the branch is {branch or 'none'}; switch to main")
    if changed := git(folder, "status", "--porcelain"):
        raise NotReady(f"the tree is not clean; commit or remove:\n{changed}")
    before = {name: (folder / name).read_text(encoding="utf-8") for name in FILES}
    changelog, changes = dated(
        before["CHANGELOG.md"], str(version), f"{datetime.now(UTC):%Y-%m-%d}"
    )
    project, n = re.subn(
        r'^version = "[^"]*"$',
        f'version = "{version}"',
        before["pyproject.toml"],
        flags=re.MULTILINE,
    )
    if n != 1:
        raise NotReady(f"pyproject.toml: {n} lines say version = …; there must be one")
    try:
        (folder / "pyproject.toml").write_text(project, encoding="utf-8")
        (folder / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
        for check in checks:
            print(f"{check} …", flush=True)
            if subprocess.run(shlex.split(check), cwd=folder, check=False).returncode:
                raise NotReady(f"{check} failed; nothing was released")
        touched = git(
            folder, "ls-files", "--modified", "--others", "--exclude-standard"
        ).splitlines()
        if odd := sorted({*touched} - {*FILES}):
            raise NotReady(
                f"the checks left changes behind: {', '.join(odd)}; nothing was released"
            )
        git(folder, "commit", "--quiet", "--message", f"Release {version}", *FILES)
    except BaseException:
        for name, content in before.items():
            (folder / name).write_text(content, encoding="utf-8")
        raise
    git(
        folder,
        "tag",
        "--annotate",
        f"v{version}",
        "--cleanup",
        "verbatim",
        "--message",
        f"{version}\n\n{changes}\n",
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version")
    parser.add_argument("--folder", type=Path, default=ROOT)
    parser.add_argument("--checks", nargs="*", default=[*CHECKS], metavar="COMMAND")
    options = parser.parse_args()
    try:
        release(options.folder, options.version, options.checks)
    except NotReady as error:
        print(f"error {error}", file=sys.stderr)
        return 1
    print(
        f"committed and tagged v{options.version}; to publish: git push --follow-tags, and upload dist/"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
