"""The parts of the command `pagewarden check`."""
