"""Benchmarks of Pagewarden, most of them against other software in the same run."""
