"""upload-to-dropbox: a file becomes a document, or leaves no trace."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest

from pagewarden import database as gateways
from pagewarden import errors
from pagewarden import settings as settings_module
from pagewarden.database import retry, tables
from tests.functions import house
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from pagewarden.database import arguments
    from tests.documents import readers
    from tests.functions.house import House
    from tests.support import databases


async def test_a_file_becomes_a_queued_document_with_its_bytes_stored(functions: House) -> None:
    """The answer names the document and where to ask for it; the store has the very bytes."""
    user = await functions.factory.user()
    case = await functions.factory.case(user)
    answer = await functions.upload(user, house.PDF, "Akte 1.pdf", case_id=str(case), language="de")
    assert answer.status_code == 202, answer.text
    (document,) = await functions.documents()
    assert answer.json()["document_id"] == document["id"]
    assert (document["ocr_status"], document["lane"]) == ("queued_for_pdf", "pdf")
    assert (document["name"], document["language"]) == ("Akte 1.pdf", "de")
    assert document["sha256"] == hashlib.sha256(house.PDF).hexdigest()
    assert document["size_bytes"] == len(house.PDF)
    (stored,) = functions.stored()
    assert stored.read_bytes() == house.PDF
    assert document["dropbox_path"] == stored.relative_to(functions.folder).as_posix()
    status = await functions.call("GET", f"documents/{document['id']}", user=user)
    assert urlsplit(answer.headers["location"]).path == status.request.url.path
    assert status.json()["ocr_status"] == "queued_for_pdf"
    assert status.json()["ahead"] == 0


async def test_the_type_is_told_by_content_not_by_name(functions: House) -> None:
    """A PNG that calls itself PDF goes to the lane of images."""
    user = await functions.factory.user()
    await functions.upload(user, house.PNG, "really.pdf")
    (document,) = await functions.documents()
    assert (document["lane"], document["mime_type"]) == ("image", "image/png")


async def test_a_file_of_unknown_type_waits_for_a_person(functions: House) -> None:
    """It is stored, pending, and HAC has a task to route it."""
    user = await functions.factory.user()
    answer = await functions.upload(user, b"just some words", "letter.txt")
    assert answer.json()["ocr_status"] == "pending"
    (task,) = await functions.used.database.select(tables.tasks)
    assert task["document_id"] == answer.json()["document_id"]
    assert len(functions.stored()) == 1


async def test_an_upload_without_a_case_goes_to_the_inbox_of_its_sender(functions: House) -> None:
    """Two of them share one inbox; each person has an own one."""
    first, second = await functions.factory.user(), await functions.factory.user()
    cases = [
        (await functions.upload(user, house.PNG, name)).json()["case_id"]
        for user, name in [(first, "a.png"), (first, "b.png"), (second, "a.png")]
    ]
    assert cases[0] == cases[1] != cases[2]


async def test_the_same_bytes_again_are_the_same_document_and_one_file(functions: House) -> None:
    """A client that was cut off may simply send it once more."""
    user = await functions.factory.user()
    first, again = [await functions.upload(user, house.PNG) for _ in range(2)]
    assert first.json()["document_id"] == again.json()["document_id"]
    assert (first.json()["existing"], again.json()["existing"]) == (False, True)
    assert len(functions.stored()) == 1


async def test_the_same_bytes_again_bring_back_a_file_that_was_lost(functions: House) -> None:
    """The document has its file again, where it always was."""
    user = await functions.factory.user()
    await functions.upload(user, house.PNG)
    (lost,) = functions.stored()
    lost.unlink()
    assert (await functions.upload(user, house.PNG)).json()["existing"]
    assert functions.stored() == [lost]
    assert lost.read_bytes() == house.PNG


async def test_a_new_version_replaces_the_old_one_of_its_name(functions: House) -> None:
    """Other bytes under the same name are the next version."""
    user = await functions.factory.user()
    await functions.upload(user, house.PNG)
    answer = await functions.upload(user, house.PNG + b"other")
    assert answer.json()["document_version"] == 2


async def test_a_plain_body_with_its_name_in_a_header_is_taken_too(functions: House) -> None:
    """The name is percent-encoded, the fields are in the query."""
    user = await functions.factory.user()
    answer = await functions.post(
        "upload-to-dropbox?language=fr",
        user=user,
        content=house.PNG,
        headers={"X-File-Name": quote("été.png")},
    )
    assert answer.json()["name"] == "été.png"
    (document,) = await functions.documents()
    assert document["language"] == "fr"


@pytest.mark.parametrize(
    ("name", "kept"),
    [("../../etc/passwd", "passwd"), ("C:\\scans\\a.png", "a.png"), ("a\x00b.png", "ab.png")],
)
async def test_tricks_in_a_name_lead_nowhere(functions: House, name: str, kept: str) -> None:
    """What is left is the last part of the name, without what is not seen."""
    user = await functions.factory.user()
    answer = await functions.post(
        "upload-to-dropbox",
        user=user,
        content=house.PNG,
        headers={"X-File-Name": quote(name)},
    )
    assert answer.status_code == 202, answer.text
    assert answer.json()["name"] == kept
    assert all(path.is_relative_to(functions.folder) for path in functions.stored())


async def test_many_files_in_one_form_are_refused(functions: House) -> None:
    """Nobody could tell which of them the answer speaks of."""
    user = await functions.factory.user()
    both = [("file", ("a.png", house.PNG)), ("file", ("b.png", house.PNG))]
    answer = await functions.post("upload-to-dropbox", user=user, files=both)
    assert answer.status_code == 400
    # Since Python 3.13, invalid Punycode decodes to an empty name.
    assert answer.json()["error"] in {"INVALID_REQUEST", "NO_NAME"}
    await _nothing_is_there(functions)


@pytest.mark.parametrize(
    ("content", "status", "error"),
    [
        (b"", 422, "EMPTY_FILE"),
        (b"\x7fELF" + b"\0" * 100, 415, "FORBIDDEN_TYPE"),
        (house.PNG + b"\0" * house.UPLOAD_LIMIT, 413, "FILE_TOO_LARGE"),
    ],
)
async def test_empty_forbidden_and_oversized_files_leave_no_trace(
    functions: House, content: bytes, status: int, error: str
) -> None:
    """The answer says what is wrong; neither file nor document is there."""
    user = await functions.factory.user()
    answer = await functions.upload(user, content)
    assert (answer.status_code, answer.json()["error"]) == (status, error), answer.text
    await _nothing_is_there(functions)


_FIELD = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"x" * 60_000 + b"\r\n"
_FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"", b"\r\n" * 30_000),
        (b"", _FIELD),
        (_FILE + house.PNG + b"\r\n--b--\r\n", b"x" * 60_000),
    ],
    ids=["before", "fields", "behind"],
)
async def test_a_form_that_never_ends_is_given_up(
    functions: House, start: bytes, piece: bytes
) -> None:
    """Before the first part, in one field that comes again and again, and after the last part."""
    where = urlsplit(functions.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    token = house.token(await functions.factory.user())
    writer.write(
        b"POST /functions/v1/upload-to-dropbox HTTP/1.1\r\nHost: x\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000000\r\n"
        + f"Authorization: Bearer {token}\r\n\r\n".encode()
        + start
    )
    writer.writelines([piece] * 40)
    async with asyncio.timeout(10):
        line = await reader.readline()
    writer.close()
    assert line.split()[1] == b"400"
    await _nothing_is_there(functions)


@pytest.mark.parametrize(
    "name", ["utf%00-8''a.png", "idna''%ff.png", "undefined''a.png", "punycode''%ff.png"]
)
async def test_a_name_in_a_strange_encoding_is_refused(functions: House, name: str) -> None:
    """400, and not 500."""
    answer = await _send_form(functions, f"filename*={name}".encode(), house.PNG)
    assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")
    await _nothing_is_there(functions)


async def test_a_refusal_can_quote_any_name(functions: House) -> None:
    """Also one with half a character in it."""
    answer = await _send_form(functions, b"filename*=utf-7''+2AA-.png", b"")
    assert (answer.status_code, answer.json()["error"]) == (422, "EMPTY_FILE")


async def test_a_boundary_that_is_too_long_is_refused(functions: House) -> None:
    """400, and not 500."""
    answer = await _send_form(functions, b'filename="a.png"', house.PNG, boundary="b" * 300)
    assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")


async def test_a_name_with_an_odd_end_is_a_name(functions: House) -> None:
    """What comes after the last dot need not be an extension."""
    user = await functions.factory.user()
    answer = await functions.upload(user, house.PNG, "a." + "x" * 240)
    assert answer.status_code == 202, answer.text


async def _send_form(
    functions: House, name: bytes, content: bytes, boundary: str = "b"
) -> httpx.Response:
    """Send a form with a file as no library would write it."""
    line = b"--" + boundary.encode()
    disposition = b'Content-Disposition: form-data; name="file"; ' + name
    return await functions.post(
        "upload-to-dropbox",
        user=await functions.factory.user(),
        content=b"\r\n".join([line, disposition, b"", content, line + b"--", b""]),
        headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
    )


async def test_a_form_without_a_file_is_refused(functions: House) -> None:
    """Fields alone are no upload."""
    user = await functions.factory.user()
    form = {"language": (None, b"de")}
    answer = await functions.post("upload-to-dropbox", user=user, files=form)
    assert (answer.status_code, answer.json()["error"]) == (400, "NO_FILE")


@pytest.mark.parametrize("role", ["stranger", "viewer"])
async def test_a_case_that_is_not_yours_takes_nothing(functions: House, role: str) -> None:
    """Whoever may not write there leaves no file behind either."""
    user = await functions.factory.user()
    viewer = user if role == "viewer" else await functions.factory.user()
    case = await functions.factory.case(viewer=viewer)
    answer = await functions.upload(user, house.PNG, case_id=str(case))
    assert answer.status_code == (403 if role == "viewer" else 404), answer.text
    await _nothing_is_there(functions)


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer nonsense",
        "Bearer " + house.token(uuid.uuid4(), exp=1),
        "Bearer " + house.token(uuid.uuid4(), aud="somebody"),
        "Bearer eyJhbGciOiJub25lIn0.eyJyb2xlIjoic2VydmljZV9yb2xlIiwiZXhwIjo5OTk5OTk5OTk5fQ.",
        f"Bearer {house.KEYS.publishable_key}",
    ],
)
async def test_whoever_is_not_signed_in_is_not_let_in(functions: House, authorization: str) -> None:
    """No token, a broken, expired or foreign one, alg none, the publishable key."""
    answer = await functions.post(
        "upload-to-dropbox",
        files={"file": ("a.png", house.PNG)},
        headers={"Authorization": authorization},
    )
    assert (answer.status_code, answer.json()["error"]) == (401, "NOT_SIGNED_IN")
    assert answer.headers["www-authenticate"] == "Bearer"
    await _nothing_is_there(functions)


async def test_a_client_that_leaves_half_way_leaves_nothing(functions: House) -> None:
    """The part that arrived is removed."""
    user = await functions.factory.user()
    halfway = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        yield house.PNG * 1000
        halfway.set()
        await asyncio.Event().wait()

    headers = {"X-File-Name": "a.png"}
    sending = asyncio.create_task(
        functions.post("upload-to-dropbox", user=user, content=half(), headers=headers)
    )
    await halfway.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await polling.wait_until(lambda: not functions.stored())
    await _nothing_is_there(functions)


async def test_a_function_that_is_switched_off_says_when_to_come_back(functions: House) -> None:
    """The switch counts from the next call on."""
    user = await functions.factory.user()
    await functions.factory.conn.execute(
        "update edge_function_config set enabled = false where function_name = 'upload-to-dropbox'"
    )
    answer = await functions.upload(user, house.PNG)
    assert (answer.status_code, answer.json()["error"]) == (503, "SWITCHED_OFF")
    assert int(answer.headers["retry-after"]) > 0
    await _nothing_is_there(functions)


async def test_no_file_stays_when_the_database_refuses(functions: House) -> None:
    """A name that no document can have is found out after the file was stored."""
    user = await functions.factory.user()
    answer = await functions.upload(user, house.PNG, engine="x" * 201)
    assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_ARGUMENT")
    await _nothing_is_there(functions)


class Troubled(gateways.Database):
    """A database with trouble before, or after, it takes a document in."""

    def __init__(self, link: gateways.Database, *, before: list[Any], after: list[Any]) -> None:
        self._link = link
        self._before = before
        self._after = after

    async def _rpc(self, name: str, given: arguments.Arguments) -> Any:
        is_taking_in = name == "safe_document_reupload_v2"
        if is_taking_in and self._before:
            raise self._before.pop()
        answer = await self._link.rpc(name, **given.values)
        if is_taking_in and self._after:
            raise self._after.pop()
        return answer

    async def _select(self, query: arguments.Query) -> list[dict[str, Any]]:
        return await self._link._select(query)  # noqa: SLF001  # of the same kind

    async def _insert(self, change: arguments.Change) -> list[dict[str, Any]]:
        return await self._link._insert(change)  # noqa: SLF001  # of the same kind

    async def _update(self, change: arguments.Change) -> list[dict[str, Any]]:
        return await self._link._update(change)  # noqa: SLF001  # of the same kind

    def acting_as(self, user: gateways.User) -> gateways.Database:
        """See the same database as this user."""
        return Troubled(self._link.acting_as(user), before=self._before, after=self._after)

    async def aclose(self) -> None:
        """Leave that to whoever opened it."""


async def test_a_document_keeps_its_file_when_nobody_heard_that_it_is_there(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
) -> None:
    """The client may send it again; retention would find a file that no document names."""
    link = Troubled(
        gateway, before=[], after=[errors.DatabaseUnavailable("the connection was lost")]
    )
    async with house.opened(database, link, chosen, recorder) as functions:
        answer = await functions.upload(await functions.factory.user(), house.PNG)
        assert answer.status_code == 503
        (document,) = await functions.documents()
        (stored,) = functions.stored()
        assert document["dropbox_path"] == stored.relative_to(functions.folder).as_posix()


async def test_an_upload_that_meets_another_is_taken_in_after_it(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
) -> None:
    """Nobody is asked to send a large file again for that."""
    meetings = [errors.Conflict("deadlock detected", sqlstate="40P01") for _ in range(2)]
    link = Troubled(gateway, before=meetings, after=[])
    async with house.opened(database, link, chosen, recorder) as functions:
        answer = await functions.upload(await functions.factory.user(), house.PNG)
        assert answer.status_code == 202, answer.text
        assert meetings == []


async def test_an_upload_that_meets_others_again_and_again_gives_up_into_the_errors(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """409, nothing kept, and a line that the alerts count."""
    monkeypatch.setattr(retry, "CONFLICT_SECONDS", (0.0,) * 5)
    meetings = [errors.Conflict("deadlock detected", sqlstate="40P01") for _ in range(6)]
    link = Troubled(gateway, before=meetings, after=[])
    async with house.opened(database, link, chosen, recorder) as functions:
        answer = await functions.upload(await functions.factory.user(), house.PNG)
        assert answer.status_code == 409, answer.text
        assert functions.stored() == []
        (error,) = await gateway.select(tables.ocr_errors)
        assert (error["kind"], error["error_message"]) == ("conflict", "deadlock detected")
        (case,) = await gateway.select(tables.cases)
        assert error["case_id"] == case["id"]


async def test_status_url_leads_where_people_reach_us(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
) -> None:
    """Where that is not said, it is where the upload came."""
    site = "https://papers.example.org"
    said = settings_module.Settings(home=chosen.home, site_url=site)
    for settings, where in ((chosen, None), (said, site)):
        async with house.opened(database, gateway, settings, recorder) as functions:
            answer = await functions.upload(await functions.factory.user(), house.PNG)
            start = f"{where or functions.url}/functions/v1/documents/"
            assert answer.json()["status_url"].startswith(start)


async def test_no_document_is_there_when_the_store_fails(functions: House) -> None:
    """A folder that is a file cannot keep anything."""
    user = await functions.factory.user()
    functions.folder.parent.mkdir(exist_ok=True)
    if functions.folder.exists():
        functions.folder.rmdir()
    functions.folder.write_bytes(b"")
    answer = await functions.upload(user, house.PNG)
    assert answer.status_code == 503, answer.text
    assert await functions.documents() == []


async def _nothing_is_there(functions: House) -> None:
    assert functions.stored() == []
    assert await functions.documents() == []
