"""Rules for the accuracy run, accuracy.txt and the truncated accuracy log (submission checker: accuracy check)."""

from __future__ import annotations

from collections.abc import Set
from decimal import Decimal

from msgspec.structs import replace

from reconciler.check.demands import NEW, OLD, OURS, Complaints, soften
from reconciler.check.runs import check_audit_absent
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, truncate_text
from reconciler.resource.quantities import parse_number
from reconciler.resource.ruled_values import Bar, ExtraFiles
from reconciler.resource.rules import Severity, rule
from reconciler.rules.accuracy import (
    METRIC_LINES,
    WHOLE_SET,
    check_bars,
    is_digest,
    list_digests,
    names_another_log,
    parse_accuracy,
)
from reconciler.tree.findings import Complaint, Place, TreeFinding
from reconciler.tree.reading.cell import Folder
from reconciler.tree.reading.log_cache import CachedAnswers
from reconciler.tree.reading.values import find_at, read_number, show_value
from reconciler.tree.reading.view import CellView, RunView

_CHECK = f"{NEW}: accuracy check"

_WHOLE = 32 << 20  # bytes; a complete log up to this size is hashed
_RESCORE = "score the accuracy run again"


@rule("accuracy.mode", "the run is an accuracy run", sources=(OURS,))
def check_mode(view: CellView) -> Complaints:
    """The log in accuracy/ states AccuracyOnly mode, or both modes."""
    run = view.accuracy
    if run is not None and run.log.mode != "AccuracyOnly" and not run.log.serves_both:
        cause = "the accuracy folder contains the log of a performance run" if run.log.mode == "PerformanceOnly" else ""
        yield Complaint(
            find_at(run.log, keys.EFFECTIVE_TEST_MODE), show_value(run.log.mode or None), "AccuracyOnly", cause=cause
        )


@rule("accuracy.ended", "the run completed", sources=(OURS,))
def check_ended(view: CellView) -> Complaints:
    """The log of an accuracy run ends with the result. A shorter log is from a run that was stopped."""
    run = view.accuracy
    if run is not None and run.log.mode == "AccuracyOnly" and not run.log.complete:
        place = Place(run.log.file, run.log.length)
        yield Complaint(place, "the log ends before the end of the run", "the log of a completed run")


@rule("accuracy.errors", "the log has no ERROR", sources=(_CHECK, OLD))
def check_errors(view: CellView) -> Complaints:
    """LoadGen logs an ERROR if a run cannot be trusted."""
    run = view.accuracy
    if run is not None and run.log.errors:
        first = run.log.errors[0]
        yield Complaint(Place(run.log.file, first.line), show_value(str(first.value)), "no ERROR line")


@rule("accuracy.audit", "no audit.config was used", sources=(OURS,))
def check_audit_config(view: CellView) -> Complaints:
    """A run with settings from an audit.config is a compliance run."""
    if view.accuracy is not None:
        yield from check_audit_absent(view.accuracy)


@rule("accuracy.samples", "the complete validation set", sources=(_CHECK,))
def check_samples(view: CellView) -> Complaints:
    """The run answers every sample of the validation set once. In open, checkers up to v5.1 accept fewer. LoadGen
    before 6 logs only the size of the QSL."""
    run = view.accuracy
    wanted = parse_number(view.find_rule("exact_accuracy_sample_count"))
    if run is None or wanted is None:
        return
    key = find_count_key(run)
    found = read_number(run.log, key)
    if found != wanted:
        yield Complaint(
            find_at(run.log, key),
            f"{show_value(run.log.get_plain(key))} samples",
            f"exactly {wanted}",
            severity=soften(view, "accuracy_samples"),
            mechanism="short-accuracy",
        )


def find_count_key(run: RunView) -> str:
    logged = keys.EFFECTIVE_ACCURACY_SAMPLE_COUNT
    return logged if run.log.find_line_number(logged) else keys.QSL_REPORTED_TOTAL_COUNT


@rule("accuracy.bars", "the accuracy bars", sources=(_CHECK, OLD))
def check_accuracy_bars(view: CellView) -> Complaints:
    """Each metric in accuracy.txt reaches the round's bar. In open, which has no bar, at least one metric is stated."""
    if view.binds("accuracy"):
        yield from _check_bars(view, METRIC_LINES.keys() - WHOLE_SET)
    elif (content := view.files.accuracy_text).value is not None and view.rules is not None:
        known = list_known_metrics(view)
        stated = parse_accuracy(content.value, known, content.file).metrics
        if known and not any(value and not value[0].numpy for value in stated.values()):
            wanted = f"{known[0]} as a plain number: the checkers accept any value in open"
            said, mild = f"no line states {' or '.join(known)}", soften(view, "stated_accuracy")
            yield Complaint(Place(content.file), said, wanted, fix=_RESCORE, severity=mild)


def list_known_metrics(view: CellView) -> list[str]:
    """List the metrics with a bar in the round that this program finds in accuracy.txt."""
    bars = view.rules.list_bars(view.cell.scenario) if view.rules else ()
    return [bar.metric for bar in bars if bar.metric in METRIC_LINES]


@rule("accuracy.lengths", "the total length of answers", sources=(_CHECK, OLD))
def check_lengths(view: CellView) -> Complaints:
    """The number of tokens or the total length of the answers is within the round's bounds."""
    if view.binds("accuracy"):
        yield from _check_bars(view, WHOLE_SET)


def _check_bars(view: CellView, metrics: Set[str]) -> Complaints:
    content = view.files.accuracy_text
    if content.value is None or view.rules is None:
        return
    known = [bar for bar in view.rules.list_bars(view.cell.scenario) if bar.metric in metrics]
    report = parse_accuracy(content.value, [bar.metric for bar in known], content.file)
    for check in check_bars(report, known):
        if check.measured is None:
            place = Place(content.file)
            yield Complaint(place, f"no line states {check.bar.metric}", _show_bar(check.bar), fix=_RESCORE)
        elif not check.met:
            place = Place(content.file, check.line)
            yield Complaint(place, f"{check.bar.metric} {check.measured}", _show_bar(check.bar))


def _show_bar(bar: Bar) -> str:
    ends = [f"at least {bar.least}"] if bar.least is not None else []
    return " and ".join([*ends, *([f"at most {bar.most}"] if bar.most is not None else [])])


@rule("accuracy.number", "numbers that the official checkers can parse", sources=(_CHECK, OLD))
def check_number_form(view: CellView) -> Complaints:
    """Scorers that use NumPy 2 print np.float64(80.2). This check can read it; the official checkers cannot."""
    content = view.files.accuracy_text
    if content.value is None or not view.binds("accuracy"):
        return
    for metric, values in parse_accuracy(content.value, list_known_metrics(view), content.file).metrics.items():
        if values and values[0].numpy:
            found = f"{metric} {values[0].value} as a scalar of NumPy 2, np.…({values[0].value})"
            fix = "score with NumPy 1, or print float(…), with the same value"
            yield Complaint(Place(content.file, values[0].line), found, "a plain number", fix=fix)
            return


@rule("accuracy.hash", "accuracy.txt has a hash line", sources=(_CHECK, OLD))
def check_hash_line(view: CellView) -> Complaints:
    """The truncation script writes the SHA-256 of the complete accuracy log to accuracy.txt."""
    content = view.files.accuracy_text
    if content.value is not None and view.binds("accuracy") and not parse_accuracy(content.value, ()).hash:
        cause = "the accuracy log may not have been truncated with the official script"
        wanted = "the SHA-256 of the complete accuracy log"
        yield Complaint(Place(content.file), "no line hash=…", wanted, cause=cause, mechanism="no-hash")


@rule("accuracy.size", "the accuracy log is truncated", sources=(_CHECK, OLD))
def check_log_size(view: CellView) -> Complaints:
    """Accuracy logs larger than the round's limit are published truncated."""
    folder, limit = view.files.accuracy.folder, view.ruleset.accuracy_log.limit
    size = folder.get_size(ACCURACY_LOG)
    if size is not None and size > limit:
        yield Complaint(
            Place(f"{folder.shown}/{ACCURACY_LOG}"), f"{size:,} bytes", f"at most {limit:,}", fix="truncate the log"
        )


@rule("accuracy.hash-of-log", "the hash matches the log", sources=("submission rules: truncation", OURS))
def check_log_hash(view: CellView) -> Complaints:
    """Compare the hash with the published log if that is complete, or with the archived original if there is an
    archive."""
    content = view.files.accuracy_text
    report = parse_accuracy(content.value or "", (), content.file)
    answers = _read_answers(view, view.files.accuracy.folder)
    if not report.hash or answers is None:
        return
    place, log = Place(report.file, report.hash_line), Place(f"{view.files.accuracy.folder.shown}/{ACCURACY_LOG}")
    own = answers.hash
    if not answers.truncated:
        if report.hash.lower() not in answers.list_hashes():
            yield Complaint(
                place, f"hash={_shorten(report.hash)}", f"{_shorten(own)}, the log's hash", other=log, fix=_RESCORE
            )
    elif report.hash.lower() == own:
        cause = "the hash was computed after truncation, such as by a second truncation"
        # If the official script finds no hash, it truncates the log again and adds one. The first hash is still in the
        # file.
        mild = Severity.WARNING if names_another_log(content.value or "", own) else None
        wanted = "the hash of the complete log"
        yield Complaint(place, "the hash of the truncated log", wanted, cause=cause, other=log, severity=mild)
    elif not is_digest(report.hash):
        yield Complaint(place, f"hash={_shorten(report.hash)}", "a SHA-256: 64 hexadecimal digits")
    elif view.original is not None:
        yield from _compare_archived(view, report.hash.lower(), answers.data, place, log)


def _read_answers(view: CellView, folder: Folder) -> CachedAnswers | None:
    found = view.files.read_answers(folder)
    return found if found is not None and len(found.data) <= _WHOLE else None


def _compare_archived(view: CellView, digest: str, data: bytes, place: Place, log: Place) -> Complaints:
    assert view.original is not None
    path = view.original(digest)
    if path is None:
        yield Complaint(place, f"hash={_shorten(digest)}", "the hash of an accuracy log in the archive", fix=_RESCORE)
        return
    rule = view.ruleset.accuracy_log
    with path.open("rb") as stream:
        size = path.stat().st_size
        head = stream.read(rule.keep if size >= rule.whole_below else size)
        stream.seek(max(0, size - rule.keep))
        whole = truncate_text(head, stream.read(), size, rule)
    if whole.replace(b"\r\n", b"\n") != data.replace(b"\r\n", b"\n"):
        yield Complaint(log, "other content than the log with this hash", "its truncated form", other=place)


def _shorten(digest: str) -> str:
    return digest if len(digest) <= 16 else f"{digest[:12]}…"


@rule("accuracy.extra", "images or videos that the round requires", sources=(_CHECK,))
def check_extra_files(view: CellView) -> Complaints:
    """The round requires images or videos of some samples. In open, checkers up to v5.1 accept a result without
    them. It is a question in a tree of several submitters without any such files, as trees are published."""
    yield from _complain_of_files(view, beyond=False)


@rule("accuracy.extra-samples", "the samples of the files", sources=(_CHECK,))
def check_extra_samples(view: CellView) -> Complaints:
    """Report required samples that the accuracy run did not include: the dataset is incomplete, or it was a
    rehearsal."""
    yield from _complain_of_files(view, beyond=True)


def has_required_files(view: CellView) -> bool:
    """Return whether the accuracy run has any of the images or videos that the round requires."""
    wanted = _find_required_files(view)
    return wanted is not None and (view.files.accuracy.folder / wanted.folder).exists


def question_removed_files(found: list[TreeFinding]) -> list[TreeFinding]:
    """Turn missing images and videos of several submitters into questions: the published rounds do not contain any."""
    missing = check_extra_files.rule
    if len({finding.submitter for finding in found if finding.rule == missing}) < 2:
        return found
    doubt = "no submitter of this tree has such files: were they removed for its publication?"
    return [replace(f, complaint=replace(f.complaint, doubt=doubt)) if f.rule == missing else f for f in found]


def _find_required_files(view: CellView) -> ExtraFiles | None:
    return view.rules.find_extra_files(view.cell.scenario) if view.rules else None


def _complain_of_files(view: CellView, *, beyond: bool) -> Complaints:
    wanted = _find_required_files(view)
    if wanted is None:
        return
    folder = view.files.accuracy.folder / wanted.folder
    there = {name.rpartition(".")[0] or name for name in folder.list_files()}
    run = view.accuracy
    count = None if run is None else read_number(run.log, find_count_key(run))
    absent = [
        stem
        for stem in wanted.stems
        if stem not in there and beyond == (count is not None and stem.isdecimal() and int(stem) >= count)
    ]
    if absent:
        found = f"{len(absent)} of {len(wanted.stems)} files missing, as {absent[0]}"
        mild = soften(view, "accuracy_files")
        samples = f"{', '.join(wanted.stems)} with any extension"
        yield Complaint(Place(folder.shown), found, samples, severity=mild)


@rule("accuracy.test-hash", "a compliance run has its own hash", sources=(OURS,))
def check_test_hashes(view: CellView) -> Complaints:
    """The accuracy run and each compliance run have separate logs and hashes. A hash of the test's log after conversion
    to Windows line ends is not detected, because the logs of tests with long answers take megabytes."""
    accuracy = view.files.accuracy.folder
    digest, line = _read_hash(view, accuracy)
    log = _read_answers(view, accuracy)
    text, cut = Place(f"{accuracy.shown}/{ACCURACY_TEXT}", line), view.files.read_whole_answers(accuracy) is None
    for name, test in view.files.tests.items():
        folder = test / "accuracy"
        theirs, their_line = _read_hash(view, folder)
        their_log = _read_answers(view, folder)
        # The published parts of two logs of long answers may both be from one sample, so the hashes decide.
        differ = bool(cut and digest and theirs and digest != theirs)
        if log and their_log and log.data and log.data == their_log.data and not differ:
            yield Complaint(
                Place(f"{folder.shown}/{ACCURACY_LOG}"),
                "the accuracy run's log, byte for byte",
                f"the log of the {name} run",
                cause="one log is a copy of the other",
                other=Place(f"{accuracy.shown}/{ACCURACY_LOG}"),
                mechanism="copied-logs",
            )
        elif digest and digest == theirs and not _names_another(view, folder, digest):
            yield Complaint(
                Place(f"{folder.shown}/{ACCURACY_TEXT}", their_line),
                f"hash={_shorten(theirs)}, that of the accuracy run",
                f"the hash of the {name} log",
                cause="accuracy.txt, or its hash, belongs to the accuracy run",
                other=text,
            )
        elif digest and their_log and their_log.data and digest.lower() in their_log.list_own_hashes():
            yield Complaint(
                text,
                f"hash={_shorten(digest)}, that of {name}'s log",
                "the hash of the accuracy run's log",
                cause=f"accuracy.txt, or its hash, belongs to the {name} run",
                other=Place(f"{folder.shown}/{ACCURACY_LOG}"),
                mechanism="accuracy-of-another-run",
            )


def _names_another(view: CellView, folder: Folder, digest: str) -> bool:
    """The hash of the test's log may follow the accuracy run's output and hash."""
    stated = list_digests(view.files.read_text(folder, ACCURACY_TEXT).value or "")
    return any(each != digest.lower() for each in stated)


def _read_hash(view: CellView, folder: Folder) -> tuple[str, int]:
    report = parse_accuracy(view.files.read_text(folder, ACCURACY_TEXT).value or "", ())
    return report.hash, report.hash_line


def read_metric_values(content: str, metrics: tuple[str, ...]) -> dict[str, Decimal]:
    """Return the last value that the text states for each metric, as the checker does when it falls back to these
    files."""
    report = parse_accuracy(content, [name for name in metrics if name in METRIC_LINES])
    return {name: found[-1].value for name, found in report.metrics.items() if found}


ACCURACY_RULES = (
    check_mode,
    check_ended,
    check_errors,
    check_audit_config,
    check_samples,
    check_accuracy_bars,
    check_lengths,
    check_number_form,
    check_hash_line,
    check_log_size,
    check_log_hash,
    check_extra_files,
    check_extra_samples,
    check_test_hashes,
)
