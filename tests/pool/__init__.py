"""The pool: allocation, capacity, moves, workers, and all of it in a simulation."""
