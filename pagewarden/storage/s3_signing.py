"""Bind a presigned URL of S3 to headers, which obstore does not: AWS Signature Version 4."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALGORITHM = "AWS4-HMAC-SHA256"


def get_access_key_id(url: str) -> str:
    """Return the access key that signed a URL."""
    return _parse_query(url)["X-Amz-Credential"].partition("/")[0]


def bind(url: str, method: str, headers: Mapping[str, str], secret: str) -> str:
    """Sign a presigned URL again, so that it is valid only with these headers, named in lower case.

    Key, region, time, lifetime and session token stay those of the URL.
    """
    parts = urlsplit(url)
    signed = dict(sorted({**headers, "host": parts.netloc}.items()))
    query = _parse_query(url) | {"X-Amz-SignedHeaders": ";".join(signed)}
    query.pop("X-Amz-Signature")
    encoded = "&".join(f"{_encode(name)}={_encode(query[name])}" for name in sorted(query))
    canonical = [method, parts.path, encoded]
    canonical += [f"{name}:{value.strip()}" for name, value in signed.items()]
    canonical += ["", ";".join(signed), "UNSIGNED-PAYLOAD"]
    signature = _sign(query, secret, "\n".join(canonical))
    return urlunsplit(parts._replace(query=f"{encoded}&X-Amz-Signature={signature}"))


def _parse_query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query, strict_parsing=True))


def _encode(text: str) -> str:
    return quote(text, safe="-_.~")


def _sign(query: Mapping[str, str], secret: str, canonical_request: str) -> str:
    """Return the signature of a request, with the key of its day, region and service."""
    scope = query["X-Amz-Credential"].partition("/")[2]
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    digest = hashlib.sha256(canonical_request.encode()).hexdigest()
    return _hmac(key, "\n".join([_ALGORITHM, query["X-Amz-Date"], scope, digest])).hex()


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
