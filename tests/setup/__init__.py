"""Tests of the setup of a checkout."""
