"""The commit of the sources, read from a Git repository without Git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from understudy.clusters.software import software_commit


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("UNDERSTUDY_COMMIT", raising=False)
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init")
    git(folder, "commit", "--allow-empty", "--message", "first")
    return folder


def test_the_commit_that_is_checked_out(repository: Path, tmp_path: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    assert software_commit(repository) == first[:12]
    git(repository, "pack-refs", "--all")
    assert software_commit(repository) == first[:12]
    git(repository, "worktree", "add", "-b", "other", str(tmp_path / "other"))
    git(tmp_path / "other", "commit", "--allow-empty", "--message", "second")
    assert software_commit(tmp_path / "other") == git(tmp_path / "other", "rev-parse", "HEAD")[:12] != first[:12]
    git(repository, "checkout", "--detach")
    assert software_commit(repository) == first[:12]


def test_the_environment_names_the_commit_of_an_image(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_COMMIT", "0123456789abcdef")
    assert software_commit(repository) == "0123456789ab"


def test_sources_outside_a_repository_have_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_COMMIT", raising=False)
    assert software_commit(tmp_path) == ""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(b"ref: refs/heads/none\n")
    assert software_commit(tmp_path) == ""
    (tmp_path / ".git" / "HEAD").write_bytes(b"\xff\xfe")
    assert software_commit(tmp_path) == ""
