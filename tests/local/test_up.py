"""pagewarden up: where its parts may listen."""

from __future__ import annotations

import socket

import pytest

from pagewarden import errors
from pagewarden.commands import up


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", "AF_INET"), ("::1", "AF_INET6")])
def test_a_port_that_is_taken_is_told_of_before_anything_is_started(host: str, family: str) -> None:
    """Of both families; once it is free, nothing is said."""
    with socket.socket(socket.AddressFamily[family]) as taken:
        try:
            taken.bind((host, 0))
        except OSError:
            pytest.skip(f"{host} is not there")
        taken.listen()
        url = up.url_of(host, taken.getsockname()[1])
        with pytest.raises(errors.LocalStackError, match="cannot be used"):
            up.require_free(url)
    up.require_free(url)


def test_a_url_without_a_port_means_the_usual_one() -> None:
    """That is no error of ours; whether the port may be had is another question."""
    try:
        up.require_free("http://127.0.0.1")
    except errors.LocalStackError as exc:
        assert "cannot be used" in str(exc)  # noqa: PT017  # depends on the machine


def test_a_host_that_is_not_this_machine_is_refused_with_a_reason() -> None:
    """The message says which."""
    with pytest.raises(errors.LocalStackError, match=r"nowhere\.invalid:54321"):
        up.require_free("http://nowhere.invalid:54321")
