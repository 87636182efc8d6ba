"""Commands without their optional dependencies, and on other systems."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pagewarden import extras

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "images" / "sign-in.png"
RUN = """
import sys
sys.modules[sys.argv[1]] = None  # an import of it fails
sys.argv = ["pagewarden", *sys.argv[2:]]
from pagewarden import cli
cli.main()
"""


def run_without(module: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in an environment that lacks a module."""
    return subprocess.run(
        [sys.executable, "-c", RUN, module, *words], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("module", "words", "extra"),
    [
        ("psycopg", ["up"], "embedded"),
        ("argon2", ["user", "list"], "server"),
        ("pyarrow", ["volumes", "list"], "volumes"),
        ("google", ["ocr", PAGE, "--engine", "gemini"], "gemini"),
    ],
)
def test_missing_extra_is_named(module: str, words: list[str | Path], extra: str) -> None:
    """One line says what to install, without a traceback."""
    ended = run_without(module, *words)
    assert ended.returncode == 1
    assert f"pip install 'pagewarden[{extra}]'" in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


def test_other_missing_module_is_not_hidden() -> None:
    """A module of no extra is an error of the installation, not of the user's choice."""
    ended = run_without("rich.progress", "upload", PAGE)
    assert ended.returncode == 1
    assert "rich.progress" in ended.stderr
    assert "pip install" not in ended.stderr


def test_extras_are_those_of_the_package() -> None:
    """Every extra that a message names can be installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["optional-dependencies"].keys() >= extras.NAMES


def test_other_systems_are_refused_in_one_line() -> None:
    """Pagewarden needs Linux."""
    program = "import sys; sys.platform = 'darwin'; from pagewarden import cli; cli.main()"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Pagewarden runs on Linux only; use a container" in " ".join(ended.stderr.split())
