"""A small check job: screens of an app in French, two of which need a person."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING

from pagewarden.demo import drawing

if TYPE_CHECKING:
    from pagewarden import client


async def submit(server: client.Client) -> str:
    """Submit it, and give its id; sent again, it is the same job."""
    files: dict[str, bytes] = {}
    for name, strings in drawing.SCREENS.items():
        file = io.BytesIO()
        drawing.screen(name).save(file, "PNG")
        files |= {f"{name}.png": file.getvalue(), f"{name}.txt": "\n".join(strings).encode()}
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()
    return await server.submit_check(
        files, language="fr", name="App in French", idempotency_key=f"pagewarden demo {digest}"
    )
