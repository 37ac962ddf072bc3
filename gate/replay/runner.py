"""The coordinator: deals shapes to lanes on the GPUs, writes each finished shape down, and stops on drift."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gate.model.problem import Problem, UnusableInput
from gate.replay import integrity
from gate.replay.crew import Crew, NoDevice, SideLost
from gate.replay.job import Job, Settings
from gate.replay.journal import Journal
from gate.replay.machine import NO_GPU_FIX, Machine, Session, lock_gpu, physical
from gate.replay.sensors import open_sensor
from gate.replay.shape_run import ShapeRun

CANARY_PAUSE_S = 3.0
CANARY_TRIES = 3
START_TRIES = 4
FIRST_WARM_ROUNDS = 500


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
    places = _places(jobs, machines, settings)
    ready = threading.Barrier(max(len(places), 1))
    shared = _Shared(settings=settings, journal=journal, step=step, session=session, ready=ready)
    lanes = [threading.Thread(target=shared.lane, args=place, daemon=True) for place in places]
    for lane in lanes:
        lane.start()
    try:
        for lane in lanes:
            lane.join()
    finally:
        shared.halt.set()
        for handle in locks:
            os.close(handle)
    session.wall_s = time.perf_counter() - started
    if shared.fault is not None:
        raise shared.fault
    return session


Waiting = queue.SimpleQueue[Job]


def _places(jobs: Sequence[Job], machines: Sequence[Machine], settings: Settings) -> list[tuple[Machine, str, Waiting]]:
    """The lanes that have work: its GPU, its name, and where it takes its jobs from.

    The lanes of a session share one queue. Pinned lanes have one each, and a shape stays on one GPU.
    """
    common: Waiting = queue.SimpleQueue()
    own: dict[tuple[int, int], Waiting] = {}
    shapes = {job.case.shape_id: None for job in jobs}
    gpu_of = {shape_id: number % len(machines) for number, shape_id in enumerate(shapes)}
    for job in jobs:
        place = (job.process % settings.lanes, gpu_of[job.case.shape_id])
        (own.setdefault(place, queue.SimpleQueue()) if settings.pinned else common).put(job)
    every = [(lane, gpu) for lane in range(settings.lanes) for gpu in range(len(machines))]
    used = [place for place in every if place in own] if settings.pinned else every[: len(jobs)]
    return [
        (machines[gpu], f"gpu{machines[gpu].gpu or 0}-lane{lane}", own.get((lane, gpu), common)) for lane, gpu in used
    ]


@dataclass(slots=True, kw_only=True)
class _Shared:
    """What the lanes share; `lane` is a thread's body."""

    settings: Settings
    journal: Journal
    step: Callable[[str], None]
    session: Session
    ready: threading.Barrier
    halt: threading.Event = field(default_factory=threading.Event)
    fault: BaseException | None = None
    writing: threading.Lock = field(default_factory=threading.Lock)

    def lane(self, machine: Machine, name: str, waiting: Waiting) -> None:
        crew = Crew(self.settings, name=name, gpu=machine.gpu)
        try:
            self._serve(crew, machine, waiting)
        except NoDevice as error:
            self._fail(UnusableInput(Problem(what=f"no GPU: {error}", file="", fix=NO_GPU_FIX)))
        except BaseException as error:  # noqa: BLE001  carried to the caller's thread, which raises it
            self._fail(error)
        finally:
            self.session.restarts += crew.restarts
            crew.close()

    def _fail(self, error: BaseException) -> None:
        self.fault = self.fault or error
        self.halt.set()
        self.ready.abort()

    def _serve(self, crew: Crew, machine: Machine, waiting: Waiting) -> None:
        prepared, process = False, None
        while not self.halt.is_set():
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            if self.settings.pinned and job.process != process:
                for side in list(crew.links):
                    crew.bury(side)
                process = job.process
            if not prepared:
                self._prepare(crew, machine, job)
                prepared = True
            self._one(crew, machine, job)
            self._watch(crew, machine, job)

    def _prepare(self, crew: Crew, machine: Machine, job: Job) -> None:
        """Starts the lane's workers; the GPU's first lane also measures floor, coldness and canary."""
        sides = list(dict.fromkeys(target.arm.side for target in job.targets))
        together = False
        for attempt in range(START_TRIES):
            try:
                crew.start(sides)
                if not together:
                    # Nobody measures while another lane still creates its GPU contexts.
                    self.ready.wait()
                    together = True
                with machine.token.hold():
                    self._self_test(crew, machine, sides[0])
                return
            except SideLost as lost:
                crew.bury(lost.side)
                if not lost.death.outside or attempt + 1 == START_TRIES:
                    raise NoDevice(f"{lost.side}: {lost.death.reason}") from None

    def _self_test(self, crew: Crew, machine: Machine, side: str) -> None:
        machine.environments.update(crew.environments)
        if machine.canary is not None or not self.settings.timing:
            return
        if not self.settings.device.startswith("sim"):
            amd = crew.environments[side].get("runtime", "").startswith("rocm")
            machine.sensor = open_sensor(physical(machine.gpu), amd=amd)
        replies = {
            name: crew.ask(side, {"do": name, "warm": FIRST_WARM_ROUNDS}) for name in ("floor", "coldness", "canary")
        }
        for name, reply in replies.items():
            if reply["status"] != "ok":
                raise NoDevice(f"the GPU fails its self-test ({name}): {reply['reason']}")
        machine.floor_us, machine.canary = replies["floor"]["floor_us"], replies["canary"]["canary"]
        machine.coldness = {name: replies["coldness"][name] for name in ("probes", "verdict")}

    def _one(self, crew: Crew, machine: Machine, job: Job) -> None:
        run = ShapeRun(settings=self.settings, job=job, crew=crew, token=machine.token, sensor=machine.sensor)
        run.run()
        if run.context_lost:
            # A GPU that is gone fails whatever it was on: such a shape is measured again, not written down.
            self._answers(crew, machine, job.targets[0].arm.side)
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

    def _answers(self, crew: Crew, machine: Machine, side: str) -> None:
        """Raises UnusableInput when the GPU no longer answers a fresh process."""
        reason = "its workers die"
        for _ in range(START_TRIES):
            try:
                crew.bury(side)
                crew.start([side])
                with machine.token.hold():
                    reply = crew.ask(side, {"do": "canary"})
                if reply["status"] == "ok":
                    return
                reason = reply["reason"]
            except NoDevice as error:
                reason = str(error)
            except SideLost as lost:
                reason = lost.death.reason
        what = f"the GPU no longer answers: {reason}"
        raise UnusableInput(Problem(what=what, file="", fix="see the driver's log, then --resume"))

    def _watch(self, crew: Crew, machine: Machine, job: Job) -> None:
        """Integrity check 7 over the session: a canary that stays 3% off after a pause ends it."""
        if machine.canary is None:
            return
        side = job.targets[0].arm.side
        for attempt in range(CANARY_TRIES):
            if attempt and not self.settings.device.startswith("sim"):
                time.sleep(CANARY_PAUSE_S)
            reason = self._changed(crew, machine, machine.canary, side)
            if reason is None:
                return
        self.session.stopped = self.session.stopped or f"the machine changed under the session: {reason}"
        self.halt.set()

    def _changed(self, crew: Crew, machine: Machine, first: dict[str, float], side: str) -> str | None:
        """Why a canary does not say that the machine is as it was; one that cannot be measured says nothing of it."""
        try:
            crew.start([side])
            with machine.token.hold():
                reply = crew.ask(side, {"do": "canary"})
        except SideLost as lost:
            crew.bury(lost.side)
            return f"the canary's worker died: {lost.death.reason}"
        if reply["status"] != "ok":
            return f"the canary fails: {reply['reason']}"
        machine.saw(reply["canary"])
        return integrity.canary_drift(first, reply["canary"], self.settings.drift)
