"""Runs of the real LoadGen, as for the tests of its logs."""

from __future__ import annotations

from tests.unit.loadgen.conftest import loadgen_read, loadgen_run

__all__ = ["loadgen_read", "loadgen_run"]
