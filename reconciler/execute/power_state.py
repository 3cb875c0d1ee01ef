"""The declared power state of a system: its runs are carried out in it, and the machine is put back afterwards."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from harness.contract import FileMessage, StateRequest
from reconciler.execute.attempt import Attempt
from reconciler.execute.request_parts import list_locations, list_secrets
from reconciler.resource.settings import STATE, STATE_EXPECT, STATE_READ, STATE_RESTORE, STATE_SET
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.machine_locks import lock_folder
from reconciler.storage.process import ask

_LIMIT = 120.0  # seconds


def hold_state(
    request: FileMessage, attempt: Attempt, paths: RepositoryPaths, named: FileMessage | None = None
) -> FileMessage:
    """The same request, carried out in the power state of the attempt's system, where it declares one. ``named``: what
    names its files, where that is within the request."""
    settings = attempt.intent.settings
    if STATE_SET not in settings:
        return request
    return StateRequest(
        inner_verb=request.verb,
        inner=asdict(request),
        set_by=settings.words(STATE_SET),
        restore=settings.words(STATE_RESTORE),
        read_by=settings.words(STATE_READ),
        expect=settings.text(STATE_EXPECT),
        cwd=str(paths.root),
        journal=str(find_journal()),
        counter=str(attempt.counter),
        secrets=dict(list_secrets(named or request)),
        places=tuple(map(str, list_locations(named or request))),
    )


def find_journal() -> Path:
    """One for the machine, of whichever repository."""
    return lock_folder() / f"{STATE}.json"


def put_back_state() -> None:
    """What a killed run left, together with its keeper. Asked for while no other run can be under way."""
    journal = find_journal()
    if journal.exists():
        ask([sys.executable, "-P", "-c", _PUT_BACK, json.dumps(str(journal))], _LIMIT)


_PUT_BACK = """
import json, pathlib, sys
from harness.verbs.state import put_back
put_back(pathlib.Path(json.loads(sys.argv[1])))
"""
