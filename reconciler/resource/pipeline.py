"""The kinds of resources. Every `--help` lists them, so this module must not import anything slow."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """In pipeline order: a kind depends only on kinds above it."""

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

    __hash__ = str.__hash__  # faster than the hash of an enum; every lookup of an address computes one


ORDER = {kind: index for index, kind in enumerate(Kind)}
