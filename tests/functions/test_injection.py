"""What strangers send ends up in no header, no line of a log and no path of its own making."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING

import pytest

from tests.functions import house

if TYPE_CHECKING:
    from tests.documents import readers

EVIL = 'a"\r\nSet-Cookie: pw=1\r\n\r\n<script>.png'
NAMES = [
    EVIL,
    "../../etc/passwd.png",
    "..\\..\\windows.png",
    "/etc/shadow.png",
    "\u202egnp.exe",
    "a\0b.png",
    "con.png\n",
    "%0d%0aSet-Cookie:pw=1.png",
]


@pytest.mark.parametrize("name", NAMES)
async def test_a_name_is_data_wherever_it_is_written(
    functions: house.House, recorder: readers.Recorder, name: str
) -> None:
    """Stored below its case, handed out in one header, and nowhere else."""
    assert recorder
    user = await functions.factory.user()
    quoted = {"X-File-Name": urllib.parse.quote(name)}
    answer = await functions.post("upload-to-dropbox", user=user, content=house.PNG, headers=quoted)
    assert answer.status_code in (202, 400), answer.text
    if answer.status_code == 400:
        return
    found = answer.json()
    for path in functions.stored():
        assert path.resolve().is_relative_to(functions.folder.resolve())
        assert path.relative_to(functions.folder).parts[0] == found["case_id"]
    await functions.read()
    export = await functions.call("GET", f"documents/{found['document_id']}/export", user=user)
    assert export.status_code == 200
    assert "set-cookie" not in export.headers
    assert "\n" not in export.headers["content-disposition"]
    assert export.headers["x-content-type-options"] == "nosniff"


async def test_a_location_is_ours_whatever_host_was_asked_for(functions: house.House) -> None:
    """A forged Host leads nobody away once the site is set; without it, it is what was asked."""
    user = await functions.factory.user()
    answer = await functions.post(
        "upload-to-dropbox",
        user=user,
        content=house.PNG,
        headers={"X-File-Name": "a.png", "X-Forwarded-Host": "evil.example.org"},
    )
    assert "evil" not in answer.headers["location"]


@pytest.mark.parametrize(
    "path",
    [
        "documents/..%2f..%2fetc%2fpasswd",
        "documents/%2e%2e/%2e%2e/etc/passwd",
        "jobs/..%2f..%2fx/report",
        "jobs/' or 1=1 --",
        "documents?query=x&language='; drop table documents; --",
    ],
)
async def test_paths_and_queries_are_data(functions: house.House, path: str) -> None:
    """Each is refused or finds nothing, and no table is gone."""
    user = await functions.factory.user()

    answer = await functions.call("GET", path, user=user)

    assert answer.status_code in (200, 400, 404), answer.text
    assert await functions.documents() == []
