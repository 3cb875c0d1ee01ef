"""Check the points of a curve together: positions, number, and one system, model and seed set for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from reconciler.endpoints.check.structure import CHECKER, CurveView, complain, make_rule
from reconciler.endpoints.rules.curve_rules import Cohort, Drafter
from reconciler.endpoints.rules.regions import (
    BAND_TITLES,
    CHOICE,
    HIGH,
    LOW,
    MEDIUM,
    ULTRA_LOW,
    Regions,
    compute_regions,
)
from reconciler.endpoints.tree.content import DEDICATED, ELECTED, POINT, canonicalise_model
from reconciler.endpoints.tree.reading import CurveFolder, PointFolder, resolve_shared
from reconciler.errors import ReconcilerError
from reconciler.resource.quantities import is_whole, show_count
from reconciler.tree.findings import Complaint

C_MIN = "c_min_override"
Check = Callable[[CurveView], Iterator[Complaint]]


def is_agentic(view: CurveView) -> bool:
    """Return True if the load pattern of every point, except a dedicated Offline one, is agentic."""
    return _collect_patterns(view) == {view.rules.values.agentic_load_pattern}


def _collect_patterns(view: CurveView) -> set[str]:
    voting = (point for point in view.folder.stated if point.get("offline") != DEDICATED)
    stated = (point.get_nested("runtime_settings", "load_pattern") for point in voting)
    return {"concurrency" if pattern is None else str(pattern) for pattern in stated}


def find_c_max(curve: CurveFolder) -> int | None:
    declared = curve.description.get("max_supported_concurrency")
    return declared if is_whole(declared) and declared > 0 else None


def find_declared_minimum(view: CurveView) -> tuple[int | None, tuple[Complaint, ...]]:
    """Return c_min_override and its problems: the same value at every point of the curve, or at none."""
    described = [(point.description.file, point.description.value) for point in view.folder.points]
    stated = [(file, document.values[C_MIN]) for file, document in described if document and C_MIN in document.values]
    if not stated:
        return None, ()
    silent = [file for file, document in described if document is None or C_MIN not in document.values]
    same, limit = "the same value at every point", view.rules.values.most_ultra_low_concurrency
    problems = [complain(file, f"no {C_MIN}, unlike other points", f"{same}, or none") for file in silent]
    problems += [
        complain(file, f"{C_MIN} {value!r}", f"a whole number from 1 to {limit}")
        for file, value in stated
        if not is_whole(value) or not 1 <= value <= limit
    ]
    found = sorted({value for _, value in stated if is_whole(value) and 1 <= value <= limit})
    if len(found) > 1:
        problems.append(complain(view.folder, f"{C_MIN} {', '.join(map(str, found))}", same))
    return (None if problems else found[0]), tuple(problems)


def derive_curve_regions(view: CurveView) -> tuple[Regions | None, tuple[Complaint, ...]]:
    """Return the regions, or None and the reason why they cannot be computed."""
    curve, rules = view.folder, view.rules
    declared, problems = find_declared_minimum(view)
    c_max = find_c_max(curve)
    if problems or c_max is None or not curve.points:
        return None, ()
    fixed = {point.concurrency for point in curve.points if point.get("offline") != DEDICATED}
    if declared is not None and declared not in fixed:
        found = f"{C_MIN} {declared}, but no point at {declared}"
        return None, (complain(curve, found, f"a point at {declared}"),)
    lowest = min(*(point.concurrency for point in curve.points), rules.values.most_ultra_low_concurrency)
    try:
        return compute_regions(c_max, declared or lowest, rules, declared=declared is not None), ()
    except ReconcilerError as error:
        return None, (complain(curve, str(error), error.fix or "a maximum with room for three regions below it"),)


def find_regions(view: CurveView) -> Regions | None:
    return derive_curve_regions(view)[0]


def check_minimum(view: CurveView) -> Iterator[Complaint]:
    declared, problems = find_declared_minimum(view)
    yield from problems
    if declared is not None:
        yield from (c for c in derive_curve_regions(view)[1] if c.found.startswith(C_MIN))


def check_regions(view: CurveView) -> Iterator[Complaint]:
    yield from (c for c in derive_curve_regions(view)[1] if not c.found.startswith(C_MIN))


def check_basis(view: CurveView) -> Iterator[Complaint]:
    if view.folder.points and find_c_max(view.folder) is None:
        wanted = "max_supported_concurrency, from which the regions follow"
        yield complain(view.folder, "no maximum concurrency", wanted, warning=True)


def check_range(view: CurveView) -> Iterator[Complaint]:
    regions = find_regions(view)
    if regions is None:
        return
    for point in view.folder.stated:
        if point.get("offline") != DEDICATED and not regions.find(point.concurrency):
            end = regions.regions[-1].last
            yield complain(point, f"concurrency {point.concurrency}", f"at most {end}, 10 % above the maximum")


def check_placement(view: CurveView) -> Iterator[Complaint]:
    regions = find_regions(view)
    if regions is None:
        return
    for point in view.folder.stated:
        stated, found = point.get("region"), regions.find(point.concurrency)
        if stated not in (None, CHOICE) and found and stated != found:
            yield complain(point, f"region {stated!r}", f"{found}, the region of concurrency {point.concurrency}")


def _make_coverage_check(band: str) -> Check:
    def check(view: CurveView) -> Iterator[Complaint]:
        regions = find_regions(view)
        limit = view.rules.values.most_ultra_low_concurrency
        present = [point.concurrency for point in view.folder.points]
        if band == ULTRA_LOW:
            last = regions.ultra_low.last if regions is not None else limit
            if view.folder.points and not any(1 <= concurrency <= last for concurrency in present):
                yield complain(view.folder, "no point at ultra-low concurrency", f"a point between 1 and {last}")
        elif regions is not None and not any(band in regions.list_bands(c, view.rules) for c in present):
            title = BAND_TITLES[band]
            yield complain(view.folder, f"no point in {title}", f"a point within {regions.get(band)}")

    return check


def check_count(view: CurveView) -> Iterator[Complaint]:
    dedicated = any(point.get("offline") == DEDICATED for point in view.folder.stated)
    least = view.rules.values.least_points
    if dedicated and not is_agentic(view):
        least = view.rules.values.least_points_with_dedicated_offline
    if view.folder.points and len(view.folder.points) < least:
        yield complain(view.folder, f"{len(view.folder.points)} points", f"at least {least}")


def check_cap(view: CurveView) -> Iterator[Complaint]:
    most = view.rules.values.most_points
    if len(view.folder.points) > most:
        yield complain(view.folder, f"{len(view.folder.points)} points", f"at most {most}")


def list_offline(curve: CurveFolder) -> tuple[PointFolder, ...]:
    return tuple(point for point in curve.stated if point.get("offline") in (DEDICATED, ELECTED))


def check_offline_point(view: CurveView) -> Iterator[Complaint]:
    declared = list_offline(view.folder)
    listed = ", ".join(point.name for point in declared)
    if is_agentic(view):
        if declared:
            wanted = "none: agentic benchmarks have no Offline point"
            yield complain(view.folder, f"{listed} declared as Offline", wanted)
    elif len(declared) != 1:
        found = f"{len(declared)} Offline points{f' ({listed})' if listed else ''}"
        yield complain(view.folder, found, "exactly one: a dedicated run, or the point at the maximum concurrency")
    elif declared[0].get("offline") == ELECTED:
        c_max = find_c_max(view.folder)
        if c_max is not None and declared[0].concurrency != c_max:
            wanted = f"the point at the maximum concurrency, r{c_max}"
            yield complain(declared[0], f"{listed} is elected as Offline", wanted)


def check_offline_order(view: CurveView) -> Iterator[Complaint]:
    dedicated = [point for point in list_offline(view.folder) if point.get("offline") == DEDICATED]
    c_max = find_c_max(view.folder)
    if not dedicated or c_max is None:
        return
    offline = dedicated[0]
    if offline.concurrency < c_max:
        found = f"Offline concurrency {offline.concurrency}"
        yield complain(offline, found, f"at least the maximum concurrency, {c_max}")
    top = next((point.measured for point in view.folder.stated if point.concurrency == c_max and point.measured), None)
    if top is None or offline.measured is None:
        return
    least = view.rules.values.least_offline_share * top.system_tps
    if offline.measured.system_tps < least:
        found = f"Offline {offline.measured.system_tps:.2f} tokens/s"
        yield complain(offline.summary, found, f"at least {least:.2f}, 98 % of the point at the maximum concurrency")


def check_model(view: CurveView) -> Iterator[Complaint]:
    known = tuple(view.rules.benchmarks)
    for name, point in _find_first(view.folder, "model_name").items():
        if name not in known:
            canonical = canonicalise_model(name)
            wanted = canonical if canonical in known else f"one of {', '.join(known)}"
            yield complain(point, f"model_name {name!r}", wanted)


def check_model_folder(view: CurveView) -> Iterator[Complaint]:
    stated = next(iter(_find_first(view.folder, "model_name")), "")
    if view.folder.stated and not stated:
        yield complain(view.folder, "no point states model_name", view.folder.model, warning=True)
    elif stated and stated != view.folder.model:
        yield complain(view.folder, f"folder {view.folder.model}, model_name {stated!r}", "the same name")


def _require_one(what: str, wanted: str, collect: Callable[[CurveView], Iterable[object]]) -> Check:
    """Require that all points state the same value."""

    def check(view: CurveView) -> Iterator[Complaint]:
        values = set(map(str, collect(view)))
        if len(values) > 1:
            yield complain(view.folder, f"{what} {', '.join(sorted(values))}", wanted)

    return check


def _list_datasets(view: CurveView) -> Iterator[object]:
    """List the datasets of the points with a readable result, like the official checker."""
    return (point.get("dataset") or "" for point in view.folder.stated if point.summary.value is not None)


def _list_seed_sets(view: CurveView) -> Iterator[object]:
    return (name for point in view.folder.stated if (name := point.get("seed_set")) is not None)


def check_shared(view: CurveView) -> Iterator[Complaint]:
    for field in ("shared_src", "shared_docs"):
        for value, point in _find_first(view.folder, field, empty=True).items():
            if resolve_shared(view.folder.root, value) is None:
                wanted = "a path from the submission's root to an existing folder"
                yield complain(point, f"{field} {value!r}", wanted)


def _find_first(curve: CurveFolder, field: str, *, empty: bool = False) -> Mapping[str, PointFolder]:
    """Map each text that a field states to the first point that states it. Include the empty text only if ``empty`` is
    set."""
    found: dict[str, PointFolder] = {}
    for point in curve.stated:
        value = point.get(field)
        if isinstance(value, str) and (value or empty):
            found.setdefault(value, point)
    return found


check_type = _require_one("load patterns", "all points agentic, or none", _collect_patterns)
check_one_model = _require_one("models", "one model per curve", lambda view: _find_first(view.folder, "model_name"))
check_one_dataset = _require_one("datasets", "one dataset per curve", _list_datasets)
check_one_seed_set = _require_one("seed sets", "one seed set per submission", _list_seed_sets)


def check_seed_set(view: CurveView) -> Iterator[Complaint]:
    for point in view.folder.stated:
        name = point.get("seed_set")
        if name is not None and str(name) not in view.rules.seed_sets:
            known = ", ".join(sorted(view.rules.seed_sets))
            yield complain(point, f"seed_set {name!r}", f"a published seed set: {known}")


def check_seeds(view: CurveView) -> Iterator[Complaint]:
    for point in view.folder.stated:
        seeds = view.rules.seed_sets.get(str(point.get("seed_set")))
        runtime = point.get_nested("runtime_settings", "runtime")
        if seeds is None or not isinstance(runtime, Mapping):
            continue
        for name, seed in seeds.seeds.items():
            if runtime.get(name) != seed:
                yield complain(point, f"{name} {runtime.get(name)}", f"{seed}, from seed set {seeds.id}")


def check_adoption(view: CurveView) -> Iterator[Complaint]:
    """Check nothing unless a published list states the cohorts of seed sets."""
    for point in view.folder.stated if any(seeds.cohorts for seeds in view.rules.seed_sets.values()) else ():
        seeds, target = view.rules.seed_sets.get(str(point.get("seed_set"))), point.get("target_cohort")
        allowed = [str(cohort) for cohort in seeds.cohorts] if seeds is not None else []
        if seeds is not None and target is not None and target not in allowed:
            wanted = f"{' or '.join(allowed) or 'no cohort'}, for which seed set {seeds.id} was published"
            yield complain(point, f"target_cohort {target!r}", wanted)


def check_drafter(view: CurveView) -> Iterator[Complaint]:
    for point, named, drafter in _list_drafted_points(view):
        if drafter is None:
            wanted = "a drafter approved for the benchmark, with the approved checksum"
            yield complain(point, "a drafter without a model_id" if named is None else f"drafter {named!r}", wanted)


def check_drafter_time(view: CurveView) -> Iterator[Complaint]:
    lead = view.rules.values.drafter_lead_cohorts
    for point, _, drafter in _list_drafted_points(view):
        if drafter is None:
            continue
        named, stated = drafter.model or "the drafter", point.get("target_cohort")
        try:
            target = Cohort.parse(str(stated))
        except ReconcilerError:
            target = None
        if target is None or drafter.approved is None:
            found = f"{named}, approved in {drafter.approved or 'an unknown cohort'}, used in cohort {stated}"
            yield complain(point, found, f"approval {show_count(lead, 'cohort')} before use", warning=True)
        elif target < drafter.approved.add(lead):
            found = f"{named}, approved in {drafter.approved}, used in cohort {target}"
            yield complain(point, found, f"cohort {drafter.approved.add(lead)} or later")


def _list_drafted_points(view: CurveView) -> Iterator[tuple[PointFolder, object, Drafter | None]]:
    """Yield each point with speculative decoding, its model_id, and its approved drafter."""
    model = next(iter(_find_first(view.folder, "model_name")), view.folder.model)
    approved = [drafter for drafter in view.rules.drafters if drafter.benchmark == model]
    for point in view.folder.stated:
        block = point.get("speculative_decoding")
        if isinstance(block, Mapping) and block:
            yield point, block.get("model_id"), next((item for item in approved if item.matches(block)), None)


def check_descriptions(view: CurveView) -> Iterator[Complaint]:
    """Require the first point's system description at every point, except in fields that may vary."""
    free = set(view.rules.values.per_point_description)
    read = [(point, point.description.value) for point in view.folder.points if point.description.value is not None]
    for point, document in read[1:]:
        first = read[0][1].values
        names = (set(first) | set(document.values)) - free
        differing = sorted(name for name in names if first.get(name) != document.values.get(name))
        if differing:
            found = f"{', '.join(differing)} differs from {read[0][0].name}"
            yield complain(point.description, found, "the same system at every point", "render the submission again")
            return


CURVE_RULES = (
    (make_rule("system-description-consistency", "all points describe one system"), check_descriptions),
    (make_rule("c-min-override", "the declared minimum concurrency is valid"), check_minimum),
    (make_rule("region-basis", "the maximum concurrency is known", CHECKER), check_basis),
    (make_rule("region-computation", "the regions of concurrency can be computed"), check_regions),
    (make_rule("concurrency-in-range", "each point's concurrency is in a region"), check_range),
    (make_rule("region-placement", "a point states the region of its concurrency", warning=True), check_placement),
    (make_rule("ultra-low-concurrency-coverage", "a point has ultra-low concurrency"), _make_coverage_check(ULTRA_LOW)),
    (make_rule("low-concurrency-coverage", "a point has low concurrency"), _make_coverage_check(LOW)),
    (make_rule("med-concurrency-coverage", "a point has medium concurrency"), _make_coverage_check(MEDIUM)),
    (make_rule("high-concurrency-coverage", "a point has high concurrency"), _make_coverage_check(HIGH)),
    (make_rule("point-count", "a curve has enough points"), check_count),
    (make_rule("point-cap", "a curve does not have too many points"), check_cap),
    (make_rule("benchmark-type-consistency", "all points are agentic, or none is"), check_type),
    (make_rule("offline-point-present", "a curve has one Offline point"), check_offline_point),
    (make_rule("offline-ordering", "the Offline point has the highest rate", warning=True), check_offline_order),
    (make_rule("model-name-valid", "the model is one of the round", CHECKER), check_model),
    (make_rule("model-name-consistency", "the folder is named after the model"), check_model_folder),
    (make_rule("config-consistency-model", "all points have the same model"), check_one_model),
    (make_rule("config-consistency-dataset", "all points have the same dataset"), check_one_dataset),
    (make_rule("shared-path-resolution", f"the shared folders of {POINT} exist"), check_shared),
    (make_rule("seed-set-consistency", "all points use the same seed set"), check_one_seed_set),
    (make_rule("seed-set-membership", "the seed set is a published one"), check_seed_set),
    (make_rule("seed-runtime-match", "the seeds are those of the seed set"), check_seeds),
    (make_rule("seed-set-adoption", "the seed set may be adopted in the cohort"), check_adoption),
    (make_rule("approved-drafter", "speculative decoding uses an approved drafter"), check_drafter),
    (make_rule("drafter-approval-lead-time", "the drafter was approved early enough"), check_drafter_time),
)
