"""Read the configuration built into the installed LoadGen as bytes: nothing is loaded or run.

It is compiled into its library, or in a file next to it. The package's version does not identify the round: the seeds
of each release were read from the libraries themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from harness.catalog import CONF
from reconciler.loadgen import keys
from reconciler.loadgen.settings import AUDIT_UNREAD, RELEASES, Unit, find_settings, list_ruled, select_conf_settings
from reconciler.loadgen.user_conf import UserConf, parse_user_conf, read_conf_settings, select_audit_settings
from reconciler.storage.process import list_import_folders

# Rounds whose configuration was a separate file → its SHA-256 in mlcommons/inference at the round's tag, from whose
# sources its LoadGen is built.
CONFS: dict[str, str] = {
    "v2.0": "be0c34899fdd11ba56935b86d742ff6cbb9d9759392964b0211531a2791a7fb0",
    "v2.1": "19f49553df4116a297deb2806684ec35efa06664a12aad8c7db6755ba868e867",
    "v3.0": "b0d0fa9747f5d14e71d4227f4cba1275f1c5114404d0db8946587d9ddf39400d",
    "v3.1": "e41e6c0985a6597b7b1a718c604adb9e5b94c1ffce4b2f52caecea54536ad359",
    "v4.0": "c40456ef8887b230e783a5233de7844132458e954c2d6062d431dba457e082c9",
}
# Rounds whose LoadGen does not accept an audit.config from its caller.
UNAVAILABLE = frozenset({"v0.7", "v1.0", "v1.1"})

IMPORT_ONLY = (
    "declare a newer round; results of this one can only be imported: reconcile adopt TREE, reconcile import LOGDIR"
)

_SEED = re.compile(rb"\*\.\*\.(qsl_rng_seed|sample_index_rng_seed|schedule_rng_seed) = ([0-9]{1,20})")
_LIBRARY = "mlperf_loadgen*.so"


def find_loadgen_library(folders: list[str] | None = None) -> Path | None:
    """Find the library as this interpreter's children do."""
    for folder in list_import_folders() if folders is None else folders:
        found = sorted(Path(folder).glob(_LIBRARY)) if Path(folder).is_dir() else []
        if found:
            return found[0]
    return None


def read_seeds(library: Path) -> dict[str, int]:
    """Return the seeds by LoadGen's names; empty if the library has no configuration."""
    return {name.decode(): int(value) for name, value in _SEED.findall(_read_configuration(library) or b"")}


def read_conf_here() -> UserConf | None:
    """Return the configuration of this interpreter's LoadGen; None without LoadGen."""
    library = find_loadgen_library()
    data = _read_configuration(library) if library is not None else None
    return parse_user_conf(data, library.name) if library is not None and data is not None else None


def _read_configuration(library: Path) -> bytes | None:
    """Return the text built into the library, or else the text of the file next to it, as the children read it:
    releases up to 4.1.7 have none built in. None if it cannot be read."""
    try:
        data = library.read_bytes()
        if (found := _SEED.search(data)) is None:
            conf = library.with_name(CONF)
            return conf.read_bytes() if conf.exists() else b""
    except OSError:
        return None
    begin, end = data.rfind(b"\0", 0, found.start()) + 1, data.find(b"\0", found.end())
    return data[begin : end if end > 0 else None]


def find_other_seeds(asked: Mapping[str, object], conf: UserConf) -> bool:
    """Return True if the seeds differ from those requested, for which a run would be refused once it has ended."""
    carried = {name: conf.get_effective("*", "*", name) for name in keys.SEEDS}
    return any(n in asked and (line is None or str(asked[n]) != str(line.integer)) for n, line in carried.items())


def find_other_settings(asked: Mapping[str, object], left: Mapping[str, object], conf: UserConf) -> list[str]:
    """Return the settings that the round fixes, that a run leaves to LoadGen (``left``: with their required values) and
    that differ in this LoadGen, also because it does not know the benchmark's key."""
    scenario, key = str(asked["scenario"]), str(asked.get("model_key", "*"))
    carried = read_conf_settings(conf, key, scenario)
    wanted = {n: asked[n] for n in list_ruled(scenario) if n in asked} | {n: v for n, v in left.items() if n in asked}
    found = []
    for setting in find_settings(scenario):
        value = wanted.get(setting.name)
        there = carried.get(setting.name, setting.default)
        if value is not None and (bool(value) != bool(there) if setting.unit is Unit.FLAG else value != there):
            found.append(f"{setting.name} of {key} is {value} in the round and {there} in LoadGen")
    return found


def explain_missing_settings(asked: Mapping[str, object], mode: str, release: str) -> str:
    """Explain which parts of a run or a test a release does not support; "" if it supports all."""
    known = _parse_release(release)
    if known is None:
        return ""
    first, last = AUDIT_UNREAD
    if select_audit_settings(asked) and (_parse_release(first) or ()) <= known <= (_parse_release(last) or ()):
        return f"LoadGen {release} runs no compliance tests: from {first} to {last} it reads no audit.config as one"
    scenario = str(asked["scenario"])
    stated = select_conf_settings(asked, mode, scenario)
    for setting in find_settings(scenario):
        due = asked.get(setting.name) if setting.ruled else stated.get(setting.name)
        if setting.since and due and known < (_parse_release(setting.since) or ()):
            return f"LoadGen {release} does not support {setting.name}, which needs {setting.since}"
    return ""


def _parse_release(release: str) -> tuple[int, ...] | None:
    numbers = release.split(".")
    return tuple(map(int, numbers)) if all(number.isdecimal() for number in numbers) else None


def explain_unavailable(round_name: str) -> str:
    """Explain why a round cannot be run; "" if its LoadGen is available."""
    if round_name not in UNAVAILABLE:
        return ""
    return f"LoadGen of round {round_name} is not supported: callers cannot choose its compliance tests"


def explain_install(round_name: str) -> str:
    """Return the fix for another round's LoadGen: a separate environment, so that one repository can serve several
    rounds."""
    if round_name in UNAVAILABLE:
        return IMPORT_ONLY
    there = "run the system there: `launcher: [env]` and `python: ENVIRONMENT/bin/python`"
    if round_name in CONFS:
        return (
            f"`reconcile doctor --loadgen DIR` builds it in a separate environment; DIR is a checkout of "
            f"mlcommons/inference at tag {round_name}; {there}"
        )
    release = RELEASES.get(round_name)
    wanted = f"mlcommons-loadgen=={release}" if release else f"the LoadGen of round {round_name}"
    return (
        f"pip install {wanted}; next to other rounds, `reconcile doctor --fix` installs it in a separate "
        f"environment; {there}"
    )
