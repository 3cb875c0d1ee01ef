"""One LoadGen test of a generator that computes nothing, in a process of its own: the token path of the harness alone.

Usage: token_child.py SCENARIO MODE FOLDER [fails]; FOLDER holds user.conf. The answer to prompt i: LENGTH tokens from i
on; where it fails, the fifth has none, and what the run failed of is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import numpy as np

from harness.contract import Counter
from harness.run.loadgen import Responder, Test, prepare, run_test
from harness.run.qsl import Ragged, SampleLibrary
from harness.run.sut import Guard
from harness.run.tokens import PROMPTS, Sampling, TokenCompleter, TokenSut, place_prompts

COUNT, LENGTH = 40, 7


class Echo:
    """Answers on a thread of its own, the first token before the others."""

    def __init__(self, *, fails: bool) -> None:
        self.completer: TokenCompleter
        self._left = 4 if fails else -1  # answers before it fails
        self._prompts: Sequence[np.ndarray] = ()
        self._work: SimpleQueue[tuple[int, int] | None] = SimpleQueue()
        Thread(target=self._serve, daemon=True).start()

    def place(self, prompts: Sequence[np.ndarray], _stops: Sequence[int] = ()) -> None:
        self._prompts = prompts

    def submit(self, identity: int, row: int) -> None:
        self._work.put((identity, row))

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            identity, row = item
            if self._left == 0:
                self.completer.failed(identity, ConnectionError("the server is gone"))
                continue
            self._left -= 1
            start = int(self._prompts[row][0])
            tokens = list(range(start, start + LENGTH))
            self.completer.first(identity, tokens[:1])
            self.completer.completed(identity, tokens)


def main(scenario: str, mode: str, folder: Path, *, fails: bool) -> None:
    test = Test(
        scenario=scenario,  # type: ignore[arg-type]
        mode=mode,  # type: ignore[arg-type]
        model_key="llama3_1-8b",
        user_conf=folder / "user.conf",
        log_dir=folder,
    )
    prepared = prepare(test)
    guard, echo = Guard(), Echo(fails=fails)
    prompts = {PROMPTS: Ragged([np.arange(i, 2 * i + 1, dtype=np.int32) for i in range(COUNT)])}
    library = SampleLibrary(prompts, partial(place_prompts, echo), guard.record)  # type: ignore[arg-type]
    echo.completer = TokenCompleter(
        Responder(with_data=prepared.logs_responses, tokens=True),
        Sampling(max_new_tokens=LENGTH),
        Counter(folder / "counter"),
        guard,
        dtype="int32",
        streaming=scenario != "Offline",
        logged=prepared.logs_responses,
    )
    run_test(prepared, TokenSut(echo, library, echo.completer, guard), library)  # type: ignore[arg-type]
    if fails:
        print(guard.failure)
    else:
        assert guard.failure is None, guard.failure


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), fails="fails" in sys.argv[4:])
