"""Starts a worker in a foreign interpreter: loads this very `gate` package by path, adding nothing else to sys.path.

Adding the folder that holds `gate` would, for an installed gate, put a whole site-packages in front of the arm's own.
"""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def load_gate() -> None:
    """Puts `gate` into sys.modules from its folder. Raises ImportError if the folder is not a package."""
    spec = importlib.util.spec_from_file_location("gate", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{ROOT} is not the gate package")
    module = importlib.util.module_from_spec(spec)
    sys.modules["gate"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    # Python put this script's folder first; its module names must not shadow anybody's.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    load_gate()
    from gate.replay.worker import main

    sys.exit(main())
