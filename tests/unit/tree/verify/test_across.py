"""One log in two cells: which of them may share it."""

from __future__ import annotations

import pytest

from reconciler.tree.findings import Facts, Severity
from reconciler.tree.verify.across import verify_copied_logs

INFERABLE = frozenset({("MultiStream", "SingleStream")})


def sharing(cell: str, official: str, submitter: str = "Acme", run: str = "performance") -> Facts:
    return Facts(submitter, cell, official, "v6.1", digests=((run, "0" * 64),))


FIRST = sharing("closed/box/bert-99/SingleStream", "bert-99")


@pytest.mark.parametrize(
    ("other", "severity"),
    [
        pytest.param(sharing("closed/box/bert-99.9/SingleStream", "bert-99.9"), None, id="accuracy variant"),
        pytest.param(sharing("closed/box/bert-99/MultiStream", "bert-99"), None, id="inferred scenario"),
        pytest.param(sharing("closed/box/bert-99.9/MultiStream", "bert-99.9"), None, id="both at once"),
        pytest.param(sharing("open/box/bert-99/SingleStream", "bert-99"), Severity.NOTE, id="two divisions"),
        pytest.param(sharing("closed/box/bert-99/Offline", "bert-99"), Severity.ERROR, id="other scenario"),
        pytest.param(sharing("closed/box/resnet/SingleStream", "resnet"), Severity.ERROR, id="other benchmark"),
        pytest.param(sharing("closed/big/bert-99/SingleStream", "bert-99"), Severity.ERROR, id="other system"),
        pytest.param(
            sharing("closed/box/bert-99.9/SingleStream", "bert-99.9", "Bcme"), Severity.ERROR, id="other submitter"
        ),
        pytest.param(
            sharing("closed/box/bert-99.9/SingleStream", "bert-99.9", run="accuracy"), Severity.ERROR, id="other run"
        ),
    ],
)
def test_a_log_is_shared_by_variants_and_inferred_scenarios_alone(other: Facts, severity: Severity | None) -> None:
    found = list(verify_copied_logs([FIRST, other], {}, INFERABLE))
    assert [finding.complaint.severity for finding in found] == ([] if severity is None else [severity])
