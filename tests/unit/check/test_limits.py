"""Equal issue of all samples: what the log says, or what the files that LoadGen read say where it logs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.check.limits import check_equal_issue
from tests.unit.tree.small_cells import DETAIL, RUN, log, rules, say, small_cell

EQUAL = "effective_sample_concatenate_permutation"
EARLY = ("loadgen_version", "1.1 @ 0123456789")  # it does not log the setting
LATER = ("loadgen_version", "5.1 @ 0123456789")
ON, OFF = "resnet50.*.sample_concatenate_permutation = 1\n", "resnet50.*.sample_concatenate_permutation = 0\n"


@pytest.mark.parametrize(
    ("lines", "confs", "equal"),
    [
        pytest.param([LATER, (EQUAL, True)], {}, True, id="logged"),
        pytest.param([LATER, (EQUAL, False)], {"user.conf": ON}, False, id="logged otherwise"),
        pytest.param([LATER, (EQUAL, "true")], {"user.conf": ON}, False, id="logged as a word"),
        pytest.param([LATER], {"user.conf": ON}, False, id="not logged by who logs it"),
        pytest.param([EARLY], {"user.conf": ON}, True, id="configured"),
        pytest.param([EARLY], {"mlperf.conf": ON}, True, id="configured in mlperf.conf"),
        pytest.param([EARLY], {"mlperf.conf": OFF, "user.conf": ON}, True, id="in one of both"),
        pytest.param([EARLY], {"user.conf": OFF}, False, id="configured otherwise"),
        pytest.param([EARLY], {"user.conf": ON.replace("resnet50", "bert")}, False, id="of another model"),
        pytest.param([EARLY], {"user.conf": ON.replace("*", "Server")}, False, id="of another scenario"),
        pytest.param([EARLY], {}, False, id="no conf"),
    ],
)
def test_every_sample_is_issued_equally_often(
    tmp_path: Path, lines: list[tuple[str, object]], confs: dict[str, str], equal: bool
) -> None:
    files = {f"{RUN}/{DETAIL}": log(("effective_scenario", "Offline"), *lines), **confs}
    needed = {"exact_sample_concatenate_permutation": True, "model_key": "resnet50"}
    found = small_cell(tmp_path / "a", files, benchmark=rules(values=needed)).performance
    assert found is not None
    place = f"./{RUN}/{DETAIL}{':3' if EQUAL in dict(lines) else ''}"
    assert say(check_equal_issue(found)) == ([] if equal else [place])
    unasked = small_cell(tmp_path / "a", files, benchmark=rules()).performance
    assert unasked is not None
    assert not list(check_equal_issue(unasked))
    del needed["model_key"]
    named = {name: text.replace("resnet50", "resnet") for name, text in files.items()}
    unkeyed = small_cell(tmp_path / "b", named, benchmark=rules(values=needed)).performance
    assert unkeyed is not None
    assert (not list(check_equal_issue(unkeyed))) is equal
