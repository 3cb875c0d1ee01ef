"""Measurements: ``python -m tests.benchmarks.<name> [--json]``. Not collected by pytest.

What compares two things runs them alternately, each in a process of its own, and reports the median of the ratios of at
least seven rounds: a machine that slows down slows both.
"""
