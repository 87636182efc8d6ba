"""The version comes from the git tag, and every place states the same one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import pagewarden

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy what a build reads to find the version."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def _git(project: Path, *words: str) -> None:
    person = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *person, *words], cwd=project, check=True, capture_output=True)


def _commit(project: Path) -> None:
    _git(project, "init")
    _git(project, "add", ".")
    _git(project, "commit", "--message", "first")


def _version(project: Path) -> str:
    """Return the version that a build of the project would have."""
    hatchling = [sys.executable, "-m", "hatchling", "version"]
    done = subprocess.run(hatchling, cwd=project, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_command_shows_the_installed_version() -> None:
    """The package, its metadata and the command agree."""
    assert pagewarden.__version__ == metadata.version("pagewarden")
    done = subprocess.run(
        [sys.executable, "-m", "pagewarden", "--version"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == f"Pagewarden {pagewarden.__version__}\n"


def test_a_tag_is_the_version(project: Path) -> None:
    """Other tags do not count; after the tag, the next version is under development."""
    _commit(project)
    _git(project, "tag", "v1.2.3")
    _git(project, "tag", "nightly-9")
    assert _version(project) == "1.2.3"
    _git(project, "commit", "--allow-empty", "--message", "second")
    assert re.fullmatch(r"1\.2\.4\.dev1\+g[0-9a-f]+", _version(project))


def test_a_clone_without_tags_has_a_development_version(project: Path) -> None:
    """It says which commit it is."""
    _commit(project)
    assert re.fullmatch(r"0\.1\.0\.dev1\+g[0-9a-f]+", _version(project))


def test_files_without_a_repository_have_a_development_version(project: Path) -> None:
    """As in an image, whose build does not copy the repository."""
    assert _version(project) == "0.1.0.dev0"
