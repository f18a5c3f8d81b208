"""Work in threads: order, interrupts, how many."""

from __future__ import annotations

import threading
import time

import pytest

from longtail.core.threads import each_in_threads, in_threads, thread_count
from longtail.errors import ParameterError


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_keep_the_order_of_the_items(n_jobs):
    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3))
        return item * item

    with in_threads(work, range(20), n_jobs=n_jobs) as results:
        assert list(results) == [i * i for i in range(20)]


def test_items_really_run_side_by_side():
    meeting = threading.Barrier(2, timeout=10)
    with in_threads(lambda _: meeting.wait(), range(2), n_jobs=2) as results:
        assert sorted(results) == [0, 1]


@pytest.mark.parametrize("n_items", [0, 1, 7])
def test_each_item_is_worked_on_once(n_items):
    done: list[int] = []
    each_in_threads(done.append, range(n_items), n_jobs=3)
    assert sorted(done) == list(range(n_items))


def test_only_a_few_items_are_under_way_at_once():
    taken: list[int] = []

    def items():
        for i in range(50):
            taken.append(i)
            yield i

    with in_threads(lambda item: item, items(), n_jobs=2) as results:
        next(results)
        assert len(taken) <= 5
    assert len(taken) <= 5


@pytest.mark.parametrize("error", [ValueError("item 3"), KeyboardInterrupt()])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_or_interrupt_in_the_work_ends_it_and_drops_the_rest(error, n_jobs):
    started: list[int] = []
    before = threading.active_count()  # other tests' libraries may have left some of their own

    def work(item: int) -> int:
        started.append(item)
        if item == 3:
            raise error
        return item

    with pytest.raises(type(error)), in_threads(work, range(1000), n_jobs=n_jobs) as results:
        list(results)
    assert len(started) < 30
    assert threading.active_count() == before


def test_an_interrupt_of_the_caller_waits_for_the_threads():
    before = threading.active_count()

    def interrupted() -> None:
        with in_threads(lambda item: time.sleep(0.01), range(1000), n_jobs=2) as results:
            for _ in results:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as kept:  # with the traceback, whose frames hold the results
        interrupted()
    assert threading.active_count() == before
    del kept


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, "2", True])
def test_a_thread_count_that_makes_no_sense_is_refused(n_jobs):
    with pytest.raises(ParameterError, match="n_jobs"):
        thread_count(n_jobs)


def test_all_cores_by_default():
    assert thread_count(None) == thread_count(-1) >= 1
    assert thread_count(3) == 3
    assert thread_count(10**6) <= 8 * thread_count(-1)
