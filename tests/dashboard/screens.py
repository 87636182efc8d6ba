"""Pictures of check jobs: what is drawn in them is what the reader of the tests reads."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from pagewarden import documents
from pagewarden.documents import read_pages
from tests.checks import written

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from tests.dashboard import place as places

EXPECTED = ("Enregistrer", "Annuler")


@dataclass(frozen=True, slots=True)
class Screen:
    """A picture with these lines, of which others are expected."""

    lines: Sequence[str]
    expected: Sequence[str] = EXPECTED


GOOD = Screen(EXPECTED)
BAD = Screen(
    ("Enregistrez", "Annuler", "{username}", "Mot de p"), (*EXPECTED, "Mot de passe", "Quitter")
)


@dataclass(slots=True)
class Reader:
    """Reads in each picture what was drawn there, by its name; an error is raised."""

    lines: dict[str, Sequence[str] | Exception] = field(default_factory=dict)

    async def run_for(self, claim: documents.Claim) -> documents.Run:
        """Name a run that is always the same."""
        assert claim.lock_token
        return documents.Run("screens", "1")

    async def read(
        self, claim: documents.Claim, done: frozenset[int]
    ) -> AsyncGenerator[documents.Page]:
        """Give the lines, each at its place."""
        lines = self.lines.get(claim.name, EXPECTED)
        if isinstance(lines, Exception):
            raise lines
        if 1 not in done:
            yield read_pages.to_page(written.page(*lines), of=1, language=None)


def drawn(lines: Sequence[str]) -> bytes:
    """Draw a picture with these lines at the places where written.page has them."""
    picture = Image.new("RGB", (written.WIDTH, written.HEIGHT), "white")
    draw = ImageDraw.Draw(picture)
    for number, text in enumerate(lines):
        left, top, *_ = written.box(number, 0, len(text))[0]
        font = ImageFont.load_default(size=18)
        draw.text((left, top), text, fill="black", font=font)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


async def submitted(
    place: places.Place,
    reader: Reader,
    person: places.Person,
    screens: Mapping[str, Screen],
    **fields: str,
) -> str:
    """Submit a job of these pictures, which will be read as they were drawn."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number, (name, screen) in enumerate(screens.items()):
            reader.lines[name] = screen.lines
            # No two have the same bytes, which would be read once.
            archive.writestr(name, drawn((*screen.lines, "", str(number))))
            archive.writestr(name.rpartition(".")[0] + ".txt", "\n".join(screen.expected))
    answer = await place.functions.post(
        "jobs",
        user=person.id,
        data={"language": "fr", "name": "Release 7"} | fields,
        files={"zip_file": ("screens.zip", file.getvalue())},
    )
    assert answer.status_code == 202, answer.text
    job: str = answer.json()["jobId"]
    return job
