"""Find contradictions within one scenario folder, by result format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from reconciler.check.demands import OURS, CellRules, Complaints, find_gap, make_gap
from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_files import DETAIL, TRACE, VERIFY_ACCURACY, VERIFY_PERFORMANCE
from reconciler.loadgen.summary import SummaryLog, find_differing
from reconciler.loadgen.text_log import PASSED_OVER
from reconciler.resource.programs import find_program_of_results
from reconciler.resource.rules import Premise, Severity, applies, rule
from reconciler.rules.compliance.definition import FAIL, PASS
from reconciler.rules.compliance.test09 import OUTPUT_LENGTH
from reconciler.rules.programs import load_program
from reconciler.rules.results.table import FORMATS
from reconciler.tree.findings import Complaint, Gap, Place, TreeFinding
from reconciler.tree.reading.cell import RunFolder
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import find_at, read_number, show_value
from reconciler.tree.reading.view import CellView, RunView
from reconciler.tree.rule_engine import About, apply_rules
from reconciler.verify.conf import CONF_RULES, read_conf
from reconciler.verify.placement import PLACEMENT_RULES, verify_test_settings
from reconciler.verify.power import POWER_CONTRADICTIONS
from reconciler.verify.power_readings import WATTS_CONTRADICTIONS
from reconciler.verify.premises import RELEASE_IS_KNOWN
from reconciler.verify.runs import RUN_CONTRADICTIONS
from reconciler.verify.systems import MEASUREMENTS_CONTRADICTIONS
from reconciler.verify.verdicts import ANSWER_RULES, VERDICT_RULES, complain_of_pass

Stated = Mapping[str, tuple[int, Decimal]]  # figure → its line, its value
_N = r"(\d{1,18}(?:\.\d{1,18})?)"
_ROUNDED = Decimal("0.01")  # means are printed with two digits


class _File(Struct, frozen=True):
    """The format of a test's verify file, which states the figures that its verdict compares. ``figures``: the pattern
    of each figure's line; ``needed``: the figure that shows that something was compared, and its description."""

    name: str
    figures: Mapping[str, re.Pattern[str]]
    needed: tuple[str, str]
    deny: Callable[[Stated, Mapping[str, Decimal]], Iterator[tuple[str, str, str]]]


@rule(
    "compliance.stated",
    "a pass that its own figures contradict",
    sources=("compliance scripts", OURS),
    cause="contradicted-verdict",
    premises=(Premise("The file has one verdict, so its figures belong to the pass."),),
)
def verify_stated(view: CellView) -> Complaints:
    """The scripts of TEST07, TEST08 and TEST09 print the compared figures before the verdict. A score below its
    threshold, differing samples, or a mean length outside its bounds contradicts a pass; a pass without the compared
    figures is a warning. The round's bounds apply only to the closed division. The figures of all 128 such tests
    published in v6.0 match their verdicts. TEST06's script skips the first tokens only in Offline: all 337 published
    verdicts of other scenarios checked them."""
    for test, file in _FILES.items():
        if test not in view.files.tests:
            continue
        read = view.files.read_text(view.files.tests[test], file.name)
        lines = [text.strip() for text in (read.value or "").splitlines()]
        if PASS not in lines:
            continue
        stated, passed = _read(lines, file.figures), lines.index(PASS) + 1
        several = sum(line == PASS or line.startswith(FAIL) for line in lines) > 1
        for figure, stating, wanted in file.deny(stated, _read_limits(view, test)):
            yield Complaint(
                Place(read.file, passed),
                f"{PASS} with {stating}",
                wanted,
                cause="a verdict that was edited, or the output of two verifications in one file",
                fix=f"run the verification of {test} again and publish its complete output",
                other=Place(read.file, stated[figure][0]),
                doubt="the file has several verdicts, and the figures may belong to another one" if several else "",
            )
        if file.needed[0] not in stated:
            found = complain_of_pass(test, Place(read.file, passed), file.needed[1])
            yield replace(found, severity=Severity.WARNING, mechanism="verdict-without-figures")


def _read(lines: list[str], figures: Mapping[str, re.Pattern[str]]) -> Stated:
    """Read the last value of each figure, since a scorer's report, which may contain any text, comes before them."""
    found = {}
    for at, line in enumerate(lines, start=1):
        for name, shape in figures.items():
            if match := shape.fullmatch(line):
                found[name] = at, Decimal(next(filter(None, match.groups())))
    return found


def _read_limits(view: CellView, test: str) -> Mapping[str, Decimal]:
    """Read the closed division's limits for a test of the round; the open division may set its own."""
    if view.rules is None or not view.ruleset.is_known or view.division != "closed":
        return {}
    try:
        limits = view.rules.find_test(test, view.cell.scenario).limits
    except KeyError:
        return {}
    return {name: Decimal(str(limit.value)) for name, limit in limits.items()}


def _deny_accuracy(stated: Stated, _: Mapping[str, Decimal]) -> Iterator[tuple[str, str, str]]:
    if {"score", "threshold"} <= stated.keys() and stated["score"][1] < stated["threshold"][1]:
        yield "score", f"an accuracy of {stated['score'][1]}", f"at least its threshold of {stated['threshold'][1]}"


def _deny_matches(stated: Stated, _: Mapping[str, Decimal]) -> Iterator[tuple[str, str, str]]:
    for name, words in (
        ("differing", "samples that differ"),
        ("missing", "samples that are not in the accuracy run"),
    ):
        if name in stated and stated[name][1]:
            yield name, f"{stated[name][1]} {words}", "none"
    if "matched" in stated and not stated["matched"][1]:
        yield "matched", "no sample of the accuracy run", "at least one"


def _deny_lengths(stated: Stated, limits: Mapping[str, Decimal]) -> Iterator[tuple[str, str, str]]:
    if "mean" not in stated:
        return
    mean, found = stated["mean"][1], f"a mean of {stated['mean'][1]} tokens"
    of_round = [limits.get(f"{which}_mean_tokens") for which in ("least", "most")]
    bounds = [stated[which][1] if which in stated else None for which in ("least", "most")]
    ends = [stated[which][1] if which in stated else None for which in ("shortest", "longest")]
    for (least, most), whose in ((bounds, "its bounds"), (of_round, "the bounds of the round"), (ends, "its answers")):
        if (least is not None and mean < least - _ROUNDED) or (most is not None and mean > most + _ROUNDED):
            yield "mean", found, f"a mean within {whose}: {least} to {most}"


def _compile_lines(*lines: str) -> re.Pattern[str]:
    return re.compile("|".join(line.replace("N", _N) for line in lines), re.ASCII)


_FILES = {
    "TEST07": _File(
        VERIFY_ACCURACY,
        {
            "score": _compile_lines("Accuracy score: N", "accuracy: N"),
            "threshold": _compile_lines("Accuracy threshold: N", "threshold: N"),
        },
        ("score", "the accuracy of its answers"),
        _deny_accuracy,
    ),
    "TEST08": _File(
        VERIFY_ACCURACY,
        {
            "entries": _compile_lines("num_acc_log_entries = N", "answers in the accuracy run: N"),
            "matched": _compile_lines("num_matched = N"),
            "missing": _compile_lines("num_unmatched = N", "not in the accuracy run: N"),
            "differing": _compile_lines("num_ne_mismatch = N", "differing: N"),
        },
        ("entries", "the number of entries that were compared"),
        _deny_matches,
    ),
    "TEST09": _File(
        OUTPUT_LENGTH,
        {
            "mean": _compile_lines("Mean output tokens: N", "mean tokens: N"),
            "shortest": _compile_lines("Min output tokens: N", r"shortest and longest: N and \d+"),
            "longest": _compile_lines("Max output tokens: N", r"shortest and longest: \d+ and N"),
            "least": _compile_lines("Min threshold: N", r"bounds: N to \S+"),
            "most": _compile_lines("Max threshold: N", r"bounds: \S+ to N"),
        },
        ("mean", "the mean length of its answers"),
        _deny_lengths,
    ),
}


def find_log_gaps(view: CellView) -> Iterator[Gap]:
    """Yield a gap for each file that a comparison needs but cannot use. Gaps of one kind have the same ``reason``."""
    if not view.official and view.ruleset.is_known:
        place = Place(view.files.results.shown)
        yield make_gap(view, place, f"{view.ruleset.round} has no rules for this benchmark")
    for run in (view.files.performance, view.files.accuracy):
        yield from find_gap(view, run.detail, f"the {run.name} run's detail log", blind=True)
        yield from find_gap(view, run.summary, f"the {run.name} run's summary")
    yield from find_gap(view, view.files.user_conf, "user.conf")
    yield from _find_unread_conf(view)
    yield from find_gap(view, view.files.accuracy_text, "accuracy.txt")
    for test, run in view.files.test_runs.items():
        yield from _find_unread_test(view, test, run)


def _find_unread_conf(view: CellView) -> Iterator[Gap]:
    """Report a conf without settings for the run, because all its lines are for other models or scenarios."""
    conf, reading = view.files.user_conf.value, read_conf(view)
    if conf is not None and conf.values and reading is not None and not reading.settings:
        reason = "no line of user.conf applies to the model and scenario that ran"
        yield make_gap(view, Place(view.files.user_conf.file), reason)


def _find_unread_test(view: CellView, test: str, run: RunFolder) -> Iterator[Gap]:
    """Report a test's unreadable detail log. Tests such as TEST06 publish neither logs of their run nor a verdict about
    its speed."""
    folder = view.files.tests[test]
    if run.detail.value is None and VERIFY_PERFORMANCE in folder.list_files():
        why = "cannot be read" if run.detail.problem else "is missing"
        yield make_gap(view, Place(f"{run.folder.shown}/{DETAIL}"), f"the detail log of a compliance test {why}")


_CHECKED = re.compile(r"(?P<check>[A-Z][A-Za-z ]{1,40} check) pass: (?P<verdict>True|False|Skipped)", re.ASCII)
_FIRST = "First token check"
_PASSED, _SKIPPED = "check pass:", "Skipped"
_FIX = "run the verification of {} again, and publish its complete output"


@rule(
    "compliance.verdicts",
    "two verdicts in one file",
    sources=("compliance scripts", OURS),
    cause="verdict-without-figures",
    severity=Severity.WARNING,
)
def verify_one_verdict(view: CellView) -> Complaints:
    """A verify file states two verdicts. None of the 3,071 files published in v4.1 and v5.1 does. A warning, because
    the file may combine the output of two verifications or of a fallback."""
    for test, folder in view.files.tests.items():
        for name in (VERIFY_ACCURACY, VERIFY_PERFORMANCE):
            yield from _deny_second_verdict(test, view.files.read_text(folder, name))


def _deny_second_verdict(test: str, read: Read[str]) -> Complaints:
    text = read.value or ""
    if not (PASS in text and FAIL in text) and text.count(_PASSED) < 2:
        return
    seen: dict[str, tuple[int, str]] = {}
    for line, words in enumerate(map(str.strip, text.split("\n")), start=1):
        if words == PASS or words.startswith(FAIL):
            what, verdict = "TEST", PASS if words == PASS else FAIL
        elif found := _CHECKED.fullmatch(words):
            what, verdict = found["check"], found[0]
        else:
            continue
        first, said = seen.setdefault(what, (line, verdict))
        if said != verdict:
            yield Complaint(
                Place(read.file, line),
                verdict,
                f"{said}, stated in the same file",
                cause="the output of two verifications, or an edited one",
                fix=_FIX.format(test),
                other=Place(read.file, first),
            )
            return


@applies(verify_stated.rule)
def verify_skipped(view: CellView) -> Complaints:
    """TEST06's verification skipped the first tokens, which its script does only in Offline, where LoadGen does not
    report them."""
    run = view.performance
    folder = view.files.tests.get("TEST06")
    if folder is None or run is None or run.log.scenario == "Offline" or view.cell.scenario == "Offline":
        return
    read = view.files.read_text(folder, VERIFY_ACCURACY)
    lines = (read.value or "").split("\n") if _SKIPPED in (read.value or "") else []
    for line, text in enumerate(lines, start=1):
        found = _CHECKED.fullmatch(text.strip())
        if found and found["check"] == _FIRST and found["verdict"] == _SKIPPED:
            yield Complaint(
                Place(read.file, line),
                f"{_FIRST} skipped",
                f"a check of the first tokens, which is required for {run.log.scenario}",
                cause="the verification was run for Offline, or edited",
                fix=_FIX.format("TEST06"),
                mechanism="verdict-without-figures",
            )
            return


_PROCESS = re.compile(rb'"pid": ?(\d{1,12}),')
_LATENCY = re.compile(rb'"name":"Sample",[^\n]{1,200}"complete_ns":(\d{1,18})\}')
_WHOLE = b'{"name":"LastTrace"}'
_ENDS = ((keys.RESULT_MAX_LATENCY_NS, max, "slowest"), (keys.RESULT_MIN_LATENCY_NS, min, "fastest"))


@rule(
    "log.trace",
    "a trace that contradicts its log",
    sources=("LoadGen", OURS),
    cause="impossible-log",
    premises=(
        RELEASE_IS_KNOWN,
        Premise("The trace has LoadGen's last line, if latencies are compared."),
    ),
)
def verify_traces(view: CellView) -> Complaints:
    """One LoadGen process writes the log and the trace, with its id in both. The trace has each sample's latency, and
    the log the slowest and the fastest, which were equal in runs of all four scenarios. Traces without their last line
    are not compared. All 103 published traces are empty."""
    for run in view.list_runs():
        data = view.files.read_content(run.run.folder, TRACE)
        if data and run.log.complete:
            yield from _compare(run, Place(f"{run.run.folder.shown}/{TRACE}"), data)


def _compare(run: RunView, place: Place, data: bytes) -> Complaints:
    first = next((line for line in run.log.lines if line.process), None)
    traced = found[1].decode() if (found := _PROCESS.search(data)) else ""
    if first is not None and traced and first.process != traced:
        yield Complaint(
            place,
            f"written by process {traced}",
            f"process {first.process}, which wrote the log",
            cause="the trace of another run",
            other=Place(run.log.file, first.line),
        )
        return
    latencies = [int(text) for text in _LATENCY.findall(data)] if _WHOLE in data else []
    for key, choose, name in _ENDS if latencies else ():
        logged = read_number(run.log, key)
        if logged is not None and logged != choose(latencies):
            yield Complaint(
                place,
                f"the {name} sample took {choose(latencies)} ns",
                f"{logged:f} ns, as in the log",
                cause="an edited log or trace",
                other=find_at(run.log, key),
            )


_FEW = 3  # with more differences than this, the summary is from another run


@rule(
    "summary.contradicts",
    "a summary that contradicts the detail log",
    sources=(OURS,),
    cause="other-summary",
    premises=(RELEASE_IS_KNOWN,),
)
def verify_summaries(view: CellView) -> Complaints:
    """LoadGen writes the summary and the detail log from the same numbers (per query for MultiStream), which are
    compared to the digits shown. A summary with many differences is one finding. Early-stopping estimates are skipped
    if tokens are measured, because the summary then has several with the same name. Errors missing from the detail log
    are a question: the official filter removes such lines, and an error may occur after LoadGen closed the log."""
    for run in view.list_runs():
        summary = run.run.summary.value
        found = list(_find_differences(summary, run.log)) if summary is not None else []
        if len(found) > _FEW:
            first = found[0]
            yield Complaint(
                first.place,
                f"{first.found}, and {len(found) - 1} more values that differ",
                first.wanted,
                cause="the summary of another run",
                other=first.other,
                fix="publish the summary and the detail log of the same run",
            )
        else:
            yield from found


def _find_differences(summary: SummaryLog, log: DetailLog) -> Iterator[Complaint]:
    for reading in summary.list_readings(log):
        for name, key in find_differing(reading, log):
            yield Complaint(
                Place(summary.file, reading.find_line_number(name)),
                f"{name}: {show_value(reading.get(name))}",
                f"{key} {show_value(log.get_plain(key))} in the detail log",
                other=Place(log.file, log.find_line_number(key)),
            )
    known = len(log.errors) + len(log.list_entries(PASSED_OVER))
    if summary.errors is not None and summary.errors != known:
        line = log.errors[0].line if log.errors else log.find_line_number(keys.NUM_ERRORS)
        yield Complaint(
            Place(summary.file),
            f"{summary.errors} of LoadGen's errors counted",
            f"{known} ERROR lines in the detail log",
            cause="lines were removed from the detail log, or an error occurred after LoadGen had closed it",
            other=Place(log.file, line),
            doubt="the official filter removes error lines from detail logs",
            mechanism="uncounted-errors",
        )


_LOADGEN_RULES = CellRules(
    (
        *(*RUN_CONTRADICTIONS, *CONF_RULES, *MEASUREMENTS_CONTRADICTIONS, verify_summaries, *PLACEMENT_RULES),
        *(*POWER_CONTRADICTIONS, *WATTS_CONTRADICTIONS, *VERDICT_RULES),
        *(verify_stated, verify_one_verdict, verify_skipped, verify_test_settings, *ANSWER_RULES, verify_traces),
    ),
    find_log_gaps,
)


def find_cell_rules(results: str) -> CellRules | None:
    """Return the rules for a result format; None if the format is not stored in scenario folders."""
    program = find_program_of_results(results)
    if not program:
        return _LOADGEN_RULES
    found: CellRules | None = load_program(program).find_cell_rules(results)
    return None if found is None else replace(found, rules=(*found.rules, *MEASUREMENTS_CONTRADICTIONS))


def list_cell_rules() -> tuple[CellRules, ...]:
    return tuple(found for results in FORMATS if (found := find_cell_rules(results)) is not None)


def choose_cell_rules(view: CellView) -> CellRules:
    found = find_cell_rules(view.files.format.NAME)
    assert found is not None
    return found


def verify_cell(view: CellView, about: About) -> Iterator[TreeFinding]:
    """Yield all contradictions within one scenario folder."""
    return apply_rules(choose_cell_rules(view).rules, view, about)
