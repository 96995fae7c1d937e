"""docs/scale.md: what a year of data, a thousand outputs and a hundred GPUs would take, from the records."""

from string import Template

from material import find, text

from mrgpssm.file.record import age_note

ROWS, OUTPUTS, GPUS, INPUTS = 315_360_000, 1000, 100, 4
GPU_GB = 141.0
RECORDS = ("reproduce/paper/engine/mr-gpssm-r-30-5-1", "performance/h200", "performance/two-cores")


def figures() -> dict[str, str]:
    """Everything the page says in numbers, and how old its records are."""
    engine, h200, cores = map(find, RECORDS)
    options, seconds = engine["config"]["options"], engine["seconds"]
    members, rows, parts = len(engine["members"]["output"]), engine["data"]["rows"], len(options["resolutions"])
    steps, turns = options["cycles"] * options["steps"] * parts, options["cycles"] * parts
    step = seconds["step_ms"] / 1e3
    sweep = (seconds["fit"] - steps * step) / (turns + parts)  # bounds and compilation included: an upper bound
    rate = members * options["samples"] * rows / sweep
    each = OUTPUTS // GPUS
    per_sweep = each * options["samples"] * ROWS / rate
    latent = options["latent_dim"]
    cache = ROWS * (1 + 2 * latent) * 4 / 1e9
    points = options["windows"] * options["window"]
    walk = h200["free_run"][0]["us_per_step"]
    gradient, whole = steps * step, steps * step + per_sweep * (turns + parts)
    series = ROWS * (INPUTS + each + 1) * 4 / 1e9
    thin = 100
    cpu_ms = next(s for s in cores["steps"] if s["dtype"] == "float32")["times"]["ours"]["ms"]
    cpu_walk = ROWS * cores["free_run"][0]["us_per_step"] / 1e6
    cpu = OUTPUTS * (steps * cpu_ms / 1e3 + cpu_walk * (turns + parts))
    return {
        "members": f"{members}", "engine_rows": f"{rows:,}", "fit": f"{seconds['fit']:.0f}", "steps": f"{steps:,}",
        "step_ms": f"{1e3 * step:.1f}", "gradient": f"{gradient:.0f}", "sweep": f"{sweep:.2f}",
        "rate": f"{rate / 1e9:.1f}", "each": f"{each}", "rows": f"{ROWS / 1e6:.0f}", "per_sweep": f"{per_sweep:.0f}",
        "sweeps": f"{per_sweep * (turns + parts) / 60:.0f}", "turns": f"{turns + parts}",
        "whole": f"{whole / 60:.0f}", "gpu_hours": f"{GPUS * whole / 3600:.0f}",
        "one_gpu_days": f"{GPUS * whole / 86400:.1f}", "cache": f"{cache:.1f}", "parts": f"{parts}",
        "caches": f"{cache * parts * each:.0f}", "series": f"{series:.0f}", "gpu_gb": f"{GPU_GB:.0f}",
        "fits": f"{int((GPU_GB - series) // (cache * parts))}",
        "all_outputs": f"{ROWS * OUTPUTS * 4 / 1e12:.2f}", "host": f"{2 * ROWS * (INPUTS + each) * 8 / 1e9:.0f}",
        "walk": f"{walk:.2f}", "one_walk": f"{ROWS * walk / 1e6:.0f}", "epoch": f"{ROWS / points / 1e3:.0f},000",
        "epoch_minutes": f"{ROWS / points * step / 60:.0f}", "points": f"{points:,}",
        "thin_rows": f"{ROWS / thin / 1e6:.1f}", "thin_caches": f"{cache * parts * each / thin:.1f}",
        "thin_minutes": f"{(gradient + per_sweep / thin * (turns + parts)) / 60:.0f}",
        "cpu_step": f"{cpu_ms:.0f}", "cpu_years": f"{cpu / (365 * 86400):.1f}",
        "age": age_note((engine, h200, cores)),
        "slow_cache": f"{cache * each * (1 + 1 / 5 + 1 / 30):.0f}",
    }  # fmt: skip


def make_page() -> str:
    """The template, filled."""
    return Template(text("scale.md.in")).substitute(figures()) + "\n"
