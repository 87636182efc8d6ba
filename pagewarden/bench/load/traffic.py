"""Requests as many people and programs make them: at random moments, whoever else is waiting."""

from __future__ import annotations

import asyncio
import collections
import io
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx
from PIL import Image

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Sequence

UPLOADS, QUESTIONS, PAGES = "uploads", "questions", "pages"
MIX = {UPLOADS: 10, QUESTIONS: 60, PAGES: 30}
MOST_WAITING = 2_000
_RECENT = 500


@dataclass(slots=True)
class Step:
    """What came of a rate: seconds of each kind of request, from when it was due to its answer."""

    rate: float
    seconds: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))
    errors: collections.Counter[str] = field(default_factory=collections.Counter)
    lasted: float = 0.0

    @property
    def answered(self) -> int:
        """Count the requests that were answered well."""
        return sum(map(len, self.seconds.values()))

    def percentile(self, share: float) -> float:
        """Give the seconds that this share of all answers took at most."""
        ordered = sorted(value for values in self.seconds.values() for value in values)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


@dataclass(slots=True)
class Crowd:
    """Those who ask: programs with the key, and a person whose browser has a session."""

    programs: httpx.AsyncClient
    browser: httpx.AsyncClient
    paths: Sequence[str]
    known: collections.deque[str]
    chance: random.Random
    uploaded: int = 0

    async def keep_up(self, rate: float, seconds: float) -> Step:
        """Make so many requests a second for so long, and wait for their answers."""
        step, waiting = Step(rate), set[asyncio.Task[None]]()
        begun = due = time.perf_counter()
        while due < begun + seconds:
            due += self.chance.expovariate(rate)
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            if len(waiting) >= MOST_WAITING:
                step.errors["too many wait"] += 1
                continue
            task = asyncio.create_task(self._request(step, due))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)
        step.lasted = time.perf_counter() - begun
        return step

    async def _request(self, step: Step, due: float) -> None:
        kind = self.chance.choices(list(MIX), list(MIX.values()))[0]
        make: dict[str, Callable[[], Awaitable[httpx.Response]]] = {
            UPLOADS: self._upload, QUESTIONS: self._ask, PAGES: self._look,
        }  # fmt: skip
        try:
            answer = await make[kind]()
        except httpx.HTTPError as exc:
            step.errors[type(exc).__name__] += 1
            return
        if answer.is_success:
            step.seconds[kind].append(time.perf_counter() - due)
        else:
            step.errors[f"{kind}: {answer.status_code}"] += 1

    async def _upload(self) -> httpx.Response:
        self.uploaded += 1
        name = f"load-{self.uploaded}.png"
        files = {"file": (name, _picture(self.uploaded))}
        answer = await self.programs.post("/functions/v1/upload-to-dropbox", files=files)
        if answer.is_success:
            self.known.append(answer.json()["document_id"])
        return answer

    async def _ask(self) -> httpx.Response:
        document = self.known[self.chance.randrange(len(self.known))]
        return await self.programs.get(f"/functions/v1/documents/{document}")

    async def _look(self) -> httpx.Response:
        return await self.browser.get(self.paths[self.chance.randrange(len(self.paths))])


def known(ids: Sequence[str]) -> collections.deque[str]:
    """Keep the last documents, of which somebody asks."""
    return collections.deque(ids, maxlen=_RECENT)


def _picture(number: int) -> bytes:
    saved = io.BytesIO()
    Image.new("L", (100 + number % 400, 100 + number // 400 % 400), 255).save(saved, "PNG")
    return saved.getvalue() + number.to_bytes(8, "big")
