"""Read the official client's output of a run: config.yaml, result_summary.json and accuracy_results.json.

Fields and units are the client's (mlcommons/endpoints: metrics/report.py, config/schema.py,
commands/benchmark/steady_state.py). The files are untrusted input: each missing or malformed value becomes a problem
with the field's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct, field

from reconciler.endpoints.rules.point import (
    OFFLINE_PATTERN,
    AccuracyScore,
    Distribution,
    MeasuredPoint,
    SteadyWindow,
    Warmup,
)
from reconciler.errors import ReconcilerError
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import ACCURACY_RESULTS, CONFIG, RESULT_SUMMARY
from reconciler.resource.quantities import parse_decimal, parse_number
from reconciler.storage.documents import ResultDocument, parse_json_object, parse_yaml_mapping

# Paths of each file in the client's folder and in a submission.
PLACES: Mapping[str, tuple[str, ...]] = {
    CONFIG: (CONFIG,),
    RESULT_SUMMARY: (f"performance/{RESULT_SUMMARY}", RESULT_SUMMARY),
    ACCURACY_RESULTS: (f"accuracy/{ACCURACY_RESULTS}", ACCURACY_RESULTS),
}
# The client's names of seeds that have other names in point.yaml.
SEEDS: Mapping[str, tuple[str, ...]] = {
    "scheduler_rng_seed": ("settings", "runtime", "scheduler_random_seed"),
    keys.SAMPLE_INDEX_RNG_SEED: ("settings", "runtime", "dataloader_random_seed"),
    "model_seed": ("model_params", "seed"),
}
_STATES = {"steady": "Plateau", "up": "Drifting Up", "down": "Drifting Down"}
_META = frozenset(
    {
        *("dataset_name", "num_samples", "status", "extractor", "ground_truth_column", "n_repeats", "complete"),
        *("unit_samples", "total_samples", "num_repeats", "duration_s", "dataset_type", "response_counts"),
        *("osl_tokenize_s", "output_sequence_lengths", "breakdown"),
    }
)
_INLINE = "performance"


class PointProblem(Struct, frozen=True):
    """``rule``: the official check that fails for the same reason; ``file``: a file of the point."""

    rule: str
    file: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"


class UnreadablePointError(ReconcilerError):
    """The client's results are incomplete or malformed."""

    def __init__(self, problems: tuple[PointProblem, ...]) -> None:
        super().__init__(
            "; ".join(map(str, problems)), fix="run the point again, or restore its files as written by the client"
        )
        self.problems = problems


def parse_point(files: Mapping[str, bytes], dataset_size: int) -> MeasuredPoint:
    """Parse ``files``, by their names in a submission's point folder. ``dataset_size``: samples of the performance
    dataset, which is the concurrency of a dedicated Offline run. Raises UnreadablePointError with all problems."""
    reader = _Reader(files)
    config, summary = reader.read_document(CONFIG), reader.read_document(RESULT_SUMMARY)
    if config is None or summary is None:
        raise UnreadablePointError(tuple(reader.problems))
    point = _make_point(reader, config, summary, dataset_size)
    if reader.problems:
        raise UnreadablePointError(tuple(reader.problems))
    return point


def parse_scores(data: bytes) -> tuple[AccuracyScore, ...]:
    """Parse an accuracy_results.json. Raises UnreadablePointError if it is malformed."""
    reader = _Reader({ACCURACY_RESULTS: data})
    scores = reader.read_scores()
    if reader.problems:
        raise UnreadablePointError(tuple(reader.problems))
    return scores


_RULES = {CONFIG: "config-file-present", RESULT_SUMMARY: "result-file-valid", ACCURACY_RESULTS: "accuracy-valid"}


class _Reader(Struct):
    """A reader that collects problems, so that all are reported together."""

    files: Mapping[str, bytes]
    problems: list[PointProblem] = field(default_factory=list)

    def refuse(self, name: str, text: str, rule: str = "") -> None:
        self.problems.append(PointProblem(rule or _RULES[name], name, text))

    def read_document(self, name: str) -> ResultDocument | None:
        if name not in self.files:
            self.refuse(name, "it does not exist", "result-summary-present" if name == RESULT_SUMMARY else "")
            return None
        try:
            parse = parse_yaml_mapping if name == CONFIG else parse_json_object
            return parse(self.files[name])
        except (ValueError, RecursionError) as error:
            self.refuse(name, " ".join(str(error).split())[:200])
            return None

    def read_whole(
        self, document: ResultDocument, name: str, *path: str, least: int = 0, default: int | None = None
    ) -> int:
        """Read an integer of at least ``least``. ``default``: the value if it is missing."""
        found = document.get_nested(*path)
        number = parse_number(found)
        if number is not None and number == int(number) and number >= least:
            return int(number)
        if found is None and default is not None:
            return default
        shown = "is missing" if found is None else f"is {str(found)[:40]!r}"
        text = f"{'.'.join(path)} {shown}, a whole number of at least {least} is needed"
        self.refuse(name, text, "ran-as-asked" if name == CONFIG else "")
        return least

    def read_distribution(self, document: ResultDocument, name: str) -> Distribution:
        """Read a block of statistics; an empty distribution if nothing was measured."""
        block = document.get(name)
        if block is None or block == {}:
            return Distribution()
        if not isinstance(block, Mapping):
            self.refuse(RESULT_SUMMARY, f"{name} is {type(block).__name__}, not an object")
            return Distribution()
        percentiles: dict[Decimal, Decimal] = {}
        stated = block.get("percentiles") or {}
        for key, value in stated.items() if isinstance(stated, Mapping) else ():
            percent, number = _parse_percent(key), parse_number(value)
            if percent is None or number is None:
                self.refuse(RESULT_SUMMARY, f"{name}.percentiles: {str(key)[:20]!r} is not a percentile of a number")
            elif percentiles.setdefault(percent, number) != number:
                self.refuse(RESULT_SUMMARY, f"{name}.percentiles: two values for {percent:f}")
        total = parse_number(block.get("total"))
        mean, least, most, median = (parse_number(block.get(key)) for key in ("avg", "min", "max", "median"))
        return Distribution(total or Decimal(0), mean, percentiles, least, most, median)

    def read_scores(self) -> tuple[AccuracyScore, ...]:
        document = self.read_document(ACCURACY_RESULTS)
        if document is None:
            return ()
        listed = document.values.get("accuracy_scores", document.values)
        if isinstance(listed, Mapping):
            entries = [(str(name), entry) for name, entry in listed.items() if isinstance(entry, Mapping)]
        elif isinstance(listed, list):
            entries = list(self._list_named(listed))
        else:
            self.refuse(ACCURACY_RESULTS, "accuracy_scores is neither a list nor an object")
            return ()
        if not entries:
            self.refuse(ACCURACY_RESULTS, "it has no score")
        inline = [name for name, entry in entries if entry.get("dataset_type") == _INLINE]
        if len(inline) > 1:
            self.refuse(ACCURACY_RESULTS, f"several entries are of the performance run: {', '.join(inline)}")
        return tuple(_make_score(name, entry, typed=bool(inline)) for name, entry in entries)

    def _list_named(self, listed: list[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        seen: set[str] = set()
        for entry in listed:
            name = entry.get("dataset_name") if isinstance(entry, Mapping) else None
            if not isinstance(name, str) or not name.strip():
                self.refuse(ACCURACY_RESULTS, "an entry has no dataset_name")
            elif name in seen:
                self.refuse(ACCURACY_RESULTS, f"two entries are of {name}")
            elif "score" not in entry:
                self.refuse(ACCURACY_RESULTS, f"{name} has no score")
            else:
                seen.add(name)
                yield name, entry


def _parse_percent(key: object) -> Decimal | None:
    percent = parse_decimal(key)
    return percent.normalize() if percent is not None and 0 <= percent <= 100 else None


def _make_score(name: str, entry: Mapping[str, Any], *, typed: bool) -> AccuracyScore:
    value = entry.get("score")
    older = {key: part for key, part in entry.items() if key not in _META}
    parts = value if isinstance(value, Mapping) else older if value is None else {"score": value}
    kind = entry.get("dataset_type")
    inline = kind == _INLINE or (not typed and name == _INLINE and "dataset_type" not in entry)
    scores = {str(key): number for key, part in parts.items() if (number := parse_decimal(part)) is not None}
    samples = parse_number(entry.get("num_samples", entry.get("unit_samples")))
    repeats = parse_number(entry.get("n_repeats", entry.get("num_repeats"))) or Decimal(1)
    count = int(samples or 0)
    issued = int(count * max(repeats, Decimal(1)))
    return AccuracyScore(name, inline, scores, count, issued)


def _make_point(reader: _Reader, config: ResultDocument, summary: ResultDocument, dataset_size: int) -> MeasuredPoint:
    pattern = str(config.get_nested("settings", "load_pattern", "type") or "")
    if not pattern:
        reader.refuse(CONFIG, "settings.load_pattern.type is missing", "ran-as-asked")
    offline = pattern == OFFLINE_PATTERN
    asked = ("settings", "load_pattern", "target_concurrency")
    concurrency = dataset_size if offline else reader.read_whole(config, CONFIG, *asked, least=1)
    count = "n_samples"
    duration = reader.read_whole(summary, RESULT_SUMMARY, "duration_ns", least=1)
    tokens = reader.read_distribution(summary, "output_sequence_lengths")
    full = summary.get_nested("output_sequence_lengths_full_run", "output_sequence_lengths", "avg")
    runtime = ("settings", "runtime")
    return MeasuredPoint(
        concurrency=concurrency,
        load_pattern=pattern,
        model=str(config.get_nested("model_params", "name") or ""),
        dataset=str(find_performance_dataset(config).get("name") or ""),
        issued=reader.read_whole(summary, RESULT_SUMMARY, f"{count}_issued", default=0),
        completed=reader.read_whole(summary, RESULT_SUMMARY, f"{count}_completed"),
        failed=reader.read_whole(summary, RESULT_SUMMARY, f"{count}_failed", default=0),
        duration_ns=duration,
        output_tokens=int(tokens.total),
        ttft=reader.read_distribution(summary, "ttft"),
        tpot=reader.read_distribution(summary, "tpot"),
        latency=reader.read_distribution(summary, "latency"),
        finished=summary.get("complete") is not False and summary.get("state") in (None, "complete"),
        streaming=_streams(config.get_nested("model_params", "streaming"), offline=offline),
        stream_all_chunks=config.get_nested("settings", "client", "stream_all_chunks") is True,
        min_duration_ms=reader.read_whole(config, CONFIG, *runtime, "min_duration_ms", default=0),
        seeds={
            n: int(seed) for n, path in SEEDS.items() if (seed := parse_number(config.get_nested(*path))) is not None
        },
        samples_asked=reader.read_whole(config, CONFIG, *runtime, "n_samples_to_issue", default=0),
        trajectories=count_trajectories(config),
        warmup=_read_warmup(config, concurrency),
        window=_read_window(summary),
        accuracy=reader.read_scores() if ACCURACY_RESULTS in reader.files else (),
        turn_tokens=parse_number(full),
        client=read_client_version(summary),
    )


def read_client_version(summary: ResultDocument) -> str:
    return " ".join(str(stated) for name in ("version", "git_sha") if (stated := summary.get(name)))


def list_datasets(config: ResultDocument) -> list[Mapping[str, Any]]:
    listed = config.get("datasets")
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


def find_performance_dataset(config: ResultDocument) -> Mapping[str, Any]:
    """Return the first performance dataset, or an empty mapping."""
    entries = (entry for entry in list_datasets(config) if entry.get("type", "performance") == "performance")
    return next(entries, {})


def count_trajectories(config: ResultDocument) -> int:
    """Return the number of conversations that a run must play; 0 for none or for one pass."""
    played = find_performance_dataset(config).get("agentic_inference")
    return _read_whole(played.get("num_trajectories_to_issue")) if isinstance(played, Mapping) else 0


def _streams(stated: object, *, offline: bool) -> bool:
    """Return True if a run streams; "auto" streams unless the run is offline."""
    return stated is True or stated == "on" or (stated in (None, "auto") and not offline)


def _read_warmup(config: ResultDocument, concurrency: int) -> Warmup | None:
    warmup = ("settings", "warmup")
    if config.get_nested(*warmup, "enabled") is not True:
        return None
    requests = _read_whole(config.get_nested(*warmup, "n_requests"))
    return Warmup(requests, config.get_nested(*warmup, "salt") is True, concurrency)


def _read_window(summary: ResultDocument) -> SteadyWindow | None:
    """Read the steady state that the client detected (mlcommons/endpoints: Report.steady_state); None if it did not
    look for one."""
    if not isinstance(summary.get("steady_state"), Mapping):
        return None
    block = ResultDocument(summary.get("steady_state"))
    first, passes, end = (_read_whole(block.get_nested("window", n)) for n in ("sp_lo", "n_super_passes", "sp_hi"))
    last = first + passes - 1 if passes else end - 1
    trend = block.get("global_trend")
    return SteadyWindow(
        found=block.get("found") is True,
        first=first,
        last=last,
        super_pass_size=_read_whole(block.get("superpass_size")),
        samples=_read_whole(block.get_nested("window", "n_samples")),
        seconds=parse_number(block.get_nested("short_window", "window_duration_s")),
        states={str(n): _STATES.get(str(s), str(s)) for n, s in trend.items()} if isinstance(trend, Mapping) else {},
        anomaly=_describe_shift(block) if block.get_nested("anomaly", "detected") is True else "",
        skipped=_count_skipped(block),
    )


def _count_skipped(block: ResultDocument) -> int:
    """Return the super-passes of the ramp. The client numbers those of a window from the end of the ramp."""
    all_passes, after_ramp = (_read_whole(block.get(name)) for name in ("n_super_passes", "n_post_warmup"))
    return all_passes - after_ramp if after_ramp else _read_whole(block.get("warmup"))


def _read_whole(found: object) -> int:
    number = parse_number(found)
    return int(number) if number is not None else 0


def _describe_shift(block: ResultDocument) -> str:
    change = parse_number(block.get_nested("anomaly", "delta_pct"))
    at = _read_whole(block.get_nested("anomaly", "change_point_sp"))
    amount = "" if change is None else f" by {change:.3g} %"
    return f"level shift{amount} at super-pass {at}"
