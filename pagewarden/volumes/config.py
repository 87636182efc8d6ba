"""What a job wants done with its volumes: the keys of volume_jobs.config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Mapping


class Config(BaseModel):
    """How the volumes of a job are processed; unknown keys and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    k_factor: float = 2.5
    bbox_tolerance: float = 4.0
    merge_lines: bool = False
    use_tps: bool = False
    tps_ratio: float = 0.25
    encoding: Literal["unicode", "wylie"] = "unicode"
    line_mode: str = "line"
    engine: str = "cascade"
    profile: str = "balanced"
    language: str = ""
    failed_pages_allowed: float = 0.1
    reducer: str = "metrics"
    sources: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    processes: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Check what somebody gave; SettingsError names every key that is wrong."""
        try:
            return cls.model_validate(dict(given))
        except ValidationError as exc:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors())
            raise errors.SettingsError(f"the config of the job is wrong: {wrong}") from exc
