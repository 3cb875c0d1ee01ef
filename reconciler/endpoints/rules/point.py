"""One measured point, as the official client reports it: what was asked, what was counted, what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct, field

_SECOND, _MILLISECOND = Decimal(10**9), Decimal(10**6)
OFFLINE_PATTERN = "max_throughput"  # the load pattern of a dedicated Offline run
AGENTIC_PATTERN = "agentic_inference"  # of conversations, at a fixed number of them at a time
DRIFTING = "Drifting"  # how the states of a metric that is not flat begin


class Distribution(Struct, frozen=True):
    """Nanoseconds or tokens. ``percentiles``: percent → value, "90" and "90.0" alike as Decimal(90); ``least``,
    ``median`` and ``most`` of all values."""

    total: Decimal = Decimal(0)
    mean: Decimal | None = None
    percentiles: Mapping[Decimal, Decimal] = field(default_factory=dict)
    least: Decimal | None = None
    most: Decimal | None = None
    median: Decimal | None = None

    def at(self, percent: int) -> Decimal | None:
        return self.percentiles.get(Decimal(percent))


class Warmup(Struct, frozen=True):
    """Requests of the client before the run. ``requests`` 0: none, or as many as the dataset has where ``whole_pass``.
    The client does not report what came of them."""

    requests: int
    whole_pass: bool
    salt: bool
    concurrency: int


class SteadyWindow(Struct, frozen=True):
    """Findings of the client's detector in a run. ``found``: it claims a steady state; ``first`` and ``last``:
    super-passes of the window, both included, ``last`` below ``first`` where there is none; ``seconds``: of issue time;
    ``states``: metric → Plateau, Drifting Up or Drifting Down; ``anomaly``: a later shift of level, in words;
    ``skipped``: super-passes of the ramp before the first one that is counted."""

    found: bool
    first: int = 0
    last: int = -1
    super_pass_size: int = 0
    samples: int = 0
    seconds: Decimal | None = None
    states: Mapping[str, str] = field(default_factory=dict)
    anomaly: str = ""
    skipped: int = 0

    @property
    def super_passes(self) -> int:
        return self.last - self.first + 1

    @property
    def drifting(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, state in self.states.items() if state.startswith(DRIFTING)))


class AccuracyScore(Struct, frozen=True):
    """Score of one dataset. ``inline``: scored on the performance run itself; ``scores``: metric → value on the
    scorer's own scale, a single unnamed score as "score"; ``samples`` of the dataset and how many were ``issued`` with
    repetitions, 0 where nothing says."""

    dataset: str
    inline: bool
    scores: Mapping[str, Decimal]
    samples: int = 0
    issued: int = 0
    complete: bool = True


class MeasuredPoint(Struct, frozen=True, kw_only=True):
    """One performance run at a fixed concurrency, or a dedicated Offline run, whose ``concurrency`` is the size of its
    dataset. Times in ns. ``seeds``: under the names of point.yaml. ``trajectories``: conversations that were asked for;
    ``turn_tokens``: the mean number of output tokens of all turns; both of agentic benchmarks alone."""

    concurrency: int
    load_pattern: str
    model: str
    dataset: str
    issued: int
    completed: int
    failed: int
    duration_ns: int
    output_tokens: int
    ttft: Distribution
    tpot: Distribution
    latency: Distribution
    finished: bool
    streaming: bool
    stream_all_chunks: bool
    min_duration_ms: int
    seeds: Mapping[str, int] = field(default_factory=dict)
    samples_asked: int = 0
    trajectories: int = 0
    warmup: Warmup | None = None
    window: SteadyWindow | None = None
    accuracy: tuple[AccuracyScore, ...] = ()
    turn_tokens: Decimal | None = None
    endpoints: tuple[str, ...] = ()
    client: str = ""

    @property
    def is_offline(self) -> bool:
        """True for a dedicated Offline run."""
        return self.load_pattern == OFFLINE_PATTERN

    @property
    def is_agentic(self) -> bool:
        return self.load_pattern == AGENTIC_PATTERN

    @property
    def per_user(self) -> Decimal | None:
        """Tokens a second per user; of an agentic benchmark its interactivity."""
        return self.interactivity if self.is_agentic else self.tps_per_user

    @property
    def seconds(self) -> Decimal:
        return Decimal(self.duration_ns) / _SECOND

    @property
    def system_tps(self) -> Decimal:
        """Output tokens a second over the whole run, as the official checker computes them."""
        return self.output_tokens / self.seconds if self.duration_ns > 0 else Decimal(0)

    @property
    def tps_per_user(self) -> Decimal | None:
        """1000 by TPOT's 90th percentile in ms; None where none was measured."""
        tpot = self.tpot.at(90)
        return _SECOND / tpot if tpot else None

    @property
    def ttft_p90_ms(self) -> Decimal | None:
        ttft = self.ttft.at(90)
        return None if ttft is None else ttft / _MILLISECOND

    @property
    def interactivity(self) -> Decimal | None:
        """Interactivity of agentic benchmarks: output tokens by the seconds that all turns took; None where a turn
        failed."""
        return None if self.failed or not self.latency.total else self.output_tokens / (self.latency.total / _SECOND)
