"""What may be changed of a job's config when a stage of it is done again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.reading import scripts
from pagewarden.volumes import config as configs
from pagewarden.volumes import stages

if TYPE_CHECKING:
    from collections.abc import Mapping

_ORDER = "line_extraction"
"""The stage that brings lines into reading order."""


def require(stage: str, old: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
    """Refuse a config that makes no sense, and changes that the stage and later ones ignore.

    A key that is set to None is to be as usual again.
    """
    merged = {key: value for key, value in {**old, **changed}.items() if value is not None}
    new = configs.Config.parse(merged)
    for key in changed:
        users = [name for name in stages.STAGES if key in configs.STAGE_KEYS[name]]
        if users and _is_before(users[-1], stage):
            raise _ignored(key, stage, users[-1])
    if _is_before(_ORDER, stage) and _direction(new) != _direction(configs.Config.parse(old)):
        raise _ignored("the direction of the language", stage, _ORDER)


def _direction(config: configs.Config) -> bool:
    return scripts.runs_right_to_left(config.languages)


def _is_before(one: str, other: str) -> bool:
    return stages.STAGES.index(one) < stages.STAGES.index(other)


def _ignored(what: str, stage: str, decided_by: str) -> errors.SettingsError:
    return errors.SettingsError(
        f"{what} would change nothing: it matters in {decided_by}, which is not done again with "
        f"{stage}. Do {decided_by} again, it is followed by those after it"
    )
