"""pagewarden docs search, as a person types it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import sys
import uuid
from typing import TYPE_CHECKING

from pagewarden.database import tables
from tests.client.desk import ADA, PATIENCE

if TYPE_CHECKING:
    from tests.client.desk import Desk


async def _case(desk: Desk) -> uuid.UUID:
    """Sign in as Ada, and give her a case."""
    await desk.sign_in()
    ada = await desk.signing.users.find(ADA)
    assert ada is not None
    return await desk.house.factory.case(ada.id)


async def test_hits_are_shown_with_document_and_page(desk: Desk) -> None:
    """Best first, plain where there is no terminal; others' documents are not searched."""
    factory = desk.house.factory
    document = await factory.completed(await _case(desk), text="the treaty\nof \x1b[31mWestphalia")
    await factory.completed(text="the treaty of somebody else")

    typed = await desk.typed("docs", "search", "treaty")

    name = (await desk.house.used.database.select(tables.documents, where={"id": str(document)}))[0]
    first, second = typed.out.splitlines()
    assert (typed.code, first) == (0, f"{name['name']}, page 1  {document}")
    assert second == "  the treaty of  [31mWestphalia"


async def test_options_choose(desk: Desk) -> None:
    """Case, language, how many, and JSON for programs."""
    factory, case = desk.house.factory, await _case(desk)
    for text in ("die Häuser", "das Haus", "ein Garten"):
        await factory.completed(case, text=text, language="de")

    async def found(*words: str) -> list[dict[str, object]]:
        typed = await desk.typed("docs", "search", *words, "--json")
        assert typed.code == 0, typed.err
        hits: list[dict[str, object]] = json.loads(typed.out)
        return hits

    assert [hit["headline"] for hit in await found("häuser")] == ["die «Häuser»"]
    assert len(await found("häuser", "--language", "de", "--case", str(case))) == 2
    assert len(await found("häuser", "--language", "de", "--limit", "1")) == 1
    assert await found("haus", "--case", str(uuid.uuid4())) == []


async def test_nothing_found_is_said(desk: Desk) -> None:
    """On standard error, so that programs read nothing."""
    await _case(desk)
    typed = await desk.typed("docs", "search", "unicorn")
    assert (typed.code, typed.out) == (0, "")
    assert "No matches for 'unicorn' in the documents you may see." in typed.err
    assert "--language" in typed.err


async def test_a_senseless_search_is_refused(desk: Desk) -> None:
    """No words, no id, no number."""
    await _case(desk)
    for words in ((" ",), ("x", "--case", "nope"), ("x", "--limit", "0")):
        assert (await desk.typed("docs", "search", *words)).code == 2
    long = await desk.typed("docs", "search", "x" * 1001)
    assert (long.code, "at most 1000 characters" in long.err) == (1, True)


async def test_a_terminal_sees_hits_in_colour(desk: Desk) -> None:
    """What was found stands out."""
    await desk.house.factory.completed(await _case(desk), text="the treaty of Westphalia")
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pagewarden", "docs", "search", "treaty",
        env=os.environ | desk.environment() | {"TERM": "xterm-256color"}, stdout=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = await asyncio.to_thread(_listen, ours)
    await asyncio.wait_for(process.wait(), PATIENCE)
    assert b"\x1b[1;30;43mtreaty\x1b[0m" in shown


def _listen(terminal: int) -> bytes:
    parts = []
    with os.fdopen(terminal, "rb", buffering=0) as file, contextlib.suppress(OSError):
        while part := file.read(4096):
            parts.append(part)
    return b"".join(parts)
