"""A trace that LoadGen wrote with a log: one process writes both, and each sample's latency is in the trace.

Nearly all published traces are empty, since LoadGen traces only where it is asked to.
"""

from __future__ import annotations

import re

from reconciler.check.demands import OURS, Complaints
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import TRACE
from reconciler.resource.rules import Premise, rule
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.files import LOG_LIMIT
from reconciler.tree.reading.values import find_at, number
from reconciler.tree.reading.view import CellView, RunView
from reconciler.verify.premises import RELEASE_IS_KNOWN
from reconciler.verify.runs import list_runs

_PROCESS = re.compile(rb'"pid": ?(\d{1,12}),')
_LATENCY = re.compile(rb'"name":"Sample",[^\n]{1,200}"complete_ns":(\d{1,18})\}')
_WHOLE = b'{"name":"LastTrace"}'
_ENDS = ((keys.RESULT_MAX_LATENCY_NS, max, "slowest"), (keys.RESULT_MIN_LATENCY_NS, min, "fastest"))


@rule(
    "log.trace",
    "a trace that denies its log",
    sources=("LoadGen", OURS),
    cause="impossible-log",
    premises=(
        RELEASE_IS_KNOWN,
        Premise("The trace has the last line that LoadGen writes, where latencies are compared."),
    ),
)
def verify_traces(view: CellView) -> Complaints:
    """One process of LoadGen writes log and trace, with its id in both; each sample's latency is in a trace, of which
    the log has the slowest and the fastest: seen equal in runs of all four scenarios. Traces without their last line
    are not compared. All 103 published ones are empty.
    """
    for run in list_runs(view):
        data = view.files.read_content(run.run.folder, TRACE, LOG_LIMIT)
        if data and run.log.complete:
            yield from _compare(run, Place(f"{run.run.folder.shown}/{TRACE}"), data)


def _compare(run: RunView, place: Place, data: bytes) -> Complaints:
    texts = run.log.index.list_texts()  # none of a log that something else than LoadGen wrote
    line, first = texts[0][1:] if texts else (0, b"")
    own, traced = (found[1].decode() if (found := _PROCESS.search(text)) else "" for text in (first, data))
    if own and traced and own != traced:
        yield Complaint(
            place,
            f"written by process {traced}",
            f"process {own}, which wrote the log",
            cause="the trace of another run",
            other=Place(run.log.file, line),
        )
        return
    latencies = [int(text) for text in _LATENCY.findall(data)] if _WHOLE in data else []
    for key, choose, name in _ENDS if latencies else ():
        logged = number(run.log, key)
        if logged is not None and logged != choose(latencies):
            yield Complaint(
                place,
                f"the {name} sample took {choose(latencies)} ns",
                f"{logged:f} ns, as LoadGen logs",
                cause="a log or a trace that was edited",
                other=find_at(run.log, key),
            )


TRACE_RULES = (verify_traces,)
