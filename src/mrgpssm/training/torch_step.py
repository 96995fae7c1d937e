"""The same gradient in PyTorch, eagerly: what a research script would do. Optional; only the benchmark uses it."""

import importlib.util
from collections.abc import Callable
from typing import Any


def available() -> bool:
    """Whether PyTorch is installed."""
    return importlib.util.find_spec("torch") is not None


def gradient(size: dict[str, int], dtype: str) -> Callable[[], Any]:
    """One bound and its gradient at the starting values of the stable preset; call it to run it once."""
    import torch  # pyright: ignore[reportMissingImports]

    torch.manual_seed(0)
    real = getattr(torch, dtype)
    n, t, s, m, d, u = (size[key] for key in ("windows", "steps", "samples", "inducing", "latent", "inputs"))
    inputs, outputs = torch.randn(n, t, u, dtype=real), torch.randn(n, t, dtype=real)
    start = {
        "A": -0.1 * torch.eye(d),
        "B": torch.zeros(d, u),
        "b": torch.zeros(d),
        "raw_amplitude": torch.tensor(-2.25),
        "raw_lengthscales": torch.full((d + u,), 1.85),
        "centres": 4 * torch.rand(d, m, d + u) - 2,
        "mean": 0.05 * torch.randn(d, m),
        "factor": 0.1 * torch.eye(m).repeat(d, 1, 1),
        "raw_process": torch.full((d,), -6.2),
        "raw_noise": torch.tensor(-1.05),
        "x0": torch.zeros(d),
        "raw_x0": torch.full((d,), -2.25),
    }
    p = {name: value.to(real).requires_grad_() for name, value in start.items()}
    softplus, eye = torch.nn.functional.softplus, torch.eye(m, dtype=real)

    def bound():
        amplitude, ell = softplus(p["raw_amplitude"]), softplus(p["raw_lengthscales"])
        scaled = p["centres"] / ell
        K = torch.exp(-0.5 * torch.cdist(scaled, scaled) ** 2) + 1e-5 * eye
        whitener = amplitude * torch.linalg.solve_triangular(torch.linalg.cholesky(K), eye.expand(d, m, m), upper=False)
        factor = torch.tril(p["factor"])
        v = p["mean"] + torch.einsum("dij,nsdj->nsdi", factor, torch.randn(n, s, d, m, dtype=real))
        x = p["x0"] + softplus(p["raw_x0"]) * torch.randn(n, s, d, dtype=real)
        Q, omega = softplus(p["raw_process"]) ** 2, softplus(p["raw_noise"]) ** 2
        total = 0.0
        for i in range(t):
            drive = inputs[:, i] @ p["B"].T + p["b"]
            far = (((inputs[:, None, None, i] - p["centres"][None, :, :, d:]) / ell[d:]) ** 2).sum(-1)
            near = (((x[:, :, None, None] - p["centres"][:, :, :d]) / ell[:d]) ** 2).sum(-1)
            a = torch.einsum("dij,nsdj->nsdi", whitener, torch.exp(-0.5 * (near + far[:, None])))
            sigma = amplitude**2 * (1 + 1e-5) - (a**2).sum(-1)
            mean = x + x @ p["A"].T + drive[:, None] + (a * v).sum(-1)
            x = mean + torch.sqrt(torch.clamp(sigma, min=0) + Q) * torch.randn(n, s, d, dtype=real)
            if i >= t // 6:
                total = total - 0.5 * ((outputs[:, i, None] - x[:, :, 0]) ** 2 / omega + torch.log(omega)).mean(1).sum()
        logs = torch.log(torch.diagonal(factor, dim1=1, dim2=2).abs()).sum()
        return 10_000.0 / (n * (t - t // 6)) * total - 0.5 * ((factor**2).sum() + (p["mean"] ** 2).sum()) + logs

    def run():
        for value in p.values():
            value.grad = None
        (-bound()).backward()
        return p["A"].grad

    return run
