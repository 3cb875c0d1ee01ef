"""What a spec is given that the round or this program cannot take, or that a submission would lack: each with its place
and what to do."""

from __future__ import annotations

import pytest

from reconciler.desired.checks import find_problems
from reconciler.desired.compile import find_gaps
from reconciler.errors import Problem, SpecError
from reconciler.rules.rounds import load_ruleset
from tests.unit.spec import writing

ROUND = "v6.1"
SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: acme}
spec:
  round: v6.1
  submitter: ACME
  stores: {near: {url: "file:///mnt/share"}}
  systems:
    box: {category: edge, status: available}
  benchmarks:
    net:
      as: resnet
      code: resnet50
      model: {path: m.onnx}
      engine: {backend: onnxruntime}
    chat:
      as: llama3.1-8b-edge
      harness: {command: [run, "{run_dir}", "{user_conf}"], score: {command: [s, "{accuracy_log}"]}, code: .}
  divisions:
    closed: {box: {net: {SingleStream: {}, Offline: {target_qps: 9}}}}
"""
NET, CHAT = "net: {SingleStream: {}, Offline: {target_qps: 9}}", "chat: {Offline: {target_qps: 1}}"
BOX, ENGINE = "status: available}", "engine: {backend: onnxruntime}"
COMMAND = 'harness: {command: [run, "{run_dir}", "{user_conf}"], score: {command: [s, "{accuracy_log}"]}, code: .}'
RESULTS = 'harness: {command: [run, "{run_dir}"], results: endpoints, model_name: llama, code: .}'
RESNET = "as: resnet\n"
CASES: dict[str, tuple[tuple[str, str], ...]] = {
    "nothing but a description": (),
    "a rehearsal": (("submitter: ACME", "submitter: ACME\n  rehearsal: true"),),
    "an unknown benchmark": ((RESNET, "as: resnext\n"),),
    "a benchmark like no other": ((RESNET, "as: zzz\n"),),
    "a benchmark of an earlier round": ((RESNET, "as: retinanet\n"),),
    "a benchmark of an earlier round in open": ((RESNET, "as: retinanet\n"), ("closed:", "open:")),
    "a scenario that is not allowed": ((NET, "net: {Server: {target_qps: 9}}"),),
    "a category that is not allowed": (("category: edge", "category: datacenter"),),
    "a scenario that is not allowed, in open": ((NET, "net: {Server: {target_qps: 9}}"), ("closed:", "open:")),
    "one benchmark twice in open": (
        ("as: llama3.1-8b-edge", "as: resnet"),
        (NET, f"{NET}, {CHAT}"),
        ("closed:", "open:"),
    ),
    "a duration too short": (("target_qps: 9", "target_qps: 9, min_duration: 10 s"),),
    "a duration too short in a rehearsal": (
        ("target_qps: 9", "target_qps: 9, min_duration: 10 s"),
        ("submitter: ACME", "submitter: ACME\n  rehearsal: true"),
    ),
    "half a millisecond of Server": (
        (NET, "chat: {Server: {target_qps: 1, target_latency: 1.5 us}}"),
        ("closed", "open"),
    ),
    "a test that is none": (("target_qps: 9", "target_qps: 9, compliance: [TEST02]"),),
    "a test of other benchmarks": (("target_qps: 9", "target_qps: 9, compliance: [TEST01, TEST06, TEST09]"),),
    "a dataset for a test that compares runs": (
        ("target_qps: 9", "target_qps: 9, compliance: {TEST01: {dataset: {path: other}}}"),
    ),
    "inferred from nowhere": ((NET, "net: {SingleStream: {}, Offline: {infer_from: MultiStream}}"),),
    "inferred from what is inferred": (
        (NET, "net: {SingleStream: {}, Offline: {infer_from: MultiStream}, MultiStream: {infer_from: SingleStream}}"),
    ),
    "inferred as the round allows": ((NET, "net: {SingleStream: {}, Offline: {infer_from: SingleStream}}"),),
    "inferred as no round allows": ((NET, "net: {Offline: {target_qps: 9}, SingleStream: {infer_from: Offline}}"),),
    "inferred from results of endpoints": (
        (COMMAND, RESULTS),
        (NET, "chat: {SingleStream: {}, Offline: {infer_from: SingleStream}}"),
    ),
    "inferred from another benchmark": ((NET, f"{NET}, chat: {{Offline: {{infer_from: net}}}}"),),
    "weights that are discarded": (("model: {path: m.onnx}", 'model: {path: m.onnx, settings: {sparsity: "2:4"}}'),),
    "fewer samples than closed results need": ((ENGINE, f"{ENGINE}\n      dataset: {{settings: {{count: 100}}}}"),),
    "fewer samples of a benchmark of ones own": (
        ("code: resnet50", "code: tests/passes/benchmarks/tiny.py"),
        (ENGINE, f"{ENGINE}\n      dataset: {{settings: {{count: 1024}}}}"),
    ),
    "a count of ones own that is no number": (
        ("code: resnet50", "code: tests/passes/benchmarks/tiny.py"),
        (ENGINE, f"{ENGINE}\n      dataset: {{settings: {{count: few}}}}"),
    ),
    "fewer samples in open": ((ENGINE, f"{ENGINE}\n      dataset: {{settings: {{count: 100}}}}"), ("closed:", "open:")),
    "samples that nobody has published": (
        ("code: resnet50", "code: bert"),
        (RESNET, "as: bert-99\n"),
        (ENGINE, f"{ENGINE}\n      dataset: {{settings: {{unpublished: true}}}}"),
    ),
    "results of endpoints that are not taken": (
        (COMMAND, RESULTS),
        ("as: llama3.1-8b-edge", "as: bert-99"),
        (NET, CHAT),
    ),
    "results of endpoints, with power and a test": (
        (COMMAND, RESULTS),
        (NET, "chat: {Offline: {target_qps: 1, power: measured, compliance: [TEST06]}}"),
    ),
    "power of a command": ((BOX, 'status: available, power: {director: "meter:4950", kit: kit}}'), (NET, CHAT)),
    "half of a power state": ((BOX, "status: available, power_state: {set: [a], read: [b]}}"),),
    "a power state without what to expect": (
        (BOX, "status: available, power_state: {set: [a], restore: [c], read: [b]}}"),
    ),
    "two queues": ((BOX, "status: available, executor: {slurm: {partition: a}, ray: {address: here}}}"),),
    "a store that is not declared": ((BOX, "status: available, executor: {slurm: {partition: a, store: nearby}}}"),),
    "a service in a queue": (
        (BOX, "status: available, executor: {slurm: {partition: a}}}"),
        (COMMAND, COMMAND.replace("code: .", "code: ., service: {command: [serve], ready: {log: started}}")),
        (NET, CHAT),
    ),
    "no target": ((NET, "net: {Offline: {}, SingleStream: {}}"),),
    "no target, in a file of the command": (
        (COMMAND, COMMAND.replace("code: .", "code: ., user_conf: harvested")),
        (NET, "chat: {Offline: {}}"),
    ),
    "a command without code": ((COMMAND, COMMAND.replace(", code: .", "")), (NET, CHAT)),
    "runs that are made elsewhere": (
        ("code: resnet50", "code: external"),
        (NET, "net: {Offline: {}, SingleStream: {}}"),
    ),
    "a command in the closed division, without a calibration document": ((NET, CHAT),),
    "a command in the open division": ((NET, CHAT), ("closed:", "open:")),
    "an idle accelerator": ((BOX, "status: available, hardware: {accelerator: NVIDIA H100, count: 1}}"),),
    "no accelerator": ((ENGINE, "engine: {backend: tensorrt}"),),
    "another maker's accelerator": (
        (ENGINE, "engine: {backend: tensorrt}"),
        (BOX, "status: available, hardware: {accelerator: AMD Instinct MI300X, count: 1}}"),
    ),
    "a number of accelerators of its own": (
        (BOX, 'status: available, hardware: {accelerator: AMD, count: 2}, description: {accelerators_per_node: "4"}}'),
    ),
    "a number of nodes of its own": (
        (BOX, 'status: available, hardware: {accelerator: AMD, nodes: 2}, description: {number_of_nodes: "4"}}'),
    ),
    "fields of a description that are written and empty": (
        (BOX, 'status: available, description: {cooling: not declared, framework: ""}}'),
    ),
    "a field of a description that nobody reads": (
        (BOX, "status: available, description: {coolinq: air, cooling: air}}"),
    ),
    "a benchmark of ones own in closed": (("code: resnet50", "code: digits"),),
    "a benchmark of ones own in open": (("code: resnet50", "code: digits"), ("closed:", "open:")),
    "a whole power state": ((BOX, "status: available, power_state: {set: [a], restore: [c], read: [b], expect: d}}"),),
    "a scenario that is not allowed in a datacenter": (
        ("as: llama3.1-8b-edge", "as: llama3.1-8b"),
        ("category: edge", "category: datacenter"),
        (NET, "chat: {SingleStream: {}}"),
    ),
}
# Line, column and field of each problem; the other specs of CASES have none.
EXPECTED = {
    "nothing but a description": ["9:5 spec.systems.box.description"],
    "an unknown benchmark": ["12:11 spec.divisions.closed.box.net.SingleStream", "13:13 spec.benchmarks.net"],
    "a benchmark like no other": ["12:11 spec.divisions.closed.box.net.SingleStream", "13:13 spec.benchmarks.net"],
    "a benchmark of an earlier round": [
        "12:11 spec.divisions.closed.box.net.SingleStream",
        "13:13 spec.benchmarks.net",
    ],
    "a scenario that is not allowed": ["20:26 spec.divisions.closed.box.net.Server"],
    "a category that is not allowed": [
        "20:26 spec.divisions.closed.box.net.SingleStream",
        "20:44 spec.divisions.closed.box.net.Offline",
    ],
    "one benchmark twice in open": ["18:26 spec.benchmarks.chat"],
    "a duration too short": ["20:83 spec.divisions.closed.box.net.Offline"],
    "half a millisecond of Server": ["20:65 spec.divisions.open.box.chat.Server", "18:26 spec.benchmarks.chat"],
    "a test that is none": ["20:81 spec.divisions.closed.box.net.Offline"],
    "a test of other benchmarks": [
        "20:81 spec.divisions.closed.box.net.Offline",
        "20:81 spec.divisions.closed.box.net.Offline",
    ],
    "a dataset for a test that compares runs": ["20:107 spec.divisions.closed.box.net.Offline"],
    "inferred from nowhere": ["20:66 spec.divisions.closed.box.net.Offline"],
    "inferred from what is inferred": ["20:66 spec.divisions.closed.box.net.Offline"],
    "inferred as no round allows": ["20:79 spec.divisions.closed.box.net.SingleStream"],
    "inferred from results of endpoints": [
        "20:67 spec.divisions.closed.box.chat.Offline",
        "18:26 spec.benchmarks.chat",
        "6:14 spec.documents",
    ],
    "inferred from another benchmark": ["20:100 spec.divisions.closed.box.chat.Offline", "6:14 spec.documents"],
    "weights that are discarded": ["14:50 spec.divisions.closed.box.net.SingleStream"],
    "fewer samples than closed results need": ["16:35 spec.benchmarks.net.dataset.settings.count"],
    "fewer samples of a benchmark of ones own": [
        "16:35 spec.benchmarks.net.dataset.settings.count",
        "12:11 spec.benchmarks.net",
    ],
    "a count of ones own that is no number": ["12:11 spec.benchmarks.net"],
    "fewer samples in open": ["16:35 spec.benchmarks.net.dataset.settings.count"],
    "samples that nobody has published": ["16:41 spec.benchmarks.net.dataset.settings.unpublished"],
    "results of endpoints that are not taken": [
        "18:55 spec.divisions.closed.box.chat.Offline",
        "18:26 spec.benchmarks.chat",
        "6:14 spec.documents",
    ],
    "results of endpoints, with power and a test": [
        "20:59 spec.divisions.closed.box.chat.Offline",
        "20:81 spec.divisions.closed.box.chat.Offline",
        "18:26 spec.benchmarks.chat",
        "6:14 spec.documents",
    ],
    "power of a command": [
        "9:64 spec.divisions.closed.box.chat.Offline",
        "18:26 spec.benchmarks.chat",
        "6:14 spec.documents",
    ],
    "half of a power state": ["9:65 spec.divisions.closed.box.net.SingleStream"],
    "a power state without what to expect": ["9:65 spec.divisions.closed.box.net.SingleStream"],
    "two queues": ["9:85 spec.divisions.closed.box.net.SingleStream"],
    "a store that is not declared": ["9:86 spec.divisions.closed.box.net.SingleStream"],
    "a service in a queue": [
        "18:130 spec.divisions.closed.box.chat.Offline",
        "18:26 spec.benchmarks.chat",
        "6:14 spec.documents",
    ],
    "no target": ["20:26 spec.divisions.closed.box.net.Offline"],
    "no target, in a file of the command": ["18:26 spec.benchmarks.chat", "6:14 spec.documents"],
    "a command without code": [
        "18:26 spec.benchmarks.chat",
        "18:26 spec.benchmarks.chat.harness",
        "6:14 spec.documents",
    ],
    "runs that are made elsewhere": ["13:13 spec.benchmarks.net", "6:14 spec.documents"],
    "a command in the closed division, without a calibration document": [
        "18:26 spec.benchmarks.chat",
        "6:14 spec.documents",
    ],
    "a command in the open division": ["18:26 spec.benchmarks.chat"],
    "an idle accelerator": ["15:25 spec.benchmarks.net"],
    "no accelerator": ["15:25 spec.benchmarks.net"],
    "another maker's accelerator": ["15:25 spec.benchmarks.net"],
    "a number of accelerators of its own": [
        "9:5 spec.systems.box.description",
        "9:123 spec.systems.box.description.accelerators_per_node",
        "15:25 spec.benchmarks.net",
    ],
    "a number of nodes of its own": [
        "9:5 spec.systems.box.description",
        "9:117 spec.systems.box.description.number_of_nodes",
        "15:25 spec.benchmarks.net",
    ],
    "fields of a description that are written and empty": [
        "9:69 spec.systems.box.description.cooling",
        "9:94 spec.systems.box.description.framework",
        "9:5 spec.systems.box.description",
    ],
    "a field of a description that nobody reads": [
        "9:60 spec.systems.box.description",
        "9:5 spec.systems.box.description",
    ],
    "a benchmark of ones own in closed": ["13:13 spec.benchmarks.net"],
    "a benchmark of ones own in open": ["13:13 spec.benchmarks.net"],
    "a scenario that is not allowed in a datacenter": [
        "20:27 spec.divisions.closed.box.chat.SingleStream",
        "18:26 spec.benchmarks.chat",
        "6:14 spec.documents",
    ],
}


def find(text: str) -> list[Problem]:
    """What is wrong with the spec, or else what it lacks."""
    try:
        declared = writing.declare(text)
    except SpecError as error:
        pytest.fail(f"it is not read: {error}")
    ruleset = load_ruleset(ROUND)
    return [*find_problems(declared, ruleset), *find_gaps(declared, ruleset)]


@pytest.mark.parametrize("name", CASES)
def test_a_problem_of_a_spec_has_its_place(name: str) -> None:
    text, known = SPEC, [] if name == next(iter(CASES)) else find(SPEC)
    for old, new in CASES[name]:
        assert old in text
        text = text.replace(old, new)
    found = [p for p in find(text) if p not in known]
    assert [f"{p.line}:{p.column} {p.path}" for p in found] == EXPECTED.get(name, [])
    assert all(p.message and p.fix for p in found)
