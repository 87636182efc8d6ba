"""The account of the embedded server."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import pytest

_FIND_ACCOUNT = """
import asyncio, sys
from pagewarden.local import account

account.NAME = sys.argv[1]
print(asyncio.run(account.find_server_account()).uid)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root creates accounts")
def test_concurrent_starts_find_one_account() -> None:
    """Processes that start on a new machine at the same time all get the account that remains."""
    name = f"pw-{uuid.uuid4().hex[:12]}"
    try:
        starts = [
            subprocess.Popen(
                [sys.executable, "-c", _FIND_ACCOUNT, name], stdout=subprocess.PIPE, text=True
            )
            for _ in range(4)
        ]
        found = {start.communicate()[0].strip() for start in starts}
        remaining = subprocess.run(["id", "-u", name], check=True, capture_output=True, text=True)
    finally:
        subprocess.run(["userdel", name], check=False)
    assert found == {remaining.stdout.strip()}
