"""Bugs that code of this family has had, as changes to our sources: `trust/mutation.py` plants them one at a time.

The maths stands twice, in JAX and in the native kernels, so most bugs have several places. `notice` are the quick tests
that must fail, without their folders; `wide` says in which of the two passes (float64 on or off) they run.
"""

from typing import NamedTuple

BUGS = (
    "variance for standard deviation in the transition noise",
    "one noise draw shared by all dimensions",
    "sum instead of mean over samples",
    "missing T/B scale",
    "a key reused at every step",
    "KL sign or half",
    "jitter on one path only",
    "q's factor not lower-triangular",
    "lengthscale squared twice",
    "u off by one",
    "resolution off by one",
    "residual that includes its own component",
    "steps that count rows instead of time",
    "columns by position instead of by name",
    "a lost task counted as done",
    "a link that is followed, or a file that is emptied",
    "bands from a few draws instead of their law",
    "noise that depends on what else is drawn",
    "KL of x_0 counted once for many sequences",
    "rows of a sequence that never score",
    "left-out data that reach a fold",
)


class Mutant(NamedTuple):
    """One planted bug."""

    bug: int  # place in BUGS
    file: str  # under src/mrgpssm
    old: str
    new: str
    notice: tuple[str, ...]
    wide: bool = True


STEP = ("test_oracles.py::test_kernel_conditional_kl_and_step",)
BOUND = ("test_oracles.py::test_bound_with_given_noise",)
KERNEL = ("test_native.py::test_values_and_gradients_are_the_referees",)
WALK = ("test_walks.py::test_a_sweep_is_what_the_oracle_walks",)
FREE = ("test_walks.py::test_a_free_run_is_what_the_oracle_walks",)
CASCADE = ("test_cascade.py::test_a_free_run_is_what_the_oracle_walks",)
DRIVEN = ("test_cascade.py::test_windows_see_the_inputs_and_the_cached_states_of_their_rows",)
WARM = ("test_walks.py::test_a_warm_up_without_measurements_spreads_as_the_linear_system_does",)
WINDOWS = ("test_training.py::test_windows_compare_each_state_with_the_output_one_stride_later",)
NOISE = ("test_walks.py::test_process_noise_is_independent_over_steps_samples_and_dimensions",)
KEYS = ("test_walks.py::test_every_step_has_a_key_of_its_own_and_the_residual_of_the_others",)
RANK = ("test_training.py::test_the_bound_that_ranks_restarts_is_the_bound_of_the_whole_series",)
GAPS = ("test_gaps.py::test_gaps_are_cut_into_equal_steps_of_at_most_one_sample",)
LENGTHS = ("test_gaps.py::test_steps_of_any_length_are_the_same_everywhere",)
TIMED = ("test_gaps.py::test_a_component_takes_the_steps_that_time_asks_for",)
IN_C = ("test_gaps.py::test_the_c_file_advances_over_any_time",)
WARM_CLOCK = ("test_gaps.py::test_a_warm_up_takes_steps_of_their_true_length",)
MEAN = ("test_report.py::test_drift_and_mean_path_are_those_of_numpy_loops",)
NAMES = ("test_names.py::test_simulate_finds_columns_by_name_and_array_columns_by_position",)
BANDS = ("test_bands.py::test_bands_hold_what_they_say_where_the_model_is_right",)
PLACE = ("test_bands.py::test_nothing_depends_on_later_rows_on_chunks_or_on_other_sequences",)
EVIDENCE = ("test_evidence.py",)
ROWS = ("test_data.py::test_every_row_counts_the_same_in_expectation",)
LEAKS = ("test_leaks.py",)
BLEND = ("test_blend.py::test_poison_in_what_a_fold_leaves_out_changes_nothing_in_it",)
JITTER = ("test_linalg.py::test_the_jitter_grows_until_a_factor_exists_and_a_hopeless_matrix_is_nan",)
LOST = ("test_sweep.py::test_anything_but_a_finished_future_is_lost_and_records_are_counted",)
LINK = ("test_storage.py::test_a_link_in_place_of_the_lock_leaves_what_it_points_to_alone",)

MUTANTS = (
    Mutant(0, "rollout/base.py", "jnp.sqrt(variance) * epsilon", "variance * epsilon", BOUND),
    Mutant(0, "rollout/analytic.py", "return mean + jnp.sqrt(variance) * epsilon", "return mean + variance * epsilon",
           ("test_theorems.py::test_analytic_draws_from_the_moments_it_reports",)),
    Mutant(0, "native/rollout.cc", "root_of<T>(spread) * noise[q];", "spread * noise[q];", KERNEL),
    Mutant(0, "model/transition.py", "positive(self.raw_process_noise) ** 2", "positive(self.raw_process_noise)", STEP),
    Mutant(0, "rollout/filtering.py", "mean + jnp.sqrt(spread + wider) * noise", "mean + (spread + wider) * noise", WARM, False),
    Mutant(0, "arrays/ensemble.py", "xp.sqrt(variance)[..., None, :] * noise", "variance[..., None, :] * noise",
           ("test_estimator.py::test_warm_up_is_a_kalman_filter_where_the_model_is_linear",), False),
    Mutant(0, "arrays/ensemble.py", "xp.sqrt(variance[..., None] / total)", "(variance[..., None] / total)",
           ("test_stepper.py::test_the_correction_is_the_kalman_update_with_the_samples_own_moments",), False),
    Mutant(1, "rollout/base.py", "jax.random.normal(process, (windows, samples, length, d), dtype)",
           "jnp.repeat(jax.random.normal(process, (windows, samples, length, 1), dtype), d, axis=-1)",
           ("test_theorems.py::test_noise_is_independent_over_everything",)),
    Mutant(1, "rollout/base.py", "jax.random.normal(jax.random.fold_in(root, t), shape, dtype)",
           "jnp.broadcast_to(jax.random.normal(jax.random.fold_in(root, t), (shape[0], 1), dtype), shape)", NOISE, False),
    Mutant(1, "rollout/base.py", "jnp.sqrt(variance) * epsilon", "jnp.sqrt(variance) * epsilon[0]", BOUND),
    Mutant(1, "native/rollout.cc",
           "gather(in.epsilon, s.steps * e, t * e + d, noise);\n        for (int q = 0; q < NV; ++q) {\n          Vec<T> drift",
           "gather(in.epsilon, s.steps * e, t * e, noise);\n        for (int q = 0; q < NV; ++q) {\n          Vec<T> drift",
           KERNEL),
    Mutant(1, "rollout/filtering.py", "jax.random.normal(jax.random.fold_in(key_x, index), mean.shape, mean.dtype)",
           "jax.random.normal(jax.random.fold_in(key_x, index), (mean.shape[0], 1), mean.dtype)", WARM, False),
    Mutant(1, "rollout/filtering.py", "jax.random.fold_in(key_x, index)", "key_x", WARM, False),
    Mutant(2, "elbo.py", "jnp.mean(density, axis=1)", "jnp.sum(density, axis=1)", BOUND),
    Mutant(3, "elbo.py", "total / (n * (t - buffer))", "1.0", BOUND),
    Mutant(3, "elbo.py", "total / (n * (t - buffer))", "total / (n * t)", BOUND),
    Mutant(3, "training/windows.py", "/ (resolution.astype(dtype) * window * n * rest)", "/ (window * n * rest)", ROWS),
    Mutant(3, "training/step.py", ".astype(unit.dtype) / unit\n", ".astype(unit.dtype)\n", WINDOWS),
    Mutant(4, "rollout/base.py", "jax.random.normal(jax.random.fold_in(root, t), shape, dtype)",
           "jax.random.normal(root, shape, dtype)", NOISE, False),
    Mutant(4, "training/backfit.py", "jax.random.fold_in(root, serial + i)", "jax.random.fold_in(root, serial)", KEYS, False),
    Mutant(4, "training/backfit.py", "serial = here.turn * settings.steps + chunk", "serial = chunk", KEYS, False),
    Mutant(4, "prediction/run.py", "keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.fold_in(key, _WARMUP), still)",
           "keys = jnp.broadcast_to(jax.random.fold_in(key, _WARMUP), still.shape)", WARM, False),
    Mutant(4, "prediction/run.py", "start = jnp.asarray(first * every, jnp.int32)", "start = jnp.asarray(0, jnp.int32)",
           ("test_training.py::test_free_runs_do_not_depend_on_chunks_nor_on_other_sequences",)),
    Mutant(5, "arrays/linalg.py", "return 0.5 * (jnp.sum(factor**2)", "return (jnp.sum(factor**2)", STEP),
    Mutant(5, "elbo.py", "self.kl_initial - self.kl_inducing", "self.kl_initial + self.kl_inducing", BOUND),
    Mutant(5, "training/sweep.py", "* jnp.sum(initial) - jnp.sum(inducing)", "* jnp.sum(initial) + jnp.sum(inducing)", RANK),
    Mutant(5, "training/sweep.py", "* jnp.sum(initial) - jnp.sum(inducing)", "* jnp.sum(initial) - 0.5 * jnp.sum(inducing)", RANK),
    Mutant(6, "gp/sparse.py", "variance=(rate * amplitude) ** 2 * (1 + jitter)",
           "variance=jnp.broadcast_to((rate * amplitude) ** 2, jitter.shape)",
           ("test_limits.py::test_escalated_jitter_stands_on_every_path",)),
    Mutant(6, "native/factor.cc", "jitters->typed_data()[index] = jitter;",
           "jitters->typed_data()[index] = bounds.typed_data()[2 * index];", JITTER),
    Mutant(6, "arrays/linalg.py", "row, jnp.zeros_like(matrix)), jitter\n", "row, jnp.zeros_like(matrix)), 0 * jitter\n", JITTER),
    Mutant(6, "native/factor.cc", "matrix[i] + (i / m == i % m ? jitter : T(0))", "matrix[i]",
           ("test_linalg.py::test_values_and_gradients_are_those_of_cholesky_and_solve",)),
    Mutant(7, "arrays/params.py", "return jnp.tril(raw, -1) + diagonal[..., None]",
           "return raw * (1 - eye) + diagonal[..., None]", STEP),
    Mutant(7, "gp/sparse.py", "return self.mean, lower_triangular(self.raw_factor)", "return self.mean, self.raw_factor", BOUND),
    Mutant(7, "model/initial.py", "return Gaussian(self.mean, lower_triangular(self.raw_factor))",
           "return Gaussian(self.mean, self.raw_factor)", BOUND),
    Mutant(8, "gp/sparse.py", "relevance = 1 / self.kernel.lengthscales**2", "relevance = 1 / self.kernel.lengthscales**4", STEP),
    Mutant(8, "gp/kernels.py", "((x - z) / self.lengthscales) ** 2", "((x - z) / self.lengthscales**2) ** 2", STEP),
    Mutant(8, "gp/sparse.py", "terms = [self.relevance[i] * (", "terms = [self.relevance[i] ** 2 * (", STEP),
    Mutant(8, "native/rollout.cc", "std::sqrt(in.relevance[f * e + c] * T(0.5))", "in.relevance[f * e + c] * T(0.5)", KERNEL),
    Mutant(9, "training/step.py", "Windows(driven[:, :-1], target[:, 1:]", "Windows(driven[:, 1:], target[:, 1:]", WINDOWS),
    Mutant(9, "training/step.py", "Windows(driven[:, :-1], target[:, 1:]", "Windows(driven[:, :-1], target[:, :-1]", WINDOWS),
    Mutant(9, "training/sweep.py", "[member_inputs(series, task, rows), *", "[member_inputs(series, task, following), *", WALK),
    Mutant(9, "prediction/run.py", "return inputs[known], np.clip", "return inputs[following], np.clip", FREE),
    Mutant(9, "rollout/walk.py", "departures(here.states, states)\n", "states\n", FREE),
    Mutant(9, "rollout/mean.py", "return x + h * self.drift(x, u), x", "return (x + h * self.drift(x, u),) * 2", MEAN, False),
    Mutant(9, "rollout/batch.py", "[starts[:, :, None], states[:, :, :-1]]", "[states[:, :, :1], states[:, :, 1:]]", WALK),
    Mutant(9, "prediction/run.py", 'side="right") - 1', 'side="left")', CASCADE),
    Mutant(9, "training/step.py", "states[rows] for states in", "states[rows + 1] for states in", DRIVEN, False),
    Mutant(9, "spec/cascade.py", "if resolution > resolutions[part]", "if resolution < resolutions[part]", CASCADE),
    Mutant(9, "native/rollout.cc", "const T h = in.h[window() * s.steps + t];\n      rescale",
           "const T h = in.h[window() * s.steps + (t ? t - 1 : 0)];\n      rescale", KERNEL),
    Mutant(10, "training/windows.py", "+ resolution * jnp.arange(buffer + window + 1, dtype=jnp.int32)",
           "+ (resolution + 1) * jnp.arange(buffer + window + 1, dtype=jnp.int32)", WINDOWS),
    Mutant(10, "training/windows.py", "lengths - 1 - (buffer + 1) * resolution", "lengths - 1 - buffer * resolution",
           ("test_data.py",)),
    Mutant(10, "training/windows.py", "lengths - 1 - (buffer + 1) * resolution", "lengths - (buffer + 1) * resolution",
           ("test_data.py",)),
    Mutant(10, "model/ssm.py", "strides / unit for unit", "strides / (unit + 1) for unit", BOUND),
    Mutant(10, "training/sweep.py", "unit = jnp.asarray(resolution, series.clock.dtype)",
           "unit = jnp.asarray(resolution + 1, series.clock.dtype)", WALK),
    Mutant(10, "training/step.py", "unit, gaps = phase.resolution.astype(series.clock.dtype)",
           "unit, gaps = (phase.resolution + 1).astype(series.clock.dtype)", WINDOWS),
    Mutant(10, "prediction/run.py", "ssm.time_units[index], substeps[index]", "ssm.time_units[index] + 1, substeps[index]", FREE),
    Mutant(10, "rollout/filtering.py", "driven, gap / ssm.time_units[index])", "driven, gap / (ssm.time_units[index] + 1))", WARM, False),
    Mutant(11, "training/backfit.py", "in enumerate(caches) if index not in team]", "in enumerate(caches)]",
           ("test_training.py::test_a_residual_never_includes_its_own_component",)),
    Mutant(11, "training/backfit.py", "partial_output(here.state.caches, team),\n",
           "partial_output(here.state.caches, team) + here.state.caches[team[0]].outputs,\n", KEYS, False),
    Mutant(12, "arrays/gaps.py", "counts = np.maximum(np.ceil(gaps - JITTER), 1).astype(int)", "counts = np.ones(len(gaps), int)", GAPS, False),
    Mutant(12, "arrays/gaps.py", "sizes = np.minimum(gaps / counts, 1.0)", "sizes = np.ones(len(gaps))", GAPS, False),
    Mutant(12, "prediction/run.py", "gaps = clock[following] - clock[known]", "gaps = (following - known).astype(float)", FREE),
    Mutant(12, "training/sweep.py", "gaps = series.clock.between(rows, following)",
           "gaps = jnp.ones(rows.shape, series.clock.dtype)", WALK),
    Mutant(12, "training/step.py", "series.clock.between(rows[:, :-1], rows[:, 1:])",
           "(rows[:, 1:] - rows[:, :-1]).astype(series.clock.dtype)",
           ("test_gaps.py::test_windows_take_strides_of_their_true_length",), False),
    Mutant(12, "training/series.py", "passed = whole + (self.fraction[after] - self.fraction[before])", "passed = whole",
           ("test_gaps.py::test_the_training_clock_is_exact_after_a_million_rows",), False),
    Mutant(12, "training/planning.py", "filled = [fill(s) for s in", "filled = [fill(type(s)(s.inputs, s.outputs, s.dt)) for s in",
           ("test_gaps.py::test_training_sweeps_walk_over_a_gap",), False),
    Mutant(12, "prediction/mean.py", "inputs, filled.steps)", "inputs, np.ones(len(inputs)))", TIMED, False),
    Mutant(12, "prediction/predict.py", "np.pad(filled.steps, idle[0])", "np.pad(np.ones(len(outputs)), idle[0])", WARM_CLOCK, False),
    Mutant(12, "runtime/walk.py", "self.states, drive, samples, self._noise", "self.states, drive, 1.0, self._noise", LENGTHS, False),
    Mutant(12, "runtime/walk.py", "mean_step(self.states, drive, samples)", "mean_step(self.states, drive, 1.0)", LENGTHS, False),
    Mutant(12, "runtime/stepper.py", "np.array([elapsed], float), before)\n", "np.ones(1), before)\n", LENGTHS, False),
    Mutant(12, "arrays/drive.py", "np.append(memory.step, steps[:-1])", "np.ones(len(steps))",
           ("test_filters.py::test_averages_are_their_closed_form",), False),
    Mutant(12, "export/mean_model.c.in", "x[d] + samples * h[c] * drift", "x[d] + (samples > 0.0) * h[c] * drift", IN_C, False),
    Mutant(12, "export/c99.py", "fmax(ceil($elapsed - $jitter), 1.0)", "1.0", IN_C, False),
    Mutant(13, "data/columns.py", "return table.frame.iloc[:, place]", "return table.frame.iloc[:, 0]", NAMES, False),
    Mutant(13, "data/collect.py", "inputs = frame if input_names else", "inputs = frame.to_numpy()[:, :2] if input_names else",
           NAMES, False),
    Mutant(13, "data/collect.py", "columns[kind] = [have.index(name) for name in names]",
           "columns[kind] = list(range(len(names)))", NAMES, False),
    Mutant(14, "sweep/cluster.py", 'if future.status == "finished":', 'if future.status != "error":', LOST, False),
    Mutant(14, "sweep/engine.py", "still = without_record(config.directory, runs)", "still = []", LOST, False),
    Mutant(14, "paper/run.py", "if not is_finished(piece, records)]", "if piece.name in reasons and not piece]",
           ("test_reproduce_records.py::test_a_piece_whose_task_is_lost_is_left",), False),
    Mutant(14, "sweep/runs.py", "return record if record is not None and _is_complete(record, run) else None", "return record",
           ("test_sweep.py::test_a_record_that_is_not_whole_or_not_its_own_is_made_again",), False),
    Mutant(14, "sweep/tune.py", "if missing > 0:", "if missing > config.trials:",
           ("test_tune.py::test_trials_that_no_worker_ended_are_missed",), False),
    Mutant(15, "file/regular.py", '_WRITE = os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)', "_WRITE = os.O_CREAT", LINK, False),
    Mutant(15, "file/regular.py", '"lock": (os.O_RDWR | _WRITE, "r+b")', '"lock": (os.O_RDWR | os.O_TRUNC | _WRITE, "r+b")',
           ("test_storage.py::test_a_lock_is_held_on_a_file_as_it_is",), False),
    Mutant(15, "file/atomic.py", "if path.is_symlink():", "if not path.exists():",
           ("test_storage.py::test_a_link_in_place_of_the_checkpoints_is_refused",), False),
    Mutant(15, "file/regular.py", "if not stat.S_ISREG(os.fstat(handle).st_mode):", "if False:",
           ("test_storage.py::test_what_is_no_regular_file_is_refused_without_waiting",), False),
    Mutant(16, "runtime/output.py", "found = mixture_quantiles(self.samples, self.noise_sd, np.array(list(levels), float))",
           "found = np.quantile(self.draws(np.arange(len(self.std)), 0), list(levels), axis=0)", BANDS, False),
    Mutant(16, "runtime/output.py", "found = np.stack([self.mean + self.scale * self.noise.quantile(level) for level in levels])",
           "found = np.quantile(self.draws(np.arange(len(self.std)), 0), list(levels), axis=0)",
           ("test_bands.py::test_bands_of_a_learned_law_are_quantiles_of_students_t",), False),
    Mutant(16, "runtime/distributions/mixture.py", "level = known + (share - shown) / count", "level = known + 0 * share", BANDS, False),
    Mutant(17, "runtime/output.py", "row = fold_in(root, rows)", "row = fold_in(root, 0 * rows)",
           ("test_bands.py::test_noise_has_a_number_for_every_row_output_and_sample_and_the_runtime_has_the_same",), False),
    Mutant(17, "runtime/output.py", 'epsilon = normal(key, (count,), "float64").transpose(2, 0, 1)',
           "epsilon = np.random.default_rng(seed).standard_normal(self.samples.shape)", PLACE, False),
    Mutant(17, "runtime/output.py", "uniform = uniform_pair(key, count)",
           "uniform = np.random.default_rng(seed).uniform(size=(2, len(rows), self.std.shape[1], count))", PLACE, False),
    Mutant(18, "training/sweep.py", "-jnp.sum(task.training, dtype=initial.dtype) * jnp.sum(initial)", "-jnp.sum(initial)", EVIDENCE),
    Mutant(18, "training/sweep.py", "-jnp.sum(task.training, dtype=initial.dtype) * jnp.sum(initial)",
           "-task.training.shape[0] * jnp.sum(initial)", EVIDENCE),
    Mutant(18, "elbo.py", "kl_initial = sequences * sum(", "kl_initial = sum(", EVIDENCE),
    Mutant(18, "training/step.py", "jnp.sum(own.lengths > 1)", "jnp.sum(series.lengths > 1)", EVIDENCE),
    Mutant(19, "training/windows.py", "* (1 - scored.astype(dtype) / window)", "* (scored > 0)", ROWS, False),
    Mutant(19, "training/windows.py", "short - resolution, 1 + place", "0 * short, 1 + place", ROWS, False),
    Mutant(20, "training/planning.py", "whole.refit(trained_on(driven, spec.bands.folds, k))", "whole.refit(driven)", LEAKS, False),
    Mutant(20, "training/members.py", "jnp.where(task.training, series.lengths, 0)", "series.lengths", LEAKS, False),
    Mutant(20, "blend/parts.py", "trained_on(training, count, k)", "training", BLEND, False),
)  # fmt: skip
