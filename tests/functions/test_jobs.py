"""Check jobs over HTTP: submitted, watched, reported, cancelled and run again."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
import os
import re
import sys
import uuid
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import standardwebhooks

from pagewarden import documents, errors
from pagewarden import settings as settings_module
from pagewarden.database import tables
from tests.functions import house
from tests.functions.test_webhooks import Receiver
from tests.ocr import drawn
from tests.support import polling
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    import httpx

    from pagewarden import database as gateways
    from pagewarden.database.table import Table
    from tests.support import databases

PNG = drawn.document("white", kind="PNG")
OTHER = drawn.document("white", kind="PNG", size=(210, 300))
THIRD = drawn.document("white", kind="PNG", size=(220, 300))
MOST = 4
LARGEST = 50_000


@dataclass(slots=True)
class Sayer:
    """Reads in each picture what the test says, by its name; an error is raised.

    Those that are held it reads only once the test has opened it; while none is, all are.
    """

    texts: dict[str, str | Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.opened.set()

    async def get_run(self, claim: documents.Claim) -> documents.ReadingRun:
        """Name a run that is always the same."""
        assert claim.lane == "check"
        return documents.ReadingRun("sayer", "1")

    async def read(
        self, claim: documents.Claim, done: frozenset[int]
    ) -> AsyncGenerator[documents.Page]:
        """Say it."""
        self.asked.append(claim.name)
        if claim.name in self.held or not self.held:
            await self.opened.wait()
        text = self.texts.get(claim.name, "Bonjour tout le monde")
        if isinstance(text, Exception):
            raise text
        if 1 not in done:
            yield documents.Page(1, text=text, width=200, height=300, of=1)


@pytest.fixture
def sayer() -> Sayer:
    """Read what the test says."""
    return Sayer()


@pytest.fixture
async def checker(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    sayer: Sayer,
) -> AsyncIterator[house.House]:
    """Serve the functions with small limits."""
    limits = {
        "check_max_images": MOST,
        "check_max_image_bytes": LARGEST,
        "check_max_job_bytes": 4 * LARGEST,
        "webhooks_anywhere": True,
    }
    async with house.opened(database, gateway, chosen.model_copy(update=limits), sayer) as opened:
        yield opened


def zipped(entries: Mapping[str, bytes]) -> bytes:
    """Make an archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return file.getvalue()


async def send(
    checker: house.House, user: uuid.UUID, entries: Mapping[str, bytes], **fields: Any
) -> httpx.Response:
    """Submit an archive, as a browser or curl would."""
    headers = fields.pop("headers", {})
    return await checker.post(
        "jobs",
        user=user,
        data={"language": "fr"} | fields,
        files={"zip_file": ("screens.zip", zipped(entries))},
        headers=headers,
    )


async def submitted(
    checker: house.House, user: uuid.UUID, entries: Mapping[str, bytes], **fields: Any
) -> str:
    """Submit a job that is right, and say which it is."""
    answer = await send(checker, user, entries, **fields)
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["jobId"]
    return job_id


async def shown(checker: house.House, user: uuid.UUID, job: str) -> dict[str, Any]:
    """Ask for a job."""
    answer = await checker.call("GET", f"jobs/{job}", user=user)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def work(checker: house.House) -> None:
    """Have everything read that waits."""
    (await checker.serve("ocr-worker")).raise_for_status()


async def test_pictures_of_an_archive_are_checked_against_their_texts(
    checker: house.House, sayer: Sayer
) -> None:
    """Each gets its verdict, with what is wrong and where it is known."""
    user = await checker.factory.user()
    sayer.texts |= {"b.png": "Enregistrer", "c.png": "Enregistr"}
    entries = {
        "a.png": PNG,
        "b.png": OTHER,
        "b.txt": b"Enregistrer",
        "c.png": THIRD,
        "references.json": json.dumps({"c.png": ["Enregistrer"]}).encode(),
    }

    answer = await send(checker, user, entries, name="Release 7")
    assert answer.status_code == 202
    url = answer.json()["statusUrl"]
    assert answer.headers["location"] == url
    waiting = await shown(checker, user, answer.json()["jobId"])
    assert (waiting["status"], waiting["name"], waiting["images"]) == ("PENDING", "Release 7", 3)
    await work(checker)

    headers = {"Authorization": f"Bearer {house.token(user)}"}
    job = (await checker.session.get(url, headers=headers)).json()
    assert job["status"] == "SUCCEEDED"
    results = {one["image"]: one for one in job["results"]}
    assert results["a.png"]["extractedText"] == "Bonjour tout le monde"
    assert [results[name]["verdict"] for name in ["a.png", "b.png", "c.png"]] == [
        "PASS",
        "PASS",
        "MANUAL",
    ]
    assert [results[name]["match"] for name in ["a.png", "b.png", "c.png"]] == [None, True, False]
    (issue,) = results["c.png"]["issues"]
    assert (issue["kind"], issue["severity"]) == ("truncated", "error")
    assert (job["pass"], job["manual"], job["checked"]) == (2, 1, 3)


async def test_an_archive_alone_is_a_job_whose_language_is_not_checked(
    checker: house.House, sayer: Sayer
) -> None:
    """References and faults are; every result says that the language is not."""
    user = await checker.factory.user()
    sayer.texts |= {"a.png": "Save the changes", "b.png": "Save", "c.png": "Hello {name}"}
    entries = {"a.png": PNG, "b.png": OTHER, "b.txt": b"Save the changes", "c.png": THIRD}

    headers = {"Authorization": f"Bearer {house.token(user)}"}
    archive = {"zip_file": ("screens.zip", zipped(entries))}
    answer = await checker.session.post("/jobs", files=archive, headers=headers)
    assert answer.status_code == 202, answer.text
    await work(checker)

    job = await shown(checker, user, answer.json()["jobId"])
    assert (job["status"], job["language"], job["languageChecked"]) == ("SUCCEEDED", None, False)
    assert [one["languageChecked"] for one in job["results"]] == [False] * 3
    issues = [[issue["kind"] for issue in one["issues"]] for one in job["results"]]
    assert issues == [[], ["truncated"], ["placeholder"]]
    assert [row["language"] for row in await checker.documents()] == [None] * 3
    url = f"jobs/{job['jobId']}/report"
    page = await checker.call("GET", url, user=user)
    assert "The language of the text was not checked" in page.text
    table = await checker.call("GET", f"{url}?format=csv", user=user)
    assert {row["languageChecked"] for row in csv.DictReader(io.StringIO(table.text))} == {"no"}


async def test_a_default_language_is_that_of_jobs_that_name_none(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    sayer: Sayer,
) -> None:
    """PAGEWARDEN_CHECK_LANGUAGE."""
    french = chosen.model_copy(update={"check_language": "fr-CA"})
    async with house.opened(database, gateway, french, sayer) as checker:
        user = await checker.factory.user()
        job = await submitted(checker, user, {"a.png": PNG}, language="")
        found = await shown(checker, user, job)
    assert (found["language"], found["languageChecked"]) == ("fr", True)
    assert found["results"][0]["languageChecked"] is None


async def test_archives_together_unpack_to_no_more_than_a_job_may_bring(
    checker: house.House,
) -> None:
    """Each of them is small enough."""
    user = await checker.factory.user()
    padded = PNG + b"\0" * (LARGEST - len(PNG) - 10)
    archives = [zipped({f"{n}{m}.png": padded + bytes([n, m]) for m in range(3)}) for n in range(2)]
    files = [("images", (f"{n}.zip", one)) for n, one in enumerate(archives)]
    answer = await checker.post("jobs", user=user, data={"language": "fr"}, files=files)
    assert answer.status_code == 400
    assert "unpacked bytes exceed" in answer.json()["problems"][0]["problem"]


async def test_jobs_are_where_checkers_have_always_been_asked(checker: house.House) -> None:
    """/jobs and /jobs/{id} are the same as the function."""
    user = await checker.factory.user()
    headers = {"Authorization": f"Bearer {house.token(user)}"}
    answer = await checker.session.post(
        "/jobs", data={"language": "fr"}, files=[("images", ("a.png", PNG))], headers=headers
    )
    assert answer.status_code == 202, answer.text
    job = answer.json()["jobId"]
    # The address of the status is like the one that was called.
    assert answer.json()["statusUrl"] == f"{checker.url}/jobs/{job}"

    found = await checker.session.get(f"/jobs/{job}", headers=headers)

    assert found.json()["status"] == "PENDING"
    assert (await checker.session.get(f"/jobs/{job}")).status_code == 401


async def test_pictures_come_as_fields_or_in_json_too(checker: house.House) -> None:
    """Several images fields, and base64 with and without names."""
    user = await checker.factory.user()
    form = await checker.post(
        "jobs",
        user=user,
        data={"language": "fr", "reference": "Bonjour tout le monde", "allow": ["Acme", "Zeta"]},
        files=[("images", ("a.png", PNG)), ("images", ("b.png", OTHER))],
    )
    assert form.status_code == 202, form.text
    encoded = base64.b64encode(PNG).decode()
    body = {
        "language": "fr",
        "image": f"data:image/png;base64,{encoded}",
        "images": [{"name": "b.png", "data": base64.b64encode(OTHER).decode(), "reference": "Non"}],
    }
    plain = await checker.post("jobs", user=user, json=body)
    assert plain.status_code == 202, plain.text
    await work(checker)

    first = await shown(checker, user, form.json()["jobId"])
    assert [one["match"] for one in first["results"]] == [True, True]
    second = await shown(checker, user, plain.json()["jobId"])
    assert [(one["image"], one["verdict"]) for one in second["results"]] == [
        ("image-1", "PASS"),
        ("b.png", "MANUAL"),
    ]


async def test_a_form_may_be_as_browsers_send_it(checker: house.House) -> None:
    """With fields that nobody filled in, a file that nobody chose, words line by line, a zip."""
    user = await checker.factory.user()
    parts = {
        'name="language"': b"fr",
        'name="reference"': b"",
        'name="name"': b" ",
        'name="allow"': b"Acme\r\n\r\n Zeta \r\n",
        'name="zip_file"; filename=""': b"",
        'name="images"; filename="a.png"': PNG,
        'name="images"; filename="more.ZIP"': zipped({"b.png": OTHER}),
    }
    form = b"".join(
        b"--x\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (name.encode(), value)
        for name, value in parts.items()
    )
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = await checker.post("jobs", user=user, content=form + b"--x--\r\n", headers=kind)
    assert answer.status_code == 202, answer.text
    (job,) = await checker.used.database.select(tables.check_jobs)
    assert job["allowed"] == ["Acme", "Zeta"]
    found = await shown(checker, user, answer.json()["jobId"])
    assert found["name"] == "Check"
    assert [(one["image"], one["reference"]) for one in found["results"]] == [
        ("a.png", None),
        ("b.png", None),
    ]


BAD = {
    "no picture": (
        {"a.txt": b"x"},
        {},
        ["the job has no pictures", "this text file matches no picture"],
    ),
    "five pictures": (
        {f"{n}.png": drawn.document("white", kind="PNG", size=(100 + n, 9)) for n in range(5)},
        {},
        ["5 pictures exceed the limit of 4"],
    ),
    "unknown language": ({"a.png": PNG}, {"language": "xx"}, ["xx"]),
    "no reference": (
        {"a.png": PNG},
        {"require_references": "true"},
        ["the picture has no reference, and references are required"],
    ),
    "a nested archive": ({"a.png": PNG, "b.zip": b"x"}, {}, ["nested archives"]),
    "a way out": ({"../a.png": PNG}, {}, ["points outside the archive", "the job has no pictures"]),
    "a bomb": ({"a.png": PNG + b"\0" * 1_000_000}, {}, ["1,000,", "unpacked bytes exceed"]),
    "not a picture": ({"a.png": b"hello"}, {}, ["the file is plain text"]),
    "unknown field": ({"a.png": PNG}, {"langauge": "fr"}, ["unknown field 'langauge'"]),
    "unknown engine": ({"a.png": PNG}, {"engine": "tea leaves"}, ["tea leaves"]),
    "no address": ({"a.png": PNG}, {"callback_url": "ftp://x"}, ["callback_url"]),
    "no truth": ({"a.png": PNG}, {"require_references": "perhaps"}, ["require_references"]),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_is_wrong_is_named_and_nothing_is_kept(checker: house.House, name: str) -> None:
    """400 with every problem; no job, no case, no document, no file."""
    entries, fields, words = BAD[name]
    user = await checker.factory.user()

    answer = await send(checker, user, entries, **fields)

    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] == "INVALID_JOB"
    problems = [one["problem"] for one in answer.json()["problems"]]
    for word in words:
        assert any(word in problem for problem in problems), problems
    await _nothing_kept(checker)


async def _nothing_kept(checker: house.House) -> None:
    empty: tuple[Table[Any], ...] = (tables.check_jobs, tables.cases, tables.documents)
    for table in empty:
        assert await checker.used.database.select(table) == []
    assert checker.stored() == []


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"language": "fr", "image": "%%%"}, "not valid base64"),
        ({"language": "fr", "images": [1]}, "images.0"),
        ({"language": 1, "images": []}, "language"),
        ({"language": "fr", "image": "aGVsbG8=", "pictures": []}, "pictures"),
        ({"language": "fr", "image": "aGVsbG8=", "reference": "a\0b"}, "not a supported picture"),
    ],
)
async def test_json_that_is_wrong_is_refused_the_same_way(
    checker: house.House, body: dict[str, Any], word: str
) -> None:
    """Each problem is named."""
    answer = await checker.post("jobs", user=await checker.factory.user(), json=body)

    assert answer.status_code == 400
    assert any(word in one["problem"] for one in answer.json()["problems"]), answer.text
    await _nothing_kept(checker)


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"content": b"nonsense"}, 400),
        ({"json": [1, 2]}, 400),
        ({"data": {"language": "fr"}, "files": [("images", ("a.png", b"x" * 300_000))]}, 413),
        ({"data": {"language": "fr"}, "files": [("zip_file", ("a.zip", b"PK"))]}, 400),
        ({"data": {"language": "fr"}, "files": [("exe", ("a.png", PNG))]}, 400),
    ],
)
async def test_bodies_that_are_no_job_are_refused(
    checker: house.House, options: dict[str, Any], status: int
) -> None:
    """With one clear answer."""
    answer = await checker.post("jobs", user=await checker.factory.user(), **options)

    assert answer.status_code == status, answer.text
    await _nothing_kept(checker)


async def test_a_database_that_is_away_is_said_before_anything_is_promised(
    checker: house.House,
) -> None:
    """503 with Retry-After, and no job."""
    user = await checker.factory.user()
    async with checker.database.refuse_connections():
        answer = await send(checker, user, {"a.png": PNG})
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert await checker.used.database.select(tables.check_jobs) == []


async def test_the_same_key_is_the_same_job_and_stores_nothing_twice(
    checker: house.House,
) -> None:
    """As a header or a field; with something else it is refused."""
    user = await checker.factory.user()
    first = await send(checker, user, {"a.png": PNG}, headers={"Idempotency-Key": "k"})
    again = await send(checker, user, {"a.png": PNG}, idempotency_key="k")
    other = await send(checker, user, {"a.png": OTHER}, idempotency_key="k")

    assert (first.status_code, first.json()["existing"]) == (202, False)
    assert (again.status_code, again.json()["existing"]) == (202, True)
    assert first.json()["jobId"] == again.json()["jobId"]
    assert (other.status_code, other.json()["error"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert len(checker.stored()) == 1


async def test_the_same_bytes_are_stored_and_read_once(checker: house.House, sayer: Sayer) -> None:
    """And checked under each name."""
    user = await checker.factory.user()
    entries = {"a.png": PNG, "copy.png": PNG, "a.txt": b"Bonjour tout le monde", "copy.txt": b"Non"}
    job = await submitted(checker, user, entries)
    assert len(checker.stored()) == 1
    await work(checker)

    found = await shown(checker, user, job)
    assert sayer.asked == ["a.png"]
    assert [one["match"] for one in found["results"]] == [True, False]


async def test_a_picture_that_cannot_be_read_fails_the_job_with_partial_results(
    checker: house.House, sayer: Sayer
) -> None:
    """Running it again reads only what has no result."""
    user = await checker.factory.user()
    sayer.texts["b.png"] = errors.DamagedFile("b.png: damaged")
    sayer.held.add("b.png")
    sayer.opened.clear()
    job = await submitted(checker, user, {"a.png": PNG, "b.png": OTHER})
    reading = asyncio.create_task(work(checker))

    async def one_is_checked() -> bool:
        return bool((await shown(checker, user, job))["checked"])

    await polling.wait_until(one_is_checked)
    sayer.opened.set()
    await reading

    failed = await shown(checker, user, job)
    assert (failed["status"], failed["error"]) == ("FAILED", "b.png: b.png: damaged")
    assert [one["verdict"] for one in failed["results"]] == ["PASS", None]
    assert failed["results"][1]["error"] == "b.png: damaged"

    sayer.texts.clear()
    answer = await checker.post(f"jobs/{job}/rerun", user=user)
    assert (answer.status_code, answer.json()["status"]) == (202, "PENDING")
    await work(checker)
    assert (await shown(checker, user, job))["status"] == "SUCCEEDED"
    assert sorted(sayer.asked) == ["a.png", "b.png", "b.png"]
    refused = await checker.post(f"jobs/{job}/rerun", user=user)
    assert (refused.status_code, refused.json()["error"]) == (409, "WRONG_STATE")
    again = await checker.post(f"jobs/{job}/rerun", user=user, json={"all": True})
    assert again.status_code == 202


async def test_a_job_cancelled_while_it_is_read_stays_cancelled(
    checker: house.House, sayer: Sayer
) -> None:
    """Whoever reads a picture of it is too late."""
    user = await checker.factory.user()
    job = await submitted(checker, user, {"a.png": PNG})
    sayer.opened.clear()
    reading = asyncio.create_task(work(checker))
    await polling.wait_until(lambda: bool(sayer.asked))

    answer = await checker.call("DELETE", f"jobs/{job}", user=user)
    assert (answer.status_code, answer.json()["status"]) == (200, "CANCELLED")
    sayer.opened.set()
    await reading

    found = await shown(checker, user, job)
    assert (found["status"], found["results"][0]["verdict"]) == ("CANCELLED", None)
    again = await checker.call("DELETE", f"jobs/{job}", user=user)
    assert (again.status_code, again.json()["error"]) == (409, "JOB_HAS_ENDED")


async def test_reports_are_made_in_three_formats(checker: house.House, sayer: Sayer) -> None:
    """HTML to look at, CSV for spreadsheets, JSON for programs."""
    user = await checker.factory.user()
    sayer.texts["a.png"] = "<b>Annuler</b>"
    job = await submitted(checker, user, {"a.png": PNG, "a.txt": b"Enregistrer"})
    await work(checker)

    async def report(kind: str) -> httpx.Response:
        return await checker.call("GET", f"jobs/{job}/report?format={kind}", user=user)

    page = await report("html")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "&lt;b&gt;Annuler" in page.text
    assert "<b>Annuler" not in page.text
    table = await report("csv")
    rows = list(csv.DictReader(io.StringIO(table.text.lstrip("\ufeff"))))
    assert {row["image"] for row in rows} == {"a.png"}
    assert (await report("json")).json()["jobId"] == job
    assert (await report("pdf")).status_code == 400
    bare = await checker.call("GET", f"jobs/{job}/report", user=user)
    assert bare.headers["content-type"].startswith("text/html")


async def test_strangers_find_nothing_and_viewers_change_nothing(checker: house.House) -> None:
    """404 for those who cannot see it, 403 for those who can."""
    owner, stranger, viewer = [await checker.factory.user() for _ in range(3)]
    job = await submitted(checker, owner, {"a.png": PNG})
    await checker.factory.call("share_case", p_case_id=job, p_user_id=viewer, p_role="viewer")
    gone = uuid.uuid4()

    for who, which in ((stranger, job), (owner, gone)):
        for method, path in (("GET", ""), ("GET", "/report"), ("DELETE", ""), ("POST", "/rerun")):
            answer = await checker.call(method, f"jobs/{which}{path}", user=who)
            assert (answer.status_code, answer.json()["error"]) == (404, "JOB_NOT_FOUND")
    assert (await shown(checker, viewer, job))["status"] == "PENDING"
    answer = await checker.call("DELETE", f"jobs/{job}", user=viewer)
    assert answer.status_code == 403


async def test_jobs_of_mine_are_listed_newest_first(checker: house.House) -> None:
    """Page by page, by status; services see all."""
    ada, ben = await checker.factory.user(), await checker.factory.user()
    jobs = [await submitted(checker, ada, {"a.png": PNG}) for _ in range(3)]
    other = await submitted(checker, ben, {"a.png": PNG})

    mine = (await checker.call("GET", "jobs?limit=2", user=ada)).json()
    assert [job["jobId"] for job in mine] == [jobs[2], jobs[1]]
    last = {"before": mine[1]["createdAt"], "before_id": mine[1]["jobId"]}
    rest = (await checker.call("GET", "jobs", user=ada, params=last)).json()
    assert [job["jobId"] for job in rest] == [jobs[0]]
    assert (await checker.call("GET", "jobs?status=FAILED", user=ada)).json() == []
    all_of_them = await checker.call("GET", "jobs", headers={"apikey": house.KEYS.secret_key})
    assert {job["jobId"] for job in all_of_them.json()} == {*jobs, other}


async def test_a_callback_is_signed_and_repeated_until_it_is_heard(checker: house.House) -> None:
    """It tells how the job ended."""
    user = await checker.factory.user()
    receiver = Receiver()
    async with serve_app(receiver.app) as url:
        job = await submitted(checker, user, {"a.png": PNG}, callback_url=f"{url}/done")
        await checker.serve("webhooks")
        assert receiver.received == []
        await work(checker)
        receiver.answers.append(500)
        await checker.serve("webhooks")
        await checker.factory.conn.execute("update webhooks set next_attempt_at = now()")
        await checker.serve("webhooks")

    assert len(receiver.received) == 2
    for headers, body in receiver.received:
        standardwebhooks.Webhook(house.KEYS.webhook_secret or "").verify(body, headers)
    told = json.loads(receiver.received[1][1])
    assert told["type"] == "check_job.succeeded"
    assert (told["data"]["jobId"], told["data"]["pass"]) == (job, 1)


async def test_a_callback_to_a_private_address_is_refused_unless_it_is_allowed(
    functions: house.House,
) -> None:
    """By default nobody can have us call our own neighbours."""
    user = await functions.factory.user()

    answer = await send(functions, user, {"a.png": PNG}, callback_url="http://127.0.0.1/x")

    assert answer.status_code == 400
    assert "not a public address" in answer.json()["problems"][0]["problem"]


async def test_retention_removes_results_and_later_pictures(checker: house.House) -> None:
    """As the settings say: after 7 days, and after 30."""
    user = await checker.factory.user()
    job = await submitted(checker, user, {"a.png": PNG})
    await work(checker)
    age = "update check_jobs set ended_at = now() - make_interval(days => %s)"

    await checker.factory.conn.execute(age, (8,))
    cleaned = (await checker.serve("retention")).json()
    assert (cleaned["purged"], cleaned["erased_jobs"]) == (1, 0)
    assert (await checker.call("GET", f"jobs/{job}", user=user)).status_code == 404
    assert len(checker.stored()) == 1
    await checker.factory.conn.execute(age, (31,))
    cleaned = (await checker.serve("retention")).json()
    assert (cleaned["erased_jobs"], cleaned["erased"]) == (1, 1)
    assert checker.stored() == []


async def test_documented_client_works_as_printed(
    checker: house.House, sayer: Sayer, tmp_path: Path
) -> None:
    """As it is printed, against a running server; its exit code says whether all is well."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "checks.md").read_text("utf-8")
    (script,) = re.findall(r"```python\n(# check\.py.*?)```", page, re.DOTALL)
    archive = tmp_path / "screens.zip"
    environment = os.environ | {
        "PAGEWARDEN_URL": checker.url,
        "PAGEWARDEN_KEY": house.KEYS.secret_key,
    }

    async def run(entries: Mapping[str, bytes]) -> tuple[int | None, str]:
        archive.write_bytes(zipped(entries))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", script, str(archive), "fr"),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
        )
        reading = asyncio.create_task(_work_until_ended(checker, process))
        said, _ = await process.communicate()
        await reading
        return process.returncode, said.decode()

    assert await run({"a.png": PNG}) == (0, "PASS a.png\n")
    sayer.texts["b.png"] = "Bonjour {name}"
    code, said = await run({"b.png": OTHER})
    assert code == 1
    assert said.startswith("MANUAL b.png\n    ")
    code, said = await run({"b.png": b"text"})
    assert (code, "b.png: the file is plain text" in said) == (2, True)


async def _work_until_ended(checker: house.House, process: asyncio.subprocess.Process) -> None:
    while process.returncode is None:
        await work(checker)
        await asyncio.sleep(0.05)
