"""Compliance tests of the endpoints harness, judged from the results of their phases.

The harness runs a test's phases after the performance run, each in a separate folder, and states the outcome in
audit_<name>.json (mlcommons/endpoints: compliance/audit_test). The submission checker trusts that file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct

from reconciler.resource.quantities import parse_number
from reconciler.storage.documents import ResultDocument

CACHING = "output_caching_test"
_REFERENCE, _REPEATED = "reference", "output_caching"
# TEST04: the harness's default for the allowed speed-up of repeated samples, which is also the allowed share of missing
# samples in a phase. Its example for one request at a time sets the second.
_FASTER, _FASTER_SINGLE = Decimal("0.1"), Decimal("0.2")
_NEAR = Decimal("0.0001")


class Audits(Struct, frozen=True):
    """``stated``: name of a test → its audit_<name>.json; ``phases``: folder of a phase → its result_summary.json."""

    stated: Mapping[str, ResultDocument]
    phases: Mapping[str, ResultDocument]


def find_wrong_audits(audits: Audits) -> Iterator[str]:
    """Find contradictions within a stated test."""
    for name, document in sorted(audits.stated.items()):
        if document.get("test") != name:
            yield f"audit: expected {name}, audit_{name}.json says {document.get('test')}"
        elif name == CACHING:
            yield from _find_wrong_caching(document, audits.phases)


def _find_wrong_caching(document: ResultDocument, phases: Mapping[str, ResultDocument]) -> Iterator[str]:
    reference, repeated = phases.get(_REFERENCE), phases.get(_REPEATED)
    if reference is None or repeated is None:
        yield f"audit: audit_{CACHING}.json is there without the results of its phases {_REFERENCE} and {_REPEATED}"
        return
    for name, phase in (("ref_qps", reference), ("audit_qps", repeated)):
        stated, made = parse_number(document.get(name)), parse_number(phase.get("qps"))
        if stated is None or made is None or abs(stated - made) > made * _NEAR:
            yield f"{name}: audit_{CACHING}.json says {document.get(name)}, its phase measured {phase.get('qps')}"
    passed = not list(_judge_caching(reference, repeated, document))
    if bool(document.get("passed")) != passed:
        word = "passed" if document.get("passed") else "failed"
        yield f"passed: audit_{CACHING}.json says {word}, its phases say {'passed' if passed else 'failed'}"


def _judge_caching(reference: ResultDocument, repeated: ResultDocument, stated: ResultDocument) -> Iterator[str]:
    """Yield the reasons why the test fails."""
    tolerance = _find_tolerance(reference, stated)
    for name, phase, count in ((_REFERENCE, reference, "ref"), (_REPEATED, repeated, "audit")):
        asked = parse_number(stated.get(f"{count}_requested")) or parse_number(phase.get("n_samples_issued"))
        done = parse_number(phase.get("n_samples_completed"))
        if not asked or done is None or done < asked * (1 - tolerance):
            yield f"{name} completed {done} of {asked} samples"
    slow, fast = parse_number(reference.get("qps")), parse_number(repeated.get("qps"))
    if not slow or fast is None or fast >= slow * (1 + tolerance):
        yield f"repeated samples ran at {fast} queries/s, distinct ones at {slow}"


def _find_tolerance(reference: ResultDocument, stated: ResultDocument) -> Decimal:
    """Return the stated threshold, but no more than the harness's examples set for such a load."""
    config = reference.get("run_config")
    pattern = config.get("load_pattern") if isinstance(config, Mapping) else None
    offline = isinstance(pattern, Mapping) and pattern.get("type") == "max_throughput"
    threshold = parse_number(stated.get("threshold"))
    return _FASTER if threshold is None else min(threshold, _FASTER if offline else _FASTER_SINGLE)


def find_missing_audits(audits: Audits, required: Mapping[str, str]) -> Iterator[str]:
    """Find problems that prevent a result from being entered. ``required``: test → its name in the harness."""
    for test, name in sorted(required.items()):
        document = audits.stated.get(name)
        if document is None:
            yield f"{test}: the round asks for audit/audit_{name}.json, and the run wrote none"
        elif document.get("passed") is not True:
            detail = f": {document.get('reason')}" if document.get("reason") else ""
            yield f"{test}: {name} failed{detail}"


def collect_audit_values(audits: Audits) -> dict[str, Any]:
    return {name: document.get("passed") is True for name, document in sorted(audits.stated.items())}
