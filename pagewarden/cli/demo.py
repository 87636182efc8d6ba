"""`pagewarden demo`: draw and upload sample documents and a sample check job."""

from __future__ import annotations

import asyncio
import hashlib
import io
import random
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter, ImageFont
from rich.console import Console

from pagewarden import client
from pagewarden.cli import options, program
from pagewarden.cli.upload import Outcome, UploadProgress, UploadRequest, UploadRun
from pagewarden.settings import load as load_settings

A4_AT_100_DPI = (827, 1169)
_MARGIN = 80
_LINE = 34

LETTER = """\
Harbour Office
14 March 1952

Dear Sir,

We confirm the receipt of your letter of the 3rd of this month,
in which you ask for a copy of the register of ships.
The register was moved to the archive of the city in 1948.
A copy of pages 12 to 17 is enclosed.

Please return the signed receipt at your convenience.

Yours faithfully,
The Registrar"""

ACT = """\
LAND REGISTRY
Act No. 1874 / 23

The parcel No. 311 in the commune of Saint Martin, of 2 acres
and 14 perches, bounded on the north by the road to the mill,
is transferred to the widow of the late owner, with all rights
and charges entered under No. 7 of the old book.

Price: 1,250 crowns, paid in two parts.
Witnesses: two, known to the clerk in person.
Entered on the 9th of October 1874."""

CASE_FILE = (
    """\
Case file 77 / 2019
Contents

1. Complaint
2. Statement of the first witness
3. Decision""",
    """\
1. Complaint

The goods arrived eleven days late and partly wet.
Of 240 boxes 38 could not be sold.
Damages of 4,180.50 are claimed.""",
    """\
2. Statement of the first witness

I opened the doors of the wagon myself.
The floor was covered with water to the height of a hand.
Nobody had closed the hatch.""",
    """\
3. Decision

The carrier is liable for the wet boxes, not for the delay.
Costs are shared in equal parts.""",
)

SCREENSHOT = """\
Einstellungen

Sprache: Deutsch
Automatisch speichern: an

Abbrechen     Speichern"""

SCREENS = {
    "accueil": ("Bonjour", "Mes commandes", "Adresse de livraison", "Continuer"),
    "compte": ("Mon compte", "Langue et pays", "Moyens de paiement", "Enregistrer"),
    "panier": ("Votre panier", "Livraison offerte", "Code promotionnel", "Passer la commande"),
    "profil": ("Votre profil", "Nom de famille", "Date de naissance", "Supprimer le compte"),
}
"""Expected strings for the screens of a French app."""

FAULTS = {
    "compte": {"Moyens de paiement": "Payment methods and cards"},
    "panier": {"Passer la commande": "Passer la com...", "Livraison offerte": "Offerte : {price}"},
}
"""Wrong strings drawn in place of the expected ones."""

_BAR, _SCREEN, _STEP = "#1a56b0", (560, 640), 130


def write_documents(folder: Path) -> list[Path]:
    """Write the documents and return their paths; the last two cannot be read."""
    draw_page(LETTER).save(folder / "letter.png")
    make_image_look_old(draw_page(ACT)).save(folder / "land-registry-act.jpg", quality=70)
    first, *others = map(draw_page, CASE_FILE)
    # Always the same bytes, so that a second upload adds no new version.
    epoch = time.gmtime(0)
    path = folder / "case-file.pdf"
    first.save(
        path,
        save_all=True,
        append_images=others,
        resolution=100,
        creationDate=epoch,
        modDate=epoch,
    )
    draw_page(SCREENSHOT, (800, 480)).save(folder / "screenshot-de.png")
    (folder / "damaged.pdf").write_bytes(b"%PDF-1.7\nthis file was cut off")
    (folder / "notes.wpd").write_bytes(b"\xffWPC" + bytes(200))
    names = ("letter.png", "land-registry-act.jpg", "case-file.pdf", "screenshot-de.png")
    return [folder / name for name in (*names, "damaged.pdf", "notes.wpd")]


def draw_page(text: str, size: tuple[int, int] = A4_AT_100_DPI) -> Image.Image:
    """Draw a page of text, its first line as a title."""
    drawn = Image.new("L", size, 255)
    draw = ImageDraw.Draw(drawn)
    for number, line in enumerate(text.splitlines()):
        font = ImageFont.load_default(size=30 if number == 0 else 22)
        draw.text((_MARGIN, _MARGIN + _LINE * number), line, fill=20, font=font)
    return drawn


def draw_screen(name: str) -> Image.Image:
    """Draw a screen of the app with its faults: a title bar, rows and a button."""
    drawn = Image.new("RGB", _SCREEN, "white")
    draw, font = ImageDraw.Draw(drawn), ImageFont.load_default(size=30)
    strings = [FAULTS.get(name, {}).get(text, text) for text in SCREENS[name]]
    draw.rectangle((0, 0, _SCREEN[0], 110), fill=_BAR)
    draw.rounded_rectangle((30, 510, _SCREEN[0] - 30, 590), radius=14, fill=_BAR)
    for number, text in enumerate(strings):
        is_on_colour = number in {0, len(strings) - 1}
        place = (50, 35 if number == 0 else 530 if is_on_colour else 60 + _STEP * number)
        draw.text(place, text, fill="white" if is_on_colour else "#202124", font=font)
    return drawn


def make_image_look_old(image: Image.Image) -> Image.Image:
    """Make an image look like an old scan: slightly rotated, blurred and stained."""
    rotated = image.rotate(1.2, fillcolor=235, resample=Image.Resampling.BICUBIC)
    blurred = rotated.filter(ImageFilter.GaussianBlur(1.1)).point(lambda value: 60 + value * 0.68)
    # Water stains on two of the lines.
    for stain in ((136, 345, 420, 390), (180, 245, 480, 288)):
        blurred.paste(blurred.crop(stain).filter(ImageFilter.GaussianBlur(3)), stain[:2])
    draw, chance = ImageDraw.Draw(blurred), random.Random(1874)  # noqa: S311  # stains, no secrets
    for _ in range(900):
        x, y = (chance.randrange(side) for side in blurred.size)
        draw.point((x, y), fill=chance.randrange(120, 200))
    return blurred


async def submit_check_job(server: client.Client) -> str:
    """Submit the check job and return its ID; submitting it again returns the same job."""
    files: dict[str, bytes] = {}
    for name, strings in SCREENS.items():
        file = io.BytesIO()
        draw_screen(name).save(file, "PNG")
        files |= {f"{name}.png": file.getvalue(), f"{name}.txt": "\n".join(strings).encode()}
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()
    return await server.submit_check(
        files, language="fr", name="App in French", idempotency_key=f"pagewarden demo {digest}"
    )


def command(*, case: options.Case = None, url: options.Url = None) -> None:
    """Upload sample documents and a sample check job.

    The documents: a letter, a worn land registry act, a case file of four
    pages, a screenshot, a damaged PDF and a file of unknown type. The last
    two need manual work. The check job has four screens of an app in French,
    two of them with wrong text. See the dashboard or `pagewarden status`.
    Running the command again adds nothing.
    """
    settings = load_settings()
    jobs: list[str] = []
    progress, outcome = UploadProgress(Console(stderr=True, highlight=False)), Outcome()
    with tempfile.TemporaryDirectory(prefix="pagewarden-demo-") as folder:
        paths = write_documents(Path(folder))
        items = [options.InputFile(path, path.name, Path(path.stem)) for path in paths]
        upload_options = options.make_upload_options(case, None, None, None)
        request = UploadRequest(upload_options, formats=(), folder=None, scratch=Path(folder))

        async def upload() -> None:
            async with client.open_client(settings, url) as server:
                await UploadRun(server, request, progress, outcome).run(items)
                jobs.append(await submit_check_job(server))

        with progress.show():
            asyncio.run(program.run_until_terminated(upload()))
    for failure in outcome.failures:
        progress.print_line(failure)
    site = url or settings.site_url
    progress.print_line(f"{len(outcome.uploads)} sample documents: {site}/documents")
    for job in jobs:
        progress.print_line(f"sample check job: {site}/checks/{job}")
    sys.exit(program.SOME_FAILED if outcome.failures else 0)
