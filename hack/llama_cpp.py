"""A real server with OpenAI's API, llama-cpp-python's: `python -m hack.llama_cpp` prints the path of its Python.

It comes from PyPI as a source (`requirements/llama-cpp.txt`, with hashes) and is compiled for this machine's kind of
processor alone. It takes minutes, once: it is kept in the user's cache like the cluster's tools.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from hack.cluster import binaries, errors, progress

LOCK = Path(__file__).resolve().parent.parent / "requirements" / "llama-cpp.txt"
# No pictures, no tools, nothing that the server does not need; any processor of this kind can run it.
_FLAGS = " ".join(
    f"-D{name}=OFF"
    for name in (
        "GGML_NATIVE", "GGML_OPENMP", "MTMD_BUILD", "LLAVA_BUILD", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_TOOLS",
        "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_SERVER",
    )
)  # fmt: skip


def program(report: progress.Progress) -> Path:
    """The Python that can run `-m llama_cpp.server`, built first if the cache lacks it. Raises errors.Missing or
    errors.Failure with the remedy."""
    for tool in ("gcc", "g++", "cmake", "ninja"):
        if shutil.which(tool) is None:
            raise errors.Missing(f"{tool} is missing: llama.cpp is written in C++; install gcc, g++, cmake and ninja")
    target = binaries.cache() / "tools" / f"llama-cpp-{binaries.digest([LOCK, Path(__file__)], sys.version)}"
    return binaries.build_once(target, report, "building llama-cpp-python (minutes, once)", _build) / "bin" / "python"


def _build(scratch: Path) -> None:
    venv.create(scratch, with_pip=False, symlinks=True)
    install = [
        *("nice", "-n", "19", sys.executable, "-m", "uv", "pip", "install", "--quiet"),
        *("--python", str(scratch / "bin" / "python"), "--require-hashes", "-r", str(LOCK)),
        # What builds it is locked as well.
        *("--require-build-hashes", "-b", str(LOCK)),
    ]
    environment = {**os.environ, "CMAKE_ARGS": _FLAGS, "CMAKE_BUILD_PARALLEL_LEVEL": "2"}
    if subprocess.run(install, env=environment).returncode != 0:
        raise errors.Failure("building llama-cpp-python failed; see the lines above (PyPI must be reachable)")


def main() -> int:
    """Build and print the path; one line on stderr when that cannot be done."""
    try:
        print(program(progress.Progress()))
    except (errors.Missing, errors.Failure) as error:
        print(f"no llama.cpp server: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
