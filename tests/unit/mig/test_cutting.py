"""Slices are made as declared and taken away again: all that was made here and nothing else, wherever it was killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.catalog import read_slices
from reconciler.errors import ReconcilerError
from reconciler.mig.cutting import (
    GpuHere,
    SliceCutter,
    SliceHere,
    SliceJournal,
    list_cuts,
    list_joins,
    read_slice_journal,
    write_slice_journal,
)
from reconciler.resource.settings import Hardware

THEIRS = SliceHere("MIG-theirs", "1g.10gb", 3)
DECLARED = Hardware(accelerator="A100", count=2, slices=read_slices("1x 3g.40gb, 2x 1g.10gb"))


class KilledError(BaseException):
    """What represents kill -9: nothing of the command goes on after it."""


class Machine:
    """Two GPUs as a driver holds them, and NVIDIA's tool; ``lethal``: the call at which the caller is killed, after
    what was asked was done."""

    def __init__(self, *gpus: GpuHere) -> None:
        self.gpus = list(gpus)
        self.lethal = self.calls = 0
        self.made = 10
        self.refuses: tuple[str, ...] = ()
        self.ready = True
        self.lies: tuple[str, ...] = ()

    def look(self) -> tuple[GpuHere, ...]:
        found = tuple(replace(gpu, slices=tuple(s for s in gpu.slices if s.uuid)) for gpu in self.gpus)
        self._call()
        return found

    def run(self, command: Sequence[str]) -> None:
        if any(word in self.refuses for word in command):
            raise ReconcilerError("In use by another client")
        if any(word in self.lies for word in command):
            return
        words = list(command)
        gpu = self.gpus[int(words[words.index("-i") + 1])]
        if "-mig" in words:
            self._put(replace(gpu, mig=words[-1] == "1" and self.ready))
        elif "-cgi" in words:
            self.made += 1
            new = SliceHere(f"MIG-{self.made}", words[words.index("-cgi") + 1], self.made)
            self._put(replace(gpu, slices=(*gpu.slices, new)))
        else:
            instance = int(words[words.index("-gi") + 1])
            if all(part.instance != instance for part in gpu.slices):
                raise ReconcilerError("Not Found")
            # Without its computing part an instance is no slice that the driver lists, but still there.
            left = [replace(s, uuid="") if s.instance == instance else s for s in gpu.slices]
            kept = [s for s in gpu.slices if s.instance != instance] if "-dgi" in words else left
            self._put(replace(gpu, slices=tuple(kept)))
        self._call()

    def _put(self, gpu: GpuHere) -> None:
        self.gpus[gpu.index] = gpu

    def _call(self) -> None:
        self.calls += 1
        if self.calls >= self.lethal > 0:
            raise KilledError


@pytest.fixture
def machine() -> Machine:
    return Machine(
        GpuHere(0, "GPU-a", "NVIDIA A100", mig=True, most=7, slices=(THEIRS,)),
        GpuHere(1, "GPU-b", "NVIDIA A100", mig=False),
        GpuHere(2, "GPU-c", "NVIDIA T4", mig=None),
    )


def make_cutter(machine: Machine, folder: Path) -> SliceCutter:
    return SliceCutter(folder / "mig.json", machine.look, machine.run, lambda _: None)


def profiles(machine: Machine) -> list[list[str]]:
    return [[part.profile for part in gpu.slices] for gpu in machine.gpus]


def test_what_is_missing_is_made_and_only_that_is_taken_away(machine: Machine, tmp_path: Path) -> None:
    cutter = make_cutter(machine, tmp_path)
    assert cutter.create(DECLARED) == 2
    assert profiles(machine) == [["1g.10gb", "3g.40gb", "1g.10gb"], [], []]
    assert cutter.create(DECLARED) == 0
    assert cutter.destroy() == 2
    assert machine.gpus[0].slices == (THEIRS,)
    assert read_slice_journal(tmp_path / "mig.json") == SliceJournal()
    assert cutter.destroy() == 0


def test_a_tool_that_only_says_so_made_nothing(machine: Machine, tmp_path: Path) -> None:
    cutter, before = make_cutter(machine, tmp_path), list(machine.gpus)
    machine.lies = ("-cgi",)
    with pytest.raises(ReconcilerError, match=r"succeeded, but GPU 0 has no new 3g\.40gb"):
        cutter.create(DECLARED)
    assert machine.gpus == before
    assert read_slice_journal(tmp_path / "mig.json") == SliceJournal(), "nothing was made that would be taken away"


def test_a_tool_that_only_says_so_took_nothing_away(machine: Machine, tmp_path: Path) -> None:
    cutter = make_cutter(machine, tmp_path)
    cutter.create(DECLARED)
    machine.lies = ("-dci", "-dgi")
    with pytest.raises(ReconcilerError, match="still exists"):
        cutter.destroy()
    assert len(read_slice_journal(tmp_path / "mig.json").made) == 2, "what is left to take away is known"
    machine.lies = ()
    assert cutter.destroy() == 2
    assert machine.gpus[0].slices == (THEIRS,)


def test_a_mode_that_was_switched_on_is_switched_off_again(machine: Machine, tmp_path: Path) -> None:
    cutter = make_cutter(machine, tmp_path)
    cutter.create(replace(DECLARED, slices=read_slices("1x 7g.80gb")))
    assert profiles(machine) == [["1g.10gb"], ["7g.80gb"], []]
    assert machine.gpus[1].mig
    cutter.destroy()
    assert (machine.gpus[0].mig, machine.gpus[1].mig) == (True, False)


def test_a_mode_that_waits_for_a_reset_is_reported(machine: Machine, tmp_path: Path) -> None:
    machine.ready = False
    with pytest.raises(ReconcilerError, match="not active yet") as raised:
        make_cutter(machine, tmp_path).create(replace(DECLARED, slices=read_slices("1x 7g.80gb")))
    assert "--gpu-reset -i 1" in raised.value.fix


def test_a_slice_that_is_refused_leaves_nothing_in_the_journal(machine: Machine, tmp_path: Path) -> None:
    machine.refuses = ("-cgi",)
    with pytest.raises(ReconcilerError, match="In use"):
        make_cutter(machine, tmp_path).create(DECLARED)
    assert read_slice_journal(tmp_path / "mig.json") == SliceJournal()


def test_a_slice_that_is_in_use_stays_known(machine: Machine, tmp_path: Path) -> None:
    cutter = make_cutter(machine, tmp_path)
    cutter.create(DECLARED)
    machine.refuses = ("-dci",)
    with pytest.raises(ReconcilerError, match="In use"):
        cutter.destroy()
    machine.refuses = ()
    assert cutter.destroy() == 2
    assert machine.gpus[0].slices == (THEIRS,)


def test_the_commands_that_are_printed_take_away_what_is_left(machine: Machine, tmp_path: Path) -> None:
    """Of a slice whose computing part went before the command ended, the part of the GPU alone."""
    cutter = make_cutter(machine, tmp_path)
    cutter.create(DECLARED)
    machine.refuses = ("-dgi",)
    with pytest.raises(ReconcilerError, match="In use"):
        cutter.destroy()
    machine.refuses = ()
    commands = list_joins(read_slice_journal(tmp_path / "mig.json"), machine.look())
    assert [command[-1] for command in commands] == ["-dci", "-dgi", "-dgi"]
    for command in commands:
        machine.run(command)
    assert machine.gpus[0].slices == (THEIRS,)


def test_a_slice_that_the_driver_does_not_name_takes_room(machine: Machine) -> None:
    machine.gpus[0] = replace(machine.gpus[0], slices=(SliceHere("MIG-unnamed", "", 3),))
    hardware = Hardware("A100", count=1, slices=("4g.40gb", "2g.20gb"))
    assert [cut.profile for cut in list_cuts(hardware, machine.look())] == ["4g.40gb", "2g.20gb"]
    with pytest.raises(ReconcilerError, match="no room"):
        list_cuts(replace(hardware, slices=("7g.80gb",)), machine.look())


def test_whatever_was_made_is_taken_away_wherever_the_commands_were_killed(tmp_path: Path) -> None:
    """Each call to the driver and its tool is the last of a command that makes, then of one that takes away."""
    whole = replace(DECLARED, slices=read_slices("1x 7g.80gb, 2x 1g.10gb"))
    ended = False
    for lethal in range(1, 100):
        machine = Machine(
            GpuHere(0, "GPU-a", "NVIDIA A100", mig=True, most=7, slices=(THEIRS,)),
            GpuHere(1, "GPU-b", "NVIDIA A100", mig=False),
        )
        folder = tmp_path / str(lethal)
        folder.mkdir()
        cutter = make_cutter(machine, folder)
        ended = not _is_killed(machine, lethal, partial(cutter.create, whole), cutter.destroy)
        cutter.destroy()
        assert machine.gpus[0].slices == (THEIRS,), lethal
        assert machine.gpus[1].slices == (), lethal
        assert not machine.gpus[1].mig, lethal
        assert read_slice_journal(folder / "mig.json") == SliceJournal()
    assert ended


def _is_killed(machine: Machine, lethal: int, *commands: Callable[[], object]) -> bool:
    """In one of the commands, by the call of this number; or whether all came to their end before."""
    machine.lethal = lethal
    try:
        for command in commands:
            command()
    except KilledError:
        return True
    finally:
        machine.lethal = 0
    return False


def test_slices_of_others_that_could_be_ours_are_left_alone(machine: Machine, tmp_path: Path) -> None:
    cutter = make_cutter(machine, tmp_path)
    machine.lethal = 3  # the tool has made it, and no one has seen it
    with pytest.raises(KilledError):
        cutter.create(replace(DECLARED, slices=read_slices("2x 1g.10gb")))
    machine.lethal = 0
    ours = machine.gpus[0].slices
    stranger = SliceHere("MIG-stranger", "1g.10gb", 99)
    machine.gpus[0] = replace(machine.gpus[0], slices=(*ours, stranger))
    with pytest.raises(ReconcilerError, match="MIG-stranger: one may be"):
        cutter.destroy()
    assert machine.gpus[0].slices == (*ours, stranger)


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        (Hardware("B200", count=1, slices=("1g.23gb",)), "this machine has 2 x NVIDIA A100 and 1 x NVIDIA T4"),
        (Hardware("T4", count=1, slices=("1g.5gb",)), "does not support MIG"),
        (Hardware("A100", count=1, slices=("7g.80gb",)), "no room for 1x 7g.80gb: 1x 1g.10gb already exists"),
        (Hardware("A100", count=1, slices=("1c.2g.20gb",)), "part of a slice"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is(machine: Machine, hardware: Hardware, said: str) -> None:
    with pytest.raises(ReconcilerError, match=said):
        list_cuts(hardware, machine.look())


def test_a_damaged_journal_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "mig.json").write_text("{", encoding="utf-8")
    with pytest.raises(ReconcilerError, match="cannot be read"):
        read_slice_journal(tmp_path / "mig.json")


def test_what_a_killed_command_left_of_the_journal_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / ".mig.json.k2.partial").write_text("{", encoding="utf-8")
    (tmp_path / ".other.json.k2.partial").write_text("{", encoding="utf-8")
    write_slice_journal(tmp_path / "mig.json", SliceJournal(enabled=("GPU-1",)))
    assert read_slice_journal(tmp_path / "mig.json").enabled == ("GPU-1",)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".other.json.k2.partial", "mig.json"]
