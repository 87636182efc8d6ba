"""What forms say about how the volumes of a job are processed: keys of its config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field

from pagewarden import errors
from pagewarden.volumes import config


def _choices(key: str) -> Sequence[str]:
    """List what may be chosen for a key, or for each of its items."""
    found: Any = config.Config.model_fields[key].annotation
    while not isinstance(get_args(found)[0], str):
        found = get_args(found)[0]
    return get_args(found)


CHOICES = {key: _choices(key) for key in ("profile", "encoding", "line_mode", "exports")}

YesNo = Literal["", "true", "false"]


class Wanted(BaseModel):
    """How a new job is to be processed; what is empty is as usual."""

    engine: str = ""
    profile: str = ""
    language: str = ""
    encoding: str = ""
    line_mode: str = ""
    use_tps: bool = False
    merge_lines: bool = False
    failed_pages_allowed: str = ""
    sources: str = ""
    exports: list[str] = Field(default_factory=list)

    def config(self) -> dict[str, Any]:
        """Give the config; SettingsError where a number is none."""
        plain = {name for name in Wanted.model_fields if name in config.Config.model_fields}
        given = self.model_dump(include=plain) | {
            "failed_pages_allowed": _number(self.failed_pages_allowed),
            "sources": self.sources.split(),
            "reducer": "combine" if self.sources.split() else "",
        }
        # A share of 0 is one.
        return {key: value for key, value in given.items() if value or isinstance(value, float)}

    @property
    def is_special(self) -> bool:
        """Tell whether something is wanted of which most never think."""
        rare = ("profile", "encoding", "line_mode", "merge_lines", "failed_pages_allowed")
        return any(getattr(self, name) for name in (*rare, "sources"))


class Changed(BaseModel):
    """What is to be other than it is when a stage is done again.

    What is left out or empty stays. Language and exports begin with an empty one, so that they can
    be taken out: an empty field alone is the same as none.
    """

    engine: str = ""
    profile: str = ""
    encoding: str = ""
    language: list[str] = Field(default_factory=list)
    use_tps: YesNo = ""
    merge_lines: YesNo = ""
    exports: list[str] = Field(default_factory=list)

    def config(self, old: Mapping[str, Any]) -> dict[str, Any]:
        """Give the keys that are other than in the config that the job has."""
        given = {name: getattr(self, name) for name in ("engine", "profile", "encoding")}
        given |= {name: getattr(self, name) == "true" for name in self._answered()}
        found = {key: value for key, value in given.items() if value not in ("", old.get(key))}
        if self.language and self.language[-1] != old.get("language", ""):
            found["language"] = self.language[-1]
        exports = [form for form in self.exports if form]
        if self.exports and set(exports) != set(old.get("exports", ())):
            found["exports"] = exports
        return found

    def _answered(self) -> list[str]:
        return [name for name in ("use_tps", "merge_lines") if getattr(self, name)]


def _number(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError as exc:
        raise errors.SettingsError(f"failed_pages_allowed: {text!r} is no number") from exc
