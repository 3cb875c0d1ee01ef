"""What the shared files of a submission are a function of."""

from __future__ import annotations

import hashlib
from itertools import combinations

from msgspec.structs import replace

from reconciler.diff.change import Chosen
from reconciler.diff.fingerprint import RENDERER, compute_fingerprint, compute_submission_fingerprint, same_but_for_code
from reconciler.resource.canonical import digest
from reconciler.resource.inputs import Input
from tests.unit.diff.simulated import Wish, desire

WISHES = (Wish(), Wish("other"))
CELLS = {str(wish.cell) for wish in WISHES}


def fingerprint(*codes: str, cells: set[str] = CELLS) -> str:
    """Of results whose runs kept this code, by its digest; "" for one that kept none."""
    chosen = {wish.cell: Chosen(code=code) for wish, code in zip(WISHES, codes, strict=True)}
    return compute_submission_fingerprint(desire(WISHES), cells, chosen)


def test_shared_files_are_a_function_of_what_is_shared_of_the_cells_and_of_the_renderer() -> None:
    """Trees that were rendered before are known by it."""
    shared = (Input("system.box.status", "available"), Input("submitter", "ACME"))
    desired = replace(desire(WISHES), shared=shared)
    values = {
        "cells": sorted(CELLS),
        "renderer": RENDERER,
        "shared": [["system.box.status", "available"], ["submitter", "ACME"]],
    }
    assert compute_submission_fingerprint(desired, CELLS, {}) == digest(values)
    assert compute_submission_fingerprint(desired, set(), {}) == digest({**values, "cells": []})


def test_other_code_of_a_run_is_another_submission_that_differs_in_its_code_alone() -> None:
    alike = [fingerprint("", ""), fingerprint("a", ""), fingerprint("a", "b"), fingerprint("b", "a")]
    assert len(set(alike)) == len(alike)
    assert all(same_but_for_code(one, other) for one in alike for other in alike)


def test_what_all_cells_share_makes_another_submission_with_the_same_code() -> None:
    chosen = {wish.cell: Chosen(code="a") for wish in WISHES}
    made = [
        compute_submission_fingerprint(replace(desire(WISHES), shared=shared), cells, chosen)
        for shared in (
            (),
            (Input("system.box", "one"),),
            (Input("system.box", "two"),),
            (Input("system.crate", "one"),),
        )
        for cells in (CELLS, set[str]())
    ]
    assert len(set(made)) == len(made)
    assert not any(same_but_for_code(one, other) for one, other in combinations(made, 2))


def test_files_of_a_cell_are_a_function_of_its_key_its_records_and_the_renderer() -> None:
    """Trees that were rendered before are known by it."""
    result = desire(WISHES).resources[-1]
    text = f"{result.key} Run/1 Run/2 {RENDERER}"
    assert compute_fingerprint(result, ["Run/1", "Run/2"]) == hashlib.sha256(text.encode()).hexdigest()
