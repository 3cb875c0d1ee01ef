"""Fingerprints of the inputs of rendered files: of a cell, and of the files that a submission's cells share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from reconciler.desired.state import Desired
from reconciler.diff.change import Chosen
from reconciler.resource.canonical import digest
from reconciler.resource.kinds import Cell
from reconciler.resource.resources import Resource

_CODE = "+"  # precedes the digest of the runs' code in a submission's fingerprint
_INSTRUCTIONS = 5  # incremented when REPRODUCE.md changes for the same code
RENDERER = 2  # incremented when the renderer writes different bytes for the same records


def compute_fingerprint(result: Resource, record_ids: list[str]) -> str:
    """Compute the fingerprint of a cell's files: the result's key, the published records, the renderer."""
    text = " ".join([result.key, *record_ids, str(RENDERER)])  # not JSON, for speed: a plan computes one for each cell
    return hashlib.sha256(text.encode()).hexdigest()


def compute_submission_fingerprint(desired: Desired, cells: set[str], chosen: Mapping[Cell, Chosen]) -> str:
    """Compute the fingerprint of the shared files: the systems' descriptions, the cells in the tree, and the code of
    their runs."""
    shared = [[item.name, item.value] for item in desired.shared]
    own_part = digest({"shared": shared, "cells": sorted(cells), "renderer": RENDERER})
    code = sorted((str(cell), found.code) for cell, found in chosen.items() if found.code and str(cell) in cells)
    return f"{own_part}{_CODE}{digest([_INSTRUCTIONS, *code])}" if code else own_part


def differ_only_in_code(one: str, other: str) -> bool:
    """Return True if two fingerprints of the submission differ only in the code."""
    return one.partition(_CODE)[0] == other.partition(_CODE)[0]
