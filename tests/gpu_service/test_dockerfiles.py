"""The Dockerfiles, as far as they can be checked where there is no Docker."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("deploy/gpu/Dockerfile", "deploy/gpu/Dockerfile.cuda")


def instructions(name: str) -> list[tuple[str, str]]:
    """Take a Dockerfile apart: the instructions, and what they are given."""
    text = re.sub(r"\\\n", " ", (ROOT / name).read_text("utf-8"))
    rows = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (row.partition(" ") for row in rows)]


def copied(name: str) -> list[str]:
    """List what an image copies from here."""
    return [
        source.rstrip("/")
        for word, rest in instructions(name)
        if word == "COPY" and "--from" not in rest
        for source in shlex.split(rest)[:-1]
    ]


@pytest.mark.parametrize("name", FILES)
def test_everything_an_image_copies_is_there(name: str) -> None:
    """A folder that was renamed is noticed here."""
    assert [source for source in copied(name) if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("name", FILES)
def test_everything_that_makes_up_the_package_is_copied(name: str) -> None:
    """Otherwise the wheel cannot be built."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    meta = [project["project"]["readme"], *project["project"]["license-files"]]
    needed = ["requirements.lock", *meta, *wheel["packages"], *wheel["force-include"]]
    there = copied(name)
    assert [path for path in needed if path not in there and path.split("/")[0] not in there] == []


@pytest.mark.parametrize("name", FILES)
def test_an_image_runs_as_nobody_special_and_says_how_it_is(name: str) -> None:
    """Not as root, with a health check, and on the port that is documented."""
    found = dict(instructions(name))
    assert found["USER"] not in {"root", "0"}
    assert "/healthz" in found["HEALTHCHECK"]
    assert found["EXPOSE"] == "54330"
    assert '"gpu_service"' in found["ENTRYPOINT"]


def test_the_gpu_image_has_the_same_onnxruntime() -> None:
    """Its version is that of the lock, so that both read alike."""
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    (locked,) = re.findall(r"^onnxruntime==(\S+)", lock, re.MULTILINE)
    pinned = re.findall(r"onnxruntime-gpu\S*==(\S+?)\"", (ROOT / FILES[1]).read_text("utf-8"))
    assert pinned == [locked]
