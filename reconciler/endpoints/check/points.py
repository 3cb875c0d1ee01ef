"""Check each point.yaml: its form, its consistency, and its agreement with the run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.endpoints.check.forms import POINT_FIELDS, SUMMARY_FIELDS, find_misfits
from reconciler.endpoints.check.structure import (
    CHECKER,
    OURS,
    POLICY,
    Mismatch,
    PointView,
    complain,
    complain_unreadable,
    describe_mismatch,
    make_rule,
)
from reconciler.endpoints.rules.judge import FEW, WINDOWABLE
from reconciler.endpoints.rules.point import DRIFTING
from reconciler.endpoints.rules.regions import CHOICE, REGIONS
from reconciler.endpoints.tree.content import DEDICATED, ELECTED
from reconciler.loadgen import keys
from reconciler.resource.quantities import is_whole, parse_number
from reconciler.storage.documents import ResultDocument
from reconciler.tree.findings import Complaint

_OFFLINE = (DEDICATED, ELECTED, "none")
_COHORT = re.compile(r"\d{4}-\d{2}-C[01]")
_WARMUP_DAY = 86400
_COUNTS = ("requests_issued", "requests_completed", "concurrency")


def check_form(view: PointView) -> Iterator[Complaint]:
    document = view.folder.point.value
    if document is None:
        return
    for name, place, wanted in _find_malformed(document.values):
        fix = "render the submission again instead of editing the file"
        yield complain(view.folder, f"{name} {place}", wanted, fix, line=_find_line(document, name))


def _find_line(document: ResultDocument, path: str) -> int:
    return document.lines.get(path.rpartition(".")[2], 0)


def _find_malformed(values: Mapping[str, object]) -> Iterator[Mismatch]:
    yield from find_misfits(values, POINT_FIELDS)
    yield from _find_malformed_settings(values.get("runtime_settings"))
    yield from _find_malformed_warmup(values.get("warmup"))
    yield from _find_malformed_nodes(values)


def _find_malformed_settings(settings: Any) -> Iterator[Mismatch]:
    if not isinstance(settings, Mapping):
        yield "runtime_settings", describe_mismatch(settings), "a mapping"
        return
    runtime = settings.get("runtime")
    if not isinstance(runtime, Mapping):
        yield "runtime", describe_mismatch(runtime), "a mapping of seeds"
    else:
        yield from find_misfits(runtime, {name: "whole?" for name in map(str, runtime) if name.endswith("_seed")})


def _find_malformed_warmup(warmup: Any) -> Iterator[Mismatch]:
    if warmup is None:
        return
    if not isinstance(warmup, Mapping):
        yield "warmup", describe_mismatch(warmup), "a mapping"
        return
    seconds = parse_number(warmup.get("duration_s"))
    if seconds is None or not 0 <= seconds <= _WARMUP_DAY:
        yield "duration_s", describe_mismatch(warmup.get("duration_s")), f"seconds from 0 to {_WARMUP_DAY}"
    counts: dict[str, int] = {}
    for name in _COUNTS:
        count = warmup.get(name)
        if not is_whole(count) or count < 0:
            yield name, describe_mismatch(count), "a whole number, at least 0"
            return
        counts[name] = count
    source = warmup.get("data_source")
    if not isinstance(source, str) or not source:
        yield "data_source", describe_mismatch(source), "the source of the warm-up's data"
    if counts["requests_completed"] > counts["requests_issued"]:
        yield "requests_completed", f"is {counts['requests_completed']}", "at most requests_issued"
    if not counts["concurrency"] and (seconds or counts["requests_issued"]):
        yield "concurrency", "of the warm-up is 0", "above 0, since the warm-up sent requests"


def _find_malformed_nodes(values: Mapping[str, object]) -> Iterator[Mismatch]:
    nodes, short = values.get("nodes_used"), values.get("dp_shortfall")
    entries = nodes if isinstance(nodes, list) else [] if nodes is None else [None]
    for entry in entries:
        stated = entry if isinstance(entry, Mapping) else {}
        if not (is_whole(stated.get("system_node_ensemble_id")) and is_whole(stated.get("nodes"))):
            yield "nodes_used", describe_mismatch(entry), "entries with system_node_ensemble_id and nodes"
    if short is not None:
        stated = short if isinstance(short, Mapping) else {}
        if not (is_whole(stated.get("dp_actual")) and is_whole(stated.get("dp_formula")) and stated.get("reason")):
            yield "dp_shortfall", describe_mismatch(short), "dp_actual, dp_formula and reason"


def check_summary_form(view: PointView) -> Iterator[Complaint]:
    read = view.folder.summary
    if read.value is None or view.folder.measured is None:
        return  # its problems are reported as a file that cannot be read
    for name, found, wanted in find_misfits(read.value.values, SUMMARY_FIELDS):
        line = _find_line(read.value, name)
        yield complain(read, f"{name} {found}", f"{wanted}, as written by the client", line=line)


def check_disclosure(view: PointView) -> Iterator[Complaint]:
    document = view.folder.point.value
    if document is None:
        return
    missing = [name for name in view.rules.values.disclosure if document.get(name) in (None, "")]
    if missing:
        yield complain(view.folder, f"no {', '.join(missing)}", "all fields of the disclosure")


def check_cohort(view: PointView) -> Iterator[Complaint]:
    cohort = view.folder.get("target_cohort")
    if isinstance(cohort, str) and not _COHORT.fullmatch(cohort):
        yield complain(view.folder, f"target_cohort {cohort!r}", "YYYY-MM-C0 or YYYY-MM-C1")


def check_old_seeds(view: PointView) -> Iterator[Complaint]:
    """Accept seed 42, the only one of version 0.7, with a warning."""
    if view.folder.point.value is None or view.folder.get("seed_set") is not None:
        return
    for name in ("scheduler_rng_seed", keys.SAMPLE_INDEX_RNG_SEED):
        seed = view.folder.get_nested("runtime_settings", "runtime", name)
        found = f"no seed_set, but {name} {seed}"
        yield complain(view.folder, found, "a published seed set", warning=seed == 42)


def check_offline(view: PointView) -> Iterator[Complaint]:
    offline = view.folder.get("offline")
    if offline is not None and offline not in _OFFLINE:
        yield complain(view.folder, f"offline {describe_mismatch(offline)}", ", ".join(_OFFLINE))


def check_region(view: PointView) -> Iterator[Complaint]:
    region = view.folder.get("region")
    if region is not None and region not in (*REGIONS, CHOICE):
        yield complain(view.folder, f"region {describe_mismatch(region)}", ", ".join((*REGIONS, CHOICE)))


def check_pattern(view: PointView) -> Iterator[Complaint]:
    if view.folder.point.value is None or view.folder.get("offline") == DEDICATED:
        return
    pattern = view.folder.get_nested("runtime_settings", "load_pattern")
    pattern = "concurrency" if pattern is None else pattern
    allowed = view.rules.values.load_patterns
    if pattern not in allowed:
        yield complain(view.folder, f"load_pattern {describe_mismatch(pattern)}", " or ".join(allowed))
    concurrency = view.folder.get("concurrency")
    if is_whole(concurrency) and int(concurrency) <= 0:
        yield complain(view.folder, f"concurrency {concurrency}", "at least 1")


def check_warmup(view: PointView) -> Iterator[Complaint]:
    if view.folder.point.value is not None and view.folder.get("warmup") is None:
        yield complain(view.folder, "no warmup", "the warm-up, with zeros if there was none")


def check_warmup_logs(view: PointView) -> Iterator[Complaint]:
    issued, retained = (view.folder.get_nested("warmup", name) for name in ("requests_issued", "logs_retained"))
    if issued and retained is not True:
        yield complain(view.folder, "logs_retained is not true", "true: reviewers may ask for the warm-up's logs")


def check_salt(view: PointView) -> Iterator[Complaint]:
    if view.folder.get_nested("runtime_settings", "warmup", "salt") is True:
        wanted = "a warm-up without the performance dataset, which needs no salt"
        yield complain(view.folder, "the warm-up used salt", wanted)


def check_named(view: PointView) -> Iterator[Complaint]:
    stated = view.folder.get("concurrency")
    if is_whole(stated) and int(stated) != view.folder.named:
        yield complain(view.folder, f"concurrency {stated} in {view.folder.name}/", f"a folder r{stated}/")


def check_window_words(view: PointView) -> Iterator[Complaint]:
    known = view.rules.values
    status, verdict, states = (view.folder.get_nested("steady_state", name) for name in ("status", "verdict", "state"))
    words = [("status", status, known.coverage_statuses), ("verdict", verdict, known.verdicts)]
    if isinstance(states, Mapping):
        words += [(f"state of {metric}", state, known.metric_states) for metric, state in states.items()]
    for name, word, allowed in words:
        if word is not None and word not in allowed:
            yield complain(view.folder, f"{name} {describe_mismatch(word)}", ", ".join(allowed))


def check_window_sense(view: PointView) -> Iterator[Complaint]:
    point, least = view.folder, view.rules.values.least_super_passes
    status, states = (point.get_nested("steady_state", name) for name in ("status", "state"))
    first, last = (point.get_nested("steady_state", "window", f"super_pass_{end}") for end in ("start", "end"))
    spans = last - first + 1 if is_whole(first) and is_whole(last) else None
    listed = states.items() if isinstance(states, Mapping) else ()
    drifting = sorted(str(metric) for metric, state in listed if str(state).startswith(DRIFTING))
    if status == WINDOWABLE:
        if spans is not None and spans < least:
            yield complain(point, f"windowable over {spans} super-passes", f"at least {least}")
        if drifting:
            yield complain(point, f"windowable, but {', '.join(drifting)} drifts", "no drift in any gating metric")
    elif status == FEW and spans is not None and spans >= least:
        found = f"insufficient_passes over {spans} super-passes"
        yield complain(point, found, f"fewer than {least}", warning=bool(drifting))


def check_as_run(view: PointView) -> Iterator[Complaint]:
    """Compare point.yaml with the client's configuration of the run."""
    measured, document = view.folder.measured, view.folder.point.value
    if document is None:
        return
    if measured is None:
        yield from complain_unreadable(view.folder, "ran-as-asked")
        return
    ran: list[tuple[tuple[str, ...], object]] = [(("runtime_settings", "load_pattern"), measured.load_pattern)]
    ran += [] if measured.is_offline else [(("concurrency",), measured.concurrency)]
    ran += [(("runtime_settings", name), getattr(measured, name)) for name in ("min_duration_ms", "stream_all_chunks")]
    ran += [(("runtime_settings", "runtime", name), seed) for name, seed in measured.seeds.items()]
    for path, value in ran:
        name, said = path[-1], document.get_nested(*path)
        if said is not None and said != value:
            fix = "render the submission again: point.yaml is derived from the run"
            line = document.lines.get(name, 0)
            yield complain(view.folder, f"{name} {describe_mismatch(said)}", f"{value}, as in the run", fix, line=line)


POINT_RULES = (
    (make_rule("point-config-valid", "the fields of point.yaml are well-formed"), check_form),
    (make_rule("result-file-valid", "the fields of the result are well-formed"), check_summary_form),
    (make_rule("point-disclosure-complete", "the disclosure is complete"), check_disclosure),
    (make_rule("target-cohort", "the cohort is well-formed"), check_cohort),
    (make_rule("seed-config-legacy", "the seeds belong to a seed set", CHECKER), check_old_seeds),
    (make_rule("offline-declared", "offline has a known value"), check_offline),
    (make_rule("region-declared", "the region has a known value"), check_region),
    (make_rule("load-pattern", "the load pattern has a fixed concurrency"), check_pattern),
    (make_rule("warmup-present", "the warm-up is declared"), check_warmup),
    (make_rule("warmup-logs-retained", "the warm-up's logs are kept", warning=True), check_warmup_logs),
    (make_rule("warmup-salt", "the warm-up is not salted", CHECKER, warning=True), check_salt),
    (make_rule("point-dirname-concurrency", "the folder is named after its concurrency", warning=True), check_named),
    (make_rule("steady-state-valid", "the steady state has known values"), check_window_words),
    (make_rule("steady-state-consistency", "the status of the steady state matches its window"), check_window_sense),
    (make_rule("point-as-run", "point.yaml matches the run", OURS, POLICY), check_as_run),
)
