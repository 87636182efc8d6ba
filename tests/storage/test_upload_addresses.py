"""Upload addresses: what they are bound to, and copies when responses are lost."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore import auth, awsrequest, credentials  # type: ignore[import-untyped]

from pagewarden import errors, storage
from pagewarden.storage import s3_signing, upload_tokens
from tests.storage import s3_server, stores
from tests.support import dropbox_server

if TYPE_CHECKING:
    from tests.storage.s3_server import S3Server
    from tests.support.dropbox_server import DropboxServer

CONTENT = b"content"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
CHECKSUM = base64.b64encode(hashlib.sha256(CONTENT).digest()).decode()
GRANT = upload_tokens.UploadGrant("uploads/1", len(CONTENT), SHA256)


def _sign_with_botocore(bound: str, size: int, checksum: str, token: str | None) -> str:
    """Return the signature of botocore for a URL at the same time and with these headers."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(bound).query).items()}
    keys = credentials.Credentials(s3_server.ACCESS_KEY, s3_server.SECRET_KEY, token)
    signer: Any = auth.S3SigV4QueryAuth(keys, "s3", s3_server.REGION, int(query["X-Amz-Expires"]))
    headers = {"content-length": str(size), "x-amz-checksum-sha256": checksum}
    request = awsrequest.AWSRequest("PUT", bound.partition("?")[0], headers=headers)
    request.context["timestamp"] = query["X-Amz-Date"]
    signer._modify_request_before_signing(request)  # noqa: SLF001  # add_auth() takes the time now
    canonical = signer.canonical_request(request)
    string = signer.string_to_sign(request, canonical)
    return str(signer.signature(string, request))


@pytest.mark.parametrize("token", [None, "a/session+token="])
async def test_presigned_upload_is_bound_to_size_and_content(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    """The signature is that of botocore for the same headers, and differs for other ones."""
    backend = stores.make_bucket(moto)
    settings = backend.settings
    if token is not None:  # as on Lambda, where the keys are in the environment
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.SECRET_KEY)
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
        empty = {"s3_access_key_id": None, "s3_secret_access_key": None}
        settings = settings.model_copy(update=empty)
    async with storage.open_store(settings) as store:
        address = await store.create_upload_address(
            "uploads/a b", size=len(CONTENT), sha256=SHA256, seconds=600
        )
    assert address is not None
    query = parse_qs(urlsplit(address.url).query)
    assert address.headers == {"x-amz-checksum-sha256": CHECKSUM}
    assert query["X-Amz-SignedHeaders"] == ["content-length;host;x-amz-checksum-sha256"]
    assert query.get("X-Amz-Security-Token") == (None if token is None else [token])
    (signature,) = query["X-Amz-Signature"]
    assert signature == _sign_with_botocore(address.url, len(CONTENT), CHECKSUM, token)
    assert signature != _sign_with_botocore(address.url, len(CONTENT) + 1, CHECKSUM, token)
    assert s3_signing.get_access_key_id(address.url) == s3_server.ACCESS_KEY


async def test_presigned_upload_with_the_keys_of_a_machine_is_bound_to_its_path(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library does not disclose such keys; the server checks size and content afterwards."""
    backend = stores.make_bucket(moto)
    monkeypatch.setattr("pagewarden.storage.s3.BucketConfig.find_secret", lambda *_: None)
    async with storage.open_store(backend.settings) as store:
        address = await store.create_upload_address("a/1", size=1, sha256=SHA256, seconds=60)
        too_large = 5 * 1024**3 + 1
        assert not await store.create_upload_address(
            "a/1", size=too_large, sha256=SHA256, seconds=60
        )
    assert address is not None
    assert address.headers == {}
    assert "X-Amz-SignedHeaders=host&" in address.url


async def test_dropbox_link_is_used_once_and_only_for_small_files(dropbox: DropboxServer) -> None:
    """Dropbox takes up to 150 MB in one request; larger files are sent through our server."""
    async with storage.open_store(stores.DropboxBackend(dropbox).settings) as store:
        limit = 150 * 1024 * 1024
        assert await store.create_upload_address("a", size=limit, sha256=SHA256, seconds=10)
        assert not await store.create_upload_address("a", size=limit + 1, sha256=SHA256, seconds=10)
    assert dropbox.requests.count("get_temporary_upload_link") == 1


async def test_copy_whose_response_is_lost_is_recognised(
    dropbox: DropboxServer, moto: S3Server
) -> None:
    """The retry finds the copy of the first attempt; a foreign file is not mistaken for it."""
    bucket = stores.make_bucket(moto)
    for backend in (stores.DropboxBackend(dropbox), bucket):
        async with storage.open_store(backend.settings) as store:
            await store.write("a", stores.chunks_of(CONTENT))
            dropbox.faults["copy_v2"].append(dropbox_server.LOSE_ANSWER)
            moto.faults.append(s3_server.Fault("POST .*/b\\?uploadId", "lose the response", 1))
            await store.copy("a", "b")
            assert await stores.read_all(store, "b") == CONTENT
    assert {fault.times for fault in moto.faults} == {0}
    async with storage.open_store(stores.DropboxBackend(dropbox).settings) as store:
        await store.write("c", stores.chunks_of(b"foreign"))
        dropbox.faults["copy_v2"].append(dropbox_server.HANG_UP)
        with pytest.raises(errors.FileExists):
            await store.copy("a", "c")


def test_token_allows_one_path_for_a_while() -> None:
    """A changed path or token, another installation, and an expired token are refused."""
    now = 1000.0
    signer = upload_tokens.UploadSigner("secret", now=lambda: now)
    url = signer.make_url(GRANT, 60)
    path, _, query = url.partition("?token=")
    assert path == "/storage/v1/object/upload/sign/uploads/1"
    assert signer.verify("uploads/1", query) == GRANT
    now = 1060.0
    assert signer.verify("uploads/1", query) == GRANT
    assert signer.verify("uploads/2", query) is None
    assert signer.verify("uploads/../uploads/1", query) is None
    head, body, tail = query.split(".")
    assert signer.verify("uploads/1", f"{head}.{body}.{tail[:-2]}AA") is None
    assert signer.verify("uploads/1", "") is None
    assert upload_tokens.UploadSigner("other", now=lambda: now).verify("uploads/1", query) is None
    now = 1061.0
    assert signer.verify("uploads/1", query) is None
    with pytest.raises(errors.UnsafePath):
        signer.make_url(upload_tokens.UploadGrant("../x", 1, SHA256), 60)
