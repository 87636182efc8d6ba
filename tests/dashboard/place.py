"""A dashboard that is served, people who use it, and the browser they use."""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx

from tests.functions.sign_in import houses
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright import async_api as playwright
    from playwright._impl._api_structures import SetCookieParam

    from pagewarden.local.sign_in import service
    from tests.functions import house

PASSWORD = houses.PASSWORD


@dataclass(slots=True)
class Clock:
    """The time of the sign-in, which tests move."""

    ahead: dt.timedelta = dt.timedelta(0)

    def now(self) -> dt.datetime:
        """Give the time."""
        return dt.datetime.now(dt.UTC) + self.ahead


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a case of their own."""

    id: uuid.UUID
    email: str
    case: uuid.UUID


@dataclass(slots=True)
class Place:
    """A running server with its sign-in."""

    functions: house.House
    sign_in: service.Service
    clock: Clock
    chromium: playwright.Browser
    problems: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it is served."""
        return self.functions.url

    async def person(self, *, admin: bool = False) -> Person:
        """Add somebody with the password of the tests."""
        email = f"{uuid.uuid4().hex[:8]}@example.org"
        await self.sign_in.users.add(email, PASSWORD, is_admin=admin)
        user = await self.sign_in.users.find(email)
        assert user is not None
        return Person(user.id, email, await self.functions.factory.case(user.id))

    @contextlib.asynccontextmanager
    async def visitor(self, person: Person | None = None) -> AsyncIterator[httpx.AsyncClient]:
        """Make a client that keeps cookies, signed in as this person."""
        async with httpx.AsyncClient(
            base_url=self.url, headers={"Origin": self.url}, verify=houses.TLS, timeout=60
        ) as client:
            if person is not None:
                answer = await sign_in(client, person.email)
                assert answer.status_code == 303, answer.text
            yield client

    @contextlib.asynccontextmanager
    async def browser(
        self, person: Person, *, script: bool = True
    ) -> AsyncIterator[playwright.Page]:
        """Open a window of this person, signed in, and see that nothing breaks the policy.

        Without script it runs none, as some people have it.
        """
        context = await self.chromium.new_context(
            base_url=self.url,
            viewport={"width": 1200, "height": 800},
            java_script_enabled=script,
        )
        try:
            await context.add_cookies(await self._cookies(person))
            page = await context.new_page()
            page.on("console", lambda said: self._note(said.type, said.text))
            page.on("pageerror", lambda exc: self.problems.append(str(exc)))
            yield page
            # What comes while it is closed is of a page that nobody waited for.
            problems = list(self.problems)
        finally:
            await context.close()
        assert problems == []

    async def becomes(self, page: playwright.Page, condition: str) -> None:
        """Wait until something is so; the policy forbids the page to evaluate it by itself."""

        async def holds() -> bool:
            return bool(await page.evaluate(condition))

        await polling.until(holds)

    def _note(self, kind: str, text: str) -> None:
        if kind == "error":
            self.problems.append(text)

    async def _cookies(self, person: Person) -> list[SetCookieParam]:
        async with self.visitor(person) as client:
            return [
                {"name": cookie.name, "value": cookie.value or "", "url": self.url}
                for cookie in client.cookies.jar
            ]


async def sign_in(
    client: httpx.AsyncClient, email: str, password: str = PASSWORD, *, then: str = "/"
) -> httpx.Response:
    """Send the form of the sign-in."""
    form = {"email": email, "password": password, "next": then}
    return await client.post("/sign-in", data=form)
