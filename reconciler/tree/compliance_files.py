"""The folder of a compliance test: what its verification script leaves there, and what the script forgets."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, BASELINE, COMPLIANCE, DETAIL, SUMMARY, TRUNCATED
from reconciler.resource.records import LOG_LIMIT
from reconciler.rules.accuracy import add_hash
from reconciler.rules.compliance.judging import find_test
from reconciler.tree.content import Content, Files, LogRef

# Reports of TEST01's fallback, which are in the folder of the answers.
_REPORTS = frozenset({BASELINE, COMPLIANCE})


def audit_files(test: str, run: Mapping[str, LogRef], verdict: Mapping[str, LogRef]) -> Files:
    """{path below the test's folder: content} from the artifacts of a test's run and of its verdict.

    The answers are truncated as the submission rules say, and accuracy.txt carries their hash: no script writes that
    file for TEST01, though truncation and the checkers want it.
    """
    files: dict[str, Content] = {}
    for name, content in verdict.items():
        if name in _REPORTS:
            files[f"accuracy/{name}"] = content
        elif name.startswith("verify_"):
            files[name] = content
    shown = find_test(test)
    if shown.shows_run:
        files |= {f"performance/run_1/{name}": run[name] for name in (SUMMARY, DETAIL) if name in run}
    if shown.shown_whole and ACCURACY_LOG in run and run[ACCURACY_LOG].size <= LOG_LIMIT:
        files[f"accuracy/{ACCURACY_LOG}"] = run[ACCURACY_LOG]
    elif shown.shows_answers and ACCURACY_LOG in run and TRUNCATED in run:
        files[f"accuracy/{ACCURACY_LOG}"] = run[TRUNCATED]
        files[f"accuracy/{ACCURACY_TEXT}"] = add_hash("", run[ACCURACY_LOG].sha256).encode()
    return files
