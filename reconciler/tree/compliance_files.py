"""The folder of a compliance test: what its verification script leaves there, and what the script forgets."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.mlperf.accuracy import add_hash
from reconciler.mlperf.compliance.judging import SHOWN_WHOLE
from reconciler.mlperf.log_files import ACCURACY_LOG, ACCURACY_TEXT, BASELINE, COMPLIANCE, DETAIL, SUMMARY, TRUNCATED
from reconciler.resource.records import LOG_LIMIT
from reconciler.tree.content import Content, Files, LogRef

# Tests whose scripts copy the run's logs to performance/run_1, and those that copy its answers to accuracy.
_WITH_RUN = frozenset({"TEST01", "TEST04", "TEST05", "TEST07", "TEST09"})
_WITH_ANSWERS = frozenset({"TEST01", "TEST06", "TEST07", "TEST09"})
# Reports of TEST01's fallback, which lie beside the answers.
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
    if test in _WITH_RUN:
        files |= {f"performance/run_1/{name}": run[name] for name in (SUMMARY, DETAIL) if name in run}
    if test in SHOWN_WHOLE and ACCURACY_LOG in run and run[ACCURACY_LOG].size <= LOG_LIMIT:
        files[f"accuracy/{ACCURACY_LOG}"] = run[ACCURACY_LOG]
    elif test in _WITH_ANSWERS and ACCURACY_LOG in run and TRUNCATED in run:
        files[f"accuracy/{ACCURACY_LOG}"] = run[TRUNCATED]
        files[f"accuracy/{ACCURACY_TEXT}"] = add_hash("", run[ACCURACY_LOG].sha256).encode()
    return files
