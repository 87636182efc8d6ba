"""What a job wants done with its volumes: the keys of volume_jobs.config, and their defaults."""

from __future__ import annotations

import hashlib
import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pagewarden import errors
from pagewarden.files import paths
from pagewarden.reading import engines

if TYPE_CHECKING:
    from collections.abc import Mapping

K_FACTOR = 2.5
BBOX_TOLERANCE = 4.0
TPS_RATIO = 0.25
FAILED_PAGES_ALLOWED = 0.1

_SEPARATORS = re.compile(r"[\s,;+]+")

STAGE_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "line_detection": ("use_tps", "tps_ratio"),
        "line_extraction": ("k_factor", "bbox_tolerance", "merge_lines", "line_mode", "language"),
        "ocr": ("engine", "profile", "language", "encoding"),
        "reduce": ("reducer", "sources", "exports", "language"),
    }
)
"""Which keys decide what a stage makes: when another one changes, its artifacts stay good."""


LISTS = ("sources", "exports")
"""Keys with several values."""


class Config(BaseModel):
    """How the volumes of a job are processed; unknown keys and wrong types are refused.

    k_factor: a line is cut out so many times as high as its core, which the detector marks.
    bbox_tolerance: no line is cut out more times as high as its core than this; what would be, as
        it is curved, gets less of its surroundings.
    merge_lines: pieces of print beside each other become one line, unless a gutter is between.
    use_tps: curved pages are set straight by a thin-plate spline.
    tps_ratio: from which curvature on: how far long lines depart from straight, in heights of their
        cores.
    encoding: Tibetan as Unicode, or in Wylie's transliteration.
    line_mode: 'line' cuts a level rectangle; 'masked' also paints over what is not of the line.
    engine, profile: what reads, as pagewarden.reading.engines names them.
    language: codes as in 'deu' or 'bod', several of them as in 'deu+lat'; empty: found out.
    failed_pages_allowed: share of the pages of a volume, 0 to 1.
    reducer: 'metrics' counts; 'combine' also takes the best of several ocr outputs, line by line.
    sources: keys of further ocr_results.parquet in the output bucket, for 'combine'; {w_id} and
        {i_id} in them stand for those of the volume.
    exports: formats that are made of the whole volume at its end.
    processes: how many pages are worked on at a time; by default one for each core.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    k_factor: float = Field(default=K_FACTOR, ge=1, le=10)
    bbox_tolerance: float = Field(default=BBOX_TOLERANCE, ge=1, le=20)
    merge_lines: bool = False
    use_tps: bool = False
    tps_ratio: float = Field(default=TPS_RATIO, gt=0, le=10)
    encoding: Literal["unicode", "wylie"] = "unicode"
    line_mode: Literal["line", "masked"] = "line"
    engine: str = engines.DEFAULT
    profile: Literal["fast", "balanced", "accurate"] = "balanced"
    language: str = Field(default="", max_length=100)
    failed_pages_allowed: float = Field(default=FAILED_PAGES_ALLOWED, ge=0, le=1)
    reducer: Literal["metrics", "combine"] = "metrics"
    sources: Annotated[tuple[str, ...], Field(strict=False, max_length=16)] = ()
    exports: Annotated[tuple[Literal["txt", "alto", "page"], ...], Field(strict=False)] = ()
    processes: int | None = Field(default=None, ge=1, le=256)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Check what somebody gave; SettingsError names every key that is wrong."""
        try:
            return cls.model_validate(dict(given))
        except ValidationError as exc:
            raise errors.SettingsError(_explain(exc)) from exc

    @field_validator("engine")
    @classmethod
    def _require_engine(cls, name: str) -> str:
        try:
            engines.find(name)
        except errors.EngineMissing as exc:
            raise ValueError(str(exc)) from exc
        return name

    @field_validator("sources")
    @classmethod
    def _require_files(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        for key in keys:
            try:
                paths.check_path(filled_in(key, w_id="W", i_id="I"))
            except errors.UnsafePath as exc:
                raise ValueError(str(exc)) from exc
            if not key.endswith(".parquet"):
                raise ValueError(f"{key!r} is no Parquet file; name an ocr_results.parquet")
        return keys

    @model_validator(mode="after")
    def _require_sources(self) -> Self:
        if (self.reducer == "combine") != bool(self.sources):
            raise ValueError("reducer 'combine' wants sources, and no other one does")
        return self

    @property
    def languages(self) -> tuple[str, ...]:
        """Give the codes one by one."""
        return tuple(code for code in _SEPARATORS.split(self.language) if code)

    def part(self, stage: str) -> dict[str, Any]:
        """Give the keys that decide what a stage makes."""
        return self.model_dump(mode="json", include=set(STAGE_KEYS[stage]))

    def digest(self, stage: str) -> str:
        """Name that part by its SHA-256."""
        text = json.dumps(self.part(stage), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def filled_in(source: str, *, w_id: str, i_id: str) -> str:
    """Give the key of a source for one volume."""
    return source.replace("{w_id}", w_id).replace("{i_id}", i_id)


def _explain(exc: ValidationError) -> str:
    known = ", ".join(Config.model_fields)
    wrong = []
    for error in exc.errors(include_url=False):
        key = ".".join(map(str, error["loc"])) or "sources"
        if error["type"] == "extra_forbidden":
            wrong.append(f"{key!r} is no key; known are {known}")
        else:
            wrong.append(f"{key}: {error['msg']}")
    return f"the config of the job is wrong: {'; '.join(wrong)}"
