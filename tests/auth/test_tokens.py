"""Who calls: which tokens and keys count, and which do not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import hypothesis
import jwt
import pydantic
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from fastapi import FastAPI, Response
from hypothesis import strategies as st

from pagewarden import errors, settings
from pagewarden.auth import keys, tokens
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SECRET = "a secret of this test that is long enough"
USER = str(uuid.uuid4())
KEYS = keys.InstallationKeys("sb_secret_of_a_test", "sb_publishable_of_a_test", SECRET)
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def claims(**changed: Any) -> dict[str, Any]:
    """Say what Supabase Auth says of somebody who signed in a moment ago."""
    now = int(time.time())
    usual = {
        "sub": USER,
        "role": "authenticated",
        "aud": "authenticated",
        "iss": "https://project.example.org/auth/v1",
        "email": "ada@example.org",
        "iat": now - 1,
        "exp": now + 3600,
    }
    return {name: value for name, value in (usual | changed).items() if value is not None}


def signed(key: Any = SECRET, algorithm: str = "HS256", kid: str = "", **changed: Any) -> str:
    """Sign such claims."""
    return jwt.encode(claims(**changed), key, algorithm, {"kid": kid} if kid else None)


def unsigned_parts(header: dict[str, Any], body: dict[str, Any]) -> str:
    """Write header and claims as a token does."""
    parts = (json.dumps(part).encode() for part in (header, body))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@pytest.fixture
def verifier() -> tokens.TokenVerifier:
    """Make a verifier that knows the secret only."""
    return tokens.TokenVerifier(KEYS)


@dataclass
class Project:
    """A server of public keys that can be made to fail, and a clock to go with it."""

    url: str = ""
    published: list[dict[str, Any]] = field(default_factory=list)
    fetches: int = 0
    away: bool = False
    now: float = 1000.0

    def publish(self, kid: str, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> None:
        """Publish the public half of a key."""
        algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        kind = jwt.get_algorithm_by_name(algorithm)
        public = json.loads(kind.to_jwk(key.public_key()))
        self.published.append(public | {"kid": kid, "alg": algorithm, "use": "sig"})

    def answer(self) -> Response:
        """Answer as /.well-known/jwks.json does."""
        self.fetches += 1
        if self.away:
            return Response(status_code=502)
        return Response(json.dumps({"keys": self.published}), media_type="application/json")

    def verifier(self, **options: Any) -> tokens.TokenVerifier:
        """Make a verifier that checks with the keys of this project, and knows no secret."""
        known = keys.InstallationKeys(
            KEYS.secret_key, KEYS.publishable_key, options.pop("secret", None)
        )
        public = tokens.PublicKeys(self.url + tokens.JWKS_PATH, now=lambda: self.now)
        return tokens.TokenVerifier(known, public_keys=public, **options)


@pytest.fixture
async def project() -> AsyncIterator[Project]:
    """Run such a server with a key of each kind."""
    made = Project()
    made.publish("rsa", RSA_KEY)
    made.publish("ec", EC_KEY)
    app = FastAPI()
    app.add_api_route(tokens.JWKS_PATH, made.answer)
    async with serve_app(app) as made.url:
        yield made


async def test_token_of_a_person_says_who_calls(verifier: tokens.TokenVerifier) -> None:
    """What comes out is enough to act as that person in the database."""
    token = signed()

    caller = await verifier.verify(token)

    assert (caller.user_id, caller.role, caller.email) == (USER, "authenticated", "ada@example.org")
    assert caller.claims["aud"] == "authenticated"
    assert (caller.user().id, caller.user().jwt) == (USER, token)
    assert token not in repr(caller)


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": 1_000_000_000},
        {"exp": None},
        {"nbf": 10_000_000_000},
        {"iat": 10_000_000_000},
        {"aud": "somebody else"},
        {"aud": None},
        {"aud": ["x", "y"]},
        {"role": "postgres"},
        {"role": None},
        {"role": ["authenticated"]},
        {"sub": None},
        {"sub": "1 or 1=1"},
    ],
    ids=str,
)
async def test_token_with_wrong_claims_does_not_count(
    verifier: tokens.TokenVerifier, changed: dict[str, Any]
) -> None:
    """Time, audience, role and subject are looked at, whoever signed it."""
    with pytest.raises(errors.NotSignedIn):
        await verifier.verify(signed(**changed))


async def test_clocks_may_differ_by_seconds(verifier: tokens.TokenVerifier) -> None:
    """A token that expired a moment ago, or begins in a moment, still counts; not a minute."""
    now = time.time()

    assert (await verifier.verify(signed(exp=now - 2, nbf=now + 5))).user_id == USER
    for token in (signed(exp=now - 60), signed(nbf=now + 60)):
        with pytest.raises(errors.NotSignedIn):
            await verifier.verify(token)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        "..",
        "é.é.é",
        signed("another secret that is long enough, too"),
        signed()[:-4] + "AAAA",
        unsigned_parts({"alg": "none"}, claims()) + ".",
        unsigned_parts({"alg": "None", "typ": "JWT"}, claims()) + ".",
        unsigned_parts({"typ": "JWT"}, claims()) + ".",
        unsigned_parts({"alg": ["HS256"]}, claims()) + ".",
        unsigned_parts({"alg": {}, "kid": "rsa"}, claims()) + ".",
        jwt.encode(claims(), SECRET + SECRET, "HS512"),
        signed(email="x" * 20_000),
    ],
    ids=range(14),
)
async def test_forged_token_does_not_count(verifier: tokens.TokenVerifier, token: str) -> None:
    """Neither another secret, nor another algorithm, nor none at all."""
    with pytest.raises(errors.NotSignedIn):
        await verifier.verify(token)


@hypothesis.settings(deadline=None)
@hypothesis.given(place=st.integers(min_value=0), letter=st.sampled_from("ABCDwxyz0189-_"))
async def test_changing_any_letter_voids_a_token(place: int, letter: str) -> None:
    """The signature covers header and claims."""
    token = signed()
    place %= token.rindex(".")
    changed = token[:place] + letter + token[place + 1 :]
    if changed == token:
        return

    with pytest.raises(errors.NotSignedIn):
        await tokens.TokenVerifier(KEYS).verify(changed)


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"), [(RSA_KEY, "RS256", "rsa"), (EC_KEY, "ES256", "ec")]
)
async def test_token_signed_with_a_key_of_the_project_counts(
    project: Project, key: Any, algorithm: str, kid: str
) -> None:
    """Its public half is fetched once, then kept."""
    verifier = project.verifier()

    for _ in range(3):
        assert (await verifier.verify(signed(key, algorithm, kid))).user_id == USER

    assert project.fetches == 1


async def test_public_key_is_no_secret(project: Project) -> None:
    """A token signed with HS256 and the public key, which everybody has, does not count."""
    spellings = [
        RSA_KEY.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
        RSA_KEY.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
        json.dumps(project.published[0]).encode(),
        base64.urlsafe_b64decode(project.published[0]["n"] + "=="),
    ]
    content = unsigned_parts({"alg": "HS256", "kid": "rsa"}, claims())
    for spelling in spellings:
        mac = hmac.digest(spelling, content.encode(), hashlib.sha256)
        token = f"{content}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
        for secret in (None, SECRET):
            with pytest.raises(errors.NotSignedIn):
                await project.verifier(secret=secret).verify(token)


async def test_key_of_one_algorithm_is_not_used_for_another(project: Project) -> None:
    """Neither by the header of the token, nor by what is published."""
    project.published.append({"kty": "oct", "kid": "oct", "k": "c2VjcmV0" * 8, "alg": "HS256"})
    project.published.append(project.published[0] | {"kid": "enc", "use": "enc"})
    project.published.append({"kty": "?", "kid": "?"})
    verifier = project.verifier()
    secret = base64.urlsafe_b64decode("c2VjcmV0" * 8)

    assert await tokens.PublicKeys(project.url + tokens.JWKS_PATH).find("oct") is None

    for token in (
        signed(secret, "HS256", "oct"),
        signed(RSA_KEY, "RS256", "ec"),
        signed(EC_KEY, "ES256", "rsa"),
        signed(RSA_KEY, "RS384", "rsa"),
        signed(RSA_KEY, "PS256", "rsa"),
        signed(RSA_KEY, "RS256", "enc"),
        signed(RSA_KEY, "RS256"),
        signed(rsa.generate_private_key(public_exponent=65537, key_size=2048), "RS256", "rsa"),
    ):
        with pytest.raises(errors.NotSignedIn):
            await verifier.verify(token)


async def test_new_key_is_found_and_made_up_ones_cost_one_request(project: Project) -> None:
    """An unknown key is looked for again, but not as often as somebody names one."""
    verifier = project.verifier()
    await verifier.verify(signed(RSA_KEY, "RS256", "rsa"))
    project.publish("new", EC_KEY)
    project.now += 60

    assert (await verifier.verify(signed(EC_KEY, "ES256", "new"))).user_id == USER
    for number in range(20):
        with pytest.raises(errors.NotSignedIn):
            await verifier.verify(signed(EC_KEY, "ES256", f"made up {number}"))

    assert project.fetches == 2


async def test_key_that_was_taken_back_counts_no_more(project: Project) -> None:
    """Keys are fetched again after a while."""
    verifier = project.verifier()
    await verifier.verify(signed(RSA_KEY, "RS256", "rsa"))
    project.published.clear()
    project.now += 601

    with pytest.raises(errors.NotSignedIn):
        await verifier.verify(signed(RSA_KEY, "RS256", "rsa"))


async def test_project_that_does_not_answer_is_an_outage(project: Project) -> None:
    """Nobody is told to sign in again; the keys fetched last count for an hour."""
    verifier, token = project.verifier(), signed(RSA_KEY, "RS256", "rsa")
    project.away = True
    with pytest.raises(errors.SignInUnavailable) as caught:
        await verifier.verify(token)
    with pytest.raises(errors.SignInUnavailable):
        await verifier.verify(token)
    assert caught.value.outage
    assert project.fetches == 1, "it is not asked again at once"

    project.away, project.now = False, project.now + 60
    await verifier.verify(token)
    project.away, project.now = True, project.now + 3000
    assert (await verifier.verify(token)).user_id == USER
    project.now += 1000
    with pytest.raises(errors.SignInUnavailable):
        await verifier.verify(token)


@pytest.mark.parametrize("body", ["", "[]", "null", '{"keys": 5}', '{"keys": [5]}', "<html>"])
async def test_answer_that_is_no_set_of_keys_is_an_outage(body: str) -> None:
    """A gateway in between may say anything."""
    app = FastAPI()
    app.add_api_route(tokens.JWKS_PATH, lambda: Response(body, media_type="application/json"))
    async with serve_app(app) as url:
        public = tokens.PublicKeys(url + tokens.JWKS_PATH)
        with pytest.raises(errors.SignInUnavailable):
            await tokens.TokenVerifier(KEYS, public_keys=public).verify(
                signed(EC_KEY, "ES256", "ec")
            )


async def test_nobody_listening_is_an_outage() -> None:
    """The address of the message helps to find out why."""
    public = tokens.PublicKeys("http://127.0.0.1:1/jwks.json")
    with pytest.raises(errors.SignInUnavailable, match=r"127\.0\.0\.1:1"):
        await tokens.TokenVerifier(KEYS, public_keys=public).verify(signed(EC_KEY, "ES256", "ec"))


async def test_issuer_is_checked_where_one_is_set() -> None:
    """Another project with the same secret is another project."""
    verifier = tokens.TokenVerifier(KEYS, issuer="https://project.example.org/auth/v1")

    assert (await verifier.verify(signed())).user_id == USER
    for issuer in ("https://other.example.org/auth/v1", None):
        with pytest.raises(errors.NotSignedIn):
            await verifier.verify(signed(iss=issuer))


@pytest.mark.parametrize("header", ["apikey", "authorization"])
@pytest.mark.parametrize("kind", ["new", "old"])
async def test_secret_key_makes_a_service(header: str, kind: str) -> None:
    """New keys are words, old ones are tokens that name no person."""
    old = signed(role="service_role", sub=None, aud=None, email=None, iss="supabase")
    key = KEYS.secret_key if kind == "new" else old
    headers = {header: key if header == "apikey" else f"Bearer {key}"}

    caller = await tokens.TokenVerifier(KEYS, issuer="x").caller(headers)

    assert (caller.role, caller.user_id, caller.is_service) == ("service_role", None, True)
    with pytest.raises(errors.NotSignedIn):
        caller.user()


async def test_old_secret_key_of_a_project_needs_no_secret_to_be_recognised() -> None:
    """It is the key of the settings itself, so its signature need not be checked."""
    key = signed("whatever the project signs its keys with", role="service_role", sub=None)
    verifier = tokens.TokenVerifier(keys.InstallationKeys(key, None, None))

    assert (await verifier.caller({"apikey": key})).is_service
    with pytest.raises(errors.NotSignedIn):
        await verifier.caller({"apikey": key[:-1]})


async def test_publishable_key_makes_nobody(verifier: tokens.TokenVerifier) -> None:
    """It opens nothing by itself."""
    caller = await verifier.caller({"apikey": KEYS.publishable_key or ""})

    assert (caller.role, caller.is_service) == ("anon", False)
    with pytest.raises(errors.NotSignedIn):
        caller.user()


async def test_token_of_a_person_comes_before_the_key_beside_it(
    verifier: tokens.TokenVerifier,
) -> None:
    """Whoever carries a person's token acts as that person, also with a secret key."""
    headers = {"apikey": KEYS.secret_key, "authorization": f"bearer {signed()}"}

    assert (await verifier.caller(headers)).user_id == USER


async def test_bad_token_is_not_made_good_by_a_key(verifier: tokens.TokenVerifier) -> None:
    """A request that says who it is must be right about it."""
    with pytest.raises(errors.NotSignedIn):
        await verifier.caller({"apikey": KEYS.secret_key, "authorization": "Bearer x.y.z"})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Basic eDp5"},
        {"authorization": "Bearer"},
        {"apikey": ""},
    ],
)
async def test_request_without_a_token_is_refused(
    verifier: tokens.TokenVerifier, headers: dict[str, str]
) -> None:
    """The message says how to send one."""
    with pytest.raises(errors.NotSignedIn, match="Authorization: Bearer"):
        await verifier.caller(headers)


@pytest.mark.parametrize("key", ["sb_secret_of_a_tesT", "sb_secret_of_a_test ", "sb_secret", "ü"])
async def test_almost_a_key_is_none(verifier: tokens.TokenVerifier, key: str) -> None:
    """A key is right as a whole or not at all."""
    with pytest.raises(errors.NotSignedIn):
        await verifier.caller({"apikey": key})


async def test_verifier_of_a_project_fetches_its_keys(project: Project) -> None:
    """The settings of a project are enough."""
    chosen = settings.Settings(
        supabase_url=project.url + "/", supabase_key=pydantic.SecretStr("sb_secret_x")
    )
    verifier = tokens.make_verifier(chosen)

    assert (await verifier.verify(signed(RSA_KEY, "RS256", "rsa"))).user_id == USER
    assert (await verifier.caller({"apikey": "sb_secret_x"})).is_service
