"""Print how ptd_ext was built, what it runs on and what can be used here: `ptd-ext info`."""

import json
import platform
import textwrap
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import torch

from ptd_ext import _C
from ptd_ext.engine.networks import NETWORKS
from ptd_ext.experiments.datasets import DATA_SETS
from ptd_ext.noise.kinds import KINDS, NoiseKind
from ptd_ext.transition.estimators import ESTIMATORS
from ptd_ext.utils.command_parser import CommandParser
from ptd_ext.utils.extras import OPTIONAL

_WIDTH, _INDENT = 100, 14
# The modules of optional packages, by the extra that installs them.
PACKAGES = {
    "all": tuple(OPTIONAL),
    "encoders": ("sentence_transformers", "timm", "torchvision"),
    "frameworks": ("lightning", "transformers", "accelerate", "skorch"),
}


def collect() -> dict[str, Any]:
    """Describe the build (see `ptd_ext._C.build_info`) and the machine, for JSON."""
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
        "usable": {
            "data_sets": {name: entry.missing() for name, entry in DATA_SETS.items()},
            "noise": {name: _noise_needs(kind) for name, kind in KINDS.items()},
            "networks": {name: network.takes for name, network in NETWORKS.items()},
            "estimators": {name: each.missing(()) for name, each in ESTIMATORS.items()},
            "packages": {
                extra: {module: find_spec(module) is not None for module in modules}
                for extra, modules in PACKAGES.items()
            },
        },
    }


def report(info: dict[str, Any]) -> str:
    """Format the description as aligned text."""
    build, running, usable = info["build"], info["running"], info["usable"]
    data_sets, noise, packages = usable["data_sets"], usable["noise"], usable["packages"].items()
    installed = [name for _, found in packages for name, here in found.items() if here]
    missing = {extra: [n for n, here in found.items() if not here] for extra, found in packages}
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
        " ": "",
        "Data sets": ", ".join(name for name, reason in data_sets.items() if not reason),
        "  unusable": _listed(data_sets.items()),
        "Noise": ", ".join(name + (f" ({rest})" if rest else "") for name, rest in noise.items()),
        "Networks": _listed(usable["networks"].items()),
        "Estimators": _listed(
            (k, f"needs {', '.join(v)}") for k, v in usable["estimators"].items()
        ),
        "Packages": ", ".join(installed) or "none",
        "  missing": _listed(
            (", ".join(names), f'pip install "ptd_ext[{extra}]"' if names else "")
            for extra, names in missing.items()
        ),
    }
    return "\n".join(
        textwrap.fill(f"{name:<{_INDENT}}{value}", _WIDTH, subsequent_indent=" " * _INDENT).rstrip()
        for name, value in rows.items()
        if value or not name.strip()
    )


def _listed(items: Iterable[tuple[str, str]]) -> str:
    """Names with their remarks; those without a remark are left out."""
    return ", ".join(f"{name} ({remark})" for name, remark in items if remark)


def _noise_needs(kind: NoiseKind) -> str:
    return "needs features" if kind.needs_features else ""


def _describe_cuda_build(build: dict[str, Any]) -> str:
    if not build["cuda"]:
        return "not built"
    archs = build["cuda_archs"]
    return f"CUDA {build['cuda_version']} for {' '.join(archs)}, newer GPUs through PTX"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the report, as text or as JSON."""
    parser = CommandParser(prog="ptd-ext info", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
    arguments = parser.parse_args(argv)
    info = collect()
    print(json.dumps(info, indent=2) if arguments.json else report(info))


if __name__ == "__main__":
    main()
