"""Options that several commands have, and what they mean for an upload."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from pagewarden import client
from pagewarden.ocr_command import inputs
from pagewarden.reading import engines

Url = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Address of the server. Default: PAGEWARDEN_SITE_URL."),
]
Case = Annotated[
    str | None, typer.Option(metavar="ID", help="Case they belong to. Default: your inbox.")
]
Lang = Annotated[str | None, typer.Option(help="Languages of the text, such as deu,fra.")]
Engine = Annotated[str | None, typer.Option(help=f"What is to read: {', '.join(engines.ENGINES)}.")]
Profile = Annotated[
    str | None,
    typer.Option(help=f"How to weigh speed and accuracy: {', '.join(engines.PROFILES)}."),
]


def wishes(
    case: str | None, lang: str | None, engine: str | None, profile: str | None
) -> client.UploadOptions:
    """Put the options together, or say which makes no sense."""
    if engine is not None:
        inputs.known([engine], engines.ENGINES)
    if profile is not None:
        inputs.known([profile], engines.PROFILES)
    return client.UploadOptions(_case_id(case), lang, engine, profile)


def _case_id(case: str | None) -> str | None:
    try:
        return case and str(uuid.UUID(case))
    except ValueError as exc:
        raise inputs.Wrong(f"{case!r} is no id of a case; it is shown in its address") from exc
