"""The losses outside of the program that made them: exported, packaged, saved."""

import io
import subprocess
import sys

import pytest
import torch
from cases import make_inputs, uniform

import ptd_ext

MODULES = {
    "forward": lambda parts: ptd_ext.ForwardLoss(parts),
    "revised": lambda parts: ptd_ext.ForwardLoss(parts, revision=True, reduction="none"),
    "reweight": lambda parts: ptd_ext.ReweightLoss(parts, class_weight=uniform(len(parts[0]))),
    "attached": lambda parts: ptd_ext.ReweightLoss(parts, importance="attached", revision=True),
    "capped": lambda parts: ptd_ext.ReweightLoss(parts, max_importance=2.0),
}
each_module = pytest.mark.parametrize("make", MODULES.values(), ids=MODULES.keys())


def arguments_of(samples, seed=0):
    inputs = make_inputs(samples, 40, 3, seed=seed, dtype=torch.float32, grad=False)
    return inputs.logits, inputs.labels, inputs.weights


def exported(make):
    module = make(make_inputs(8, 40, 3, dtype=torch.float32, grad=False).parts)
    batch = torch.export.Dim("batch", min=2)
    shapes = ({0: batch}, {0: batch}, {0: batch})
    return module, torch.export.export(module, arguments_of(8), dynamic_shapes=shapes)


@each_module
def test_export(make):
    module, program = exported(make)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for samples in (8, 13):
        arguments = arguments_of(samples, seed=samples)
        torch.testing.assert_close(loaded(*arguments), module(*arguments))


LOAD = """
import sys
import torch, ptd_ext
package, arguments, out = sys.argv[1:]
run = torch._inductor.aoti_load_package(package)
torch.save([run(*a) for a in torch.load(arguments)], out)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forward", "attached"])
def test_package_of_aot_inductor(name, tmp_path):
    """Compiled ahead of time, and loaded by another process."""
    module, program = exported(MODULES[name])
    package = str(tmp_path / "loss.pt2")
    torch._inductor.aoti_compile_and_package(program, package_path=package)
    batches = [arguments_of(samples, seed=samples) for samples in (8, 13)]
    torch.save(batches, tmp_path / "arguments.pt")
    files = [package, str(tmp_path / "arguments.pt"), str(tmp_path / "losses.pt")]
    subprocess.run([sys.executable, "-c", LOAD, *files], check=True, cwd=tmp_path)
    for loss, arguments in zip(torch.load(files[-1]), batches, strict=True):
        torch.testing.assert_close(loss, module(*arguments).detach())


@each_module
def test_save_and_load(make):
    """The state loads as plain data; a whole module loads only if its class is named as safe."""
    module = make(make_inputs(8, 40, 3, dtype=torch.float32, grad=False).parts)
    arguments = arguments_of(9, seed=4)
    expected = module(*arguments)  # used before it is saved: nothing of that may be in the file

    def through_a_file(value, allowed=()):
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        with torch.serialization.safe_globals(allowed):
            return torch.load(file, weights_only=True)

    other = make(torch.full((3, 40, 40), 1 / 40))
    other.load_state_dict(through_a_file(module.state_dict()))
    assert torch.equal(other(*arguments), expected)
    loaded = through_a_file(module, [type(module)])
    assert torch.equal(loaded(*arguments), expected)
    assert loaded.parts.stride() == module.parts.stride()
