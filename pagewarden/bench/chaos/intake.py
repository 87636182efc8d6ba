"""Brings documents in as clients do who were promised nothing: again and again, until they are in.

Photos and PDFs are uploaded, documents of the registry come through its view, and pictures to be
checked as jobs.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx

from pagewarden import database, errors, files, registry, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pagewarden.bench.chaos.documents import Made, Maker
    from pagewarden.bench.chaos.ground import Ground
    from pagewarden.bench.chaos.pulse import Pulse

_AGAIN_SECONDS = 0.3
_WAIT_SECONDS = 0.05
_CLIENTS = {"image": 4, "pdf": 2, "index": 2, "acte": 2, "check": 2}
_LANGUAGE = "fr"
EXTRACTOR = "chaos-extractor"


@dataclass(slots=True)
class Brought:
    """What was brought in, and what we were told; the keys are names, ids those of documents."""

    made: dict[str, Made] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, list[str]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    answers: collections.Counter[str] = field(default_factory=collections.Counter)

    def readable(self, *, slow: bool = False) -> list[str]:
        """Name the documents that can be read, in the order they came; without the slow ones."""
        return [n for n in self.ids if self.made[n].texts and (slow or not self.made[n].slow)]


class Intake:
    """Keeps every lane supplied while it is open; what was begun is brought in all the same."""

    def __init__(self, ground: Ground, maker: Maker, pulse: Pulse) -> None:
        self._ground = ground
        self._maker = maker
        self._pulse = pulse
        self._on_the_way: collections.Counter[str] = collections.Counter()
        self.brought = Brought()
        self.is_open = True
        self.is_done = False

    async def run(self) -> None:
        """Bring documents in until it is closed, or there are as many as were wanted."""
        async with self._opened() as ways, asyncio.TaskGroup() as group:
            for lane, count in _CLIENTS.items():
                for _ in range(count):
                    group.create_task(self._supply(lane, ways))
        self.is_done = True

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[_Ways]:
        chosen = settings.Settings(home=self._ground.place.home, files=str(self._ground.files))
        url = f"{self._ground.local.url()}&application_name={EXTRACTOR}"
        async with (
            self._ground.client() as client,
            await database.connect_direct(url) as link,
            files.open_store(chosen) as store,
        ):
            yield _Ways(client, registry.Registry(link, EXTRACTOR), store, self.brought)

    async def _supply(self, lane: str, ways: _Ways) -> None:
        wanted = self._ground.plan.waiting[lane]
        while self.is_open and len(self.brought.made) < self._ground.plan.documents:
            if self._pulse.waiting[lane] + self._on_the_way[lane] >= wanted:
                await asyncio.sleep(_WAIT_SECONDS)
                continue
            made = self._maker.make(lane)
            self.brought.made |= {one.name: one for one in made}
            self._on_the_way[lane] += len(made)
            try:
                await ways.bring(lane, made)
            finally:
                self._on_the_way[lane] -= len(made)


@dataclass(frozen=True, slots=True)
class _Ways:
    client: httpx.AsyncClient
    extractor: registry.Registry
    store: files.FileStore
    brought: Brought

    async def bring(self, lane: str, made: Sequence[Made]) -> None:
        if lane == "check":
            await self._submit(made)
        elif lane in {"index", "acte"}:
            await self._hand_over(lane, made[0])
        else:
            await self._upload(made[0])

    async def _upload(self, made: Made) -> None:
        file = {"file": (made.name, made.content)}
        answer = await self._post("/functions/v1/upload-to-dropbox", files=file)
        if answer.is_success:
            self.brought.ids[made.name] = answer.json()["document_id"]
        else:
            self.brought.refused.add(made.name)

    async def _submit(self, made: Sequence[Made]) -> None:
        """Submit a job; the key makes the second try the same one."""
        pictures = [("images", (one.name, one.content)) for one in made]
        expected = {one.name: list(one.texts) for one in made if one.texts}
        if expected:
            pictures.append(("references", ("references.json", json.dumps(expected).encode())))
        form = {"language": _LANGUAGE, "idempotency_key": str(uuid.uuid4())}
        answer = await self._post("/jobs", files=pictures, data=form)
        if answer.is_success:
            self.brought.jobs[answer.json()["jobId"]] = [one.name for one in made]
        else:
            self.brought.refused |= {one.name for one in made}

    async def _post(self, path: str, **body: object) -> httpx.Response:
        """Send it until it is taken, or refused for a reason that stays."""
        while True:
            try:
                answer = await self.client.post(path, **body)  # type: ignore[arg-type]
            except httpx.TransportError as exc:
                self.brought.answers[type(exc).__name__] += 1
            else:
                self.brought.answers[str(answer.status_code)] += 1
                if answer.status_code < 500:
                    return answer
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _hand_over(self, lane: str, made: Made) -> None:
        """Do what an extractor does, and after each accident look how far it had come."""
        while True:
            try:
                entry = await self._find(lane, made)
                if entry.status is registry.Status.EN_ATTENTE:
                    await self.extractor.begin(entry.id)
                elif entry.status is registry.Status.EN_TRAITEMENT:
                    await self._attach(entry, made)
                else:
                    self.brought.ids[made.name] = entry.id
                    return
            except (errors.DatabaseAway, errors.Conflict, errors.FileStoreError) as exc:
                self.brought.answers[type(exc).__name__] += 1
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _find(self, lane: str, made: Made) -> registry.Entry:
        where = {"document_name": made.name}
        rows = await self.extractor.database.select(registry.VIEW, where=where)
        if rows:
            return registry.Entry.from_row(rows[0])
        return await self.extractor.enqueue(lane, made.name)

    async def _attach(self, entry: registry.Entry, made: Made) -> None:
        path = f"registry/{entry.id}/{made.name}"

        async def content() -> AsyncIterator[bytes]:
            yield made.content

        with contextlib.suppress(errors.FileExists):
            await self.store.write(path, content())
        await self.extractor.attach(entry.id, path)
