"""Run the command line as `python -m pagewarden`."""

from pagewarden.cli import main

main()
