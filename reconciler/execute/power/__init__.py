"""Requests of runs whose power is measured, and of runs in a declared power state of their machine."""
