"""Promise 2: simulation-based calibration of the exact parts, 99 draws a simulation, 20 bins (see `tests/ranks.py`)."""

import jax
from account import Config, Outcome, keep
from ranks import LIMIT, filter_chi_square, posterior_chi_square, sampler_chi_square, simulate_worlds

from mrgpssm.rollout import SCHEMES


def measure(config: Config) -> Outcome:
    """Prior functions and linear states by three samplers, functions given a path, states given outputs."""
    jax.config.update("jax_enable_x64", True)
    count, seed, found = config["simulations"], config["seed"], {}
    functions, linear = simulate_worlds(count, seed), simulate_worlds(count, seed + 1, linear=True)
    one_step = simulate_worlds(count, seed + 2, steps=1)
    for index, (name, scheme) in enumerate(SCHEMES.items()):
        worlds = one_step if name == "marginal" else functions  # it is exact for one step only, and does not claim more
        found[f"prior functions, {name}"] = sampler_chi_square(scheme, worlds, seed + 10 + index)
        found[f"linear states, {name}"] = sampler_chi_square(scheme, linear, seed + 20 + index)
    found["functions given a path"] = posterior_chi_square(functions, seed + 30)
    found["linear states given outputs, warm-up"] = filter_chi_square(count, seed + 40, config["particles"])
    worst = max(found, key=lambda name: found[name])
    each = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
    met = found[worst] < LIMIT
    return Outcome(f"largest chi-square {found[worst]:.1f} of {len(found)} ({each})", met, "" if met else worst, found)


if __name__ == "__main__":
    keep(measure, {"simulations": 1000, "seed": 0, "particles": 2000, "draws": 99, "bins": 20}, {"simulations": 200})
