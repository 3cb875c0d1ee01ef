"""Agreement of a repeated measurement with the published one. Pure.

A repeat may never lie further off than MLPerf itself allows between a published and an audit run of one system: what
TEST01 allows (compliance/TEST01/run_verification.py of mlcommons/inference). Where three runs or more are recorded,
alike in inputs and evidence, their own spread decides when it is narrower: the bound that 99 of 100 further runs of the
same system keep (Student's t, one side). It only ever narrows, so that recording noisy runs gains nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from msgspec import Struct

from reconciler.rules.compliance.scores import Scored, Slack

FEWEST = 3
# 99 % quantiles of Student's t for 1, 2, … degrees of freedom; that of 30 serves for more, on the lenient side.
_T99 = (
    *(31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.718, 2.681, 2.650, 2.624, 2.602),
    *(2.583, 2.567, 2.552, 2.539, 2.528, 2.518, 2.508, 2.500, 2.492, 2.485, 2.479, 2.473, 2.467, 2.462, 2.457),
)


class Bound(Struct, frozen=True):
    """The worst value that a repeat may have, in the unit of the values; ``source``: where it comes from."""

    value: float
    source: str

    def keeps(self, repeat: float, *, lower: bool) -> bool:
        return repeat <= self.value if lower else repeat >= self.value


def compute_bound(recorded: Sequence[float], published: float, score: Scored, slack: Slack, *, lower: bool) -> Bound:
    """``recorded``: every valid run alike, the published one among them. ``score``: the published run's, as TEST01
    reads it, and ``slack`` what the round lets that test's be apart. ``lower``: a lower value is better."""
    side = 1 if lower else -1
    allowed = slack.of(score.scenario, score.score or 0.0)
    ruled = Bound(published * (1 + side * allowed), f"{allowed:.0%}, as TEST01 allows between two runs of a system")
    count = len(recorded)
    if count < FEWEST:
        return ruled
    quantile = _T99[min(count - 1, len(_T99)) - 1]
    half = quantile * stdev(recorded) * math.sqrt(1 + 1 / count)
    own = Bound(fmean(recorded) + side * half, f"the spread of {count} recorded runs, 99 % bound")
    return min(own, ruled, key=lambda bound: side * bound.value)
