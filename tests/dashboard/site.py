"""A running dashboard, its users, and their HTTP clients and browsers."""

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

    from pagewarden.auth.embedded import service
    from tests.functions import house

PASSWORD = houses.PASSWORD


@dataclass(slots=True)
class Clock:
    """The clock of the sign-in service, which tests can move ahead."""

    ahead: dt.timedelta = dt.timedelta(0)

    def now(self) -> dt.datetime:
        """Return the current time of the clock."""
        return dt.datetime.now(dt.UTC) + self.ahead


@dataclass(frozen=True, slots=True)
class Person:
    """A user who owns a case."""

    id: uuid.UUID
    email: str
    case: uuid.UUID


@dataclass(slots=True)
class Site:
    """A running server with its sign-in service."""

    functions: house.House
    sign_in: service.AuthService
    clock: Clock
    chromium: playwright.Browser
    problems: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The base URL of the server."""
        return self.functions.url

    async def add_person(self, *, admin: bool = False) -> Person:
        """Add a user with the password of the tests."""
        email = f"{uuid.uuid4().hex[:8]}@example.org"
        await self.sign_in.users.add(email, PASSWORD, is_admin=admin)
        user = await self.sign_in.users.find(email)
        assert user is not None
        return Person(user.id, email, await self.functions.factory.case(user.id))

    @contextlib.asynccontextmanager
    async def client(self, person: Person | None = None) -> AsyncIterator[httpx.AsyncClient]:
        """Open an HTTP client with cookies, signed in as this person."""
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
        """Open a browser page, signed in; fail on console errors such as policy violations.

        With `script=False`, JavaScript is disabled.
        """
        context = await self.chromium.new_context(
            base_url=self.url,
            viewport={"width": 1200, "height": 800},
            java_script_enabled=script,
        )
        try:
            await context.add_cookies(await self._cookies(person))
            page = await context.new_page()
            page.on("console", lambda message: self._record(message.type, message.text))
            page.on("pageerror", lambda exc: self.problems.append(str(exc)))
            yield page
            # Errors while closing belong to a page that the test does not check.
            problems = list(self.problems)
        finally:
            await context.close()
        assert problems == []

    async def wait_until(self, page: playwright.Page, condition: str) -> None:
        """Wait until a condition holds; the CSP prevents Playwright from polling in the page."""

        async def holds() -> bool:
            return bool(await page.evaluate(condition))

        await polling.wait_until(holds)

    def _record(self, kind: str, text: str) -> None:
        if kind == "error":
            self.problems.append(text)

    async def _cookies(self, person: Person) -> list[SetCookieParam]:
        async with self.client(person) as client:
            return [
                {"name": cookie.name, "value": cookie.value or "", "url": self.url}
                for cookie in client.cookies.jar
            ]


async def sign_in(
    client: httpx.AsyncClient, email: str, password: str = PASSWORD, *, then: str = "/"
) -> httpx.Response:
    """Submit the sign-in form."""
    form = {"email": email, "password": password, "next": then}
    return await client.post("/sign-in", data=form)
