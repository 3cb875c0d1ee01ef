"""The kinds of resources. Every `--help` lists them, so nothing is imported here that takes time."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """In the order of the pipeline: a kind depends only on kinds above it."""

    DATASET = "Dataset"
    MODEL = "Model"
    ENGINE = "Engine"
    SERVICE = "Service"
    RUN = "Run"
    SCORE = "Score"
    COMPLIANCE_TEST = "ComplianceTest"
    VERDICT = "Verdict"
    RESULT = "Result"
    SUBMISSION = "Submission"

    __hash__ = str.__hash__  # an enum's own is not written in C, and every look at an address takes one


ORDER = {kind: index for index, kind in enumerate(Kind)}
