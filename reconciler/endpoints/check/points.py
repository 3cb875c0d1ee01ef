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
    describe_mismatch,
    make_rule,
)
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
        yield complain(view.folder.point.file, f"{name} {place}", wanted, fix, line=_find_line(document, name))


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
    nodes = values.get("nodes_used")
    if nodes is not None:
        entries = nodes if isinstance(nodes, list) else [None]
        for entry in entries:
            good = isinstance(entry, Mapping) and all(
                is_whole(entry.get(name)) for name in ("system_node_ensemble_id", "nodes")
            )
            if not good:
                yield "nodes_used", describe_mismatch(entry), "entries with system_node_ensemble_id and nodes"
    short = values.get("dp_shortfall")
    if short is not None:
        stated = short if isinstance(short, Mapping) else {}
        if not (is_whole(stated.get("dp_actual")) and is_whole(stated.get("dp_formula")) and stated.get("reason")):
            yield "dp_shortfall", describe_mismatch(short), "dp_actual, dp_formula and reason"


def check_summary_form(view: PointView) -> Iterator[Complaint]:
    document = view.folder.summary.value
    if document is None or view.folder.measured is None:
        return  # its problems are reported as a file that cannot be read
    for name, found, wanted in find_misfits(document.values, SUMMARY_FIELDS):
        place = view.folder.summary.file
        yield complain(place, f"{name} {found}", f"{wanted}, as written by the client", line=_find_line(document, name))


def check_disclosure(view: PointView) -> Iterator[Complaint]:
    document = view.folder.point.value
    if document is None:
        return
    missing = [name for name in view.rules.values.disclosure if document.get(name) in (None, "")]
    if missing:
        yield complain(view.folder.point.file, f"no {', '.join(missing)}", "all fields of the disclosure")


def check_cohort(view: PointView) -> Iterator[Complaint]:
    cohort = view.folder.get("target_cohort")
    if isinstance(cohort, str) and not _COHORT.fullmatch(cohort):
        yield complain(view.folder.point.file, f"target_cohort {cohort!r}", "YYYY-MM-C0 or YYYY-MM-C1")


def check_old_seeds(view: PointView) -> Iterator[Complaint]:
    """Accept seed 42, the only one of version 0.7, with a warning."""
    if view.folder.point.value is None or view.folder.get("seed_set") is not None:
        return
    for name in ("scheduler_rng_seed", keys.SAMPLE_INDEX_RNG_SEED):
        seed = view.folder.get_nested("runtime_settings", "runtime", name)
        found = f"no seed_set, but {name} {seed}"
        yield complain(view.folder.point.file, found, "a published seed set", warning=seed == 42)


def check_offline(view: PointView) -> Iterator[Complaint]:
    offline = view.folder.get("offline")
    if offline is not None and offline not in _OFFLINE:
        yield complain(view.folder.point.file, f"offline {describe_mismatch(offline)}", ", ".join(_OFFLINE))


def check_region(view: PointView) -> Iterator[Complaint]:
    region = view.folder.get("region")
    if region is not None and region not in (*REGIONS, CHOICE):
        yield complain(view.folder.point.file, f"region {describe_mismatch(region)}", ", ".join((*REGIONS, CHOICE)))


def check_pattern(view: PointView) -> Iterator[Complaint]:
    if view.folder.point.value is None or view.folder.get("offline") == DEDICATED:
        return
    pattern = view.folder.get_nested("runtime_settings", "load_pattern")
    pattern = "concurrency" if pattern is None else pattern
    allowed = view.rules.values.load_patterns
    if pattern not in allowed:
        yield complain(view.folder.point.file, f"load_pattern {describe_mismatch(pattern)}", " or ".join(allowed))
    concurrency = view.folder.get("concurrency")
    if is_whole(concurrency) and int(concurrency) <= 0:
        yield complain(view.folder.point.file, f"concurrency {concurrency}", "at least 1")


def check_warmup(view: PointView) -> Iterator[Complaint]:
    if view.folder.point.value is not None and view.folder.get("warmup") is None:
        yield complain(view.folder.point.file, "no warmup", "the warm-up, with zeros if there was none")


def check_warmup_logs(view: PointView) -> Iterator[Complaint]:
    warmup = view.folder.get("warmup")
    if not isinstance(warmup, Mapping) or not warmup.get("requests_issued"):
        return
    if warmup.get("logs_retained") is not True:
        yield complain(
            view.folder.point.file, "logs_retained is not true", "true: reviewers may ask for the warm-up's logs"
        )


def check_salt(view: PointView) -> Iterator[Complaint]:
    if view.folder.get_nested("runtime_settings", "warmup", "salt") is True:
        wanted = "a warm-up without the performance dataset, which needs no salt"
        yield complain(view.folder.point.file, "the warm-up used salt", wanted)


def check_named(view: PointView) -> Iterator[Complaint]:
    stated = view.folder.get("concurrency")
    if is_whole(stated) and int(stated) != view.folder.named:
        yield complain(view.folder.point.file, f"concurrency {stated} in {view.folder.name}/", f"a folder r{stated}/")


def check_window_words(view: PointView) -> Iterator[Complaint]:
    block = view.folder.get("steady_state")
    if not isinstance(block, Mapping):
        return
    known = view.rules.values
    words = [
        ("status", block.get("status"), known.coverage_statuses),
        ("verdict", block.get("verdict"), known.verdicts),
    ]
    states = block.get("state")
    if isinstance(states, Mapping):
        words += [(f"state of {metric}", state, known.metric_states) for metric, state in states.items()]
    for name, word, allowed in words:
        if word is not None and word not in allowed:
            yield complain(view.folder.point.file, f"{name} {describe_mismatch(word)}", ", ".join(allowed))


def check_window_sense(view: PointView) -> Iterator[Complaint]:
    block = view.folder.get("steady_state")
    if not isinstance(block, Mapping):
        return
    least, place = view.rules.values.least_super_passes, view.folder.point.file
    spans = _count_passes(block.get("window"))
    states = block.get("state")
    drifting = (
        [str(n) for n, s in states.items() if str(s).startswith("Drifting")] if isinstance(states, Mapping) else []
    )
    if block.get("status") == "windowable":
        if spans is not None and spans < least:
            yield complain(place, f"windowable over {spans} super-passes", f"at least {least}")
        if drifting:
            yield complain(
                place, f"windowable, but {', '.join(sorted(drifting))} drifts", "no drift in any gating metric"
            )
    elif block.get("status") == "insufficient_passes" and spans is not None and spans >= least:
        yield complain(
            place, f"insufficient_passes over {spans} super-passes", f"fewer than {least}", warning=bool(drifting)
        )


def _count_passes(window: Any) -> int | None:
    if not isinstance(window, Mapping):
        return None
    first, last = window.get("super_pass_start"), window.get("super_pass_end")
    return int(last) - int(first) + 1 if is_whole(first) and is_whole(last) else None


def check_as_run(view: PointView) -> Iterator[Complaint]:
    """Compare point.yaml with the client's configuration of the run."""
    measured, document = view.folder.measured, view.folder.point.value
    if measured is None or document is None:
        if document is not None:
            for problem in view.folder.results[1]:
                if problem.rule == "ran-as-asked":
                    yield complain(
                        f"{view.folder.shown}/{problem.file}", problem.text, "the file as written by the client"
                    )
        return
    settings = document.get("runtime_settings")
    stated: list[tuple[str, Any, Any]] = [
        ("load_pattern", document.get_nested("runtime_settings", "load_pattern"), measured.load_pattern)
    ]
    if not measured.is_offline:
        stated.append(("concurrency", document.get("concurrency"), measured.concurrency))
    if isinstance(settings, Mapping):
        stated += [
            ("min_duration_ms", settings.get("min_duration_ms"), measured.min_duration_ms),
            ("stream_all_chunks", settings.get("stream_all_chunks"), measured.stream_all_chunks),
        ]
        runtime = settings.get("runtime")
        seeds = runtime if isinstance(runtime, Mapping) else {}
        stated += [(name, seeds.get(name), seed) for name, seed in measured.seeds.items()]
    for name, said, ran in stated:
        if said is not None and said != ran:
            fix = "render the submission again: point.yaml is derived from the run"
            line = document.lines.get(name, 0)
            yield complain(
                view.folder.point.file, f"{name} {describe_mismatch(said)}", f"{ran}, as in the run", fix, line=line
            )


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
