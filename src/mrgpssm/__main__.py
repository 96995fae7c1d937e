"""`python -m mrgpssm` is the same as `mrgpssm`."""

from mrgpssm.cli import main

if __name__ == "__main__":
    main()
