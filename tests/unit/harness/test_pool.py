"""Room for batches in flight: no one waits without need, and no one misses being woken."""

from __future__ import annotations

import threading
from queue import SimpleQueue

from harness.run.pool import BatchRoom


def take_all(room: BatchRoom, count: int, taken: list[int]) -> threading.Thread:
    def work() -> None:
        for number in range(count):
            room.take()
            taken.append(number)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_caller_that_finds_it_full_goes_on_when_so_few_are_left() -> None:
    room, taken = BatchRoom(4, 1), list[int]()
    for _ in range(4):
        room.take()
    thread = take_all(room, 3, taken)
    room.give_back()
    room.give_back()
    thread.join(0.1)
    assert not taken, "two are left, and one may be"
    room.give_back()
    thread.join(10)
    assert taken == [0, 1, 2]


def test_what_several_threads_give_back_is_all_there_in_the_end() -> None:
    room, work, done = BatchRoom(64, 32), SimpleQueue[int | None](), list[int]()

    def serve() -> None:
        while (item := work.get()) is not None:
            done.append(item)
            room.give_back()

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(5_000):
        room.take()
        work.put(number)
        if number % 700 == 0:
            room.drain()
            assert len(done) == number + 1
    room.drain()
    assert sorted(done) == list(range(5_000))
    for _ in threads:
        work.put(None)
