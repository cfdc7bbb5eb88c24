"""Prints what was built and what runs: `ptd-ext info` or `python -m ptd_ext info`."""

import argparse
import json
import platform
from collections.abc import Sequence
from typing import Any

import torch

from ptd_ext import _C


def collect() -> dict[str, Any]:
    """Describe the build (see `ptd_ext._C.build_info`) and the machine, ready for JSON."""
    usable = torch.cuda.is_available()
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "build": _C.build_info(),
        "running": {
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}",
            "cpu_isa": _C.cpu_isa(),
            "torch": torch.__version__,
            "torch_cuda": torch.version.cuda,
            "cuda_devices": devices if usable else [],
        },
    }


def report(info: dict[str, Any]) -> str:
    """The same as aligned text."""
    build, running = info["build"], info["running"]
    rows = {
        "ptd_ext": build["version"],
        "built with": f"torch {build['torch']}, {build['compiler']}, {build['build_type']}",
        "runs on": f"torch {build['torch_oldest']} and newer",
        "CPU kernels": " ".join(build["cpu_variants"]),
        "CUDA kernels": _describe_cuda_build(build),
        "": "",
        "Python": f"{running['python']} on {running['machine']}",
        "CPU in use": running["cpu_isa"],
        "torch": f"{running['torch']}, CUDA {running['torch_cuda'] or 'none'}",
        "CUDA devices": ", ".join(running["cuda_devices"]) or "none",
    }
    return "\n".join(f"{name:<14}{value}".rstrip() for name, value in rows.items())


def _describe_cuda_build(build: dict[str, Any]) -> str:
    if not build["cuda"]:
        return "not built"
    archs = build["cuda_archs"]
    return f"CUDA {build['cuda_version']} for {' '.join(archs)}, newer GPUs through PTX"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the report, or JSON."""
    parser = argparse.ArgumentParser(prog="ptd-ext info", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
    arguments = parser.parse_args(argv)
    info = collect()
    print(json.dumps(info, indent=2) if arguments.json else report(info))


if __name__ == "__main__":
    main()
