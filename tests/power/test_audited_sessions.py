"""What an audit says of a power session that was edited together with all records and names of files."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from reconciler.diff.claims import Proof
from reconciler.history.audit import audit
from reconciler.history.snapshot import read_snapshot
from reconciler.record.store import keep
from reconciler.resource.records import Record
from reconciler.storage import git
from tests.passes.repository import Repository
from tests.passes.test_audited import forged
from tests.power.test_measured_passes import RUN, director, make_metered
from tests.shared import need

__all__ = ["director"]

need("mlperf_loadgen")
SAMPLES, CLIENT, SERVER = "session/run_1/spl.txt", "session/power/client.json", "session/power/server.json"
Change = Callable[[dict[str, str]], object]


def put(name: str, edit: Callable[[str], str], *, listed: bool = False) -> Change:
    """``listed``: with the digest that the session lists."""

    def change(texts: dict[str, str]) -> None:
        texts[name] = edit(texts[name])
        if listed:
            document = json.loads(texts[SERVER])
            document["results"][name.removeprefix("session/")] = hashlib.sha1(texts[name].encode()).hexdigest()
            texts[SERVER] = json.dumps(document)

    return change


def tenth(text: str) -> str:
    return text.replace("Watts,200", "Watts,20")


def next_year(text: str) -> str:
    return re.sub(r"-(\d{4}) ", lambda m: f"-{int(m[1]) + 1} ", text)


def of_ranging(texts: dict[str, str]) -> None:
    texts[SAMPLES] = texts["session/ranging/spl.txt"]


def all_of(*changes: Change) -> Change:
    return lambda texts: [change(texts) for change in changes]


def no_messages(texts: dict[str, str]) -> None:
    document = json.loads(texts[SERVER])
    texts[SERVER] = json.dumps({**document, "ptd_messages": []})


def no_samples(texts: dict[str, str]) -> None:
    del texts[SAMPLES]


def logs_of_ranging(texts: dict[str, str]) -> None:
    for name in ("detail", "summary"):
        texts[f"session/run_1/mlperf_log_{name}.txt"] = texts[f"session/ranging/mlperf_log_{name}.txt"]


DENIED = {"published files: power.watts", "published files: power.products"}
# The lie → what an audit contradicts, nothing where it sees none: a warning of `verify-tree` contradicts nothing.
LIES: dict[str, tuple[Change, set[str]]] = {
    "a tenth of the watts": (put(SAMPLES, tenth), {"published files: power.digests", *DENIED}),
    "samples of the ranging run": (of_ranging, {"published files: power.digests", "published files: power.session"}),
    "half of the samples": (put(SAMPLES, lambda text: text[: len(text) // 2]), {"published files: power.digests"}),
    "no samples": (put(SAMPLES, lambda _: ""), {"published files: power.digests"}),
    "no file of samples": (no_samples, {"published files: power.session"}),
    "logs of the ranging run": (logs_of_ranging, {"rendered tree"}),
    # Its line ends may be mixed, which git changes: a question.
    "the analyzer's log": (put("session/power/ptd_logs.txt", lambda _: "Watts\n"), set()),
    "an empty client": (put(CLIENT, lambda _: "{}"), {"published files: power.session"}),
    "no client": (lambda texts: texts.pop(CLIENT), {"published files: power.session"}),
    "no director": (lambda texts: texts.pop(SERVER), {"published files: power.session"}),
    "a client of another session": (
        put(CLIENT, lambda text: re.sub(r'(session_name": ")', r"\g<1>x", text)),
        {"published files: power.session"},
    ),
    "samples of another day, and their digest": (
        put(SAMPLES, next_year, listed=True),
        {"published files: power.times"},
    ),
    "a tenth of the watts, and its digest": (put(SAMPLES, tenth, listed=True), DENIED),
    "a tenth of the watts, its digest, and no messages": (
        all_of(put(SAMPLES, tenth, listed=True), no_messages),
        {"published files: power.products"},
    ),
    "a tenth of the watts and amperes, their digest, and no messages": (
        all_of(put(SAMPLES, lambda text: tenth(text).replace("Amps,0.", "Amps,0.0"), listed=True), no_messages),
        set(),
    ),
}


def test_a_session_that_was_edited_with_its_record_is_contradicted(tmp_path: Path, director: str) -> None:
    repository = make_metered(tmp_path / "lab", director)
    repository.reconcile()
    repository.write(".gitignore", ".reconcile/\n")
    for name, (change, wanted) in {"nothing": (lambda _: None, set()), **LIES}.items():
        copy = repository.copy(tmp_path / "copy")
        forged(copy, RUN, partial(rewrite, copy, change))
        copy.commit()  # the only one: a later one would show that a run was removed
        found = contradicted(copy)
        if name == "samples of the ranging run":  # it may have ended in the minute before the published one
            found.discard("published files: power.times")
        assert found == wanted, name
        shutil.rmtree(copy.root)


def contradicted(repository: Repository) -> set[str]:
    found = audit(repository.root, read_snapshot(repository.root, git.resolve(repository.root, "HEAD")))
    return {claim.what for claim in found.claims if claim.proof in (Proof.CONTRADICTED, Proof.MISSING)}


def rewrite(repository: Repository, change: Change, record: Record) -> Record:
    named = {artifact.name: artifact for artifact in record.artifacts if artifact.name.startswith("session/")}
    before = {name: (repository.paths.logs / a.sha256).read_text() for name, a in named.items()}
    after = dict(before)
    change(after)
    new = {}
    for name in (name for name in after if after[name] != before[name]):
        repository.write("edited", after[name])
        new[name] = keep(repository.paths, repository.root / "edited", name, in_git=True)
    kept = (a for a in record.artifacts if a.name in after or a.name not in named)
    return replace(record, artifacts=tuple(new.get(a.name, a) for a in kept))
