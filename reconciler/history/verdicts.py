"""Verdicts of a commit's compliance tests, taken again from the logs in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from msgspec.structs import replace

from reconciler.diff.change import Chosen
from reconciler.diff.claims import Claim, Proof
from reconciler.errors import LogError
from reconciler.history.logs import Good, read_record_files
from reconciler.history.snapshot import Snapshot
from reconciler.loadgen.log_files import (
    ACCURACY_LOG,
    BASELINE,
    COMPLIANCE,
    DETAIL,
    SUMMARY,
    VERIFY_ACCURACY,
    is_truncated,
)
from reconciler.reconcile.worker import TOOL
from reconciler.resource.canonical import digest
from reconciler.resource.kinds import ACCURACY, AUDIT, PERFORMANCE, Address, Cell, Kind
from reconciler.resource.records import Record
from reconciler.rules.compliance.definition import MissingLogError, RunLogs, VerdictInputs
from reconciler.rules.compliance.judging import collect_verdict_inputs, find_test, judge
from reconciler.rules.compliance.published import Published, is_passed, judge_files
from reconciler.rules.compliance.verdict import FAIL, PASS, AuditVerdict
from reconciler.rules.rounds import load_ruleset

_RUN = "performance/run_1/"
_LONGEST = 200  # characters of a value that is quoted
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def verify_verdict(cell: Cell, name: str, record: Record, chosen: Chosen, at: Snapshot, logs: Good) -> Claim:
    """One verdict of ours. ``name``: of the test."""
    claim = partial(Claim, str(cell), f"{name} verdict")
    compared = {AUDIT: dict(chosen.tests).get(name), **_runs(chosen)}
    if strangers := [run for run, own in compared.items() if record.upstream.get(run, own) != own]:
        return claim(Proof.CONTRADICTED, f"it is of another {' and '.join(strangers)} run than is published")
    runs = {run: at.records[i] for run in compared if (i := record.upstream.get(run, "")) in at.records}
    if missing := _find_missing_logs(record, runs, logs):
        return claim(Proof.MISSING, f"not in this commit as recorded: {', '.join(missing)}")
    question = _question(cell, record, runs, at, logs)
    try:
        again = judge(name, question)
    except MissingLogError as error:
        return claim(Proof.ATTESTED, f"{_word(record)}, as recorded: {_no_answers(str(error))}")
    except (LogError, ValueError, KeyError) as error:
        return claim(Proof.CONTRADICTED, f"its logs cannot be judged: {error}")
    attested = _attested(name, question)
    if wrong := _differing(record, again, _texts(record, logs), whole=not attested and record.tool == TOOL):
        return claim(Proof.CONTRADICTED, wrong)
    return claim(Proof.ATTESTED if attested else Proof.PROVEN, f"{_word(record)}, from its logs{attested}")


def _find_missing_logs(record: Record, runs: Mapping[str, Record], logs: Good) -> list[str]:
    needed = [(f"the {run} run's ", item.artifacts, (SUMMARY, DETAIL)) for run, item in runs.items()]
    needed.append(("", record.artifacts, (BASELINE, COMPLIANCE)))
    return [f"{of}{a.name}" for of, items, names in needed for a in items if a.name in names and a.sha256 not in logs]


def _question(cell: Cell, record: Record, runs: Mapping[str, Record], at: Snapshot, logs: Good) -> VerdictInputs:
    declared = at.list_declared(record)
    rules = at.desired.detail(declared.address).rules if declared else None
    question = collect_verdict_inputs(
        {name: item.value for name, item in record.inputs.items()},
        {run: _run_logs(read_record_files(made, logs)) for run, made in runs.items()},
        (record.address.cell or cell).scenario,  # an inferred cell shows the tests of another
        (bar.metric for bar in rules.bars) if rules else (),
        _read_as(record),
        record.values.get("answers"),
    )
    texts = _texts(record, logs)
    reports = {name: texts[name] for name in (BASELINE, COMPLIANCE) if name in texts}
    if find_test(record.address.part).scored:
        reports = {COMPLIANCE: texts.get(VERIFY_ACCURACY, "")}  # the scorer's words are in there
    return replace(question, reports=reports)


def _runs(chosen: Chosen) -> dict[str, str]:
    return {PERFORMANCE: chosen.performance, ACCURACY: chosen.accuracy}


def _read_as(record: Record) -> str:
    """Read the answers as the verdict read them: the default of that time is in no input."""
    figures = record.values.get("figures", {})
    return str(figures.get("accuracy.compared as", "")).partition(",")[0] or str(figures.get("dtype", ""))


def _run_logs(files: Mapping[str, bytes], below: str = "", answers: str = "") -> RunLogs:
    """``below`` and ``answers``: the folders of the run's logs and of its accuracy log."""
    log = files.get(f"{answers}{ACCURACY_LOG}")
    lines: Callable[[], list[bytes]] | None = log.splitlines if log and not is_truncated(log) else None
    return RunLogs(files.get(f"{below}{DETAIL}", b""), files.get(f"{below}{SUMMARY}", b""), lines)


def _texts(record: Record, logs: Good) -> dict[str, str]:
    return {name: data.decode(errors="replace") for name, data in read_record_files(record, logs).items()}


def _differing(record: Record, again: AuditVerdict, texts: Mapping[str, str], *, whole: bool) -> str:
    """In what the record and its verify files are not what the logs say; "" where they are. ``whole``: this version
    derived all of it, from logs that are all here."""
    if bool(record.values.get("passed")) is not again.passed:
        return f"recorded {_word(record)}, the logs say {'; '.join(again.reasons) or PASS}"
    recorded = record.values.get("figures", {})
    for name, figure in again.figures.items():
        if name in recorded and recorded[name] != figure:
            return f"recorded {name}: {recorded[name]}, the logs say {figure}"
    derived = {"figures": dict(again.figures), "reasons": list(again.reasons), "by_speed": again.by_speed}
    for name, value in derived.items() if whole else ():
        if (stated := record.values.get(name, type(value)())) != value:
            return f"values.{name}: recorded {str(stated)[:_LONGEST]}, the logs say {str(value)[:_LONGEST]}"
    for file, text in again.files.items():
        if file in texts and is_passed(texts[file], file, None) is not is_passed(text, file, None):
            return f"{file} does not say what the logs say: {'; '.join(again.reasons) or PASS}"
        if not find_test(again.test).scored and file in texts and (other := _other_number(texts[file], text)):
            return f"{file} says {other[0]}, the logs say {other[1]}"
    return ""


def _other_number(said: str, again: str) -> tuple[str, str] | None:
    """Numbers that only one of them has. Words may be those of another release, and so may their order."""
    one, other = Counter(_NUMBER.findall(said)), Counter(_NUMBER.findall(again))
    if one == other:
        return None
    return ", ".join((one - other).elements()) or "nothing", ", ".join((other - one).elements()) or "nothing"


def _attested(name: str, question: VerdictInputs) -> str:
    """Describe what is not derived from the commit, as the end of a sentence; "" where all is."""
    if find_test(name).scored:
        return "; the accuracy as the scorer wrote it"
    if find_test(name).compare_answers and None in (question.audit.answers, question.accuracy.answers):
        return f"; the comparison of answers as recorded: {_no_answers(AUDIT)}"
    return "; the accuracy of answers that differ as the scorer wrote it" if question.reports else ""


def _no_answers(run: str) -> str:
    return f"the whole accuracy log of the {run} run is not in this commit"


def _word(record: Record) -> str:
    return PASS if record.values.get("passed") else FAIL


def verify_imported(cell: Cell, name: str, record: Record, chosen: Chosen, at: Snapshot, logs: Good) -> Iterator[Claim]:
    """A test whose folder came as it is; ``name`` of the test."""
    listed = digest([[a.name, a.sha256] for a in record.artifacts])
    proof = Proof.PROVEN if listed == record.key else Proof.CONTRADICTED
    detail = f"{len(record.artifacts)} files give key {record.key[:12]}" if listed == record.key else "other files"
    yield Claim(str(cell), f"{name}: inputs", proof, detail)
    claim = partial(Claim, str(cell), f"{name} verdict")
    files = {a.name: logs[a.sha256] for a in record.artifacts if a.sha256 in logs}
    if missing := [a.name for a in record.artifacts if a.name not in files and a.place == "logs"]:
        yield claim(Proof.MISSING, f"not in this commit as recorded: {', '.join(missing)}")
        return
    judged = list(judge_files(_published(cell, name, files, chosen, at, logs)))
    for item in judged:
        said, found = (PASS if passed else FAIL for passed in (item.said, item.found))
        if said != found and item.sure:
            yield claim(Proof.CONTRADICTED, f"{item.file} says {said}, its logs {found}: {'; '.join(item.reasons)}")
            return
    other_files = [file for file in files if file.startswith("verify_") and file not in {item.file for item in judged}]
    if other_files or not judged:
        detail = f"; {', '.join(other_files)} as it came" if other_files else ""
        yield claim(Proof.ATTESTED, f"{len(judged)} verify files from their logs{detail}")
        return
    yield claim(Proof.PROVEN, f"{', '.join(item.file for item in judged)} from the logs")


def _published(
    cell: Cell, name: str, files: Mapping[str, bytes], chosen: Chosen, at: Snapshot, logs: Good
) -> Published:
    ruleset = load_ruleset(at.desired.submission.round)
    settings = at.desired.detail(Address(Kind.RESULT, str(cell))).settings
    benchmark = ruleset.find_rules(cell.division, settings.official or cell.benchmark)
    try:
        rules = benchmark.find_test(name, cell.scenario) if benchmark else None
    except KeyError:
        rules = None
    published = {run: at.records.get(identity) for run, identity in _runs(chosen).items()}
    named = {run: read_record_files(record, logs) if record else {} for run, record in published.items()}
    return Published(
        test=name,
        rules=rules,
        scenario=cell.scenario,
        metrics=tuple(bar.metric for bar in benchmark.list_bars(cell.scenario)) if benchmark else (),
        audit=_run_logs(files, _RUN, "accuracy/"),
        performance=_run_logs(named[PERFORMANCE]),
        accuracy=_run_logs(named[ACCURACY]),
        text=lambda path: files[path].decode(errors="replace") if path in files else None,
    )
