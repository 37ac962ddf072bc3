"""Which lane takes which job: each once, a lane true to its op, and nobody idle while there is work."""

from __future__ import annotations

import threading
from collections import Counter

from gate.replay.deal import Waiting, by_op
from gate.replay.job import Job
from gate.replay.op import Case


def job(op: str, number: int) -> Job:
    return Job(case=Case(shape_id=f"{op}{number}", op_type=op, dtype="bf16", args={}, layout={}), targets=())


def many(**counts: int) -> list[Job]:
    return [job(op, number) for op, count in counts.items() for number in range(count)]


def test_one_lane_takes_them_in_order() -> None:
    jobs = many(gemm=3, softmax=2)
    waiting, last, taken = Waiting(jobs, pile_of=by_op), None, []
    while (last := waiting.take(last)) is not None:
        taken.append(last)
    assert taken == jobs


def test_lanes_begin_with_ops_of_their_own_and_help_at_the_end() -> None:
    waiting = Waiting(many(gemm=4, softmax=1), pile_of=by_op)
    one, two = waiting.take(None), waiting.take(None)
    assert one is not None and two is not None
    assert {by_op(one), by_op(two)} == {"gemm", "softmax"}
    helped = waiting.take(two)
    assert helped is not None and by_op(helped) == "gemm"
    rest = [waiting.take(one), waiting.take(helped), waiting.take(one)]
    assert sorted(each.case.shape_id for each in rest if each is not None) == ["gemm2", "gemm3"]
    assert rest[-1] is None


def test_many_lanes_take_each_job_once() -> None:
    jobs = many(a=40, b=3, c=17, d=1)
    waiting, taken = Waiting(jobs, pile_of=by_op), Counter[str]()
    changes, adding = Counter[int](), threading.Lock()

    def lane(number: int) -> None:
        last = None
        while (found := waiting.take(last)) is not None:
            with adding:
                taken[found.case.shape_id] += 1
                changes[number] += last is not None and by_op(last) != by_op(found)
            last = found

    lanes = [threading.Thread(target=lane, args=(number,)) for number in range(3)]
    for each in lanes:
        each.start()
    for each in lanes:
        each.join(30)
    assert taken == Counter({each.case.shape_id: 1 for each in jobs})
    assert sum(changes.values()) <= 6


def test_without_piles_the_order_is_kept_whatever_the_op() -> None:
    jobs = [job("a", 1), job("b", 1), job("a", 2)]
    waiting, last, taken = Waiting(jobs), None, []
    while (last := waiting.take(last)) is not None:
        taken.append(last)
    assert taken == jobs
