"""Measurements: ``python -m tests.benchmarks.<name> [--json]``. pytest does not collect them.

Comparisons run both sides alternately, each in its own process, and report the median ratio of at least seven rounds,
since a machine that slows down slows both.
"""
