"""The stages of a volume: each is given its Work, and says when it is Done.

A stage knows nothing of queues and of the database: it takes what the stage before has published,
and publishes its own artifacts whole or not at all. What one stage has to know of another is in
the artifacts.
"""

from __future__ import annotations

from pagewarden.volumes.stages.interface import STAGES, Done, Stage, Work, find

__all__ = ["STAGES", "Done", "Stage", "Work", "find"]
