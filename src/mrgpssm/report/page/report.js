"use strict";
(() => {
  // Everything the figures need lies in the page, compressed; Plotly is run by putting its text into a script element,
  // which the page's policy allows because it names the text's digest.
  const plots = new Map(), near = new Set();
  let data, view = null, whole = null;

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const unpack = (id) =>
    new Response(new Blob([bytes(document.getElementById(id).textContent)]).stream()
      .pipeThrough(new DecompressionStream("gzip")));

  function decode(array) {
    if (array.f8) return new Float64Array(bytes(array.f8).buffer);
    const steps = new Uint16Array(bytes(array.u2).buffer), scale = (array.high - array.low) / 65534;
    return Float64Array.from(steps, (s) => (s === 65535 ? NaN : array.low + scale * s));
  }

  // Colours

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const role = (name) => colour("--role-" + name);
  const faded = (hex, alpha) => hex + Math.round(255 * alpha).toString(16).padStart(2, "0");
  const scale = (name) => role(name).split(",").map((c, i, all) => [i / (all.length - 1), c]);
  // Plotly reads a little HTML in its texts: names that users gave must not be read so.
  const plain = (text) => text.replace(/\s+/g, " ").replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (text) => ([...text].length > 22 ? [...text].slice(0, 21).join("") + "…" : text);

  // Long series: what is in view, and as much again on both sides to pan into, as extremes per bucket

  function below(t, value) {
    let low = 0, high = t.length;
    while (low < high) { const mid = (low + high) >> 1; if (t[mid] < value) low = mid + 1; else high = mid; }
    return low;
  }

  function extremes(t, v, from, to, most) {
    const x = [], y = [], step = Math.max(1, Math.ceil((to - from) / most));
    for (let i = from; i < to;) {
      const end = Math.min(i + step, to);
      let low = i, high = i;
      if (Number.isNaN(v[i])) { x.push(t[i++]); y.push(null); continue; }
      for (; i < end && !Number.isNaN(v[i]); i++) { if (v[i] < v[low]) low = i; if (v[i] > v[high]) high = i; }
      for (const j of low === high ? [low] : low < high ? [low, high] : [high, low]) { x.push(t[j]); y.push(v[j]); }
    }
    return { x, y };
  }

  function envelope(t, low, high, from, to, most) {
    const x = [], bottom = [], top = [], step = Math.max(1, Math.ceil((to - from) / most));
    for (let i = from; i < to;) {
      const end = Math.min(i + step, to), start = i;
      let a = Infinity, b = -Infinity;
      if (Number.isNaN(low[i])) { x.push(null); bottom.push(null); top.push(null); i++; continue; }
      for (; i < end && !Number.isNaN(low[i]); i++) { a = Math.min(a, low[i]); b = Math.max(b, high[i]); }
      x.push(t[start]); bottom.push(a); top.push(b);
    }
    return { x, low: bottom, high: top };
  }

  function inView(mark, most) {
    const t = data.arrays[mark.t], [a, b] = view ?? whole, margin = b - a;
    const from = Math.max(below(t, a - margin) - 1, 0), to = Math.min(below(t, b + margin) + 1, t.length);
    return mark.kind === "line"
      ? { ...mark, ...extremes(t, data.arrays[mark.v], from, to, most) }
      : { ...mark, ...envelope(t, data.arrays[mark.low], data.arrays[mark.high], from, to, most) };
  }

  function heights(marks) {
    const [a, b] = view ?? whole;
    let low = Infinity, high = -Infinity;
    for (const m of marks) m.x.forEach((x, i) => {
      if (x === null || x < a || x > b) return;
      for (const y of m.kind === "line" ? [m.y[i]] : [m.low[i], m.high[i]])
        if (y !== null) { low = Math.min(low, y); high = Math.max(high, y); }
    });
    const margin = 0.05 * (high - low || 1);
    return low <= high ? [low - margin, high + margin] : undefined;
  }

  // Marks as Plotly's traces

  function polygon(mark) {
    const x = [], y = [];
    let start = 0;
    const close = (end) => {
      if (end > start) {
        for (let i = start; i < end; i++) { x.push(mark.x[i]); y.push(mark.low[i]); }
        for (let i = end - 1; i >= start; i--) { x.push(mark.x[i]); y.push(mark.high[i]); }
        x.push(null); y.push(null);
      }
      start = end + 1;
    };
    mark.x.forEach((_, i) => { if (mark.x[i] === null || mark.low[i] === null) close(i); });
    close(mark.x.length);
    return { x, y };
  }

  const makers = {
    line: (m) => ({ type: "scatter", mode: "lines", x: m.x, y: m.y, connectgaps: false,
      line: { color: role(m.role), width: m.width, dash: m.dash ? "6px,4px" : "solid", shape: m.steps ? "hvh" : "linear", simplify: true } }),
    band: (m) => ({ type: "scatter", mode: "lines", ...polygon(m), fill: "toself", hoverinfo: "skip",
      fillcolor: faded(role(m.role), m.alpha), line: { width: 0 } }),
    points: (m) => ({ type: "scatter", mode: "markers", x: m.x, y: m.y, hoverinfo: m.x.length > 400 ? "skip" : "all",
      marker: { color: role(m.role), size: m.size, opacity: m.alpha, symbol: m.hollow ? "circle-open" : "circle", line: { width: m.hollow ? 1.5 : 0 } } }),
    bars: (m) => ({ type: "bar", orientation: m.across ? "h" : "v", x: m.across ? m.y : m.x, y: m.across ? m.x : m.y,
      width: m.width, marker: { color: role(m.role), opacity: m.alpha, line: { width: 0 } } }),
    heat: (m) => ({ type: "heatmap", x: m.x, y: m.y, z: m.z, colorscale: scale(m.diverging ? "diverging" : "sequential"),
      zmid: m.diverging ? 0 : undefined, zsmooth: m.diverging ? "best" : false, hoverongaps: false,
      ...(m.diverging ? {} : { texttemplate: "%{z:.3g}" }),
      colorbar: { title: { text: plain(short(m.name)), side: "right", font: { size: 11 } }, thickness: 10, outlinewidth: 0, tickfont: { size: 10 } } }),
  };

  function axis(spec, range, fixed) {
    return { type: spec.log ? "log" : "linear", range: range ?? spec.range, autorange: !(range ?? spec.range), fixedrange: fixed,
      gridcolor: colour("--line"), zeroline: false, linecolor: colour("--line"), showline: true, ticks: "outside", ticklen: 3,
      tickcolor: colour("--line"), nticks: spec.ticks ? undefined : 7, automargin: true, exponentformat: "power",
      minexponent: 6, separatethousands: true,
      ...(spec.log ? { dtick: Math.max(1, Math.ceil(((range ?? spec.range ?? [0, 4])[1] - (range ?? spec.range ?? [0, 4])[0]) / 5)) } : {}),
      ...(spec.ticks ? { tickmode: "array", tickvals: spec.ticks[0], ticktext: spec.ticks[1].map((s) => plain(short(s))), ticks: "" } : {}) };
  }

  function rules(marks) {
    return marks.filter((m) => m.kind === "rule").map((m) => {
      const level = m.axis === "y" ? { xref: "paper", x0: 0, x1: 1, yref: "y", y0: m.value, y1: m.value }
        : { yref: "paper", y0: 0, y1: 1, xref: "x", x0: m.value, x1: m.value };
      return { type: "line", ...level, visible: !m.off, line: { color: role(m.role), width: 1.2, dash: "4px,3px" } };
    });
  }

  const touch = matchMedia("(pointer: coarse)").matches;

  function figure(panel, plot) {
    const most = Math.max(400, plot.clientWidth);
    const marks = panel.long ? panel.marks.map((m) => inView(m, 1.5 * most)) : panel.marks;
    const traces = marks.filter((m) => m.kind !== "rule")
      .map((m) => ({ ...makers[m.kind](m), name: plain(short(m.name)), visible: !m.off, showlegend: false }));
    const layout = {
      margin: { l: 46, r: 8, t: 8, b: 30 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", barmode: "overlay",
      font: { family: "system-ui, sans-serif", size: 12, color: colour("--soft") }, dragmode: "zoom", hovermode: "closest",
      hoverlabel: { bgcolor: colour("--card"), font: { color: colour("--ink") }, bordercolor: colour("--line") }, bargap: 0,
      shapes: rules(marks),
      xaxis: axis(panel.x, panel.long ? [...(view ?? whole)] : panel.at?.x, touch),
      yaxis: axis(panel.y, panel.long ? heights(marks.filter((m) => !m.off)) : panel.at?.y, touch || panel.long),
    };
    return [traces, layout, { displayModeBar: false, responsive: true, doubleClick: false, scrollZoom: false }];
  }

  // Drawing, moving, hiding

  function draw(box) {
    const panel = data.panels[Number(box.dataset.panel)], plot = box.querySelector(".plot");
    delete box.dataset.stale;
    if (plots.has(box)) return Plotly.react(plot, ...figure(panel, plot));
    plots.set(box, panel);
    return Plotly.newPlot(plot, ...figure(panel, plot)).then(() => {
      plot.on("plotly_relayout", (event) => relaid(panel, box, event));
      plot.on("plotly_doubleclick", () => move(panel, box, "all"));
      box.dataset.drawn = "yes";
    });
  }

  // One figure a frame, the one in the middle of the screen first; those out of sight wait until they come into sight.
  let waiting = [], ticking = false;

  function tick() {
    const box = waiting.shift();
    if (box?.dataset.stale) draw(box);
    ticking = waiting.length > 0;
    if (ticking) requestAnimationFrame(tick);
  }

  function redraw(chosen) {
    const distance = (box) => Math.abs(box.getBoundingClientRect().top + box.clientHeight / 2 - innerHeight / 2);
    for (const [box, panel] of plots) if (chosen(panel)) box.dataset.stale = "yes";
    waiting = [...near].filter((box) => box.dataset.stale).sort((a, b) => distance(a) - distance(b));
    if (!ticking) tick();
  }

  function show(range) {
    if (range) {
      const size = Math.min(range[1] - range[0], whole[1] - whole[0]);
      const start = Math.min(Math.max(range[0], whole[0]), whole[1] - size);
      range = size < whole[1] - whole[0] ? [start, start + size] : null;
    }
    view = range;
    redraw((panel) => panel.long);
  }

  function relaid(panel, box, event) {
    const x = [event["xaxis.range[0]"], event["xaxis.range[1]"]], y = [event["yaxis.range[0]"], event["yaxis.range[1]"]];
    if (panel.long && x[0] !== undefined) show(x.map(Number));
    else if (!panel.long && (x[0] !== undefined || y[0] !== undefined)) {
      const layout = box.querySelector(".plot").layout;
      panel.at = { x: [...layout.xaxis.range], y: [...layout.yaxis.range] };
    }
  }

  function moved([a, b], how) {
    const size = b - a, middle = (a + b) / 2;
    return { in: [middle - size / 4, middle + size / 4], out: [middle - size, middle + size],
      back: [a - size / 4, b - size / 4], forth: [a + size / 4, b + size / 4] }[how];
  }

  function move(panel, box, how) {
    if (panel.long) return show(how === "all" ? null : moved(view ?? whole, how));
    const { xaxis, yaxis } = box.querySelector(".plot").layout;
    panel.at = how === "all" ? undefined : { x: moved(xaxis.range, how), y: [...yaxis.range] };
    return draw(box);
  }

  const KEYS = { ArrowLeft: "back", ArrowRight: "forth", "+": "in", "=": "in", "-": "out", 0: "all", Home: "all" };

  function listen() {
    document.addEventListener("keydown", (event) => {
      const plot = event.target.closest?.(".plot"), how = KEYS[event.key];
      if (!plot || !how || event.ctrlKey || event.metaKey || event.altKey) return;
      const box = plot.closest("figure");
      if (plots.has(box)) { event.preventDefault(); move(plots.get(box), box, how); }
    });
    document.addEventListener("click", (event) => {
      const button = event.target.closest?.("button");
      if (!button) return;
      if (button.dataset.move) show(button.dataset.move === "all" ? null : moved(view ?? whole, button.dataset.move));
      else if (button.dataset.marks) {
        const off = button.getAttribute("aria-pressed") === "true", own = button.closest("figure");
        button.setAttribute("aria-pressed", String(!off));
        for (const box of own ? [own] : button.closest("section").querySelectorAll("figure.panel")) {
          for (const index of button.dataset.marks.split(" ")) data.panels[Number(box.dataset.panel)].marks[Number(index)].off = off;
          if (plots.has(box)) draw(box);
        }
      }
    });
    for (const select of document.querySelectorAll("[data-recordings]")) select.addEventListener("change", () => {
      for (const other of document.querySelectorAll("[data-recordings]")) other.value = select.value;
      show(select.value === "" ? null : spans()[Number(select.value)]);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw(() => true));
    addEventListener("beforeprint", () => document.querySelectorAll("figure.panel").forEach((box) => draw(box)));
  }

  function spans() {
    const mark = data.panels.find((p) => p.long).marks[0], t = data.arrays[mark.t], found = [];
    // a gap repeats the last time before it: that is where a recording ends
    for (let i = 1, start = 0; i < t.length; i++) if (t[i] === t[i - 1]) { found.push([t[start], t[i]]); start = i + 1; }
    return found;
  }

  async function begin() {
    data = await (await unpack("data")).json();
    data.arrays = data.arrays.map(decode);
    const long = data.panels.find((p) => p.long);
    if (long) { const t = data.arrays[long.marks[0].t]; whole = [t[0], t[t.length - 1]]; }
    const library = document.createElement("script");
    library.textContent = await (await unpack("library")).text();
    document.head.append(library);
    listen();
    const seen = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting) near.add(target); else near.delete(target);
        if (isIntersecting && (!plots.has(target) || target.dataset.stale)) draw(target);
      }
    }, { rootMargin: "500px" });
    document.querySelectorAll("figure.panel").forEach((box) => seen.observe(box));
    document.documentElement.dataset.ready = "yes";
  }

  begin().catch((error) => {
    const place = document.getElementById("trouble");
    place.textContent = "Figures need a browser from 2023 or later (" + error.message + "); tables do not.";
    place.hidden = false;
    console.error(error);
  });
})();
