"""A measured point as reported by the official client: its request, counts and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct, field

_SECOND, _MILLISECOND = Decimal(10**9), Decimal(10**6)
OFFLINE_PATTERN = "max_throughput"  # the load pattern of a dedicated Offline run
AGENTIC_PATTERN = "agentic_inference"  # a fixed number of conversations in parallel
DRIFTING = "Drifting"  # prefix of the states of a metric that is not flat


class Distribution(Struct, frozen=True):
    """A distribution of nanoseconds or tokens. ``percentiles``: percent → value, where "90" and "90.0" are both
    Decimal(90); ``least``, ``median`` and ``most``: of all values."""

    total: Decimal = Decimal(0)
    mean: Decimal | None = None
    percentiles: Mapping[Decimal, Decimal] = field(default_factory=dict)
    least: Decimal | None = None
    most: Decimal | None = None
    median: Decimal | None = None

    def get_percentile(self, percent: int) -> Decimal | None:
        return self.percentiles.get(Decimal(percent))


class Warmup(Struct, frozen=True):
    """Requests that the client sends before the run, without reporting their outcome. ``requests``: also 0 if the
    warm-up covers the whole dataset."""

    requests: int
    salt: bool
    concurrency: int


class SteadyWindow(Struct, frozen=True):
    """The steady-state window found by the client. ``found``: the client claims a steady state; ``first`` and ``last``:
    super-passes of the window, inclusive, with ``last`` below ``first`` if there is none; ``seconds``: issue time;
    ``states``: metric → Plateau, Drifting Up or Drifting Down; ``anomaly``: description of a later shift of level;
    ``skipped``: super-passes of the ramp, which do not count."""

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
    """The score of one dataset. ``inline``: scored on the performance run itself; ``scores``: metric → value on the
    scorer's own scale, "score" for a single unnamed metric; ``samples``: size of the dataset; ``issued``: samples
    sent, including repetitions; 0 if not stated."""

    dataset: str
    inline: bool
    scores: Mapping[str, Decimal]
    samples: int = 0
    issued: int = 0


class MeasuredPoint(Struct, frozen=True, kw_only=True):
    """A performance run at a fixed concurrency, or a dedicated Offline run, whose ``concurrency`` is the size of its
    dataset. Times in ns. ``seeds``: by their names in point.yaml. Only for agentic benchmarks: ``trajectories``, the
    requested conversations, and ``turn_tokens``, the mean number of output tokens per turn."""

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
    client: str = ""

    @property
    def is_offline(self) -> bool:
        """Return True for a dedicated Offline run."""
        return self.load_pattern == OFFLINE_PATTERN

    @property
    def is_agentic(self) -> bool:
        return self.load_pattern == AGENTIC_PATTERN

    @property
    def inline_share(self) -> Decimal | None:
        """Return the score of the performance run itself; None if it has no single one."""
        return next((score.scores.get("score") for score in self.accuracy if score.inline), None)

    @property
    def per_user(self) -> Decimal | None:
        """Return the tokens per second per user, or the interactivity of an agentic benchmark."""
        return self.interactivity if self.is_agentic else self.tps_per_user

    @property
    def seconds(self) -> Decimal:
        return Decimal(self.duration_ns) / _SECOND

    @property
    def system_tps(self) -> Decimal:
        """Return the output tokens per second over the whole run, as computed by the official checker."""
        return self.output_tokens / self.seconds if self.duration_ns > 0 else Decimal(0)

    @property
    def tps_per_user(self) -> Decimal | None:
        """Return 1000 divided by TPOT's 90th percentile in ms; None if none was measured."""
        tpot = self.tpot.get_percentile(90)
        return _SECOND / tpot if tpot else None

    @property
    def ttft_p90_ms(self) -> Decimal | None:
        ttft = self.ttft.get_percentile(90)
        return None if ttft is None else ttft / _MILLISECOND

    @property
    def interactivity(self) -> Decimal | None:
        """Return the interactivity of an agentic benchmark: output tokens divided by the total seconds of all turns;
        None if a turn failed."""
        return None if self.failed or not self.latency.total else self.output_tokens / (self.latency.total / _SECOND)
