"""Every rule of check, as its users meet it: its id, how severe it is, what it says, who demands it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from reconciler.tree.check.engine import ALL_RULES as CHECKED
from reconciler.tree.findings import Rule
from tests.said import hold

SAID = Path(__file__).with_name("said_of_rules.txt")


@pytest.mark.parametrize(("name", "rules"), [("check", CHECKED)])
def test_rules_are_told_in_their_order(name: str, rules: Sequence[Rule]) -> None:
    """A user's script knows a rule by its id, and reports show the rules in this order."""
    hold(SAID, name, (f"{rule.severity} {rule.id}: {rule.title} ({', '.join(rule.sources)})" for rule in rules))
