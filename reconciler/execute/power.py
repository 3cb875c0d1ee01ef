"""Run a request under a power meter, and in the declared power state of its system; restore the state afterwards."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from harness.contract import FileMessage, RunRequest
from harness.power.requests import PowerRequest, StateRequest
from reconciler.execute.attempt import Attempt
from reconciler.execute.request_parts import list_locations, list_secrets
from reconciler.resource.kinds import PERFORMANCE
from reconciler.resource.settings import DIRECTOR, KIT, NTP, STATE, STATE_EXPECT, STATE_READ, STATE_RESTORE, STATE_SET
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.machine_locks import find_lock_folder
from reconciler.storage.process import ask

_LIMIT = 120.0  # seconds


def wrap_run(run: FileMessage, attempt: Attempt, paths: RepositoryPaths) -> FileMessage:
    """Return a run's request as its system declares it: with measured power, in its power state, both or neither."""
    settings, request = attempt.intent.settings, run
    if isinstance(run, RunRequest) and attempt.intent.address.mode == PERFORMANCE and DIRECTOR in settings:
        request = PowerRequest(
            run=run,
            kit=str((paths.root / settings.get_text(KIT)).resolve()),
            director=settings.get_text(DIRECTOR),
            ntp=settings.get_text(NTP),
            session=str(attempt.session),
            counter=str(attempt.counter),
        )
    if STATE_SET not in settings:
        return request
    return StateRequest(
        inner_verb=request.verb,
        inner=asdict(request),
        set_by=settings.get_words(STATE_SET),
        restore=settings.get_words(STATE_RESTORE),
        read_by=settings.get_words(STATE_READ),
        expect=settings.get_text(STATE_EXPECT),
        cwd=str(paths.root),
        journal=str(find_journal()),
        counter=str(attempt.counter),
        secrets=dict(list_secrets(run)),
        places=tuple(map(str, list_locations(run))),
    )


def find_journal() -> Path:
    """Return the machine's journal, shared by all repositories."""
    return find_lock_folder() / f"{STATE}.json"


def put_back_state() -> None:
    """Restore the state after a killed run whose keeper was lost too. Called when no other run can be running."""
    journal = find_journal()
    if journal.exists():
        ask([sys.executable, "-P", "-c", _PUT_BACK, json.dumps(str(journal))], _LIMIT)


_PUT_BACK = """
import json, pathlib, sys
from harness.power.state import put_back
put_back(pathlib.Path(json.loads(sys.argv[1])))
"""
