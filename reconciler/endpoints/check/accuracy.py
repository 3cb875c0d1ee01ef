"""Check that the required points have accuracy results, and that these reach the benchmark's limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from reconciler.endpoints.check.curves import find_regions, is_agentic, list_offline
from reconciler.endpoints.check.structure import CHECKER, CurveView, complain, make_rule
from reconciler.endpoints.rules.curve_rules import RuledBenchmark
from reconciler.endpoints.rules.point import AccuracyScore
from reconciler.endpoints.rules.regions import BAND_TITLES, BANDS, Regions, match_bands
from reconciler.endpoints.tree.content import ACCURACY, DEDICATED, ELECTED
from reconciler.endpoints.tree.reading import PointFolder
from reconciler.resource.quantities import show_count
from reconciler.tree.findings import Complaint

_HUNDRED = Decimal(100)
_SWE_BENCH = "swe_bench"


def check_coverage(view: CurveView) -> Iterator[Complaint]:
    """Require one accuracy result in each mandatory band and at the Offline point, and no others."""
    regions = find_regions(view)
    if regions is None:
        return
    candidates = _list_candidates(view, regions)
    owner = match_bands([(point.concurrency, bands) for point, bands in candidates])
    if missing := ", ".join(BAND_TITLES[band] for band in BANDS if band not in owner):
        yield complain(view.folder, f"no accuracy run in {missing}", "one accuracy run in each mandatory region")
    unused = (point for point, _ in candidates if point.concurrency not in owner.values())
    if extra := ", ".join(point.name for point in unused if point.get("offline") != ELECTED):
        values = view.rules.values
        count = values.accuracy_points_agentic if is_agentic(view) else values.accuracy_points
        yield complain(view.folder, f"accuracy results at {extra}, too", f"only the {count} required accuracy results")
    for point in list_offline(view.folder):
        if not _list_run_scores(point):
            yield complain(f"{point.shown}/{ACCURACY}", "no accuracy run at the Offline point", "an accuracy run")


def _list_run_scores(point: PointFolder) -> tuple[AccuracyScore, ...]:
    return tuple(score for score in point.scores if not score.inline)


def _list_candidates(view: CurveView, regions: Regions) -> list[tuple[PointFolder, tuple[str, ...]]]:
    """List the points with an accuracy run and the bands that each could fill. The elected point comes last, so that it
    fills the high band only if no other point does."""
    carrying = [p for p in view.folder.points if _list_run_scores(p) and p.get("offline") != DEDICATED]
    ordered = sorted(carrying, key=lambda point: point.get("offline") == ELECTED)
    return [(point, regions.list_bands(point.concurrency, view.rules)) for point in ordered]


def check_present(view: CurveView) -> Iterator[Complaint]:
    if view.folder.points and not any(point.accuracy.value is not None for point in view.folder.points):
        yield complain(view.folder, "no point has an accuracy result", f"{ACCURACY} at each mandatory point")


def check_bars(view: CurveView) -> Iterator[Complaint]:
    """Check the accuracy limits of single-turn benchmarks at every point that has results."""
    benchmark = _find_benchmark(view)
    if benchmark is None:
        if any(point.scores for point in view.folder.points):
            found = f"no accuracy limit is known for {view.folder.model}"
            yield complain(view.folder, found, "a benchmark of the round", warning=True)
        return
    for point in view.folder.points if not benchmark.agentic else ():
        scores = _average_scores(point.scores)
        if list(scores) == ["score"] and len(benchmark.accuracy) == 1:
            scores = {next(iter(benchmark.accuracy)): scores["score"]}
        for metric, (least, most) in benchmark.accuracy.items():
            if (score := scores.get(metric)) is None:
                continue
            score = score * _HUNDRED if 0 <= score <= 1 < least else score
            if score < least or (most is not None and score > most):
                bound = f"at least {least}" if most is None else f"between {least} and {most}"
                yield complain(f"{point.shown}/{ACCURACY}", f"{metric} {score:.4f}", bound)


def check_sample_count(view: CurveView) -> Iterator[Complaint]:
    benchmark = _find_benchmark(view)
    if benchmark is None or benchmark.agentic:
        return
    for point in view.folder.points:
        counted = [score.issued for score in point.scores if score.issued]
        if counted and sum(counted) < benchmark.least_accuracy_samples:
            wanted = f"at least {benchmark.least_accuracy_samples}"
            yield complain(f"{point.shown}/{ACCURACY}", f"{sum(counted)} samples", wanted)


def _find_benchmark(view: CurveView) -> RuledBenchmark | None:
    return view.rules.benchmarks.get(view.folder.model)


def _average_scores(scores: Sequence[AccuracyScore]) -> Mapping[str, Decimal]:
    """Map each metric, in lower case, to its mean over the datasets, weighted by sample counts if every dataset states
    its sample count."""
    collected: dict[str, list[tuple[Decimal, int]]] = {}
    for score in scores:
        for metric, value in score.scores.items():
            collected.setdefault(metric.lower(), []).append((value, score.samples))
    means = {}
    for metric, pairs in collected.items():
        total = sum(weight for _, weight in pairs)
        weighted = total > 0 and all(weight for _, weight in pairs)
        weights = [Decimal(weight if weighted else 1) for _, weight in pairs]
        means[metric] = sum((v * w for (v, _), w in zip(pairs, weights, strict=True)), Decimal(0)) / sum(weights)
    return means


def check_inline(view: CurveView) -> Iterator[Complaint]:
    """Require that each point of an agentic benchmark has a score from the performance run itself."""
    benchmark = _find_agentic_benchmark(view)
    if benchmark is None or benchmark.inline is None:
        return
    for point in view.folder.stated:
        inline = next((score for score in point.scores if score.inline), None)
        found = _convert_to_percent(inline)
        if inline is None or not inline.scores:
            yield complain(f"{point.shown}/{ACCURACY}", "no score from the performance run", "a score at every point")
        elif found is None:
            yield complain(f"{point.shown}/{ACCURACY}", "the inline score is out of range", "a number from 0 to 1")
        elif found < benchmark.inline:
            yield complain(f"{point.shown}/{ACCURACY}", f"inline accuracy {found:.2f}", f"at least {benchmark.inline}")


def check_swe_bench(view: CurveView) -> Iterator[Complaint]:
    """Check the mean of one result from each mandatory region."""
    benchmark, regions = _find_agentic_benchmark(view), find_regions(view)
    if benchmark is None or benchmark.swe_bench is None or regions is None:
        return
    by_concurrency = {point.concurrency: point for point in view.folder.points}
    owner = match_bands([(point.concurrency, bands) for point, bands in _list_candidates(view, regions)])
    found, malformed = [], False
    for concurrency in owner.values():
        point = by_concurrency[concurrency]
        score = next((score for score in point.scores if score.dataset == _SWE_BENCH and not score.inline), None)
        if (share := _convert_to_percent(score)) is not None:
            found.append(share)
        elif score is not None and score.scores:
            malformed = True
            wrong = f"the {_SWE_BENCH} score is out of range"
            yield complain(f"{point.shown}/{ACCURACY}", wrong, "a number from 0 to 1")
    if not found:
        if not malformed:
            yield complain(view.folder, f"no {_SWE_BENCH} result", "a result in each mandatory region", warning=True)
        return
    mean = sum(found, Decimal(0)) / len(found)
    if mean < benchmark.swe_bench:
        yield complain(view.folder, f"the {_SWE_BENCH} mean is {mean:.2f}", f"at least {benchmark.swe_bench}")
    elif len(found) < len(BANDS):
        covered = f"the {_SWE_BENCH} mean covers {show_count(len(found), 'result')}"
        yield complain(view.folder, covered, f"results of {len(BANDS)} regions", warning=True)


def check_turn_tokens(view: CurveView) -> Iterator[Complaint]:
    benchmark = _find_agentic_benchmark(view)
    if benchmark is None or benchmark.output_tokens is None:
        return
    least, most = benchmark.output_tokens
    for point in view.folder.stated:
        if point.measured is None:
            continue
        mean = point.measured.turn_tokens
        if mean is None:
            absent = "no output_sequence_lengths_full_run"
            yield complain(point.summary, absent, "the output tokens of all turns", warning=True)
        elif not least <= mean <= most:
            yield complain(point.summary, f"{mean:.1f} output tokens per turn", f"between {least} and {most}")


def _find_agentic_benchmark(view: CurveView) -> RuledBenchmark | None:
    benchmark = _find_benchmark(view)
    return benchmark if benchmark is not None and is_agentic(view) else None


def _convert_to_percent(score: AccuracyScore | None) -> Decimal | None:
    """Return a score between 0 and 1 in percent, None for any other."""
    if score is None or not score.scores:
        return None
    value = score.scores.get("score", next(iter(score.scores.values())))
    return value * _HUNDRED if 0 <= value <= 1 else None


ACCURACY_RULES = (
    (make_rule("accuracy-coverage", "accuracy is measured at the required points only"), check_coverage),
    (make_rule("accuracy-present", "a curve has accuracy results"), check_present),
    (make_rule("accuracy-gate", "accuracy reaches the benchmark's limits", CHECKER), check_bars),
    (make_rule("accuracy-sample-count", "the complete accuracy dataset is scored", CHECKER), check_sample_count),
    (make_rule("agentic-accuracy-inline", "the performance run's own accuracy reaches its limit"), check_inline),
    (
        make_rule("agentic-accuracy-swebench", "the mean SWE-bench score of the regions reaches its limit"),
        check_swe_bench,
    ),
    (make_rule("agentic-osl-range", "the output tokens per turn are in range", CHECKER), check_turn_tokens),
)
