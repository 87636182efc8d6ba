"""The four stages of a volume: the table of stages, and `load` to get one by name.

A stage does not know queues or the database. It reads what the stage before has published, and
publishes its own artifacts completely or not at all; stages share nothing but these artifacts.

`line_detection`, `line_extraction` and `ocr` have two modules each: `X.py` runs in our process,
`X_child.py` in the sandbox. Begin with `base`, then `line_detection`. To add a stage, write its
module and add its name to STAGES.
"""

from __future__ import annotations

import importlib

from pagewarden import errors
from pagewarden.volumes.stages.base import Stage, StageInput, StageResult

STAGES = ("line_detection", "line_extraction", "ocr", "reduce")
"""Stage names, in processing order."""


def load(name: str) -> Stage:
    """Import a stage by its name; some take a second to import."""
    if name not in STAGES:
        raise errors.SettingsError(f"unknown stage {name!r}; choose one of {', '.join(STAGES)}")
    stage: Stage = importlib.import_module(f"pagewarden.volumes.stages.{name}").STAGE
    return stage


__all__ = ["STAGES", "Stage", "StageInput", "StageResult", "load"]
