"""The mutations that the official checkers were tried with: what each changes in a clean tree, which rule it breaks."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reconciler.loadgen.log import AUDIT_TEXT
from reconciler.resource.kinds import DIVISIONS
from tests.unit.check.made import add_error, change_system, make_accuracy, set_log, write

Change = Callable[[Path], None]
SMALL = "SingleStream"
ACCURACY_LOG = "accuracy/mlperf_log_accuracy.json"


@dataclass(frozen=True)
class Mutation:
    """``rules``: exactly those that must speak, none for a change that is allowed."""

    name: str
    change: Change
    rules: frozenset[str] = frozenset()
    division: str = "closed"


def find_division(root: Path) -> str:
    """The only one that a tree has."""
    (division,) = [name for name in DIVISIONS if (root / name).is_dir()]
    return division


def cell(root: Path, scenario: str = SMALL) -> Path:
    return root / find_division(root) / "Acme/results/sys1/resnet" / scenario


def run(root: Path, scenario: str = SMALL) -> Path:
    return cell(root, scenario) / "performance/run_1"


def logged(key: str, value: object, scenario: str = SMALL) -> Change:
    return lambda root: set_log(run(root, scenario), key, value)


def removed(path: str) -> Change:
    def change(root: Path) -> None:
        target = cell(root) / path
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return change


def dropped(folder: str) -> Change:
    return lambda root: shutil.rmtree(root / folder)


def scored(samples: int) -> Change:
    return lambda root: set_log(cell(root) / "accuracy", "effective_accuracy_sample_count", samples)


def emptied(path: str) -> Change:
    return lambda root: write(cell(root) / path, b"")


def added(path: str, data: bytes = b"x\n", top: str = "closed/Acme/results/sys1/resnet/SingleStream") -> Change:
    return lambda root: write(root / top / path, data)


def edited(path: str, old: str, new: str) -> Change:
    def change(root: Path) -> None:
        target = cell(root) / path
        text = target.read_text()
        assert old in text
        write(target, text.replace(old, new))

    return change


def described(**fields: object) -> Change:
    return lambda root: change_system(root, find_division(root), **fields)


def moved(old: str, new: str) -> Change:
    return lambda root: shutil.move(root / old, root / new)


def audited(root: Path) -> None:
    add_error(cell(root) / "accuracy", AUDIT_TEXT, warning=True)


def copied_answers(root: Path) -> None:
    for file in (ACCURACY_LOG, "accuracy/accuracy.txt"):
        shutil.copy(cell(root) / file, cell(root) / "TEST01" / file)


def copied_hash(root: Path) -> None:
    (line,) = re.findall(r"hash=.*", (cell(root) / "accuracy/accuracy.txt").read_text())
    write(cell(root) / "TEST01/accuracy/accuracy.txt", f"one\ntwo\n{line}\n")


def numpy_scalar(root: Path) -> None:
    path = cell(root) / "accuracy/accuracy.txt"
    text = path.read_text()
    assert "accuracy=76.456%" in text
    write(path, text.replace("accuracy=76.456%", "accuracy=np.float64(76.456)"))


def no_hash(root: Path) -> None:
    path = cell(root) / "accuracy/accuracy.txt"
    write(path, re.sub(r"hash=.*", "", path.read_text()))


def wrong_hash(root: Path) -> None:
    path = cell(root) / "accuracy/accuracy.txt"
    write(path, re.sub(r"hash=.*", f"hash={'0' * 64}", path.read_text()))


def whole_log(size: int, root: Path) -> None:
    """An accuracy log that was never truncated, of a given size, with its own hash."""
    folder = cell(root) / "accuracy"
    data = b"[" + b" " * (size - 2) + b"]"
    write(folder / "mlperf_log_accuracy.json", data)
    write(folder / "accuracy.txt", f"accuracy=76.456%\nhash={hashlib.sha256(data).hexdigest()}\n")


def measured(field: str, value: object, root: Path) -> None:
    path = cell(root) / "measurements.json"
    write(path, json.dumps({**json.loads(path.read_text()), field: value}))


def fallback(root: Path, after: str, listed: bool = True) -> None:
    """TEST01 that is not deterministic: accuracy on the audited samples represents it."""
    folder = cell(root) / "TEST01"
    write(folder / "verify_accuracy.txt", "TEST FAIL\n")
    write(folder / "accuracy/baseline_accuracy.txt", "accuracy=76.400%\n")
    write(folder / "accuracy/compliance_accuracy.txt", f"accuracy={after}%\n")
    if not listed:
        (folder / "accuracy/accuracy.txt").unlink()


def copied(source: str, target: str, root: Path) -> None:
    """The whole folder of one scenario as that of another, as inferred results are made."""
    shutil.rmtree(cell(root, target), ignore_errors=True)
    shutil.copytree(cell(root, source), cell(root, target))


def too_few(root: Path) -> None:
    copied("SingleStream", "MultiStream", root)
    for folder in (run(root, "MultiStream"), *(cell(root, "MultiStream").glob("TEST*/performance/run_1"))):
        set_log(folder, "early_stopping_latency_ms", 0)


def run_elsewhere(source: str, target: str, root: Path) -> None:
    """The logs of one run of a cell in the place of another's."""
    for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt"):
        shutil.copyfile(cell(root) / source / name, cell(root) / target / name)


def cut(folder: str, root: Path) -> None:
    """The log of a run that was ended."""
    path = cell(root) / folder / "mlperf_log_detail.txt"
    lines = path.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if '"power_end"' in line)
    path.write_text("".join(lines[:at]))


def without_line(path: str, word: str, root: Path) -> None:
    target = cell(root) / path
    lines = target.read_text().splitlines(keepends=True)
    kept = [line for line in lines if word not in line]
    assert len(kept) < len(lines)
    target.write_text("".join(kept))


def hashed(text: str, root: Path) -> None:
    path = cell(root) / "accuracy/accuracy.txt"
    write(path, re.sub(r"hash=.*", f"hash={text}", path.read_text()))


def truncated_twice(root: Path) -> None:
    hashed(hashlib.sha256((cell(root) / "accuracy/mlperf_log_accuracy.json").read_bytes()).hexdigest(), root)


def many(*changes: Change) -> Change:
    def change(root: Path) -> None:
        for each in changes:
            each(root)

    return change


def sized(size: int, root: Path) -> None:
    path = root / "closed/Acme/src/resnet/weights.bin"
    with path.open("wb") as stream:
        stream.truncate(size)


def linked(root: Path) -> None:
    (root / "closed/Acme/src/resnet/again.py").symlink_to("run.py")


def points_at_public_code(root: Path) -> None:
    (root / "closed/Acme/src/resnet/run.py").unlink()
    text = "The code is at https://code.example/acme/runs, commit 0123456789abcdef0123456789abcdef01234567.\n"
    (root / "closed/Acme/src/resnet/README.md").write_text(text)


def only_offline(root: Path) -> None:
    """All that the open division needs."""
    for name in ("SingleStream", "MultiStream"):
        shutil.rmtree(cell(root, name))
    for test in ("TEST01", "TEST04"):
        shutil.rmtree(cell(root, "Offline") / test)
    folder = cell(root, "Offline") / "accuracy"
    write(folder / "accuracy.txt", "accuracy=11.0%\n")
    shutil.rmtree(root / "open/Acme/documentation")


def networked(root: Path, **fields: str) -> None:
    names = ["network_type", "network_media", "network_rate", "nic_loadgen", "number_nic_loadgen", "nic_sut"]
    names += ["net_software_stack_loadgen", "network_protocol", "number_connections", "number_nic_sut"]
    names += ["net_software_stack_sut", "network_topology"]
    change_system(root, "network", **{**dict.fromkeys(names, "stated"), "is_network": "true", **fields})
    for path in (root / "network").rglob("mlperf_log_detail.txt"):
        if '"sut_name"' in path.read_text():
            set_log(path.parent, "sut_name", '"Acme Network SUT"')


def other_seeds(root: Path) -> None:
    for name in ("qsl", "sample_index", "schedule"):
        set_log(run(root), f"effective_{name}_rng_seed", 7)


def unnamed_network(root: Path) -> None:
    networked(root)
    set_log(run(root), "sut_name", '"PySUT"')


def expect(name: str, change: Change, *rules: str, division: str = "closed") -> Mutation:
    return Mutation(name, change, frozenset(rules), division)


in_open, in_network = (partial(expect, division=name) for name in ("open", "network"))


_ACME = "closed/Acme"
_DOCUMENTS = f"{_ACME}/documentation"
_SYSTEM = f"{_ACME}/systems/sys1.json"
_RESNET = "closed/Acme/results/sys1/resnet"
_LOG, _TEST_LOG = (f"{folder}performance/run_1/mlperf_log_detail.txt" for folder in ("", "TEST04/"))

MUTATIONS = (
    expect("INVALID", logged("result_validity", '"INVALID"'), "run.valid"),
    expect("ERROR line in performance log", lambda root: add_error(run(root)), "run.errors"),
    expect("only num_errors", logged("num_errors", "1"), "run.errors"),
    expect(
        "two ERROR lines in performance log",
        many(lambda root: add_error(run(root)), lambda root: add_error(run(root), "Another one")),
        "run.errors",
    ),
    expect("num_errors of 2", logged("num_errors", "2"), "run.errors"),
    expect("a run that was ended", partial(cut, "performance/run_1"), "run.ended"),
    expect("an accuracy run that was ended", partial(cut, "accuracy"), "accuracy.ended"),
    expect("performance run for accuracy", partial(run_elsewhere, "performance/run_1", "accuracy"), "accuracy.mode"),
    expect("a mode of its own", logged("effective_test_mode", '"FindPeakPerformance"'), "run.mode"),
    expect("no mode at all", partial(without_line, "accuracy/mlperf_log_detail.txt", "test_mode"), "accuracy.mode"),
    expect("ERROR line in accuracy log", lambda root: add_error(cell(root) / "accuracy"), "accuracy.errors"),
    expect("audit.config in the accuracy run", audited, "accuracy.audit"),
    expect("no performance summary", removed("performance/run_1/mlperf_log_summary.txt"), "files.missing"),
    expect("no accuracy summary", removed("accuracy/mlperf_log_summary.txt"), "files.missing"),
    expect("no performance detail", removed("performance/run_1/mlperf_log_detail.txt"), "files.missing"),
    expect("no accuracy detail", removed("accuracy/mlperf_log_detail.txt"), "files.missing"),
    expect("no accuracy.txt", removed("accuracy/accuracy.txt"), "files.missing"),
    expect("no accuracy log", removed("accuracy/mlperf_log_accuracy.json"), "files.missing"),
    expect("scalar of NumPy 2", numpy_scalar, "accuracy.number"),
    expect("no hash line", no_hash, "accuracy.hash"),
    expect("wrong hash", wrong_hash, "accuracy.hash-of-log"),
    expect("hash that is none", partial(hashed, "cafe"), "accuracy.hash-of-log"),
    expect("hash of 16 digits", partial(hashed, "0123456789abcdef"), "accuracy.hash-of-log"),
    expect("hash of the truncated log", truncated_twice, "accuracy.hash-of-log"),
    expect("another log's ends", edited("accuracy/mlperf_log_accuracy.json", "data", "atad"), "accuracy.hash-of-log"),
    expect(
        "another log of a few bytes",
        lambda root: write(cell(root) / "accuracy/mlperf_log_accuracy.json", b"[ ... ]"),
        "accuracy.hash-of-log",
    ),
    expect(
        "another hash of a whole log", many(partial(whole_log, 100), partial(hashed, "0" * 64)), "accuracy.hash-of-log"
    ),
    expect("no accuracy stated", edited("accuracy/accuracy.txt", "accuracy=76.456%", "76.456"), "accuracy.bars"),
    expect("accuracy at target", edited("accuracy/accuracy.txt", "76.456", "75.6954")),
    expect("accuracy below target", edited("accuracy/accuracy.txt", "76.456", "75.000"), "accuracy.bars"),
    expect("accuracy log of 10240 bytes", partial(whole_log, 10_240)),
    expect("accuracy log of 10241 bytes", partial(whole_log, 10_241), "accuracy.size"),
    expect("one sample too few scored", scored(49_999), "accuracy.samples"),
    expect("wrong seed", logged("effective_qsl_rng_seed", 1), "run.seeds"),
    expect("all seeds of another round", other_seeds, "run.seeds"),
    expect("no early stopping logged", partial(without_line, _LOG, '"early_stopping_met"'), "run.early-stopping"),
    expect("no metric", logged("early_stopping_latency_ss", 0), "run.metric"),
    expect("no metric of Offline", logged("result_samples_per_second", -1, "Offline"), "run.metric"),
    expect("no number of samples loaded", partial(without_line, _LOG, "performance_sample_count"), "run.samples"),
    expect("600000 ms", logged("effective_min_duration_ms", 600_000)),
    expect("1024 samples loaded", logged("effective_performance_sample_count", 1024)),
    expect("a percentile of its own", logged("effective_target_latency_percentile", 0.5), "run.percentile"),
    expect("a percentile near the round's", logged("effective_target_latency_percentile", 0.90005), "run.percentile"),
    expect("a percentile in a double", logged("effective_target_latency_percentile", 0.9000005)),
    expect("percentile of Offline", logged("effective_target_latency_percentile", 0.5, "Offline")),
    expect("599999 ms", logged("effective_min_duration_ms", 599_999), "run.duration"),
    expect("a duration in words", logged("effective_min_duration_ms", '"long"'), "run.duration"),
    expect("no duration logged", partial(without_line, _LOG, '"effective_min_duration_ms"'), "run.duration"),
    expect("1023 samples loaded", logged("effective_performance_sample_count", 1023), "run.samples"),
    expect("24575 Offline samples", logged("effective_samples_per_query", 24_575, "Offline"), "run.samples-per-query"),
    expect("early stopping", logged("early_stopping_met", "false"), "run.early-stopping"),
    expect("early stopping Offline", logged("early_stopping_met", "false", "Offline"), "run.early-stopping"),
    expect("early stopping in words", logged("early_stopping_met", '"yes"'), "run.early-stopping"),
    expect("early stopping Offline in words", logged("early_stopping_met", '"yes"', "Offline")),
    expect("no README", removed("README.md"), "files.document"),
    expect("empty README", emptied("README.md"), "files.document"),
    expect("no user.conf", removed("user.conf"), "files.document"),
    expect("empty user.conf", emptied("user.conf"), "files.document"),
    expect("no measurements", removed("measurements.json"), "measurements.missing"),
    expect("empty field in measurements", partial(measured, "retraining", ""), "measurements.fields"),
    expect("number in measurements", partial(measured, "retraining", 0), "measurements.fields"),
    expect("false in measurements", partial(measured, "retraining", False), "measurements.fields"),
    expect("no field in measurements", partial(without_line, "measurements.json", "retraining"), "measurements.fields"),
    expect(
        "no line of a summary",
        lambda root: write(run(root) / "mlperf_log_summary.txt", "nothing of LoadGen\n"),
        "files.empty-log",
    ),
    expect(
        "a summary of one line", lambda root: write(run(root) / "mlperf_log_summary.txt", "No errors encountered\n")
    ),
    expect("measurements cut", lambda root: write(cell(root) / "measurements.json", "{"), "files.readable"),
    expect("no src", dropped("closed/Acme/src"), "submitter.source"),
    expect("src without benchmark", moved("closed/Acme/src/resnet", "closed/Acme/src/other")),
    expect("a README for code", lambda root: (root / "closed/Acme/src/resnet/run.py").unlink(), "submitter.code"),
    expect("a public commit for code", points_at_public_code),
    expect("no calibration", dropped(_DOCUMENTS), "submitter.calibration"),
    expect("calibration next to the systems", many(dropped(_DOCUMENTS), added("calibration.md", top=_ACME))),
    expect(
        "calibration below Documentation",
        many(
            dropped(_DOCUMENTS),
            added("Documentation/calibration.md", top=_ACME),
        ),
    ),
    expect("calibration of blanks", added("documentation/calibration.md", b" \n", top=_ACME), "submitter.calibration"),
    expect("lower-case scenario", moved(f"{_RESNET}/Offline", f"{_RESNET}/offline")),
    expect("no MultiStream", lambda root: shutil.rmtree(cell(root, "MultiStream")), "benchmark.scenarios"),
    expect("Server on edge", partial(copied, SMALL, "Server"), "benchmark.forbidden", "run.scenario"),
    expect("stray folder", added("notes/x.md", top=_RESNET), "benchmark.stray"),
    expect(
        "a scenario twice",
        lambda root: shutil.copytree(cell(root), cell(root).with_name("SINGLEstream")),
        "benchmark.twice",
    ),
    expect("unknown benchmark", moved(_RESNET, "closed/Acme/results/sys1/resnext"), "benchmark.known"),
    expect("benchmark by its alias", moved(_RESNET, "closed/Acme/results/sys1/resnet50")),
    expect("resnet on a datacenter", described(system_type="datacenter"), "benchmark.category"),
    expect("both categories without Server", described(system_type="datacenter,edge"), "benchmark.scenarios"),
    expect("no TEST01", removed("TEST01"), "compliance.missing"),
    expect("no TEST04", removed("TEST04"), "compliance.missing"),
    expect("no TEST01/accuracy", removed("TEST01/accuracy"), "compliance.files"),
    expect("fallback within 1 %", partial(fallback, after="76.000")),
    expect("fallback beyond 1 %", partial(fallback, after="75.000"), "compliance.verdict"),
    expect(
        "fallback without a score",
        many(
            partial(fallback, after="76.0"),
            lambda root: write(cell(root) / "TEST01/accuracy/baseline_accuracy.txt", "nothing\n"),
        ),
        "compliance.verdict",
    ),
    expect(
        "fallback without the score of the accuracy run",
        many(partial(fallback, after="76.0"), removed("TEST01/accuracy/baseline_accuracy.txt")),
        "compliance.files",
    ),
    expect("a file that keeps a folder next to TEST01's answers", added("TEST01/accuracy/.gitkeep")),
    expect("scores next to a passed test", added("TEST01/accuracy/baseline_accuracy.txt"), "compliance.extra"),
    expect(
        "TEST04 without a verdict", edited("TEST04/verify_performance.txt", "TEST PASS\n", ""), "compliance.verdict"
    ),
    expect("a test without audit.config", partial(without_line, _TEST_LOG, AUDIT_TEXT[:30]), "compliance.audit"),
    expect("a test without a result", partial(without_line, _TEST_LOG, '"result_validity"'), "run.ended"),
    expect("no TEST01/verify_accuracy.txt", removed("TEST01/verify_accuracy.txt"), "compliance.files"),
    expect("no TEST04/verify_performance.txt", removed("TEST04/verify_performance.txt"), "compliance.files"),
    expect("fallback without accuracy.txt", partial(fallback, after="76.0", listed=False), "compliance.files"),
    expect("extra file in TEST01", added("TEST01/performance/run_1/user.conf"), "compliance.extra"),
    expect("TEST01 with the accuracy run's answers", copied_answers, "accuracy.test-hash"),
    expect("TEST01 with the accuracy run's hash", copied_hash, "accuracy.test-hash"),
    expect("an audited performance run", lambda root: add_error(run(root), AUDIT_TEXT, warning=True), "run.audit"),
    expect("TEST01 is slower", edited("TEST01/verify_performance.txt", "PASS", "FAIL"), "compliance.verdict"),
    expect("TEST04 fails", edited("TEST04/verify_performance.txt", "PASS", "FAIL"), "compliance.verdict"),
    expect("extra file in run_1", added("performance/run_1/notes.txt"), "files.extra"),
    expect("extra file in accuracy", added("accuracy/notes.txt"), "files.extra"),
    expect("trace in run_1", added("performance/run_1/mlperf_log_trace.json")),
    expect("a folder next to run_1", added("performance/notes/x.txt")),
    expect("a power folder alone", added("performance/power/x.txt"), "files.power", "system.nameplate"),
    expect("run_2", added("performance/run_2/mlperf_log_detail.txt"), "files.runs"),
    expect("system without a field", described(cooling=None), "system.fields"),
    expect("system with an empty field", described(cooling=""), "system.fields"),
    expect("bad status", described(status="soon"), "system.fields"),
    expect("status in capitals", described(status="Available")),
    expect("status as a number", described(status=5), "system.fields"),
    expect("system type in capitals", described(system_type="Edge"), "system.fields"),
    expect("nodes as a number", described(number_of_nodes=1)),
    expect("nodes between blanks", described(number_of_nodes=" 1 ")),
    expect("nodes as a fraction", described(number_of_nodes="1.0"), "system.fields"),
    expect("a system description cut", lambda root: write(root / _SYSTEM, "{"), "system.readable"),
    expect("other submitter", described(submitter="Other"), "system.names"),
    expect("other division", described(division="open"), "system.names"),
    expect("division Closed", described(division="Closed"), "system.names"),
    expect("system type cloud", described(system_type="cloud"), "system.fields"),
    expect("accelerators N/A", described(accelerators_per_node="N/A"), "system.fields"),
    expect("accelerators 0 as a number", described(accelerators_per_node=0), "system.fields"),
    expect("no system description", moved(_SYSTEM, "closed/Acme/systems/sys1.txt"), "system.missing"),
    expect("is_network as text", described(is_network="false"), "system.network"),
    expect("is_network as a flag", described(is_network=False), "system.network"),
    expect(
        "a system without results",
        lambda root: shutil.copyfile(root / _SYSTEM, root / "closed/Acme/systems/sys2.json"),
        "submitter.systems",
    ),
    expect("a folder in the root", added("x.md", top="pending"), "tree.root"),
    expect("documents in the root", added("notes.md", top=".")),
    expect("loose file in results", added("notes.txt", top="closed/Acme/results")),
    expect("a private id", added("privateid.json", top="closed/Acme/results/sys1")),
    expect("loose file in the root", added("notes.txt", top="."), "tree.root"),
    expect("loose file in the division", added("notes.txt", top="closed"), "tree.division"),
    expect("hidden file", added(".hidden", top="closed/Acme/src"), "submitter.names"),
    expect("a space in a name", added("a b.md", top="closed/Acme/src"), "submitter.names"),
    expect("empty folder", lambda root: (root / "closed/Acme/src/empty").mkdir(), "submitter.empty"),
    expect("compiled files", added("__pycache__/x.pyc", top="closed/Acme/src"), "submitter.names"),
    expect("a byte more than 50 MiB", partial(sized, (50 << 20) + 1), "submitter.sizes"),
    expect("50 MiB", partial(sized, 50 << 20)),
    expect("broken link", lambda root: (root / "closed/Acme/src/link").symlink_to("nowhere"), "submitter.links"),
    expect("a link to a file of its folder", linked, "submitter.links"),
    expect("no results folder", lambda root: write(root / "closed/Late/src/x.md", "x"), "submitter.results"),
    expect("MultiStream inferred from too few", too_few, "run.inferred"),
    expect("MultiStream inferred", partial(copied, "SingleStream", "MultiStream")),
    expect("Offline inferred from SingleStream", partial(copied, "SingleStream", "Offline")),
    expect(
        "Offline inferred on a datacenter",
        many(partial(copied, "SingleStream", "Offline"), described(system_type="datacenter")),
        "benchmark.category",
        "run.scenario",
    ),
    expect("Offline inferred from MultiStream", partial(copied, "MultiStream", "Offline")),
    expect("SingleStream from MultiStream", partial(copied, "MultiStream", "SingleStream"), "run.scenario"),
    in_open("open with one scenario", only_offline),
    in_open("open: wrong seed", logged("effective_schedule_rng_seed", 1), "run.seeds"),
    in_open("open: short", logged("effective_min_duration_ms", 1), "run.duration"),
    in_open("open: few samples", logged("effective_performance_sample_count", 10), "run.samples"),
    in_open("open: 10 Offline samples", logged("effective_samples_per_query", 10, "Offline"), "run.samples-per-query"),
    in_open("open: a mapping that is no JSON", added("model_mapping.json", b"{\n", "open/Acme"), "submitter.mapping"),
    in_open("open: one sample too few scored", scored(49_999), "accuracy.samples"),
    in_open("open: no accuracy stated", edited("accuracy/accuracy.txt", "accuracy=76.456%", "76.456"), "accuracy.bars"),
    in_open("open: scalar of NumPy 2", numpy_scalar, "accuracy.bars"),
    in_open("open: accuracy below target", edited("accuracy/accuracy.txt", "76.456", "7.5")),
    in_open("open: resnet on a datacenter", described(system_type="datacenter"), "benchmark.category"),
    in_open("open: is_network as text", described(is_network="false"), "system.network"),
    in_open("open: is_network and no network", described(is_network="true"), "system.network"),
    in_network("network", networked),
    in_network("network that says so by a flag", partial(networked, is_network=True), "system.network"),
    in_network("network without a field", partial(networked, network_media=""), "system.network"),
    in_network("network without two fields", partial(networked, network_media="", network_rate=""), "system.network"),
    in_network("network that says it is none", many(networked, described(is_network="false")), "system.network"),
    in_network("network SUT by another name", unnamed_network, "run.network"),
)

__all__ = ["MUTATIONS", "Mutation", "cell", "logged", "make_accuracy", "run"]
