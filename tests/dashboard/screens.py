"""Pictures of check jobs, and a reader that returns the lines drawn in them."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from pagewarden import documents
from pagewarden.documents import pages
from tests.checks import written

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from tests.dashboard import site as sites

EXPECTED = ("Enregistrer", "Annuler")


@dataclass(frozen=True, slots=True)
class Screen:
    """A picture with these lines, and the lines expected in it."""

    lines: Sequence[str]
    expected: Sequence[str] = EXPECTED


GOOD = Screen(EXPECTED)
BAD = Screen(
    ("Enregistrez", "Annuler", "{username}", "Mot de p"), (*EXPECTED, "Mot de passe", "Quitter")
)


@dataclass(slots=True)
class Reader:
    """Returns the lines of a picture by its name; raises them if they are an error."""

    lines: dict[str, Sequence[str] | Exception] = field(default_factory=dict)

    async def get_run(self, claim: documents.Claim) -> documents.ReadingRun:
        """Return the same run for all claims."""
        assert claim.lock_token
        return documents.ReadingRun("screens", "1")

    async def read(
        self, claim: documents.Claim, done: frozenset[int]
    ) -> AsyncGenerator[documents.Page]:
        """Yield the page with its lines."""
        lines = self.lines.get(claim.name, EXPECTED)
        if isinstance(lines, Exception):
            raise lines
        if 1 not in done:
            yield pages.to_saved_page(written.page(*lines), page_count=1, language=None)


def draw(lines: Sequence[str]) -> bytes:
    """Return a PNG with these lines at their positions in written.page."""
    picture = Image.new("RGB", (written.WIDTH, written.HEIGHT), "white")
    canvas = ImageDraw.Draw(picture)
    for number, text in enumerate(lines):
        left, top, *_ = written.box(number, 0, len(text))[0]
        font = ImageFont.load_default(size=18)
        canvas.text((left, top), text, fill="black", font=font)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


async def submit_job(
    site: sites.Site,
    reader: Reader,
    person: sites.Person,
    screens: Mapping[str, Screen],
    **fields: str,
) -> str:
    """Submit a job of these pictures, and return its id."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number, (name, screen) in enumerate(screens.items()):
            reader.lines[name] = screen.lines
            # Identical pictures would be read only once.
            archive.writestr(name, draw((*screen.lines, "", str(number))))
            archive.writestr(name.rpartition(".")[0] + ".txt", "\n".join(screen.expected))
    answer = await site.functions.post(
        "jobs",
        user=person.id,
        data={"language": "fr", "name": "Release 7"} | fields,
        files={"zip_file": ("screens.zip", file.getvalue())},
    )
    assert answer.status_code == 202, answer.text
    job: str = answer.json()["jobId"]
    return job
