"""Checks of arguments: the message names the argument, what was expected and what came."""

import pytest
import torch
from cases import make_inputs
from torch import Tensor

import ptd_ext
from ptd_ext.ops import checks

GOOD = make_inputs(6, 4, 3, slack=0.1, dtype=torch.float32, grad=False)


def call(**changes):
    arguments = {
        "logits": GOOD.logits,
        "noisy_labels": GOOD.labels,
        "weights": GOOD.weights,
        "parts": GOOD.parts,
        "slack": GOOD.slack,
    }
    return ptd_ext.forward_loss(**(arguments | changes))


CASES = [
    ({"logits": torch.zeros(4)}, r"logits must be \[N, C\]; got \[4\]"),
    ({"logits": torch.zeros(6, 4, 2)}, r"logits must be \[N, C\]; got \[6, 4, 2\]"),
    ({"logits": torch.ones(6, 4, dtype=torch.int64)}, r"logits must be float32.*; got int64"),
    ({"logits": torch.zeros(6, 5)}, r"parts must be \[R, 5, 5\].*got \[3, 4, 4\]"),
    ({"logits": torch.zeros(5, 4)}, r"noisy_labels must be \[5\].*|weights must be \[5, 3\].*"),
    ({"noisy_labels": GOOD.labels[:5]}, r"noisy_labels must be \[6\].*got \[5\]"),
    ({"noisy_labels": GOOD.labels[:, None]}, r"noisy_labels must be \[6\].*got \[6, 1\]"),
    ({"noisy_labels": GOOD.labels.float()}, r"noisy_labels must be int64 or int32; got float32"),
    ({"weights": GOOD.weights[:, :2]}, r"weights must be \[6, 3\].*got \[6, 2\]"),
    ({"weights": GOOD.weights[0]}, r"weights must be \[6, 3\].*got \[3\]"),
    ({"weights": None}, r"parts must be \[4, 4\] when weights is None.*got \[3, 4, 4\]"),
    ({"parts": GOOD.parts[0]}, r"parts must be \[R, 4, 4\].*got \[4, 4\]"),
    ({"parts": GOOD.parts[:, :3, :3]}, r"parts must be \[R, 4, 4\].*got \[3, 3, 3\]"),
    ({"slack": GOOD.slack[:3]}, r"slack must be \[4, 4\]; got \[3, 4\]"),
    ({"class_weight": torch.zeros(3)}, r"class_weight must be \[4\].*got \[3\]"),
]


@pytest.mark.parametrize(("changes", "message"), CASES)
def test_shapes_and_label_types(changes, message):
    with pytest.raises(RuntimeError, match=f"forward_loss: ({message})"):
        call(**changes)


@pytest.mark.parametrize("name", ["weights", "parts", "slack", "class_weight"])
def test_types_of_the_transition(name):
    value = torch.tensor([0.5, 1.0, 2.0, 0.25]) if name == "class_weight" else getattr(GOOD, name)
    with pytest.raises(TypeError, match=f"{name} must be .*; got torch.int64"):
        call(**{name: value.long()})
    torch.testing.assert_close(call(**{name: value.double()}), call(**{name: value}))
    torch.testing.assert_close(
        call(**{name: value.bfloat16()}), call(**{name: value.bfloat16().float()})
    )


def test_options():
    for options, message in (
        ({"reduction": "avg"}, 'reduction must be "none", "mean" or "sum"; got \'avg\''),
        ({"smoothing": 1.0}, "smoothing must be at least 0 and less than 1; got 1.0"),
        ({"smoothing": -0.1}, "smoothing must be at least 0 and less than 1; got -0.1"),
        ({"smoothing": float("nan")}, "smoothing must be at least 0"),
        ({"class_weight": torch.zeros(4).requires_grad_()}, "class_weight must not require"),
    ):
        with pytest.raises(ValueError, match=message):
            call(**options)
    for options, message in (
        ({"importance": "both"}, 'importance must be "detached" or "attached"; got \'both\''),
        ({"max_importance": 0.0}, "max_importance must be positive or None; got 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            ptd_ext.reweight_loss(*GOOD.arguments, **options)


def test_devices():
    with pytest.raises(
        RuntimeError, match="weights must be on the device of logits, cpu; got meta"
    ):
        call(weights=GOOD.weights.to("meta"))


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("weights", (2, 1), -0.25, r"weights must be finite and >= 0; weights\[2, 1\] is -0.25"),
        ("weights", (0, 0), float("nan"), r"weights\[0, 0\] is nan"),
        ("parts", (1, 2, 3), float("inf"), r"parts\[1, 2, 3\] is inf"),
        ("slack", (3, 0), float("-inf"), r"slack must be finite; slack\[3, 0\] is -inf"),
        ("noisy_labels", (4,), 9, r"must be from 0 to 3, or ignore_index; noisy_labels\[4\] is 9"),
    ],
)
def test_validate(name, index, value, message):
    source = GOOD.labels if name == "noisy_labels" else getattr(GOOD, name)
    changed = source.clone()
    changed[index] = value
    with pytest.raises(ValueError, match=message):
        call(**{name: changed}, validate=True)
    call(validate=True)


def test_posteriors():
    with pytest.raises(RuntimeError, match=r"noisy_posterior: weights must be \[6, 3\]"):
        ptd_ext.ops.noisy_posterior(GOOD.logits, GOOD.weights[:2], GOOD.parts)
    with pytest.raises(RuntimeError, match=r"clean_posterior: noisy_labels must be \[6\]"):
        ptd_ext.clean_posterior(GOOD.logits, GOOD.labels[:2], GOOD.weights, GOOD.parts)
    with pytest.raises(RuntimeError, match=r"project_transition: matrix must be \[..., C, C\]"):
        ptd_ext.ops.project_transition(torch.zeros(3, 4))
    with pytest.raises(RuntimeError, match=r"matrix must be float32 or float64; got int64"):
        ptd_ext.ops.project_transition(torch.ones(3, 3, dtype=torch.int64))


def test_transition_matrix():
    weights, parts, slack = GOOD.transition
    for arguments, message in (
        ((weights, parts[0]), r"parts must be \[R, C, C\]; got \[4, 4\]"),
        ((None, parts), r"parts must be \[C, C\] when weights is None; got \[3, 4, 4\]"),
        ((weights[:, :2], parts), r"weights must be \[N, 3\].*got \[6, 2\]"),
        ((weights, parts, slack[0]), r"slack must be \[4, 4\]; got \[4\]"),
    ):
        with pytest.raises(ValueError, match=message):
            ptd_ext.ops.transition_matrix(*arguments)
    with pytest.raises(TypeError, match=r"parts must be float32, .*; got torch\.int64"):
        ptd_ext.ops.transition_matrix(weights, parts.long())


def test_no_parts():
    """Empty parts raise before a kernel reads them."""
    nothing = torch.empty(0, 40, 40)
    with pytest.raises(RuntimeError, match=r"parts must be \[R, 40, 40\].*got \[0, 40, 40\]"):
        ptd_ext.forward_loss(
            torch.zeros(10, 40), torch.zeros(10).long(), torch.empty(10, 0), nothing, torch.eye(40)
        )


def test_backward_operators_check_what_they_get():
    ops = torch.ops.ptd_ext
    tensors = (*GOOD.arguments, None)
    options = (0, 2.0, 0, -100, 1e-8)
    _, weight, saved = ops.transition_loss(*tensors, *options)
    needs = (True, False, False, False)
    for grad in (torch.ones(5), torch.ones(6, dtype=torch.float64), torch.ones(())):
        with pytest.raises(
            RuntimeError, match=r"grad_loss must be .* to match the other arguments; got"
        ):
            ops.transition_loss_backward(grad, *tensors, weight, saved, *options, *needs)
    with pytest.raises(RuntimeError, match=r"saved_column must be \[6, 4\].*; got \[3, 4\]"):
        ops.transition_loss_backward(torch.ones(6), *tensors, weight, saved[:3], *options, *needs)
    with pytest.raises(RuntimeError, match="importance and reduction must be 0, 1 or 2; got 7"):
        ops.transition_loss(*tensors, 7, *options[1:])
    with pytest.raises(RuntimeError, match="grad must have the shape and type of matrix"):
        ops.project_transition_backward(torch.ones(1, 1), torch.zeros(9, 9))
    with pytest.raises(RuntimeError, match=r"grad must be \[6, 4\].*; got \[2, 4\]"):
        ops.noisy_posterior_backward(torch.ones(2, 4), GOOD.logits, *GOOD.transition, saved, *needs)


@pytest.mark.parametrize(
    ("name", "saved_name"), [("project_transition", "matrix"), ("simplex_projection", "projected")]
)
def test_backward_operators_compare_devices(name, saved_name):
    op = getattr(torch.ops.ptd_ext, f"{name}_backward").default
    saved = torch.eye(3)
    message = f"{name}_backward: grad must be on the device of {saved_name}, cpu; got "
    with pytest.raises(RuntimeError, match=f"{message}meta"):
        op(saved.to("meta"), saved)
    # The kernel itself, which the dispatcher reaches if both are on GPUs.
    cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    with pytest.raises(RuntimeError, match=message):
        op.redispatch(cpu, saved.to("meta"), saved)


@pytest.mark.parametrize("name", ["logits", "noisy_labels", "weights", "parts", "slack"])
@pytest.mark.parametrize("convert", [Tensor.numpy, Tensor.tolist])
def test_arrays_and_lists(name, convert):
    arguments = dict(
        zip(("logits", "noisy_labels", "weights", "parts", "slack"), GOOD.arguments, strict=True)
    )
    value = convert(arguments[name])
    kind = "numpy.ndarray" if convert is Tensor.numpy else "builtins.list"
    message = rf"{name} must be a torch\.Tensor; got {kind}: pass torch\.as_tensor\({name}\)"
    functions = [ptd_ext.forward_loss, ptd_ext.reweight_loss, ptd_ext.clean_posterior]
    for function in functions:
        with pytest.raises(TypeError, match=message):
            function(**arguments | {name: value})
    del arguments["noisy_labels"]
    if name != "noisy_labels":
        with pytest.raises(TypeError, match=message):
            ptd_ext.ops.noisy_posterior(**arguments | {name: value})


def test_arrays_elsewhere():
    array = torch.eye(3).numpy()
    for function, name in (
        (ptd_ext.ops.project_transition, "matrix"),
        (ptd_ext.ops.simplex_projection, "x"),
        (ptd_ext.ops.prepare_parts, "parts"),
        (ptd_ext.ForwardLoss, "parts"),
        (lambda a: ptd_ext.ops.simplex_weights(a, torch.eye(3)), "gram"),
        (lambda a: ptd_ext.ops.transition_matrix(None, a), "parts"),
        (lambda a: call(class_weight=a), "class_weight"),
    ):
        with pytest.raises(TypeError, match=rf"{name} must be a torch\.Tensor; got numpy"):
            function(array)


@pytest.mark.parametrize("function", [call, ptd_ext.ops.prepare_parts, ptd_ext.ForwardLoss])
def test_parts_without_dimensions(function):
    with pytest.raises(ValueError, match=r"parts must be .*; got \[\]"):
        function(parts=torch.tensor(1.0))


@pytest.mark.parametrize("name", ["weights", "parts", "slack", "logits"])
def test_types_of_eight_bits(name):
    narrow = getattr(GOOD, name).to(torch.float8_e4m3fn)
    with pytest.raises((TypeError, RuntimeError), match=rf"{name} must be .*; got \S*[fF]loat8"):
        call(**{name: narrow})
    if name != "logits":
        matrix = dict(zip(("weights", "parts", "slack"), GOOD.transition, strict=True))
        with pytest.raises(TypeError, match=f"{name} must be float32.*; got torch.float8"):
            ptd_ext.ops.transition_matrix(**matrix | {name: narrow})


@pytest.mark.parametrize("name", ["weights", "parts"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_do_not_sum_to_one(name, dtype):
    value = getattr(GOOD, name)
    about_3 = r"(3|3\.0\d*|2\.99\d*)\."  # entries of bfloat16 have three digits
    call(**{name: value.to(dtype)}, validate=True)
    with pytest.raises(
        ValueError, match=rf"{name} must have rows that sum to 1; .* sums to {about_3}$"
    ):
        call(**{name: (3 * value).to(dtype)}, validate=True)


@pytest.mark.parametrize("name", ["logits", "weights", "parts", "slack"])
@pytest.mark.parametrize("kind", ["to_sparse", "to_mkldnn", "quantized"])
def test_tensors_that_are_not_dense(name, kind):
    dense = getattr(GOOD, name)
    if kind == "to_mkldnn" and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no MKL-DNN")
    if kind == "quantized":
        other = torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8)
    else:
        other = getattr(dense, kind)()
    with pytest.raises(TypeError, match=rf"^{name} must be a dense tensor; got .*: pass {name}\."):
        call(**{name: other})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_that_are_close_to_one(dtype):
    """Estimates are off by rounding, so rows need to sum to one within 1e-3."""
    row = torch.full((1, 4), 0.25, dtype=dtype)
    checks.validate_batch(row + 0.24e-3, torch.eye(4).expand(4, 4, 4), None)
    with pytest.raises(ValueError, match=r"weights\[0\] sums to 1\.00104"):
        checks.validate_batch(row + 0.26e-3, torch.eye(4).expand(4, 4, 4), None)
