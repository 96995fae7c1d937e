"""Multi-resolution Gaussian process state-space models.

Importing this package loads nothing heavy, touches no device and changes no global configuration.
"""

__version__ = "0.1.0.dev0"
