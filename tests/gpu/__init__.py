"""Tests and measurements that need an NVIDIA GPU. ``bash tests/gpu/session.sh`` prepares a machine, runs all parts and
prints one report.

``pytest -m gpu tests/gpu`` runs the tests; ``python -m tests.gpu.measure PART`` measures one part.
"""
