"""Adapters to other tools. Each needs its own extra and is imported only on request."""
