"""Each document is handed to an invocation of its own; nothing that fails on the way loses one."""

from __future__ import annotations

import asyncio
import collections
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from pagewarden import settings as settings_module
from tests.documents import readers
from tests.functions import house, proxies
from tests.storage import stores
from tests.support import polling
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from starlette.responses import Response

    from tests.functions.house import House
    from tests.functions.proxies import Call, Proxy


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """Serve a gateway, behind which there is nothing yet."""
    opened = proxies.Proxy()
    async with serve_app(opened) as opened.url:
        yield opened
        await asyncio.gather(*opened.running, return_exceptions=True)


@pytest.fixture
def functions_url(proxy: Proxy) -> str:
    """Call the functions through the gateway."""
    return proxy.url


@pytest.fixture
def chosen(tmp_path: Path, functions_url: str) -> settings_module.Settings:
    """Dispatch over the gateway, with short locks."""
    return settings_module.Settings(
        home=tmp_path,
        upload_max_bytes=house.UPLOAD_LIMIT,
        dispatch="http",
        functions_url=functions_url,
        lock_seconds=2,
        heartbeat_seconds=0.2,
    )


@pytest.fixture(autouse=True)
def _connected(functions: House, proxy: Proxy) -> None:
    proxy.target = functions.url


async def counts(functions: House, name: str = "ocr-worker", **body: object) -> dict[str, Any]:
    """Call a worker; return what its answer says."""
    answer = await functions.serve(name, json=body)
    assert answer.status_code == 200, answer.text
    return {name: value for name, value in answer.json().items() if value}


async def state(functions: House, *columns: str) -> list[tuple[Any, ...]]:
    """Select columns of all documents."""
    query = f"select {', '.join(columns)} from documents order by created_at"
    return await (await functions.factory.conn.execute(query.encode())).fetchall()


async def registered(functions: House, lane: str, content: bytes) -> None:
    """Have the extractor deliver a file, of which it says nothing but where it is."""
    path = f"registry/{uuid.uuid4()}"
    await functions.used.store.write(path, stores.chunks_of(content))
    document = await functions.factory.awaiting_file(lane=lane)
    await functions.factory.conn.execute(
        "update extraction_queue set status_id = 3, dropbox_path = %s where id = %s",
        (path, document),
    )


async def switch(functions: House, name: str, *, enabled: bool) -> None:
    """Switch a function."""
    await functions.factory.conn.execute(
        "update edge_function_config set enabled = %s where function_name = %s", (enabled, name)
    )


async def test_each_document_has_an_invocation_of_its_own(functions: House, proxy: Proxy) -> None:
    """Images and PDFs go to their own functions, in the registry by what the file is."""
    user = await functions.factory.user()
    for number in range(3):
        await functions.upload(user, house.PNG, f"{number}.png")
    await functions.upload(user, house.PDF, "letter.pdf")
    await registered(functions, "index", house.PNG)
    await registered(functions, "acte", house.PDF)
    assert await counts(functions) == {"completed": 5}
    assert sorted(proxy.functions) == ["ocr-universal"] * 4 + ["pdf-extract"]
    assert await counts(functions, "pdf-worker") == {"completed": 1}
    assert proxy.functions[-1] == "pdf-extract"
    expected = [("completed", 1, 0, 0)] * 6
    assert await state(functions, "ocr_status", "attempts", "retry_count", "rescues") == expected


async def _is_given_back(functions: House) -> None:
    await functions.upload(await functions.factory.user(), house.PNG)
    refused = await functions.serve("ocr-worker")
    assert (refused.status_code, refused.json()["error"]) == (503, "DISPATCH_FAILED")
    assert "PAGEWARDEN_FUNCTIONS_URL" in refused.json()["message"]
    columns = ("ocr_status", "attempts", "retry_count", "rescues", "retry_at > now()")
    assert await state(functions, *columns) == [("queued", 0, 0, 0, True)]
    runs = await functions.factory.conn.execute(
        "select outcome, result from private.function_runs where function_name = 'ocr-worker'"
    )
    assert await runs.fetchall() == [("failed", {"given_back": 1})]


@pytest.mark.parametrize("functions_url", ["http://127.0.0.1:9"])
async def test_a_dispatch_to_a_dead_address_gives_the_document_back(functions: House) -> None:
    """Uncounted; the call says why, and the document is not tried at once again."""
    await _is_given_back(functions)


@pytest.mark.parametrize("answer", [proxies.error_page, proxies.welcome_page])
async def test_a_page_of_a_proxy_gives_the_document_back(
    functions: House, proxy: Proxy, answer: Callable[[Call], Awaitable[Response]]
) -> None:
    """Whatever its status says; the next call reads the document."""
    proxy.answer = answer
    await _is_given_back(functions)
    await functions.factory.conn.execute("update documents set retry_at = null")
    proxy.answer = None
    assert await counts(functions) == {"completed": 1}


@pytest.mark.parametrize("recorder", [readers.Recorder(stuck=True)])
async def test_an_answer_that_is_lost_after_the_beginning_is_no_failure(
    functions: House, proxy: Proxy, recorder: readers.Recorder
) -> None:
    """The invocation holds the document by its own heartbeat."""

    async def time_out(call: Call) -> Response:
        call.forward_later()
        await recorder.next()
        return await proxies.error_page(call)

    proxy.answer = time_out
    await functions.upload(await functions.factory.user(), house.PNG)
    assert await counts(functions) == {"handed_over": 1}
    ((expiry,),) = await state(functions, "lock_expires_at")

    async def is_renewed() -> bool:
        ((renewed,),) = await state(functions, "lock_expires_at")
        return bool(renewed > expiry)

    await polling.wait_until(is_renewed, seconds=readers.PATIENCE)
    functions.used.stopping.set()  # it gives back what it has begun
    await asyncio.gather(*proxy.running)
    assert await state(functions, "ocr_status", "attempts", "rescues") == [("queued", 0, 0)]


async def test_a_cold_start_longer_than_a_lock_loses_nothing(
    functions: House, proxy: Proxy
) -> None:
    """The dispatcher renews the lock until the invocation has begun."""
    warm = asyncio.Event()

    async def start_slowly(call: Call) -> Response:
        await warm.wait()
        return await call.forward()

    proxy.answer = start_slowly
    await functions.upload(await functions.factory.user(), house.PNG)
    reading = asyncio.create_task(counts(functions))

    async def has_outlived_its_lock() -> bool:
        held = "coalesce(locked_at > claimed_at + interval '2 seconds', false)"
        return await state(functions, held) == [(True,)]

    await polling.wait_until(has_outlived_its_lock, seconds=readers.PATIENCE)
    assert await functions.factory.call("sweep_documents") == 0
    warm.set()
    assert await reading == {"completed": 1}
    assert await state(functions, "attempts", "rescues") == [(1, 0)]


@pytest.mark.parametrize("budget", [1])
async def test_an_invocation_that_never_begins_is_given_back_and_comes_too_late(
    functions: House, proxy: Proxy, recorder: readers.Recorder, budget: int
) -> None:
    """At the end of the dispatcher's budget; what starts after that reads nothing."""
    calls: list[Call] = []

    async def never(call: Call) -> Response:
        calls.append(call)
        await asyncio.Event().wait()
        raise AssertionError

    proxy.answer = never
    await functions.upload(await functions.factory.user(), house.PNG)
    assert await counts(functions, budget_seconds=budget) == {"given_back": 1}
    assert await state(functions, "ocr_status", "attempts", "retry_at") == [("queued", 0, None)]
    late = await functions.serve("ocr-universal", json=calls[0].document)
    assert (late.status_code, late.json()["error"]) == (409, "LOCK_LOST")
    assert recorder.asked.empty()


async def test_a_function_switched_off_in_mid_dispatch_gives_its_documents_back(
    functions: House, proxy: Proxy, recorder: readers.Recorder
) -> None:
    """Uncounted, and they are not claimed again until it is switched on."""

    async def switched_off(call: Call) -> Response:
        await switch(functions, call.function, enabled=False)
        return await call.forward()

    proxy.answer = switched_off
    await functions.upload(await functions.factory.user(), house.PNG)
    assert await counts(functions) == {"given_back": 1}
    assert await state(functions, "ocr_status", "attempts") == [("queued", 0)]
    await functions.factory.conn.execute("update documents set retry_at = null")
    assert await counts(functions) == {}
    held = await functions.serve("ocr-universal", json={"document_id": str(uuid.uuid4())})
    assert held.status_code == 503
    proxy.answer = None
    await switch(functions, "ocr-universal", enabled=True)
    assert await counts(functions) == {"completed": 1}
    assert recorder.asked.qsize() == 1


async def test_a_disabled_function_leaves_only_its_own_documents(functions: House) -> None:
    """With images disabled, PDFs of the same lane are read."""
    await registered(functions, "index", house.PNG)
    await registered(functions, "index", house.PDF)
    await switch(functions, "ocr-universal", enabled=False)
    assert await counts(functions) == {"completed": 1, "given_back": 1}
    assert await state(functions, "ocr_status", "attempts") == [("queued", 0), ("completed", 1)]


async def test_documents_are_read_at_once_up_to_the_limit(functions: House, proxy: Proxy) -> None:
    """Twice ten, where each waits until ten are there; never an eleventh."""
    together, at_once = asyncio.Barrier(10), collections.Counter[str]()

    async def wait_for_the_others(call: Call) -> Response:
        at_once["now"] += 1
        at_once["most"] = max(at_once["most"], at_once["now"])
        await together.wait()
        answer = await call.forward()
        at_once["now"] -= 1
        return answer

    proxy.answer = wait_for_the_others
    user = await functions.factory.user()
    for number in range(20):
        await functions.upload(user, house.PNG, f"{number}.png")
    assert await counts(functions) == {"completed": 20}
    assert at_once["most"] == 10


async def test_two_invocations_never_read_under_one_token(functions: House, proxy: Proxy) -> None:
    """The second is refused, while the first reads and after it has ended."""
    refused: list[int] = []

    async def twice(call: Call) -> Response:
        answers = await asyncio.gather(call.forward(), call.forward())
        refused.extend(answer.status_code for answer in answers if answer.status_code != 200)
        return next(answer for answer in answers if answer.status_code == 200)

    proxy.answer = twice
    for number in range(5):
        await functions.upload(await functions.factory.user(), house.PNG, f"{number}.png")
    assert await counts(functions) == {"completed": 5}
    assert refused == [409] * 5
    assert await state(functions, "ocr_status", "attempts") == [("completed", 1)] * 5


async def test_a_document_that_arrives_while_another_is_read_gets_a_free_slot(
    functions: House, proxy: Proxy
) -> None:
    """The first answer waits for the second document."""
    second_is_read = asyncio.Event()

    async def wait_for_the_second(call: Call) -> Response:
        if len(proxy.functions) == 1:
            await second_is_read.wait()
            return await call.forward()
        answer = await call.forward()
        second_is_read.set()
        return answer

    proxy.answer = wait_for_the_second
    user = await functions.factory.user()
    await functions.upload(user, house.PNG, "1.png")
    reading = asyncio.create_task(counts(functions))

    async def is_called() -> bool:
        return len(proxy.functions) == 1

    await polling.wait_until(is_called, seconds=readers.PATIENCE)
    await functions.upload(user, house.PNG, "2.png")
    assert await reading == {"completed": 2}
