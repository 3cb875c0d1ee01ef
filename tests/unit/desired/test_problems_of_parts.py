"""What the round or this program cannot take of a spec that asks for optional parts: queues, stores, power and results
of the endpoints harness."""

from __future__ import annotations

import pytest

from tests.unit.desired.test_problems import BOX, CHAT, COMMAND, NET, check_places, find
from tests.unit.desired.test_problems import SPEC as PLAIN

SPEC = PLAIN.replace("# nothing of an optional part", 'stores: {near: {url: "file:///mnt/share"}}')
RESULTS = 'harness: {command: [run, "{run_dir}"], results: endpoints, model_name: llama, code: .}'
# Edits of SPEC, and the line, column and field below ``spec`` of each problem that they make.
CASES: dict[str, tuple[list[tuple[str, str]], str]] = {
    "inferred from results of endpoints": ([
        (COMMAND, RESULTS),
        (NET, "chat: {SingleStream: {}, Offline: {infer_from: SingleStream}}"),
    ],
        "20:67 divisions.closed.box.chat.Offline; 18:26 benchmarks.chat; 6:14 documents"),
    "results of endpoints that are not taken": ([
        (COMMAND, RESULTS),
        ("as: llama3.1-8b-edge", "as: bert-99"),
        (NET, CHAT),
    ],
        "18:55 divisions.closed.box.chat.Offline; 18:26 benchmarks.chat; 6:14 documents"),
    "results of endpoints, with power and a test": ([
        (COMMAND, RESULTS),
        (NET, "chat: {Offline: {target_qps: 1, power: measured, compliance: [TEST06]}}"),
    ],
        "20:59 divisions.closed.box.chat.Offline; "
        "20:81 divisions.closed.box.chat.Offline; "
        "18:26 benchmarks.chat; "
        "6:14 documents"),
    "power of a command": ([(BOX, 'status: available, power: {director: "meter:4950", kit: kit}}'), (NET, CHAT)],
        "9:64 divisions.closed.box.chat.Offline; 18:26 benchmarks.chat; 6:14 documents"),
    "two queues": ([(BOX, "status: available, executor: {slurm: {partition: a}, ray: {address: here}}}")],
        "9:85 divisions.closed.box.net.SingleStream"),
    "a store that is not declared": ([(BOX, "status: available, executor: {slurm: {partition: a, store: nearby}}}")],
        "9:86 divisions.closed.box.net.SingleStream"),
    "a service in a queue": ([
        (BOX, "status: available, executor: {slurm: {partition: a}}}"),
        (COMMAND, COMMAND.replace("code: .", "code: ., service: {command: [serve], ready: {log: started}}")),
        (NET, CHAT),
    ],
        "18:130 divisions.closed.box.chat.Offline; 18:26 benchmarks.chat; 6:14 documents"),
    "a store that is declared": ([(BOX, "status: available, executor: {slurm: {partition: a, store: near}}}")], ""),
    "half of a power state": ([(BOX, "status: available, power_state: {set: [a], read: [b]}}")],
        "9:65 divisions.closed.box.net.SingleStream"),
    "a power state without what to expect": ([
        (BOX, "status: available, power_state: {set: [a], restore: [c], read: [b]}}"),
    ],
        "9:65 divisions.closed.box.net.SingleStream"),
    "a whole power state": ([(BOX, "status: available, power_state: {set: [a], restore: [c], read: [b], expect: d}}")],
        ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_problem_of_a_spec_has_its_place(name: str) -> None:
    check_places(SPEC, *CASES[name], known=find(SPEC))
