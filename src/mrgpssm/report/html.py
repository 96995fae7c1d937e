"""One static page: verdict, figures, data, settings. It makes no requests, and names from users cannot run code."""

import base64
import hashlib
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from mrgpssm.errors import need
from mrgpssm.file import write_atomic
from mrgpssm.report.chart import Heat, Panel, Rule, Section
from mrgpssm.report.charts import sections
from mrgpssm.report.describe import column_rows, recording_rows, score_rows, setting_rows, verdicts
from mrgpssm.report.evidence import RunEvidence
from mrgpssm.report.palette import DARK, DIVERGING_DARK, DIVERGING_LIGHT, LIGHT, SEQUENTIAL
from mrgpssm.report.payload import Payload, collect, pack
from mrgpssm.report.verdict import overall


def write_html(evidence: RunEvidence, path: Path, drawn: list[Section] | None = None) -> None:
    """Write the report, whole or not at all."""
    write_atomic(path, render(evidence, drawn).encode("utf-8", "replace"))


def render(evidence: RunEvidence, drawn: list[Section] | None = None) -> str:
    """The page as text; `drawn` are its sections if they exist already. Equal evidence gives equal pages."""
    jinja2, plotly, markup = _need("jinja2"), _need("plotly.offline"), _need("markupsafe").Markup
    strict = jinja2.StrictUndefined
    environment = jinja2.Environment(autoescape=True, undefined=strict, trim_blocks=True, lstrip_blocks=True)
    drawn = sections(evidence) if drawn is None else drawn
    payload = collect(drawn)
    laid_out = [_section(section, payload) for section in drawn]
    library, script = plotly.get_plotlyjs(), _asset("report.js")
    judged = verdicts(evidence)
    return environment.from_string(_asset("report.html")).render(
        unbroken=lambda text: re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text),
        policy=_policy(library, script),
        style=markup(_style()),
        script=markup(script),
        library=pack(library),
        data=payload.to_text(),
        sections=laid_out,
        evidence=evidence,
        verdict=overall(judged),
        scores=score_rows(evidence, judged),
        settings=setting_rows(evidence),
        columns=column_rows(evidence),
        recordings=recording_rows(evidence),
    )


def check_installed() -> None:
    """Raise an error before any work is done if a package is missing."""
    for name in ("jinja2", "plotly.offline"):
        _need(name)


def _need(name: str) -> Any:
    return need(name, f"The report needs {name.split('.')[0]}, which is not installed", "report")


def _section(section: Section, payload: Payload) -> dict[str, Any]:
    """A section for the template; its panels go into the payload."""
    legends = [_legend(p) for p in section.panels]
    shared = legends[0] if len(legends) > 1 and all(legend == legends[0] for legend in legends) else []
    panels = [
        {"number": payload.add(p), "panel": p, "legend": [] if shared else legend}
        for p, legend in zip(section.panels, legends, strict=True)
    ]
    return {
        "section": section,
        "panels": panels,
        "legend": shared,
        "long": any(p.long for p in section.panels),
        "columns": min(section.columns, max(len(panels), 2)),
    }


def _legend(panel: Panel) -> list[dict[str, Any]]:
    """The entries of the legend with their marks; none for a single mark."""
    entries: dict[str, dict[str, Any]] = {}
    for index, mark in enumerate(panel.marks):
        if isinstance(mark, Heat):
            continue
        look = type(mark).__name__.lower()
        look += " dashed" if isinstance(mark, Rule) or getattr(mark, "dash", False) else ""
        look += " hollow" if getattr(mark, "hollow", False) else ""
        strength = 2 * getattr(mark, "alpha", 0.5)
        entry = {"name": mark.name, "role": mark.role, "look": look, "strength": strength, "marks": []}
        entries.setdefault(mark.name, entry)["marks"].append(index)
    return list(entries.values()) if len(entries) > 1 else []


def _policy(library: str, script: str) -> str:
    """A content security policy: no requests, and no scripts but the two with these hashes."""
    digests = [hashlib.sha256(text.encode()).digest() for text in (library, script)]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _style() -> str:
    """The style sheet, with the colours of both themes as variables."""
    sheet, themes = _asset("report.css"), {"light": (LIGHT, DIVERGING_LIGHT), "dark": (DARK, DIVERGING_DARK)}
    for theme, (roles, diverging) in themes.items():
        colours = roles | {"diverging": ",".join(diverging), "sequential": ",".join(SEQUENTIAL)}
        variables = "".join(f"--role-{name}:{value};" for name, value in colours.items())
        sheet = sheet.replace(f"/*{theme}*/", variables)
    return sheet


def _asset(name: str) -> str:
    return files("mrgpssm.report").joinpath("page", name).read_text(encoding="utf-8")
