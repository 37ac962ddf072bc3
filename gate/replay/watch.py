"""A GPU's self-test before a session, and the watch over it during one: is it still the machine that it was?"""

from __future__ import annotations

import time

from gate.model.problem import Problem, UnusableInput
from gate.replay import integrity
from gate.replay.crew import Crew, NoDevice, SideLost
from gate.replay.machine import Machine, physical
from gate.replay.sensors import open_sensor

CANARY_PAUSE_S = 3.0
CANARY_EVERY_S = 2.0
CANARY_TRIES = 3
START_TRIES = 4
# Light rounds of 50 us before a canary. Heavy work of another lane leaves slower clocks for longer than the usual ones.
WARM_ROUNDS, FIRST_WARM_ROUNDS, PATIENT_WARM_ROUNDS = 100, 500, 4000


def self_test(crew: Crew, machine: Machine, side: str) -> None:
    """Floor, coldness and first canary, unless the machine has them; to be called with the GPU held.

    Raises NoDevice when one of them fails, SideLost when the worker dies.
    """
    machine.environments.update(crew.environments)
    if machine.canary is not None or not crew.settings.timing:
        return
    if not crew.settings.device.startswith("sim"):
        amd = crew.environments[side].get("runtime", "").startswith("rocm")
        machine.sensor = open_sensor(physical(machine.gpu), amd=amd)
    replies = {
        name: crew.ask(side, {"do": name, "warm": FIRST_WARM_ROUNDS}) for name in ("floor", "coldness", "canary")
    }
    for name, reply in replies.items():
        if reply["status"] != "ok":
            what = f"the GPU fails its self-test ({name}): {reply['reason']}"
            raise NoDevice(what, full=reply["status"] == "oom")
    machine.floor_us, machine.canary = replies["floor"]["floor_us"], replies["canary"]["canary"]
    machine.coldness = {name: replies["coldness"][name] for name in ("probes", "verdict")}


def still_answers(crew: Crew, machine: Machine, side: str) -> None:
    """Raises UnusableInput when the GPU no longer answers a fresh process, NoDevice when that finds no memory."""
    reason = "its workers die"
    for _ in range(START_TRIES):
        try:
            crew.bury(side)
            crew.start([side], turn=machine.token.share)
            with machine.token.hold():
                reply = crew.ask(side, {"do": "canary", "warm": WARM_ROUNDS})
            if reply["status"] == "ok":
                return
            reason = reply["reason"]
        except NoDevice as error:
            if error.full:
                raise
            reason = str(error)
        except SideLost as lost:
            reason = lost.death.reason
    what = f"the GPU no longer answers: {reason}"
    raise UnusableInput(Problem(what=what, file="", fix="see the driver's log, then --resume"))


def changed(crew: Crew, machine: Machine, side: str, *, beside: bool) -> str | None:
    """Integrity check 7 over the session: why a canary says that the machine is another, even after a pause.

    It is taken every few seconds at most, and after every shape of a simulated GPU, whose time stands still. Raises
    NoDevice when it finds no memory `beside` other lanes.
    """
    simulated = crew.settings.device.startswith("sim")
    if machine.canary is None or (not simulated and time.monotonic() - machine.canary_at < CANARY_EVERY_S):
        return None
    reason = None
    for attempt in range(CANARY_TRIES):
        if attempt and not simulated:
            time.sleep(CANARY_PAUSE_S)
        warm = PATIENT_WARM_ROUNDS if attempt else WARM_ROUNDS
        reason = _drift(crew, machine, machine.canary, side, beside=beside, warm=warm)
        if reason is None:
            return None
    return reason


def _drift(crew: Crew, machine: Machine, first: dict[str, float], side: str, *, beside: bool, warm: int) -> str | None:
    """Why a canary does not say that the machine is as it was; one that cannot be measured says nothing of it."""
    try:
        crew.start([side], turn=machine.token.share)
        with machine.token.hold():
            reply = crew.ask(side, {"do": "canary", "warm": warm})
    except SideLost as lost:
        crew.bury(lost.side)
        return f"the canary's worker died: {lost.death.reason}"
    if reply["status"] == "oom" and beside:
        raise NoDevice(f"{side}: the canary fails: {reply['reason']}", full=True)
    if reply["status"] != "ok":
        return f"the canary fails: {reply['reason']}"
    machine.saw(reply["canary"])
    return integrity.canary_drift(first, reply["canary"], crew.settings.drift)
