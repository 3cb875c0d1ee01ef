"""What needs an NVIDIA GPU: ``bash tests/gpu/session.sh`` prepares a machine, runs every part and prints one report.

``pytest -m gpu tests/gpu`` runs what is right or wrong; ``python -m tests.gpu.measure PART`` one part of the figures.
"""
