"""The generated pages of docs, each from records under `results` and what a person wrote in `text`.

    python benchmarks/pages [NAME ...]

Without a name it writes them all; reproduction draws its figures, too.
"""

import sys

import experiments
import performance
import promises
import public
import scale
from material import RESULTS, ROOT

from mrgpssm.file import write_atomic
from mrgpssm.paper.page.figures import draw_all
from mrgpssm.paper.page.results import Results
from mrgpssm.paper.page.text import IMAGES, make_page

DOCS = ROOT / "docs"


def reproduction() -> str:
    """The paper's experiments at its own scale; the figures are drawn beside the page."""
    results = Results.read(RESULTS / "reproduce", "paper")
    return make_page(results, draw_all(results, DOCS / IMAGES))


PAGES = {
    "benchmarks": public.make_page,
    "experiments": experiments.make_page,
    "performance": performance.make_page,
    "reproduction": reproduction,
    "scale": scale.make_page,
    "trust": promises.make_page,
}


def main() -> None:
    """Write the pages that are asked for."""
    names = sys.argv[1:] or list(PAGES)
    unknown = [name for name in names if name not in PAGES]
    if unknown:
        raise SystemExit(f"There is no page {unknown[0]!r}; choose from {', '.join(PAGES)}.")
    for name in names:
        write_atomic(DOCS / f"{name}.md", PAGES[name]().encode())
        print(f"docs/{name}.md")


if __name__ == "__main__":
    main()
