"""Tests of what runs the system on one machine."""
