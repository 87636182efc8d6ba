"""Bundle browser files into the wheel, so that an installation needs no Node."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Set for an image that serves no dashboard.
OMIT = "OMIT_BROWSER_FILES"
FILES = ("node_modules/htmx.org/dist/htmx.min.js",)


class BrowserFiles(BuildHookInterface[Any]):
    """Adds the files below `_data`, where `pagewarden.data_files` finds them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to a wheel; an editable installation finds them in the checkout."""
        if version == "editable" or os.environ.get(OMIT):
            return
        for name in FILES:
            path = Path(self.root, name)
            if not path.is_file():
                raise FileNotFoundError(f"{name} is missing; run `make setup`, then build again")
            build_data["force_include"][str(path)] = f"pagewarden/_data/{name}"
