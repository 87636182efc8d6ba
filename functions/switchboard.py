"""Which functions there are and who calls them: read from supabase/config.toml, as by Supabase."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Mapping


def names() -> frozenset[str]:
    """Name all functions."""
    return frozenset(_tables())


def wants_user_jwt(name: str) -> bool:
    """Tell whether people call a function; otherwise services do, with the secret key."""
    try:
        return _tables()[name]
    except KeyError:
        raise errors.SettingsError(
            f"supabase/config.toml has no table [functions.{name}]; add it"
        ) from None


@functools.cache
def _tables() -> Mapping[str, bool]:
    tables = tomllib.loads(_config().read_text("utf-8"))["functions"]
    return {
        name: table.get("verify_jwt", True)  # what Supabase does with a table that does not say
        for name, table in tables.items()
        if table.get("enabled", True)
    }


def _config() -> Path:
    package = Path(__file__).parent
    for path in (package / "_config.toml", package.parent / "supabase" / "config.toml"):
        if path.is_file():
            return path
    raise errors.SettingsError("config.toml is missing from this installation; install again")
