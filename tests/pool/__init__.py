"""Tests of the pool: allocation, capacity, programs, and the whole pool in a simulation."""
