"""Mutants that no test can see: file, part of the line, what it becomes (or ""), and the reason."""

SAME = "two numbers that are equal: either is taken"
DIVISION = "how work is divided among threads"

EQUIVALENT: list[tuple[str, str, str, str]] = [
    ("math/host_device.h", "cut = x > most", " >= ", SAME),
    ("math/host_device.h", "return cut < -most", " <= ", SAME),
    ("math/simplex.h", "return below < T(kFarBelow)", " <= ", SAME),
    (
        "cpu/column/loss_kernels.h",
        "grad = q > most ? g : grad",
        " >= ",
        "any largest class will do",
    ),
    ("cpu/kernels.h", "batch.parts + 16 + 1", "+ 0", "room for more lanes than the portable build"),
    ("cpu/simplex/ldl.h", "store(scaled + k * lanes", " <= ", "a number that nothing reads"),
    ("cpu/inputs.h", "if (count_ == 1) return body", " != ", "one range instead of several"),
    ("cpu/inputs.h", "const int64_t blocks = (samples + block", "- 0", DIVISION),
    ("cpu/simplex/simplex_least_squares_cpu.cpp", "const Ranges ranges(", "", DIVISION),
    ("cpu/matrix/noisy_posterior_cpu.cpp", "const Ranges ranges(", "", DIVISION),
    ("matrix/posterior_with_slack.cu", "uniform[n] = uniform_mass", "", "all lanes have the sum"),
    (
        "simplex/simplex_weights.cu",
        "const bool stalled = risen",
        " < ",
        "a step of length zero leads nowhere, however often it is tried",
    ),
    ("simplex/row_threads.cuh", "index < kShortRowEntries", " <= ", "beyond the length of the row"),
    ("common/reductions.cuh", "float max_of(float a, float b)", "", "a name; double serves float"),
    ("noise/_logits.py", "rows.split(max(1, 4 * _BLOCK", "", "how many rows are read at once"),
    ("noise/generate.py", ".minimum(total - 1)", "- 0", "uniform numbers are less than one"),
    ("nmf/_data.py", "_release(self._data, slice(", "", "pages that are read again if needed"),
    ("nmf/_fit.py", "worse = ~(", " < ", "a step that gains nothing, taken or not"),
    ("transition/anchors.py", "if self._held > _SPARE", " >= ", "when the least are dropped"),
    ("utils/params.py", "random_state.randint(2**31 - 1)", "", "one seed more or less of 2³¹"),
    ("utils/bounded_files.py", "file.readline(line_limit + 1)", " 2)", "one byte more is read"),
    ("methods/small_loss.py", "argsort(stable=True)", "", "on a CPU torch's sort is stable"),
    (
        "transition/nearest.py",
        "rows = (similar.amax(1) > best",
        " >= ",
        "any of several neighbours that are equally near",
    ),
    (
        "report/matrices.py",
        "heat_picture(np.sqrt(np.clip(transition, 0, 1)))",
        " 2)",
        "heat_picture clips at one",
    ),
    (
        "without_training/confident_counts.py",
        "joint / rows.clamp(min=1e-30), torch.eye(",
        "0",
        "a quotient that torch.where does not take",
    ),
    ("label_issues/samples.py", "if times > 1:", " >= ", "a picture resized to its own size"),
    (
        "without_training/pred_probs.py",
        "set(labels) <= set(names)",
        " < ",
        "equal sets are matched by value below",
    ),
]
