"""Every kind of finding about others' trees has an argument in the documents."""

from __future__ import annotations

import re

from reconciler.verify.engine import ALL_RULES
from tests.architecture.documents import DOCS, read


def test_every_kind_of_finding_is_argued_for() -> None:
    argued = set(re.findall(r"^\| `([a-z-]+\.[a-z-]+)` \|", read(DOCS / "findings.md"), re.MULTILINE))
    assert argued == {rule.id for rule in ALL_RULES}
