"""VolumeConfig: the keys of volume_jobs.config, their defaults and checks, and their digest."""

from __future__ import annotations

import hashlib
import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pagewarden import errors
from pagewarden.ocr import engines
from pagewarden.storage import paths

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_K_FACTOR = 2.5
DEFAULT_BBOX_TOLERANCE = 4.0
DEFAULT_TPS_RATIO = 0.25
DEFAULT_FAILED_PAGES_ALLOWED = 0.1

_SEPARATORS = re.compile(r"[\s,;+]+")

STAGE_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "line_detection": ("use_tps", "tps_ratio"),
        "line_extraction": ("k_factor", "bbox_tolerance", "merge_lines", "line_mode", "language"),
        "ocr": ("engine", "profile", "language", "encoding"),
        "reduce": ("reducer", "sources", "exports", "language"),
    }
)
"""Keys that affect the artifacts of each stage; changing other keys does not make them outdated."""

LIST_KEYS = ("sources", "exports")
"""Keys that accept several values."""


class VolumeConfig(BaseModel):
    """How the volumes of a job are processed; unknown keys and wrong types are errors.

    k_factor: height of a line image, in heights of the detected core of the line.
    bbox_tolerance: maximum height of a line image, in heights of the core; curved lines that would
        be higher get less of their surroundings.
    merge_lines: join lines beside each other, unless a gutter separates them.
    use_tps: straighten curved pages by a thin-plate spline.
    tps_ratio: minimum curvature of pages to straighten: how far long lines depart from straight, in
        heights of their cores.
    encoding: Tibetan as Unicode, or in Wylie transliteration.
    line_mode: 'line' cuts out a level rectangle; 'masked' also paints over the surroundings.
    engine, profile: OCR engine and profile, see pagewarden.ocr.engines.
    language: codes such as 'deu' or 'bod', or several as in 'deu+lat'; empty: detect.
    failed_pages_allowed: share of the pages of a volume that may fail, 0 to 1.
    reducer: 'metrics' counts; 'combine' also chooses the best of several texts, line by line.
    sources: keys of further ocr_results.parquet in the output bucket, for 'combine'; {w_id} and
        {i_id} are replaced by those of the volume.
    exports: formats in which the whole volume is exported.
    processes: pages processed in parallel; default: one for each core.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    k_factor: float = Field(default=DEFAULT_K_FACTOR, ge=1, le=10)
    bbox_tolerance: float = Field(default=DEFAULT_BBOX_TOLERANCE, ge=1, le=20)
    merge_lines: bool = False
    use_tps: bool = False
    tps_ratio: float = Field(default=DEFAULT_TPS_RATIO, gt=0, le=10)
    encoding: Literal["unicode", "wylie"] = "unicode"
    line_mode: Literal["line", "masked"] = "line"
    engine: str = engines.DEFAULT
    profile: Literal["fast", "balanced", "accurate"] = "balanced"
    language: str = Field(default="", max_length=100)
    failed_pages_allowed: float = Field(default=DEFAULT_FAILED_PAGES_ALLOWED, ge=0, le=1)
    reducer: Literal["metrics", "combine"] = "metrics"
    sources: Annotated[tuple[str, ...], Field(strict=False, max_length=16)] = ()
    exports: Annotated[tuple[Literal["txt", "alto", "page"], ...], Field(strict=False)] = ()
    processes: int | None = Field(default=None, ge=1, le=256)

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Check a config; SettingsError names every invalid key."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as exc:
            raise errors.SettingsError(_format_validation_error(exc)) from exc

    @field_validator("engine")
    @classmethod
    def _validate_engine(cls, name: str) -> str:
        try:
            engines.find_engine(name)
        except errors.EngineNotInstalled as exc:
            raise ValueError(str(exc)) from exc
        return name

    @field_validator("sources")
    @classmethod
    def _validate_files(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        for key in keys:
            try:
                paths.check_path(fill_in_source(key, w_id="W", i_id="I"))
            except errors.UnsafePath as exc:
                raise ValueError(str(exc)) from exc
            if not key.endswith(".parquet"):
                raise ValueError(f"{key!r} is not a Parquet file; specify an ocr_results.parquet")
        return keys

    @model_validator(mode="after")
    def _validate_sources(self) -> Self:
        if (self.reducer == "combine") != bool(self.sources):
            raise ValueError("reducer 'combine' requires sources; no other reducer accepts them")
        return self

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the language codes."""
        return tuple(code for code in _SEPARATORS.split(self.language) if code)

    def for_stage(self, stage: str) -> dict[str, Any]:
        """Return the keys that determine the artifacts of a stage."""
        return self.model_dump(mode="json", include=set(STAGE_KEYS[stage]))

    def digest(self, stage: str) -> str:
        """Return the SHA-256 of those keys."""
        text = json.dumps(self.for_stage(stage), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def fill_in_source(source: str, *, w_id: str, i_id: str) -> str:
    """Return the key of a source for one volume."""
    return source.replace("{w_id}", w_id).replace("{i_id}", i_id)


def _format_validation_error(exc: ValidationError) -> str:
    known = ", ".join(VolumeConfig.model_fields)
    problems = []
    for error in exc.errors(include_url=False):
        key = ".".join(map(str, error["loc"])) or "sources"
        if error["type"] == "extra_forbidden":
            problems.append(f"unknown key {key!r}; known keys: {known}")
        else:
            problems.append(f"{key}: {error['msg']}")
    return f"invalid job config: {'; '.join(problems)}"
