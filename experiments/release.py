"""One command from a tree that is ready to a commit and a tag. Nothing is sent anywhere.

    make release VERSION=0.2.0
    python experiments/release.py 0.2.0 [--folder REPOSITORY] [--checks COMMAND …]

What is looked at first: the version is a new one and greater than all tags, the tree is clean, the branch is main, and
the changelog tells something under "Unreleased". Then pyproject.toml and CHANGELOG.md get the version and the date, and
the checks run. If all pass, both are committed and tagged; if one fails, they are as before.
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


class NotReady(Exception):
    """Why there is no release."""


def git(folder: Path, *arguments: str) -> str:
    """What git prints. Raises NotReady if it fails."""
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReady(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def checked_version(asked: str, tags: list[str]) -> Version:
    """The version. Raises NotReady if it is none, or not greater than those of the tags.

    >>> str(checked_version("0.2.0", ["v0.1.0"]))
    '0.2.0'
    >>> checked_version("0.1.0", ["v0.1.0"])
    Traceback (most recent call last):
        ...
    experiments.release.NotReady: 0.1.0 is not greater than v0.1.0, which there is; choose a greater version
    """
    try:
        version = Version(asked)
    except InvalidVersion:
        raise NotReady(f"{asked!r} is no version; give one such as 0.2.0") from None
    if str(version) != asked:
        raise NotReady(f"{asked!r} is written {version}; give that")
    made = [Version(tag[1:]) for tag in tags if re.fullmatch(r"v\d[\w.]*", tag)]
    if made and version <= max(made):
        raise NotReady(f"{asked} is not greater than v{max(made)}, which there is; choose a greater version")
    return version


def changes_of(changelog: str) -> str:
    """What stands under "Unreleased". Raises NotReady if that is nothing.

    >>> changes_of("# Changelog\\n\\n## [Unreleased]\\n\\n- low\\n\\n## [0.1.0] - 2026-01-01\\n- old\\n")
    '- low'
    """
    _, found, rest = changelog.partition(HEADING)
    changes = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0].strip()
    if not (found and changes):
        raise NotReady(f"CHANGELOG.md: nothing stands under {HEADING.strip()!r}; write what is new")
    return changes


def with_version(project: str, version: Version) -> str:
    """A pyproject.toml with another version."""
    changed, n = re.subn(r'^version = "[^"]*"$', f'version = "{version}"', project, flags=re.MULTILINE)
    if n != 1:
        raise NotReady(f"pyproject.toml: {n} lines say version = …; there must be one")
    return changed


def release(folder: Path, asked: str, checks: list[str]) -> None:
    """Check, commit and tag. Raises NotReady, with all files as they were."""
    version = checked_version(asked, git(folder, "tag", "--list", "v*").split())
    if (branch := git(folder, "branch", "--show-current")) != "main":
        raise NotReady(f"the branch is {branch or 'none'}; releases are made of main")
    if changed := git(folder, "status", "--porcelain"):
        raise NotReady(f"the tree is not clean; commit or remove:\n{changed}")
    project, changelog = folder / "pyproject.toml", folder / "CHANGELOG.md"
    before = {path: path.read_text(encoding="utf-8") for path in (project, changelog)}
    changes = changes_of(before[changelog])
    dated = f"{HEADING}\n## [{version}] - {datetime.now(UTC):%Y-%m-%d}\n"
    after = {project: with_version(before[project], version), changelog: before[changelog].replace(HEADING, dated, 1)}
    try:
        for path, text in after.items():
            path.write_text(text, encoding="utf-8")
        for check in checks:
            print(f"{check} …", flush=True)
            if subprocess.run(shlex.split(check), cwd=folder, check=False).returncode:
                raise NotReady(f"{check} failed; nothing was released")
        touched = git(folder, "ls-files", "--modified", "--others", "--exclude-standard").splitlines()
        if odd := sorted({*touched} - {*_names(after)}):
            raise NotReady(f"the checks left changes behind: {', '.join(odd)}; nothing was released")
        git(folder, "commit", "--quiet", "--message", f"Release {version}", *_names(after))
    except BaseException:
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")
        raise
    git(folder, "tag", "--annotate", f"v{version}", "--cleanup", "verbatim", "--message", f"{version}\n\n{changes}\n")


def _names(paths: dict[Path, str]) -> list[str]:
    return [path.name for path in paths]


def main() -> int:
    """Make the release that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--folder", type=Path, default=ROOT)
    parser.add_argument("--checks", nargs="*", default=[*CHECKS], metavar="COMMAND")
    options = parser.parse_args()
    try:
        release(options.folder, options.version, options.checks)
    except NotReady as error:
        print(f"error {error}", file=sys.stderr)
        return 1
    print(f"committed and tagged v{options.version}; to publish: git push --follow-tags, and upload dist/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
