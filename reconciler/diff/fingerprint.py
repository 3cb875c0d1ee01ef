"""What rendered files are a function of, as one text: of a cell, and of what the whole submission shares."""

from __future__ import annotations

import hashlib

from reconciler.desired.state import Desired
from reconciler.resource.canonical import digest
from reconciler.resource.kinds import Kind
from reconciler.resource.resources import Resource

RENDERER = 2  # raised when the renderer writes other bytes for the same records


def compute_fingerprint(result: Resource, record_ids: list[str]) -> str:
    """What a cell's files are a function of: the result's key, the published records, the renderer."""
    text = " ".join([result.key, *record_ids, str(RENDERER)])  # plain, since a plan takes one for each cell
    return hashlib.sha256(text.encode()).hexdigest()


def compute_submission_fingerprint(desired: Desired, cells: set[str]) -> str:
    """What the shared files are a function of: the systems' descriptions, and which cells the tree holds."""
    own = next(r for r in desired.resources if r.kind is Kind.SUBMISSION)
    shared = [[i.name, i.value] for i in desired.detail(own.address).inputs if not i.name.startswith("Result:")]
    return digest({"shared": shared, "cells": sorted(cells), "renderer": RENDERER})
