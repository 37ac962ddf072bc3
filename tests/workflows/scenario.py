"""The rehearsal: the workflows run by act against the fake GitHub, in a namespace that has loopback and nothing else.

`python -m tests.workflows.scenario FOLDER` must run inside that namespace; it writes FOLDER/outcome.json.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import yaml

from gate import store
from gate.cli import run
from gate.codegen.compile import CANARIES
from tests.factory import make_shape
from tests.publish.fake import REPO, FakeGitHub, Token, running

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PULL = 7
SIM = "floor=1,noise=0.001"
# What an adopting repository writes: the two files of docs/operations.md, with the rehearsal's inputs.
MEASURE = {
    "name": "gate",
    "on": {"pull_request": None},
    "permissions": {},
    "jobs": {
        "gate": {
            "permissions": {"contents": "read"},
            "uses": "./.github/workflows/measure.yml",
            "with": {
                "runner": "mi350x", "ledgers": "frozen_ledgers", "kernels": "kernels", "op-from": "sim_kernels:OP",
                "simulate": SIM, "runners": 2,
            },
        }
    },
}  # fmt: skip
REPORT = {
    "name": "gate report",
    "on": {"workflow_run": {"workflows": ["gate"], "types": ["in_progress", "completed"]}},
    "permissions": {},
    "jobs": {
        "report": {
            "permissions": {"actions": "read", "contents": "read", "pull-requests": "write", "statuses": "write"},
            "uses": "./.github/workflows/judge.yml",
            "with": {"ledgers": "frozen_ledgers"},
        }
    },
}


class Rehearsal:
    """One folder with an origin, a work tree, the store of artifacts and the tools."""

    def __init__(self, folder: Path, fake: FakeGitHub) -> None:
        self.folder, self.fake = folder, fake
        fake.tokens = {"rehearsal-token": Token()}
        self.tree, self.origin, self.bin = folder / "tree", folder / "origin.git", folder / "bin"
        self.log: list[dict[str, Any]] = []
        self._tools()
        self._repository()

    def _tools(self) -> None:
        self.bin.mkdir()
        wrapper = self.bin / "gate"
        wrapper.write_text(
            f'#!/bin/sh\nPYTHONPATH={ROOT}${{PYTHONPATH:+:$PYTHONPATH}} exec {sys.executable} -m gate "$@"\n'
        )
        wrapper.chmod(0o755)

    def _repository(self) -> None:
        """The default branch: the workflows, a frozen ledger of two shapes, the kernels and their simulated twins."""
        tree = self.tree
        shutil.copytree(ROOT / ".github", tree / ".github")
        workflows = tree / ".github" / "workflows"
        for ours, called, caller in (("gate.yml", "measure.yml", MEASURE), ("report.yml", "judge.yml", REPORT)):
            (workflows / ours).rename(workflows / called)
            (workflows / ours).write_text(yaml.safe_dump(caller, sort_keys=False))
        shutil.copytree(CANARIES, tree / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(HERE / "sim_kernels.py", tree / "sim_kernels.py")
        shapes = [make_shape(op_type="vec_add", dtype="f32", args={"N": n}) for n in (8192, 16384)]
        store.write_jsonl(tree / "frozen_ledgers/vec_add" / store.LEDGER_FILE, shapes)
        providers = {
            name: {"enabled": True, "entrypoint": f"sim_kernels:{attribute}", "provider": name}
            for name, attribute in (("flydsl", "candidate"), ("triton", "rival"))
        }
        matrix = {"kernel": "vec_add", "op_type": "vec_add", "dtype": "f32", "providers": providers}
        matrix["reference_provider"] = "triton"
        store.write_text(tree / "frozen_ledgers/vec_add" / store.MATRIX_FILE, yaml.safe_dump(matrix))
        assert run(["ledger", "freeze", str(tree / "frozen_ledgers")]) == 0
        self.git("init", "--quiet", "--initial-branch", "main")
        subprocess.run(["git", "init", "--quiet", "--bare", str(self.origin)], check=True)
        self.git("remote", "add", "origin", str(self.origin))
        self.base = self.commit("the default branch")
        self.git("push", "--quiet", "origin", "HEAD:refs/heads/main")

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=gate", "-c", "user.email=gate@example.invalid", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *who, *words], cwd=self.tree, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def push(self, message: str, *, speed_us: float, broken: bool = False) -> str:
        """A new head of the pull request: the kernel's code differs, and so does its simulated time."""
        text = (CANARIES / "rows.py").read_text()
        assert "THREADS = 256" in text
        (self.tree / "kernels" / "rows.py").write_text(text.replace("THREADS = 256", "THREADS = 128"))
        twin = (HERE / "sim_kernels.py").read_text().replace("SPEED_US = 10.0", f"SPEED_US = {speed_us}")
        (self.tree / "sim_kernels.py").write_text(twin)
        if broken:
            shutil.rmtree(self.tree / "kernels")
            (self.tree / "kernels").write_text("a file where the folder of kernels should be")
        sha = self.commit(message)
        self.git("push", "--quiet", "--force", "origin", f"HEAD:refs/pull/{PULL}/head")
        return sha

    def act(self, event: str, payload: dict[str, Any], *, workflow: str, store_to: Path) -> int:
        """Runs one workflow; the exit code is the run's conclusion."""
        event_file = self.folder / "event.json"
        event_file.write_text(json.dumps(payload))
        names = (
            "checkout@3d3c42e5aac5ba805825da76410c181273ba90b1",
            "upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a",
            "download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c",
        )
        local = [f"https://github.com/actions/{n}={HERE / 'actions' / n.partition('@')[0]}" for n in names]
        variables = {
            "ACT_ORIGIN": str(self.origin), "ACT_STORE": str(store_to), "ACT_SHA": self.base, "GATE_PREINSTALLED": "1",
            "GATE_PYTHON": sys.executable, "GITHUB_API_URL": self.fake.base, "GATE_RETRY_PAUSE_S": "0",
            "GITHUB_REPOSITORY": REPO, "XDG_CACHE_HOME": str(self.folder / "cache"),
        }  # fmt: skip
        argv = [
            act_binary(), event, "--workflows", f".github/workflows/{workflow}", "--eventpath", str(event_file),
            "--no-cache-server", "--action-offline-mode", "--artifact-server-addr", "127.0.0.1",
            "--secret", "GITHUB_TOKEN=rehearsal-token", "--concurrent-jobs", "1",
            "--action-cache-path", str(self.folder / "act-cache"), "--env", f"PATH={self.bin}:{os.environ['PATH']}",
        ]  # fmt: skip
        argv += [word for label in ("ubuntu-24.04", "mi350x") for word in ("--platform", f"{label}=-self-hosted")]
        argv += [word for one in local for word in ("--local-repository", one)]
        argv += [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        environ = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.folder)}
        done = subprocess.run(
            argv, cwd=self.tree, env=environ, capture_output=True, text=True, timeout=400, check=False
        )
        name = f"{len(self.log)}-{workflow}.log"
        (self.folder / name).write_text(done.stdout + done.stderr)
        self.log.append({"workflow": workflow, "event": event, "rc": done.returncode, "log": name})
        return done.returncode

    def round(self, number: int, message: str, **how: Any) -> dict[str, Any]:
        """Push, measure, report; what GitHub shows afterwards."""
        sha = self.push(message, **how)
        if PULL not in self.fake.pulls:
            self.fake.add_pull(PULL, sha)
        self.fake.pulls[PULL]["head"]["sha"] = sha
        self.fake.commits.add(sha)
        run = self.fake.add_run(number, sha, conclusion=None)
        self.report(run, "in_progress")
        kept = self.folder / f"artifacts-{number}"
        pull = {"number": PULL, "head": {"sha": sha, "ref": "topic"}, "base": {"sha": self.base, "ref": "main"}}
        repository = {"default_branch": "main", "full_name": REPO}
        payload = {"action": "synchronize", "number": PULL, "pull_request": pull, "repository": repository}
        code = self.act("pull_request", payload, workflow="gate.yml", store_to=kept)
        run["conclusion"] = "success" if code == 0 else "failure"
        bundle = kept / "flydsl-gate-results" / "bundle.jsonl"
        if bundle.is_file():
            self.fake.add_artifact(number, zipped(bundle))
        self.report(run, "completed")
        return {
            "sha": sha,
            "measured": code,
            "comments": self.fake.ours(PULL),
            "ids": [one["id"] for one in self.fake.on(PULL)],
            "statuses": [one["state"] for one in self.fake.statuses if one["sha"] == sha],
            "description": (self.fake.status(sha) or {}).get("description"),
        }

    def report(self, run: dict[str, Any], action: str) -> None:
        told = {"id": run["id"], "run_attempt": 1, "event": "pull_request", "conclusion": run["conclusion"]}
        payload = {"action": action, "workflow_run": told, "repository": {"default_branch": "main", "full_name": REPO}}
        code = self.act("workflow_run", payload, workflow="report.yml", store_to=self.folder / "none")
        if code != 0:
            raise SystemExit(f"report failed: {self.log[-1]}")


def zipped(path: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        out.write(path, path.name)
    return buffer.getvalue()


def act_binary() -> str:
    beside = Path(sys.executable).with_name("act")
    return str(beside) if beside.is_file() else shutil.which("act") or "act"


def main(folder: Path) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with running() as fake:
        rehearsal = Rehearsal(folder, fake)
        rounds = {
            "block": rehearsal.round(101, "slower", speed_us=13.0),
            "promote": rehearsal.round(102, "faster", speed_us=7.0),
            "fails": rehearsal.round(103, "broken", speed_us=10.0, broken=True),
        }
        shards = {
            name: len(list((folder / f"artifacts-{number}").glob("flydsl-gate-replay-*/part.json")))
            for name, number in (("block", 101), ("promote", 102), ("fails", 103))
        }
        outcome = {"rounds": rounds, "act": rehearsal.log, "violations": fake.violations, "shards": shards}
    (folder / "outcome.json").write_text(json.dumps(outcome, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
