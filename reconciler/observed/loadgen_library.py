"""The seeds that the installed LoadGen carries, read from its library as bytes: nothing is loaded or run.

They are compiled into it, and its package's version says nothing of rounds: which release carries whose seeds was read
from the libraries themselves.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from reconciler.loadgen import keys
from reconciler.loadgen.settings import AUDIT_SINCE, Unit, find_setting, find_settings, list_ruled, select_conf_settings
from reconciler.loadgen.user_conf import UserConf, audit_settings, parse_user_conf, read_conf_settings

# Round → a release of mlcommons-loadgen whose built-in mlperf.conf has the round's seeds and all that the round takes
# from it: before 6.0.10, v6.0's has no wan-2.2-t2v-a14b, and no equal issue for gpt-oss-120b-interactive. Up to 5.0.5
# an audit.config is read as if it were a second user.conf, which logs an ERROR and samples no answers.
RELEASES: Mapping[str, str] = {"v4.1": "5.0.7", "v5.0": "5.0.18", "v5.1": "5.1.2", "v6.0": "6.0.10", "v6.1": "6.0.17"}
# Rounds whose seeds were in a file, mlperf.conf, apart from LoadGen: no release has them.
UNAVAILABLE = frozenset({"v0.7", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v3.1", "v4.0"})

IMPORT_ONLY = (
    "declare a newer round; results of this one can only be read: reconcile adopt TREE, reconcile import LOGDIR"
)

_SEED = re.compile(rb"\*\.\*\.(qsl_rng_seed|sample_index_rng_seed|schedule_rng_seed) = ([0-9]{1,20})")
_LIBRARY = "mlperf_loadgen*.so"


def find_loadgen_library(folders: list[str] | None = None) -> Path | None:
    """As the interpreter would find it."""
    for folder in sys.path if folders is None else folders:
        found = sorted(Path(folder).glob(_LIBRARY)) if folder and Path(folder).is_dir() else []
        if found:
            return found[0]
    return None


def read_seeds(library: Path) -> dict[str, int]:
    """By LoadGen's names; none where the library has no configuration built in, as those of old rounds."""
    try:
        return {name.decode(): int(value) for name, value in _SEED.findall(library.read_bytes())}
    except OSError:
        return {}


def read_conf_here() -> UserConf | None:
    """The configuration that is built into this interpreter's LoadGen; None where there is no LoadGen. Releases up to
    4.1.7 have none built in."""
    library = find_loadgen_library()
    if library is None:
        return None
    try:
        data = library.read_bytes()
    except OSError:
        return None
    found = _SEED.search(data)
    if found is None:
        return parse_user_conf(b"", library.name)
    begin, end = data.rfind(b"\0", 0, found.start()) + 1, data.find(b"\0", found.end())
    return parse_user_conf(data[begin : end if end > 0 else None], library.name)


def find_other_seeds(asked: Mapping[str, object], conf: UserConf) -> bool:
    """Find other seeds than a run is asked for, which would refuse it once it has ended."""
    carried = {name: conf.get_effective("*", "*", name) for name in keys.SEEDS}
    return any(n in asked and (line is None or str(asked[n]) != str(line.integer)) for n, line in carried.items())


def find_other_settings(asked: Mapping[str, object], left: Mapping[str, object], conf: UserConf) -> list[str]:
    """The settings that the round fixes and that a run leaves to LoadGen (``left``: with the values that it should
    have), and that this one has otherwise, as it does where it does not know the benchmark's key."""
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
    """Explain which parts of a run or a test a release cannot do; "" where it can do everything."""
    known = _parse_release(release)
    if known is None:
        return ""
    if audit_settings(asked) and known < (_parse_release(AUDIT_SINCE) or ()):
        return f"LoadGen {release} runs no compliance tests: it reads an audit.config since {AUDIT_SINCE}"
    scenario = str(asked["scenario"])
    for name in select_conf_settings(asked, mode, scenario):
        setting = find_setting(name, scenario)
        since = setting.since if setting is not None else ""
        if since and asked[name] and known < (_parse_release(since) or ()):
            return f"LoadGen {release} does not read {name}: it does since {since}"
    return ""


def _parse_release(release: str) -> tuple[int, ...] | None:
    numbers = release.split(".")
    return tuple(map(int, numbers)) if all(number.isdecimal() for number in numbers) else None


def explain_unavailable(round_name: str) -> str:
    """Why nothing can be run in a round; "" where its LoadGen can be had."""
    if round_name not in UNAVAILABLE:
        return ""
    return (
        f"no release of mlcommons-loadgen carries the seeds of round {round_name}: rounds before v4.1 read them from "
        "a file of its own"
    )


def explain_install(round_name: str) -> str:
    """The fix for a LoadGen of another round: an environment of its own, so that one repository can serve several."""
    if round_name in UNAVAILABLE:
        return IMPORT_ONLY
    release = RELEASES.get(round_name)
    wanted = f"mlcommons-loadgen=={release}" if release else f"the LoadGen of round {round_name}"
    return (
        f"pip install {wanted}; next to other rounds, `reconcile doctor --fix` installs it in an environment of its "
        "own; let the system run there: `launcher: [env]` and `python: ENVIRONMENT/bin/python`"
    )
