"""The wheel, installed in a virtual environment of its own, with the repository out of reach."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Wheel:
    """An installed wheel: its file, and the environment that has it."""

    file: Path
    environment: Path

    @property
    def command(self) -> str:
        """Path of `pagewarden`."""
        return str(self.environment / "bin" / "pagewarden")

    def variables(self, home: Path) -> Mapping[str, str]:
        """Environment variables of a user who has no checkout."""
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return kept | {"PAGEWARDEN_HOME": str(home), "COLUMNS": "200"}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """Build the wheel and install it; its dependencies come from the environment of the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (file,) = folder.glob("*.whl")
    environment = folder / "venv"
    venv.create(environment, with_pip=True, symlinks=True)
    packages = next(environment.glob("lib/python*/site-packages"))
    subprocess.run(
        [environment / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check",
         "install", "--no-deps", "--no-index", file],
        check=True,
    )  # fmt: skip
    # Only folders named here are added, not what their own .pth files name: no editable install.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Wheel(file, environment)
