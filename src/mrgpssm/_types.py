"""Names for the array types that every room uses.

Axes, throughout: `t` steps, `d` latent dimensions, `u` inputs, `y` outputs, `m` inducing points, `z` = d + u.
"""

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

Scalar = Float[Array, ""]
Key = PRNGKeyArray

__all__ = ["Array", "Bool", "Float", "Int", "Key", "Scalar"]
