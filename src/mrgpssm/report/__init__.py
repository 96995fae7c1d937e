"""Reports: gather the evidence of a run, make charts of it, and draw them.

`gather` collects the evidence (the only place that simulates), `charts` turn it into marks on panels, `figures` draws
panels for print (matplotlib), and `html` writes one page to open, mail and archive (jinja2 and plotly, extra `report`).
"""
