"""An independent reading of the paper in NumPy float64: loops, `inv`, unwhitened q(f_M).

Nothing here is imported by, or imports, the package. A component is a dictionary of natural parameters.
"""

import numpy as np


def softplus(raw):
    return np.logaddexp(0.0, np.asarray(raw, float)) + 1e-6


def kernel(kind, x, z, sd, lengthscales):
    r2 = 0.0
    for a, b, ell in zip(x, z, lengthscales, strict=True):
        r2 += (a - b) ** 2 / ell**2
    r = np.sqrt(r2)
    if kind == "RBF":
        return sd**2 * np.exp(-r2 / 2)
    if kind == "Matern32":
        return sd**2 * (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
    return sd**2 * (1 + np.sqrt(5) * r + 5 * r2 / 3) * np.exp(-np.sqrt(5) * r)


def gram(c, xs, zs):
    return np.array([[kernel(c["kernel"], x, z, c["sd"], c["lengthscales"]) for z in zs] for x in xs])


def k_mm(c, d):
    nugget = c["jitter"] * c["sd"] ** 2
    return gram(c, c["inducing"][d], c["inducing"][d]) + nugget * np.eye(len(c["inducing"][d]))


def unwhiten(c, d):
    """m_M and S_M of q(f_M) from q(v)."""
    L = np.linalg.cholesky(k_mm(c, d))
    return L @ c["mean"][d], L @ c["factor"][d] @ c["factor"][d].T @ L.T


def conditional(c, d, z, f_M):
    """Mean and variance of f(z) given f_M (paper, Eqs. 1 and 2)."""
    k = gram(c, [z], c["inducing"][d])[0]
    inverse = np.linalg.inv(k_mm(c, d))
    k_zz = kernel(c["kernel"], z, z, c["sd"], c["lengthscales"]) + c["jitter"] * c["sd"] ** 2
    return k @ inverse @ f_M, k_zz - k @ inverse @ k


def step(c, x, u, h, f_M):
    """Mean and variance of the next state (paper, Eq. 15)."""
    z = np.concatenate([x, u])
    mean, variance = np.zeros(len(x)), np.zeros(len(x))
    for d in range(len(x)):
        f, spread = conditional(c, d, z, f_M[d])
        drift = c["b"][d] + sum(c["A"][d, i] * x[i] for i in range(len(x)))
        drift += sum(c["B"][d, i] * u[i] for i in range(len(u)))
        mean[d] = x[d] + h * (drift + f)
        variance[d] = h**2 * spread + h * c["Q"][d]
    return mean, variance


def kl(m_q, S_q, m_p, S_p):
    inverse = np.linalg.inv(S_p)
    gap = m_p - m_q
    log_ratio = np.linalg.slogdet(S_p)[1] - np.linalg.slogdet(S_q)[1]
    return 0.5 * (np.trace(inverse @ S_q) + gap @ inverse @ gap - len(m_q) + log_ratio)


def kl_inducing(c):
    total = 0.0
    for d in range(len(c["inducing"])):
        m_M, S_M = unwhiten(c, d)
        total += kl(m_M, S_M, np.zeros(len(m_M)), k_mm(c, d))
    return total


def run(c, inputs, steps, noise):
    """Full Monte Carlo with given noise: one f_M for the whole trajectory."""
    roots = [np.linalg.cholesky(k_mm(c, d)) for d in range(len(c["inducing"]))]
    f_M = [root @ (c["mean"][d] + c["factor"][d] @ noise["inducing"][d]) for d, root in enumerate(roots)]
    x = c["m_0"] + c["S_0_factor"] @ noise["initial"]
    states = []
    for t in range(len(inputs)):
        mean, variance = step(c, x, inputs[t], steps[t], f_M)
        x = mean + np.sqrt(variance) * noise["process"][t]
        states.append(x)
    return np.array(states)


def bound(components, units, omega, windows, noise, buffer, total):
    """The lower bound (paper, Eq. 14) estimated on windows, sample by sample."""
    inputs, outputs, strides = windows
    n, s = noise[0]["initial"].shape[:2]
    likelihood = 0.0
    for i in range(n):
        for j in range(s):
            predictions = np.zeros((inputs.shape[1], len(omega)))
            for c, unit, e in zip(components, units, noise, strict=True):
                one = {name: value[i, j] for name, value in e.items()}
                predictions = predictions + np.array(
                    [c["emission"](x) for x in run(c, inputs[i], strides[i] / unit, one)]
                )
            for t in range(buffer, inputs.shape[1]):
                for k in range(len(omega)):
                    if np.isnan(outputs[i, t, k]):
                        continue
                    error = outputs[i, t, k] - predictions[t, k]
                    likelihood += -0.5 * (error**2 / omega[k] + np.log(2 * np.pi * omega[k])) / s
    likelihood *= total / (n * (inputs.shape[1] - buffer))
    kl_0 = sum(
        kl(c["m_0"], c["S_0_factor"] @ c["S_0_factor"].T, c["mu_0"], c["Q_0_factor"] @ c["Q_0_factor"].T)
        for c in components
    )
    kl_M = sum(kl_inducing(c) for c in components)
    return likelihood, kl_0, kl_M


def recursive_posterior(c, x0, inputs, steps, states):
    """Per dimension, update N(m_M, S_M) of f_M by each observed step; return predictive moments and the posterior."""
    dims = len(x0)
    means, variances = np.zeros((len(states), dims)), np.zeros((len(states), dims))
    posterior = [list(unwhiten(c, d)) for d in range(dims)]
    x = x0
    for t in range(len(states)):
        z = np.concatenate([x, inputs[t]])
        for d in range(dims):
            m, S = posterior[d]
            inverse = np.linalg.inv(k_mm(c, d))
            gain = steps[t] * gram(c, [z], c["inducing"][d])[0] @ inverse
            base, noise = step(c, x, inputs[t], steps[t], [np.zeros_like(m)] * dims)
            means[t, d] = base[d] + gain @ m
            variances[t, d] = noise[d] + gain @ S @ gain
            K = S @ gain / variances[t, d]
            posterior[d] = [m + K * (states[t, d] - means[t, d]), S - np.outer(K, gain @ S)]
        x = states[t]
    return means, variances, posterior
