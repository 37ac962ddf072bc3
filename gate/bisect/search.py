"""The search for the first slow version: a generator that asks for code and process pairs and gets values."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence

from gate.bisect.answer import Design, Found, State, Step, Word
from gate.bisect.ask import Answer, Ask, AskCode, AskTimes, Code, Skipped, Times
from gate.bisect.evidence import Bounds, Comparison, bounds, slower
from gate.model.text import counted

STATES: Mapping[bool | None, State] = {True: "bad", False: "good", None: "unclear"}
# The share of the error that is kept for decisions beyond the planned ones, which skipped versions can cause.
RESERVE = 0.1


class EndUnusable(Exception):
    """The good or the bad version cannot be built or measured; the message says why."""


class _Skip(Exception):
    """A version between the ends cannot be built or measured."""


def search(count: int, design: Design) -> Generator[Ask, Answer, Found]:
    """Bisects `count` versions, the first good and the last bad; the answer is the generator's return value.

    Every version between is compared with the good end in one session, so its own slowdown and not a difference of
    differences decides. A version whose code equals that of a decided one needs no GPU. The answer is measured once
    more against its predecessor. Raises EndUnusable, and ValueError for fewer than two versions.
    """
    if count < 2:
        raise ValueError("a bisection needs two versions or more")
    return _Search(count, design).run()


class _Search:
    def __init__(self, count: int, design: Design) -> None:
        self.count, self.design = count, design
        self.comparisons: list[Comparison] = []
        self.steps: list[Step] = []
        self.codes: dict[str, State] = {}
        self.decisions = 0
        self.gpu_s = 0.0

    def run(self) -> Generator[Ask, Answer, Found]:
        last = self.count - 1
        first_code = yield from self._end_code(0)
        last_code = yield from self._end_code(last)
        if first_code and first_code == last_code:
            return self._found("no_regression", "good and bad run the same code; nothing was measured")
        design = self.design
        try:
            above, below = math.log1p(design.floor), math.log1p(design.at_least)
            answer, ends = yield from self._compare(last, 0, "ends", above=above, below=below, least=design.least_pairs)
        except _Skip as reason:
            raise EndUnusable(str(reason)) from None
        self._keep(last, STATES[answer], ends, against=0)
        if answer is not True:
            return self._no_difference(ends, decided=answer is False)
        if first_code and last_code:
            self.codes = {first_code: "good", last_code: "bad"}
        low, high = yield from self._narrow(ends.estimate / 2)
        return (yield from self._confirm(low, high, ends))

    def _end_code(self, version: int) -> Generator[Ask, Answer, str]:
        told = yield AskCode(version=version)
        if isinstance(told, Skipped):
            raise EndUnusable(told.reason)
        assert isinstance(told, Code)
        return told.signature

    def _no_difference(self, ends: Bounds, *, decided: bool) -> Found:
        span = f"{_percent(ends.estimate)}, between {_percent(ends.low)} and {_percent(ends.high)}"
        if decided:
            limit = f"{self.design.at_least:.1%}"
            sentence = f"good and bad do not differ: bad over good is {span}, so a slowdown of {limit} is excluded"
            return self._found("no_regression", sentence, slowdown=math.exp(ends.estimate))
        sentence = f"it is not clear that bad is slower ({span}) after {counted(ends.processes, 'process pair')}"
        return self._found("undecided", sentence, slowdown=math.exp(ends.estimate))

    def _narrow(self, middle: float) -> Generator[Ask, Answer, tuple[int, int]]:
        """The last good and the first bad version known; what could not be decided lies between them."""
        low, high = 0, self.count - 1
        passed: set[int] = set()
        while inside := [index for index in range(low + 1, high) if index not in passed]:
            version = min(inside, key=lambda index: abs(2 * index - low - high))
            state = yield from self._decide(version, middle)
            if state == "good":
                low = version
            elif state == "bad":
                high = version
            else:
                passed.add(version)
        return low, high

    def _decide(self, version: int, middle: float) -> Generator[Ask, Answer, State]:
        told = yield AskCode(version=version)
        if isinstance(told, Skipped):
            self.steps.append(Step(version=version, state="skipped", how="code", words=told.reason))
            return "skipped"
        assert isinstance(told, Code)
        known = self.codes.get(told.signature)
        if known is not None:
            words = f"the code of a {known} version; no GPU needed"
            self.steps.append(Step(version=version, state=known, how="code", words=words))
            return known
        try:
            answer, found = yield from self._compare(version, 0, "step", above=middle, below=middle, least=1)
        except _Skip as reason:
            self.steps.append(Step(version=version, state="skipped", how="times", words=str(reason)))
            return "skipped"
        state = STATES[answer]
        if told.signature and state in ("good", "bad"):
            self.codes[told.signature] = state
        self._keep(version, state, found, against=0)
        return state

    def _compare(
        self, head: int, base: int, purpose: str, *, above: float, below: float, least: int
    ) -> Generator[Ask, Answer, tuple[bool | None, Bounds]]:
        """Process pairs until the question is decided, or the most are used. Raises _Skip."""
        alpha = self._level() / self.design.most_pairs
        comparison = Comparison()
        found: Bounds | None = None
        for process in range(max(least, self.design.most_pairs)):
            told = yield AskTimes(head=head, base=base, process=process, purpose=purpose)
            if isinstance(told, Skipped):
                raise _Skip(told.reason)
            assert isinstance(told, Times)
            comparison.add(told.log_ratios)
            self.gpu_s += told.gpu_s
            if process + 1 < least:
                continue
            found = bounds(comparison, self.comparisons, self.design.noise, alpha=alpha)
            answer = slower(found, above=above, below=below)
            if answer is not None:
                break
        assert found is not None
        self.comparisons.append(comparison)
        return slower(found, above=above, below=below), found

    def _level(self) -> float:
        """The chance of an error that the next decision may have; over all decisions they sum to alpha at most."""
        planned = math.ceil(math.log2(max(self.count - 1, 1))) + 2
        self.decisions += 1
        if self.decisions <= planned:
            return self.design.alpha * (1 - RESERVE) / planned
        return self.design.alpha * RESERVE / 2.0 ** (self.decisions - planned)

    def _keep(self, version: int, state: State, found: Bounds, *, against: int) -> None:
        words = f"{_percent(found.estimate)} ({_percent(found.low)} to {_percent(found.high)})"
        self.steps.append(
            Step(
                version=version,
                state=state,
                how="times",
                words=words,
                against=against,
                ratio=math.exp(found.estimate),
                low=math.exp(found.low),
                high=math.exp(found.high),
                process_pairs=found.processes,
            )
        )

    def _confirm(self, low: int, high: int, ends: Bounds) -> Generator[Ask, Answer, Found]:
        middle = ends.estimate / 2
        suspects = tuple(range(low + 1, high + 1))
        try:
            answer, found = yield from self._compare(high, low, "confirm", above=middle, below=middle, least=1)
        except _Skip as reason:
            return self._found("undecided", f"it could not be measured again: {reason}", suspects, low, ends)
        self._keep(high, STATES[answer], found, against=low)
        more = {"confirmed": math.exp(found.estimate)}
        told = f"slower by {_percent(found.estimate)} than the last good one, measured anew"
        if answer is not True:
            what = "the measurements contradict each other" if answer is False else "the last measurement is not clear"
            sentence = f"{what}: against the last good version the first bad one is {told}"
            return self._found("undecided", sentence, suspects, low, ends, **more)
        unclear = {step.version for step in self.steps if step.state == "unclear"} & set(suspects[:-1])
        if unclear:
            what = f"{len(unclear)} of {len(suspects)} suspects are neither clearly good nor bad"
            sentence = f"{what}, as if the slowdown came in more than one step; the last one is {told}"
            return self._found("undecided", sentence, suspects, low, ends, **more)
        if len(suspects) > 1:
            sentence = f"one of {len(suspects)} versions, of which only the last can be measured; it is {told}"
            return self._found("found", sentence, suspects, low, ends, **more)
        return self._found("found", told, suspects, low, ends, **more)

    def _found(
        self,
        word: Word,
        sentence: str,
        suspects: Sequence[int] = (),
        last_good: int | None = None,
        ends: Bounds | None = None,
        **more: float,
    ) -> Found:
        fields: dict[str, float] = {"slowdown": math.exp(ends.estimate)} if ends is not None else {}
        return Found(
            word=word,
            sentence=sentence,
            suspects=tuple(suspects),
            last_good=last_good,
            alpha=self.design.alpha,
            steps=tuple(self.steps),
            process_pairs=sum(len(one.pairs) for one in self.comparisons),
            gpu_s=self.gpu_s,
            **{**fields, **more},
        )


def _percent(log_ratio: float) -> str:
    return f"{math.expm1(log_ratio):+.2%}"
