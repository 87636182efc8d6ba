"""Pictures of pages over HTTP: for whoever has the link, for a while."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from PIL import Image

from pagewarden.storage import signed_urls
from tests.functions import house

if TYPE_CHECKING:
    from tests.functions.house import House


async def _path(functions: House, content: bytes, name: str = "ein Brief.pdf") -> str:
    """Upload a file, and say where it is kept."""
    await functions.upload(await functions.factory.user(), content, name)
    path: str = (await functions.documents())[-1]["dropbox_path"]
    return path.removeprefix("/")


async def test_a_link_opens_one_page_and_paging_back_is_quick(functions: House) -> None:
    """The second look needs neither file nor sandbox."""
    path = await _path(functions, house.READABLE_PDF)
    made = functions.used.links
    first = await functions.session.get(made.make_page_image_link(path, 2))
    assert (first.status_code, first.headers["content-type"]) == (200, "image/jpeg"), first.text
    assert first.headers["x-content-type-options"] == "nosniff"
    assert Image.open(io.BytesIO(first.content)).height > 500
    await functions.used.store.delete(path)
    again = await functions.session.get(made.make_page_image_link(path, 2))
    assert again.content == first.content
    assert (await functions.session.get(made.make_page_image_link(path, 1))).status_code == 200


async def test_a_changed_link_opens_nothing(functions: House) -> None:
    """Nor does an old one, or one that was made for the file."""
    path = await _path(functions, house.READABLE_PDF)
    link = functions.used.links.make_page_image_link(path, 1)
    secret = functions.used.keys.secret_key
    old = signed_urls.UrlSigner(
        signed_urls.PAGE_IMAGES_PREFIX,
        secret,
        purpose="pagewarden picture",
        now=lambda: 1_000_000.0,
    )
    wrong = [
        link.replace("/1?", "/2?"),
        link.replace("signature=", "signature=0"),
        old.make_url(f"{path}/1", 60),
        signed_urls.UrlSigner(signed_urls.PAGE_IMAGES_PREFIX, secret).make_url(f"{path}/1", 60),
    ]
    answers = [await functions.session.get(url) for url in wrong]
    assert [answer.status_code for answer in answers] == [403] * 4


async def test_a_picture_that_cannot_be_drawn_says_why(functions: House) -> None:
    """Broken, of another kind, without such a page, or no longer there."""
    made = functions.used.links
    broken = await _path(functions, house.PDF, "broken.pdf")
    odd = await _path(functions, b"PK\x03\x04" + b"\0" * 100, "odd.zip")
    fine = await _path(functions, house.READABLE_PDF, "fine.pdf")
    said = {}
    for path, number in ((broken, 1), (odd, 1), (fine, 3)):
        answer = await functions.session.get(made.make_page_image_link(path, number))
        said[path] = (answer.status_code, answer.json()["message"].partition(":")[0])
    assert said == {broken: (422, "broken.pdf"), odd: (422, "odd.zip"), fine: (422, "fine.pdf")}
    gone = await functions.session.get(made.make_page_image_link(f"{fine}x", 1))
    assert (gone.status_code, gone.json()["error"]) == (404, "FILE_NOT_FOUND")


async def test_a_link_to_a_file_opens_it(functions: House) -> None:
    """At our own address, whatever address our services use."""
    path = await _path(functions, house.READABLE_PDF)
    link = await functions.used.links.make_file_link(path)
    assert link.startswith("/files/v1/")
    assert (await functions.session.get(link)).content == house.READABLE_PDF
    assert (await functions.session.get(link.replace("Brief", "Briet"))).status_code == 403
