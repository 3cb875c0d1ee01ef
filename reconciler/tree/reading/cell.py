"""Files of one scenario folder. Each is read once, and only when a rule needs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, BUILT_IN_CONF, DETAIL, SUMMARY, hash_log
from reconciler.loadgen.summary import SummaryLog, parse_summary
from reconciler.loadgen.text_log import is_text_log, parse_text_log
from reconciler.loadgen.user_conf import UserConf, parse_user_conf
from reconciler.resource.lazy_property import lazy_property
from reconciler.rules.results.format import ResultFormat
from reconciler.rules.results.table import find_shown_format
from reconciler.storage.documents import ResultDocument, parse_json_object, parse_yaml_mapping
from reconciler.tree.reading.files import (
    LOG_LIMIT,
    Read,
    UnreadableError,
    decode_text,
    find_size,
    is_folder,
    is_there,
    list_files,
    list_folders,
    read_bytes,
    read_file,
)
from reconciler.tree.reading.log_cache import RECENT, RECENT_ANSWERS, CachedAnswers
from reconciler.tree.reading.places import LEGACY, CellPlace, SubmitterPlace

USER_CONF, README, MEASUREMENTS = "user.conf", "README.md", "measurements.json"
_TEST = re.compile(r"TEST\d\d(-[AB])?")


class Folder(Struct, frozen=True):
    """A folder on disk and its path below the tree's root. Both are text, because a round has tens of thousands of
    files."""

    location: str
    shown: str

    def __truediv__(self, name: str) -> Folder:
        return Folder(f"{self.location}/{name}", f"{self.shown}/{name}")

    @property
    def path(self) -> Path:
        return Path(self.location)

    @property
    def exists(self) -> bool:
        return is_folder(self.location)

    def has(self, name: str) -> bool:
        """Return True if anything has this name; follows links."""
        return is_there(f"{self.location}/{name}")

    def list_files(self) -> tuple[str, ...]:
        return list_files(self.location)

    def list_folders(self) -> tuple[str, ...]:
        return list_folders(self.location)

    def get_size(self, name: str) -> int | None:
        """Return the size in bytes; None if there is no such file."""
        return find_size(self.location, name)


class RunFolder(Struct, frozen=True, dict=True):
    """Logs of one run. ``name``: performance, accuracy or a compliance test."""

    name: str
    folder: Folder

    @lazy_property
    def detail(self) -> Read[DetailLog]:
        return self._detail[0]

    @property
    def digest(self) -> str:
        """SHA-256 of the detail log; "" if it is absent, empty or not a file."""
        return self._detail[1]

    @lazy_property
    def _detail(self) -> tuple[Read[DetailLog], str]:
        """Parse and hash the log in one read, because a tree's logs take hundreds of megabytes."""
        digest = ""

        def parse(data: bytes, shown: str) -> DetailLog:
            nonlocal digest
            digest = hash_log(data) if data else ""
            if is_text_log(data):
                return parse_text_log(data, self.summary.value, shown)
            return replace(RECENT.find(digest, len(data), lambda: parse_detail(data, shown)), file=shown)

        return self._read(DETAIL, parse), digest

    @lazy_property
    def summary(self) -> Read[SummaryLog]:
        return self._read(SUMMARY, parse_summary)

    def _read(self, name: str, parse: Any) -> Read[Any]:
        return read_file(f"{self.folder.location}/{name}", f"{self.folder.shown}/{name}", parse, LOG_LIMIT)


class CellFiles(Struct, frozen=True, dict=True):
    """Scenario folder and its files elsewhere (legacy layout: measurements/ and compliance/)."""

    submitter: SubmitterPlace
    place: CellPlace

    def _make_folder(self, area: str) -> Folder:
        cell, top = self.place.cell, self.submitter
        rest = f"{area}/{cell.system}/{cell.benchmark}/{self.place.folder}"
        return Folder(f"{top.path}/{rest}", f"{top.shown}/{rest}")

    @lazy_property
    def _kept(self) -> dict[str, bytes | None]:
        return {}

    @lazy_property
    def _answers(self) -> dict[str, CachedAnswers]:
        return {}

    @lazy_property
    def _texts(self) -> dict[str, Read[str]]:
        return {}

    @lazy_property
    def results(self) -> Folder:
        return self._make_folder("results")

    @lazy_property
    def measurements_folder(self) -> Folder:
        return self._make_folder("measurements") if self.legacy else self.results

    @lazy_property
    def compliance_folder(self) -> Folder:
        return self._make_folder("compliance") if self.legacy else self.results

    @lazy_property
    def performance_folder(self) -> Folder:
        """The folder of run_1 and of a power session."""
        return self.results / "performance"

    @lazy_property
    def measures_power(self) -> bool:
        """True if the folder has a power session."""
        return (self.performance_folder / "power").exists

    @property
    def legacy(self) -> bool:
        return self.submitter.layout == LEGACY

    @lazy_property
    def performance(self) -> RunFolder:
        return RunFolder("performance", self.performance_folder / "run_1")

    @lazy_property
    def accuracy(self) -> RunFolder:
        return RunFolder("accuracy", self.results / "accuracy")

    @lazy_property
    def tests(self) -> Mapping[str, Folder]:
        """Compliance tests that have a folder."""
        names = (name for name in self.compliance_folder.list_folders() if _TEST.fullmatch(name))
        return {name: self.compliance_folder / name for name in names}

    @lazy_property
    def test_runs(self) -> Mapping[str, RunFolder]:
        return {name: RunFolder(name, folder / "performance" / "run_1") for name, folder in self.tests.items()}

    @lazy_property
    def format(self) -> ResultFormat:
        """Format of the results in the folder."""
        return find_shown_format(self.results.has)

    @lazy_property
    def user_conf(self) -> Read[UserConf]:
        return self._user_conf[0]

    @property
    def user_conf_text(self) -> bytes:
        """Bytes of user.conf; b"" if it is absent or not a file."""
        return self._user_conf[1]

    @lazy_property
    def _user_conf(self) -> tuple[Read[UserConf], bytes]:
        text = b""

        def parse(data: bytes, shown: str) -> UserConf:
            nonlocal text
            text = data
            return parse_user_conf(data, shown)

        return self._read(self.measurements_folder, USER_CONF, parse), text

    @lazy_property
    def mlperf_conf(self) -> Read[UserConf]:
        """Copy of LoadGen's built-in configuration, required by older rounds."""
        return self._read(self.measurements_folder, BUILT_IN_CONF, parse_user_conf)

    @lazy_property
    def measurements(self) -> Read[ResultDocument]:
        return self._read(self.measurements_folder, self.measurements_name or MEASUREMENTS, parse_json_object)

    @lazy_property
    def measurements_name(self) -> str:
        """Legacy: the first file named system*_scenario.json or system*.json, as the checker chooses; "" for none."""
        if not self.legacy:
            return MEASUREMENTS
        system = self.place.cell.system
        names = [n for n in self.measurements_folder.list_files() if n.startswith(system) and n.endswith(".json")]
        return names[0] if names else ""

    @property
    def accuracy_text(self) -> Read[str]:
        return self.read_text(self.accuracy.folder, ACCURACY_TEXT)

    @lazy_property
    def config(self) -> Read[ResultDocument]:
        """The endpoints harness's config.yaml."""
        name = "config.yml" if self.results.has("config.yml") and not self.results.has("config.yaml") else "config.yaml"
        return self._read(self.results, name, parse_yaml_mapping)

    @lazy_property
    def result_summary(self) -> Read[ResultDocument]:
        return self._read(self.performance_folder, "result_summary.json", parse_json_object)

    @lazy_property
    def accuracy_results(self) -> Read[ResultDocument]:
        return self._read(self.results / "accuracy", "accuracy_results.json", parse_json_object)

    def read_text(self, folder: Folder, name: str) -> Read[str]:
        """Read a text once, like ``read_content``: several rules use the same texts and answers."""
        place = f"{folder.location}/{name}"
        if place not in self._texts:
            self._texts[place] = self._read(folder, name, decode_text)
        return self._texts[place]

    def read_document(self, folder: Folder, name: str) -> Read[ResultDocument]:
        return self._read(folder, name, parse_json_object)

    def read_content(self, folder: Folder, name: str) -> bytes | None:
        """Return a file's bytes; None if it is absent, larger than a log may be, or unreadable."""
        place = f"{folder.location}/{name}"
        if place not in self._kept:
            try:
                self._kept[place] = read_bytes(place, LOG_LIMIT)
            except UnreadableError:
                self._kept[place] = None
        return self._kept[place]

    def read_answers(self, folder: Folder) -> CachedAnswers | None:
        """Return a run's accuracy log, complete or truncated; None if it is absent or unreadable."""
        data, place = self.read_content(folder, ACCURACY_LOG), folder.location
        if data is not None and place not in self._answers:
            digest = hash_log(data)
            self._answers[place] = RECENT_ANSWERS.find(digest, len(data), partial(CachedAnswers, data, digest))
        return self._answers.get(place)

    def read_whole_answers(self, folder: Folder) -> CachedAnswers | None:
        """Return a run's accuracy log if the tree contains all of it."""
        found = self.read_answers(folder)
        return found if found is not None and found.data and not found.truncated else None

    def list_runs(self) -> tuple[RunFolder, ...]:
        return (self.performance, self.accuracy, *self.test_runs.values())

    @staticmethod
    def _read(folder: Folder, name: str, parse: Any, limit: int = 8 << 20) -> Read[Any]:
        return read_file(f"{folder.location}/{name}", f"{folder.shown}/{name}", parse, limit)
