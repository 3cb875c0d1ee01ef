"""Log of a process for programs that read logs: one JSON object a line, a constant message and named facts.

Modules say ``log.info("step ended", extra=facts(cell=…))`` to a logger of the standard library. Each line carries what
``context`` was given: the id of its pass, plan or audit, and the submission. Without a file or ``--verbose`` nothing is
written.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = "reconciler"
RECONCILING = "pass"
KEPT = 50  # files of earlier passes, and as many of earlier plans and audits each

log = logging.getLogger(__name__)
_FACTS = "facts"
_CONTEXT: ContextVar[Mapping[str, Any]] = ContextVar("context", default={})  # noqa: B039 - replaced, never changed


def facts(**named: Any) -> dict[str, dict[str, Any]]:
    """For the ``extra`` of a line; None and "" are left out."""
    return {_FACTS: {name: value for name, value in named.items() if value not in (None, "")}}


@contextlib.contextmanager
def context(**named: Any) -> Iterator[None]:
    """Facts of every line within."""
    token = _CONTEXT.set({**_CONTEXT.get(), **named})
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def add_context(**named: Any) -> None:
    """To the context that is entered now."""
    _CONTEXT.set({**_CONTEXT.get(), **named})


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **_CONTEXT.get(),
            **getattr(record, _FACTS, {}),
        }
        if record.exc_info:
            document["error"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False, default=str)


class KeyValues(logging.Formatter):
    """For people: "12:00:00 step ended cell=… seconds=3.2"."""

    def format(self, record: logging.LogRecord) -> str:
        named = {**_CONTEXT.get(), **getattr(record, _FACTS, {})}
        words = (f"{name}={json.dumps(value, ensure_ascii=False, default=str)}" for name, value in named.items())
        return " ".join([f"{datetime.fromtimestamp(record.created):%H:%M:%S}", record.getMessage(), *words])


class _FileHandler(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as the standard library names it
        """A full disk must not end a pass, nor fill the terminal: what counts is in the records."""


def show_on_terminal() -> None:
    """From now on, every line goes to standard error as well."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValues())
    _attach(handler)


@contextlib.contextmanager
def open_log(folder: Path, command: str) -> Iterator[str]:
    """A file in ``folder`` for what this command does, from its beginning to its end or why it broke off. Gives the id
    that every line carries."""
    identity = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{os.getpid()}"
    name = identity if command == RECONCILING else f"{command}-{identity}"
    with write_file(folder, name), context(reconcile=identity):
        log.info("%s began", command)
        try:
            yield identity
        except BaseException as error:
            log.warning("%s broken off", command, extra=facts(error=type(error).__name__, problem=str(error)))
            raise


@contextlib.contextmanager
def write_file(folder: Path, name: str) -> Iterator[None]:
    """Lines go to ``folder``/``name``.jsonl until this is left. Of earlier files of its kind, the word that its name
    begins with, the newest stay, ``KEPT`` in all."""
    handler: logging.Handler = logging.NullHandler()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        kind = name.rstrip("0123456789T.-")
        for old in sorted(folder.glob(f"{kind}[-0-9]*.jsonl"))[: -(KEPT - 1)]:
            old.unlink(missing_ok=True)
        handler = _FileHandler(folder / f"{name}.jsonl", encoding="utf-8")
        handler.setFormatter(JsonLines())
    _attach(handler)
    try:
        yield
    finally:
        logging.getLogger(ROOT).removeHandler(handler)
        with contextlib.suppress(OSError):
            handler.close()


def _attach(handler: logging.Handler) -> None:
    logger = logging.getLogger(ROOT)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
