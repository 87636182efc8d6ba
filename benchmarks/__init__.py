"""Side-by-side benchmarks; every figure is a ratio to a peer in the same run."""
