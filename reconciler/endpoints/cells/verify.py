"""Find contradictions between the endpoints harness's configuration, results and scores."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from reconciler.check.demands import BENCHMARK_IS_KNOWN, OURS, CellRules, Complaints, ask_repeated, find_gap
from reconciler.endpoints.cells import cell_format as endpoints
from reconciler.endpoints.results.accuracy import read_sample_count
from reconciler.endpoints.results.measurements import compute_rate
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import CONFIG, RESULT_SUMMARY
from reconciler.resource.quantities import parse_number
from reconciler.resource.rules import Premise, Severity, applies, rule
from reconciler.storage.documents import ResultDocument
from reconciler.tree.findings import Complaint, Gap, Place
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.view import CellView

_NEAR = Decimal("0.02")  # of a rate: the harness divides by its own duration
_MILLISECOND = 1_000_000


_ONE_RUN = Premise("One run of the harness wrote both files: they are in the same performance run's folder.")


@rule(
    "endpoints.samples",
    "sample counts that do not add up",
    sources=(OURS,),
    cause="endpoints",
    premises=(_ONE_RUN,),
)
def verify_samples(view: CellView) -> Complaints:
    """The issued samples are not the sum of the completed and failed ones, or fewer than configured."""
    summary, config = view.files.result_summary, view.files.config
    issued, completed = _number(summary, "n_samples_issued"), _number(summary, "n_samples_completed")
    failed = _number(summary, "n_samples_failed") or Decimal(0)
    if issued is not None and completed is not None and issued != completed + failed:
        found = f"{issued} samples issued"
        yield Complaint(_place(summary, "n_samples_issued"), found, f"{completed} completed and {failed} failed")
    wanted = _setting(config, "settings", "runtime", "n_samples_to_issue")
    if issued is not None and wanted is not None and issued < wanted:
        yield Complaint(
            _place(config, "n_samples_to_issue"),
            f"n_samples_to_issue {wanted}",
            f"{issued} samples issued",
            cause="the configuration of another phase, or a run that ended early",
            other=_place(summary, "n_samples_issued"),
        )


@rule("endpoints.rate", "a rate that contradicts its counts", sources=(OURS,), cause="endpoints", premises=(_ONE_RUN,))
def verify_rates(view: CellView) -> Complaints:
    """A rate differs by more than 2 % from the harness's own count divided by its duration."""
    summary = view.files.result_summary
    for name in ("qps", "tps"):
        said, made = _number(summary, name), compute_rate(summary.value, name) if summary.value else None
        if said is not None and made is not None and abs(said - made) > made * _NEAR:
            took = _number(summary, "legacy_loadgen_window_duration_ns") or _number(summary, "duration_ns") or 0
            wanted = f"{made:.6g}, computed from its counts in {took / 10**9:.6g} s"
            yield Complaint(
                _place(summary, name), f"{name} {said:f}", wanted, other=_place(summary, "n_samples_completed")
            )


@rule("endpoints.duration", "a run shorter than configured", sources=(OURS,), cause="endpoints", premises=(_ONE_RUN,))
def verify_duration(view: CellView) -> Complaints:
    """The run is shorter than the minimum duration configured in the same folder."""
    summary, config = view.files.result_summary, view.files.config
    least, took = _setting(config, "settings", "runtime", "min_duration_ms"), _number(summary, "duration_ns")
    if least is not None and took is not None and took < least * _MILLISECOND:
        yield Complaint(
            _place(config, "min_duration_ms"),
            f"min_duration_ms {least}",
            f"a run of {took / 10**9:.6g} s",
            cause="the configuration was saved after another phase had changed it",
            other=_place(summary, "duration_ns"),
        )


@rule("endpoints.target", "more queries completed than sent", sources=(OURS,), cause="endpoints", premises=(_ONE_RUN,))
def verify_target(view: CellView) -> Complaints:
    """The server completed more queries per second than the harness was configured to send."""
    summary, config = view.files.result_summary, view.files.config
    asked, said = _setting(config, "settings", "load_pattern", keys.TARGET_QPS), _number(summary, "qps")
    if view.cell.scenario in ("Server", "Interactive") and asked and said is not None and said > asked * (1 + _NEAR):
        yield Complaint(
            _place(config, keys.TARGET_QPS),
            f"target_qps {asked:f}",
            f"{said:f} queries per second completed",
            cause="config.yaml is from another run",
            other=_place(summary, "qps"),
        )


@rule(
    "endpoints.scored",
    "a score over another number of samples",
    sources=(OURS,),
    cause="endpoints",
    severity=Severity.WARNING,
    premises=(BENCHMARK_IS_KNOWN,),
)
def verify_scored(view: CellView) -> Complaints:
    """The number of scored samples differs from the round's."""
    results = view.files.accuracy_results
    wanted = parse_number(view.find_rule("exact_accuracy_sample_count"))
    counted = read_sample_count(results.value) if results.value else None
    if wanted is not None and counted is not None and counted != wanted:
        yield Complaint(_place(results, "accuracy_scores"), f"{counted} scored samples", f"{wanted} in the dataset")


@applies(ask_repeated.rule)
def verify_stated_once(view: CellView) -> Complaints:
    for read in (view.files.result_summary, view.files.accuracy_results):
        yield from ask_repeated(read)


@rule(
    "placement.endpoints",
    "a run of another scenario",
    sources=(OURS,),
    cause="other-scenario",
    premises=(BENCHMARK_IS_KNOWN,),
)
def verify_placement(view: CellView) -> Complaints:
    """The harness's configuration states another scenario than the folder."""
    yield from endpoints.check_scenario(view)


def _number(read: Read[ResultDocument], name: str) -> Decimal | None:
    return parse_number(read.value.get(name)) if read.value else None


def _setting(read: Read[ResultDocument], *names: str) -> Decimal | None:
    return parse_number(read.value.get_nested(*names)) if read.value else None


def _place(read: Read[ResultDocument], name: str) -> Place:
    return Place(read.file, read.value.lines.get(name, 0) if read.value else 0)


ENDPOINTS_CONTRADICTIONS = (
    verify_samples,
    verify_rates,
    verify_duration,
    verify_target,
    verify_scored,
    verify_stated_once,
    verify_placement,
)


def find_result_gaps(view: CellView) -> Iterator[Gap]:
    """Yield a gap for each unusable file that a comparison needs."""
    for name, read in ((CONFIG, view.files.config), (RESULT_SUMMARY, view.files.result_summary)):
        yield from find_gap(view, read, name, blind=True)


CELL_RULES = CellRules((ENDPOINTS_CONTRADICTIONS,), find_result_gaps)
