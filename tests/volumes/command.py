"""A worker of fake stages with the command line of a real one."""

from __future__ import annotations

import argparse
import os

from tests.volumes import program

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option in ("--stage", "--input-bucket", "--output-bucket"):
        parser.add_argument(option)
    given = parser.parse_args()
    program.run(
        program.Orders(
            "worker",
            f"worker-{os.getpid()}",
            os.environ["PAGEWARDEN_DATABASE_URL"],
            given.output_bucket,
            stages=(given.stage,),
            page_seconds=0.1,
        )
    )
