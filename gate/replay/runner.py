"""The coordinator: deals shapes to lanes on the GPUs, writes each finished shape down, and stops on drift."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import partial

from gate.model.problem import Problem, UnusableInput
from gate.replay import watch
from gate.replay.crew import Crew, NoDevice, SideLost, unstarted
from gate.replay.deal import Waiting, by_op
from gate.replay.job import Job, Settings
from gate.replay.journal import Journal
from gate.replay.machine import NO_GPU_FIX, Machine, Session, lock_gpu
from gate.replay.shape_run import ShapeRun


def measure(
    jobs: Sequence[Job],
    *,
    settings: Settings,
    gpus: Sequence[str | None],
    journal: Journal,
    step: Callable[[str], None],
    machines: Sequence[Machine] | None = None,
) -> Session:
    """Measures the jobs that are not in the journal yet and appends each finished one.

    `machines` are those of an earlier call of the same run: their self-test stands, and their first canary counts.
    Raises UnusableInput when no worker can be started or another run holds a GPU. Stops early, with the reason in the
    session, when a canary drifts by more than 3%.
    """
    started = time.perf_counter()
    machines = list(machines) if machines else [Machine(gpu=gpu) for gpu in gpus]
    locks = [lock_gpu(gpu) for gpu in gpus if not settings.device.startswith("sim")]
    session = Session(machines=machines)
    shared = _Shared(settings=settings, journal=journal, step=step, session=session)
    try:
        places = _places(jobs, machines, settings)
        shared.all_of(places)
        for lanes in FEWER if settings.lanes > max(FEWER) and not settings.pinned else (1,):
            shared.roomy = lanes == 1
            places = shared.crowded(places, lanes)
            shared.all_of(places)
    finally:
        shared.halt.set()
        shared.dismiss()
        for handle in locks:
            os.close(handle)
    session.wall_s = time.perf_counter() - started
    if shared.fault is not None:
        raise shared.fault
    return session


Place = tuple[Machine, int, Waiting]
# How many lanes of a GPU take on what was short of memory beside all of them.
FEWER = (2, 1)


def _places(jobs: Sequence[Job], machines: Sequence[Machine], settings: Settings) -> list[Place]:
    """The lanes that have work: its GPU, its number there, and where it takes its jobs from.

    The lanes of a session share what waits. Pinned lanes have their own, in order, and a shape stays on one GPU.
    """
    common = Waiting(() if settings.pinned else jobs, pile_of=by_op)
    own: dict[tuple[int, int], Waiting] = {}
    shapes = {job.case.shape_id: None for job in jobs}
    gpu_of = {shape_id: number % len(machines) for number, shape_id in enumerate(shapes)}
    for job in jobs if settings.pinned else ():
        own.setdefault((job.process % settings.lanes, gpu_of[job.case.shape_id]), Waiting()).put(job)
    every = [(lane, gpu) for lane in range(settings.lanes) for gpu in range(len(machines))]
    used = [place for place in every if place in own] if settings.pinned else every[: len(jobs)]
    return [(machines[gpu], lane, own.get((lane, gpu), common)) for lane, gpu in used]


@dataclass(slots=True, kw_only=True)
class _Shared:
    """What the lanes share; `lane` is a thread's body. A shape for which the lanes' common memory did not suffice is
    postponed until fewer of them share it, at last until one has the GPU to itself, when all is `roomy`; a lane whose
    workers find none ends. `idle` are the workers of lanes that have ended, for the next lane of that number."""

    settings: Settings
    journal: Journal
    step: Callable[[str], None]
    session: Session
    roomy: bool = False
    postponed: list[tuple[Machine, Job]] = field(default_factory=list)
    idle: dict[tuple[str | None, int], Crew] = field(default_factory=dict)
    halt: threading.Event = field(default_factory=threading.Event)
    fault: BaseException | None = None
    writing: threading.Lock = field(default_factory=threading.Lock)

    def all_of(self, places: Sequence[Place]) -> None:
        """Runs the lanes to their end; idle workers of others are dismissed first."""
        self.dismiss(but=[(machine.gpu, number) for machine, number, _ in places])
        lanes = [threading.Thread(target=self.lane, args=place, daemon=True) for place in places]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()

    def crowded(self, places: Sequence[Place], lanes: int) -> list[Place]:
        """So many lanes on each GPU with what was postponed there, and what lanes without memory left, as `_places`."""
        if self.halt.is_set():
            return []
        shared: dict[int, tuple[Waiting, list[Machine]]] = {}
        for machine, _, jobs in places:
            shared.setdefault(id(jobs), (jobs, []))[1].append(machine)
        left = [
            (machines[number % len(machines)], job)
            for jobs, machines in shared.values()
            for number, job in enumerate(iter(partial(jobs.take, None), None))
        ]
        waiting: dict[str | None, tuple[Machine, Waiting]] = {}
        jobs_of: Counter[str | None] = Counter()
        for machine, job in sorted(self.postponed + left, key=lambda each: each[1].process):
            waiting.setdefault(machine.gpu, (machine, Waiting()))[1].put(job)
            jobs_of[machine.gpu] += 1
        self.postponed.clear()
        return [
            (machine, lane, jobs)
            for lane in range(lanes)
            for machine, jobs in waiting.values()
            if lane < jobs_of[machine.gpu]
        ]

    def lane(self, machine: Machine, number: int, waiting: Waiting) -> None:
        place = (machine.gpu, number)
        name = f"gpu{machine.gpu or 0}-lane{number}"
        crew = self.idle.pop(place, None) or Crew(self.settings, name=name, gpu=machine.gpu)
        lasting = False
        try:
            self._serve(crew, machine, waiting)
            # Workers take seconds to start; those of pinned lanes are fresh on purpose, and those that could share no
            # memory beside all lanes may share some beside fewer.
            fresh = self.settings.pinned or crew.memory.refusal is not None
            lasting = number < max(FEWER) and not fresh and not self.halt.is_set()
        except NoDevice as error:
            # A lane whose workers find no memory beside the others' leaves its work to them.
            if error.full and self._beside():
                return
            self._fail(UnusableInput(Problem(what=f"no GPU: {error}", file="", fix=NO_GPU_FIX)))
        except BaseException as error:  # noqa: BLE001  carried to the caller's thread, which raises it
            self._fail(error)
        finally:
            if lasting:
                self.idle[place] = crew
            else:
                self._end(crew)

    def dismiss(self, *, but: Container[tuple[str | None, int]] = ()) -> None:
        """Ends the idle workers, those of some lanes excepted."""
        ending = [self.idle.pop(place) for place in list(self.idle) if place not in but]
        for crew in ending:
            crew.strike()
        for crew in ending:
            self._end(crew)

    def _end(self, crew: Crew) -> None:
        with self.writing:
            self.session.restarts += crew.restarts
        crew.close()

    def _fail(self, error: BaseException) -> None:
        self.fault = self.fault or error
        self.halt.set()

    def _serve(self, crew: Crew, machine: Machine, waiting: Waiting) -> None:
        last: Job | None = None
        while not self.halt.is_set():
            job = waiting.take(last)
            if job is None:
                return
            if self.settings.pinned and last is not None and job.process != last.process:
                crew.renew()
            try:
                if last is None:
                    self._prepare(crew, machine, job)
                last = job
                self._one(crew, machine, job)
            except NoDevice:
                self.postponed.append((machine, job))
                raise
            reason = watch.changed(crew, machine, job.targets[0].arm.side, beside=self._beside())
            if reason is not None:
                self.session.stopped = self.session.stopped or f"the machine changed under the session: {reason}"
                self.halt.set()

    def _beside(self) -> bool:
        """Whether other lanes may be what leaves too little memory."""
        return not self.roomy and self.settings.lanes > 1

    def _prepare(self, crew: Crew, machine: Machine, job: Job) -> None:
        """Starts the lane's workers; the GPU's first lane also measures floor, coldness and canary."""
        sides = list(dict.fromkeys(target.arm.side for target in job.targets))
        for attempt in range(watch.START_TRIES):
            try:
                crew.start(sides, turn=machine.token.share)
                with machine.token.hold():
                    watch.self_test(crew, machine, sides[0])
                return
            except SideLost as lost:
                crew.bury(lost.side)
                if not lost.death.outside or attempt + 1 == watch.START_TRIES:
                    raise unstarted(lost, self.settings.arms) from None

    def _run(self, crew: Crew, machine: Machine, job: Job) -> ShapeRun:
        run = ShapeRun(settings=self.settings, job=job, crew=crew, token=machine.token, sensor=machine.sensor)
        run.run()
        return run

    def _one(self, crew: Crew, machine: Machine, job: Job) -> None:
        run = self._run(crew, machine, job)
        if self.roomy and run.short_of_memory:
            # The last word is fresh workers', who keep nothing of other shapes.
            crew.renew()
            run = self._run(crew, machine, job)
        if run.context_lost:
            # A GPU that is gone fails whatever it was on: such a shape is measured again, not written down.
            watch.still_answers(crew, machine, job.targets[0].arm.side)
        if self._beside() and run.short_of_memory:
            self.postponed.append((machine, job))
            return
        record = {
            "shape_id": job.case.shape_id,
            "process": job.process,
            "gpu": machine.gpu,
            "floor_us": machine.floor_us,
            "cold_proven": machine.coldness.get("verdict", "not tested") is None,
            "arms": {str(arm): result.as_dict() for arm, result in run.results.items()},
            "environments": dict(crew.environments),
            "raw": run.raw,
            "spent_s": {name: round(seconds, 4) for name, seconds in run.spent_s.items()},
        }
        with self.writing:
            machine.shapes += 1
            self.journal.append(record)
            self.step(f"{job.case.op_type} {' '.join(f'{k}={v}' for k, v in job.case.args.items())}")
