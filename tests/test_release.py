"""A release is a commit and a tag, or nothing has changed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n- low\n"
PROJECT = '[project]\nname = "low"\nversion = "0.1.0"\n'


def git(folder, *arguments):
    names = ("-c", "user.name=A", "-c", "user.email=a@b.example")
    return subprocess.run(
        ["git", *names, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@b.example")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "low")
    return tmp_path


def released(repository, version, *checks):
    command = [
        sys.executable,
        ROOT / "experiments/release.py",
        version,
        "--folder",
        repository,
        "--checks",
        *checks,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_release_is_a_commit_and_a_tag(repository):
    """Both files have the version, and the tag's message has the changes."""
    done = released(repository, "0.1.0", "grep -q 0.1.0 pyproject.toml", "grep 0.1.0 CHANGELOG.md")
    assert done.returncode == 0, done.stderr
    assert git(repository, "log", "--format=%s").splitlines() == ["Release 0.1.0", "low"]
    assert "### Added\n- low" in git(repository, "tag", "--list", "--format=%(contents)", "v0.1.0")
    changelog = (repository / "CHANGELOG.md").read_text()
    assert (
        changelog.index("## [Unreleased]")
        < changelog.index("## [0.1.0] - 20")
        < changelog.index("- low")
    )
    assert released(repository, "0.2.0").returncode == 1  # nothing is new
    (repository / "CHANGELOG.md").write_text(
        changelog.replace("## [Unreleased]\n", "## [Unreleased]\n\n- newest\n")
    )
    git(repository, "commit", "--quiet", "--all", "--message", "newest")
    assert released(repository, "0.2.0").returncode == 0
    assert 'version = "0.2.0"' in (repository / "pyproject.toml").read_text()
    assert git(repository, "status", "--porcelain") == ""


def test_a_section_of_the_version_gets_its_date(repository):
    """The first release has a section of its own; Unreleased is empty."""
    (repository / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n\n- low\n"
    )
    git(repository, "commit", "--quiet", "--all", "--message", "heading")
    assert released(repository, "0.1.0").returncode == 0
    assert "## [Unreleased]\n\n## [0.1.0] - 20" in (repository / "CHANGELOG.md").read_text()
    assert released(repository, "0.2.0").returncode == 1


@pytest.mark.parametrize(
    ("version", "checks", "message"),
    [
        ("one", [], "'one' is not a version"),
        ("0.2.0-rc.1", [], "is written 0.2.0rc1; give that"),
        ("0.2.0", ["true", "false"], "false failed; nothing was released"),
        ("0.2.0", ["touch odd.txt"], "the checks left changes behind"),
    ],
)
def test_nothing_changes_if_something_is_wrong(repository, version, checks, message):
    """After an error, there is no commit and no tag, and files are unchanged."""
    done = released(repository, version, *checks)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert (
        (repository / "CHANGELOG.md").read_text(),
        (repository / "pyproject.toml").read_text(),
    ) == (
        CHANGELOG,
        PROJECT,
    )
    assert git(repository, "tag", "--list") == ""
    assert git(repository, "log", "--format=%s").splitlines() == ["low"]


def test_only_a_clean_main_is_released(repository):
    """The error names uncommitted files."""
    (repository / "new.txt").write_text("low")
    assert "new.txt" in released(repository, "0.1.0").stderr
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "new")
    git(repository, "switch", "--quiet", "--create", "other")
    assert "the branch is other; switch to main" in released(repository, "0.1.0").stderr
