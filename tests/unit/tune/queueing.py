"""A queue in front of a stand-in engine, in no time: what LoadGen would measure of a server of a known speed."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from reconciler.loadgen.early_stopping import compute_allowed_over
from reconciler.tune.search import RateTrial

PERCENTILE = Decimal(99)


@dataclass(frozen=True)
class Engine:
    """``service`` seconds per query, give or take ``jitter`` (relative, log-normal); a query may take ``limit``
    seconds. Each run has ``queries``, which arrive as LoadGen's do: exponential gaps, the same for every run."""

    service: float
    jitter: float
    limit: float
    queries: int
    schedule: int = 7

    def measure(self, rate: float, seed: int) -> RateTrial:
        gaps = np.random.default_rng(self.schedule).exponential(1 / rate, self.queries)
        spread = self.jitter
        times = self.service * np.random.default_rng(seed).lognormal(-spread * spread / 2, spread, self.queries)
        arrived = np.cumsum(gaps)
        # A query begins when the one before it ended, or when it arrives: Lindley's recursion, all at once.
        ended = np.cumsum(times)
        ended += np.maximum.accumulate(arrived - np.concatenate(([0.0], ended[:-1])))
        latency = np.sort(ended - arrived)
        over = int(np.sum(latency > self.limit))
        allowed = compute_allowed_over(self.queries, PERCENTILE)
        return RateTrial(
            rate=rate,
            valid=over <= allowed,
            pressure=float(latency[int(self.queries * 0.99)] / self.limit),
            completed=self.queries / float(ended[-1]),
            queries=self.queries,
            over=over,
            allowed=allowed,
        )

    def find_capacity(self, runs: int = 41) -> float:
        """The rate at which half of the runs are VALID."""
        low, high = 0.1 / self.service, 1.0 / self.service
        while high / low > 1.001:
            middle = (low * high) ** 0.5
            valid = sum(self.measure(middle, 10_000 + seed).valid for seed in range(runs))
            low, high = (middle, high) if 2 * valid > runs else (low, middle)
        return low
