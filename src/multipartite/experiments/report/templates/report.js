// The charts of a report: the gap, the difference to max pooling, the curves.
const hidden = new Set();

function rows(box, values, draw, lines) {
  const layout = rowLayout(box), {narrow, step, left} = layout;
  const [svg, width] = canvas(box, data.rows.length * step + 42);
  let low = Math.min(0, ...values), high = Math.max(0, ...values);
  if (high === low) high += 1;
  const pad = (high - low) * 0.04;
  if (low < 0) low -= pad;
  high += pad;
  const x = v => left + (v - low) / (high - low) * (width - left - 14);
  const bottom = data.rows.length * step + 14;
  for (const t of ticks(low, high, narrow ? 4 : 7)) {
    make(svg, "line", {x1: x(t), x2: x(t), y1: 6, y2: bottom, class: t === 0 ? "axis" : "grid"});
    make(svg, "text", {x: x(t), y: bottom + 18, "text-anchor": "middle"}, String(t));
  }
  data.rows.forEach((row, i) => {
    const y = layout.place(i);
    rowName(svg, row, y, width, layout);
    draw(rowGroup(svg, row, y, step, width, lines), row, i, x, y);
  });
}

function gap(box) {
  const values = data.rows.flatMap(r => [...r.train.values, ...r.test.values, ...(r.paper || [])]);
  rows(box, values, (group, row, i, x, y) => {
    make(group, "line", {x1: x(row.train.mean), x2: x(row.test.mean), y1: y, y2: y, stroke: colour(i), "stroke-width": 4, opacity: .35, "stroke-linecap": "round"});
    for (const part of ["train", "test"]) for (const v of row[part].values)
      make(group, "circle", {cx: x(v), cy: y, r: 2.5, fill: colour(i), opacity: .45});
    make(group, "circle", {cx: x(row.train.mean), cy: y, r: 6, fill: "var(--card)", stroke: colour(i), "stroke-width": 2.5});
    make(group, "circle", {cx: x(row.test.mean), cy: y, r: 7, fill: colour(i)});
    for (const v of row.paper || []) make(group, "path", {d: `M${x(v) - 4} ${y - 4}l8 8m0 -8l-8 8`, stroke: "var(--ink)", "stroke-width": 1.5});
  }, row => [
    [null, "training error", `${show(row.train.mean)} %`], [null, "test error", `${show(row.test.mean)} %`],
    [null, "gap", show(row.test.mean - row.train.mean)],
    ...(row.paper ? [[null, "the paper: train, test", `${show(row.paper[0])}, ${show(row.paper[1])} %`]] : []),
    [null, "seeds", String(row.test.values.length)]]);
}

function versus(box) {
  const values = data.rows.flatMap(r => [r.versus, r.corrected].flatMap(v => v ? [v.mean, v.low ?? 0, v.high ?? 0] : [0]));
  rows(box, values, (group, row, i, x, y) => {
    const v = row.versus || {mean: 0, low: null}, wide = row.corrected;
    if (wide) make(group, "line", {x1: x(wide.low), x2: x(wide.high), y1: y, y2: y, stroke: colour(i), "stroke-width": 1.5, opacity: .6});
    if (v.low !== null) make(group, "line", {x1: x(v.low), x2: x(v.high), y1: y, y2: y, stroke: colour(i), "stroke-width": 4, opacity: .45, "stroke-linecap": "round"});
    make(group, "circle", {cx: x(v.mean), cy: y, r: 6, fill: row.versus ? colour(i) : "var(--card)", stroke: colour(i), "stroke-width": 2.5});
  }, row => row.versus ? [
    [null, `minus ${data.baseline}`, show(row.versus.mean)],
    [null, "95% interval", row.versus.low === null ? "none, one seed" : `${show(row.versus.low)} to ${show(row.versus.high)}`],
    ...(row.corrected ? [[null, "after Holm", `${show(row.corrected.low)} to ${show(row.corrected.high)}`], [null, "p after Holm", row.corrected.p.toPrecision(2)]] : []),
    [null, "paired seeds", String(row.versus.n)]] : [[null, "the baseline", ""]]);
}

function curve(box, metric) {
  const {series} = data.curves[metric];
  const [svg, width] = canvas(box, 270), left = 40, bottom = 240;
  const shown = series.map((s, i) => [s, i]).filter(([, i]) => !hidden.has(i));
  const epochs = Math.max(...series.map(s => s.train.length));
  const every = shown.flatMap(([s]) => [...s.train, ...s.validation, s.test]).sort((a, b) => a - b);
  const from = shown.flatMap(([s]) => [s.train, s.validation].map(v => v[Math.floor(v.length / 8)] ?? 0));
  const high = Math.max(every[Math.floor(every.length * .93)] ?? 1, ...from, 1e-6) * 1.06;
  const x = e => left + (epochs > 1 ? (e - 1) / (epochs - 1) : .5) * (width - left - 12);
  const y = v => bottom - Math.min(v, high) / high * (bottom - 10);
  for (const t of ticks(0, high, 5)) {
    make(svg, "line", {x1: left, x2: width, y1: y(t), y2: y(t), class: "grid"});
    make(svg, "text", {x: left - 8, y: y(t) + 4, "text-anchor": "end"}, String(t));
  }
  for (const t of ticks(1, Math.max(2, epochs), width < 340 ? 4 : 6)) if (Number.isInteger(t) && t <= epochs && t > 0)
    make(svg, "text", {x: x(t), y: bottom + 18, "text-anchor": "middle"}, String(t));
  make(svg, "text", {x: (left + width) / 2, y: bottom + 32, "text-anchor": "middle"}, "epoch");
  const cursor = make(svg, "line", {y1: 10, y2: bottom, class: "axis", visibility: "hidden"});
  for (const [s, i] of shown) {
    const line = (v, more) => v.length > 1
      ? make(svg, "polyline", {points: v.map((p, e) => `${x(e + 1).toFixed(1)},${y(p).toFixed(1)}`).join(" "), fill: "none", stroke: colour(i), "stroke-linejoin": "round", ...more})
      : v.forEach(p => make(svg, "circle", {cx: x(1), cy: y(p), r: 3, fill: colour(i)}));
    line(s.train, {"stroke-width": 1.4, "stroke-dasharray": "4 3", opacity: .8});
    line(s.validation, {"stroke-width": 2.2});
    make(svg, "path", {d: `M${x(epochs)} ${y(s.test) - 5}l5 5l-5 5l-5 -5z`, fill: colour(i), stroke: "var(--card)"});
  }
  const area = make(svg, "rect", {x: left, y: 0, width: width - left, height: bottom, fill: "transparent", class: "area"});
  hover(area, event => {
    const place = (event.clientX - svg.getBoundingClientRect().left - left) / (width - left - 12);
    const e = Math.max(1, Math.min(epochs, 1 + Math.round(place * (epochs - 1))));
    for (const [key, value] of [["x1", x(e)], ["x2", x(e)], ["visibility", "visible"]]) cursor.setAttribute(key, value);
    const last = e === epochs;
    tooltip(event, `epoch ${e}`, [[null, data.curves[metric].label, "train", "validation", ...(last ? ["test"] : [])],
      ...shown.map(([s, i]) => [i, breakable(data.rows[i].pooling), show(s.train[e - 1]), show(s.validation[e - 1]), ...(last ? [show(s.test)] : [])])]);
  }, () => cursor.setAttribute("visibility", "hidden"));
}

const charts = {gap, versus};
for (const metric of Object.keys(data.curves)) charts[`curve-${metric}`] = box => curve(box, metric);
const draw = drawAll(charts);
data.rows.forEach((row, i) => {
  const button = make(document.getElementById("legend"), "button", {type: "button", "aria-pressed": "true"}, null, null);
  make(button, "span", {class: "dot", style: `--c:${colour(i)}`}, "", null);
  button.append(breakable(row.pooling));
  button.addEventListener("click", () => {
    if (!hidden.delete(i)) hidden.add(i);
    button.setAttribute("aria-pressed", String(!hidden.has(i)));
    draw();
  });
});
