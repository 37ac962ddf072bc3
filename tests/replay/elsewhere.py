"""Asks one of these test modules in a process of its own: a request in, the JSON of its last line out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 600


def answer(module: str, request: Any, **environment: str) -> Any:
    """What `python -m module` answers to a request on standard input, with these variables set besides."""
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(request),
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
