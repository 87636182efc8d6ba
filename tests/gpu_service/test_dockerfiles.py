"""The Dockerfiles of the GPU service, checked without Docker."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("deploy/gpu/Dockerfile", "deploy/gpu/Dockerfile.cuda")


def instructions(name: str) -> list[tuple[str, str]]:
    """Parse a Dockerfile into instructions and their arguments."""
    text = re.sub(r"\\\n", " ", (ROOT / name).read_text("utf-8"))
    rows = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (row.partition(" ") for row in rows)]


def copied(name: str) -> list[str]:
    """List the paths that an image copies from the repository."""
    return [
        source.rstrip("/")
        for word, rest in instructions(name)
        if word == "COPY" and "--from" not in rest
        for source in shlex.split(rest)[:-1]
    ]


@pytest.mark.parametrize("name", FILES)
def test_copied_paths_exist(name: str) -> None:
    """A renamed folder is noticed here."""
    assert [source for source in copied(name) if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("name", FILES)
def test_all_paths_of_the_wheel_are_copied(name: str) -> None:
    """Otherwise the wheel cannot be built in the image."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    meta = [project["project"]["readme"], *project["project"]["license-files"]]
    programs = ["functions", "dashboard", "gpu_service"]  # the package links to them
    needed = [
        "requirements.lock",
        "hatch_build.py",
        *programs,
        *meta,
        *wheel["packages"],
        *wheel["force-include"],
    ]
    there = copied(name)
    assert [path for path in needed if path not in there and path.split("/")[0] not in there] == []


@pytest.mark.parametrize("name", FILES)
def test_image_has_an_ordinary_user_and_a_health_check(name: str) -> None:
    """It does not run as root, and listens on the documented port."""
    found = dict(instructions(name))
    assert found["USER"] not in {"root", "0"}
    assert "/healthz" in found["HEALTHCHECK"]
    assert found["EXPOSE"] == "54330"
    assert '"pagewarden.gpu_service"' in found["ENTRYPOINT"]


def test_gpu_image_has_the_locked_onnxruntime_version() -> None:
    """So both images read the same text."""
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    (locked,) = re.findall(r"^onnxruntime==(\S+)", lock, re.MULTILINE)
    pinned = re.findall(r"onnxruntime-gpu\S*==(\S+?)\"", (ROOT / FILES[1]).read_text("utf-8"))
    assert pinned == [locked]
