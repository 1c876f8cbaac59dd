// The charts of a summary: mean ranks with what is not told apart, and error against cost.
function rankChart(box) {
  const layout = rowLayout(box), {narrow, step, left} = layout, k = data.rows.length;
  const top = 76 + 9 * data.groups.length;
  const [svg, width] = canvas(box, k * step + top + 10);
  const x = r => left + 8 + (r - 1) / Math.max(1, k - 1) * (width - left - 26);
  const axis = 60, across = x(1 + Math.min(data.critical, k - 1)) - x(1);
  make(svg, "line", {x1: x(1), x2: x(k), y1: axis, y2: axis, class: "axis"});
  for (let r = 1; r <= k; r += Math.ceil(k / (narrow ? 8 : 16))) {
    make(svg, "line", {x1: x(r), x2: x(r), y1: axis - 4, y2: axis, class: "axis"});
    make(svg, "text", {x: x(r), y: axis - 8, "text-anchor": "middle"}, String(r));
  }
  make(svg, "text", {x: x(1), y: 12}, `critical difference ${data.critical.toFixed(2)}${data.critical > k - 1 ? ", wider than the axis" : ""}`);
  make(svg, "path", {d: `M${x(1)} 19v8m0 -4h${across}m0 -4v8`, class: "critical"});
  data.groups.forEach(([first, last], i) =>
    make(svg, "line", {x1: x(data.rows[first].rank) - 5, x2: x(data.rows[last].rank) + 5, y1: axis + 12 + 9 * i, y2: axis + 12 + 9 * i, class: "group"}));
  data.rows.forEach((row, i) => {
    const y = layout.place(i) + top - (narrow ? 0 : 8);
    rowName(svg, row, y, width, layout);
    const group = rowGroup(svg, row, y, step, width, r => [
      [null, "mean rank", show(r.rank)], ...data.comparisons.map((name, n) => [null, name, show(r.ranks[n])])]);
    make(group, "line", {x1: x(row.rank), x2: x(row.rank), y1: axis, y2: y, stroke: colour(i), opacity: .35});
    for (const r of row.ranks) make(group, "circle", {cx: x(r), cy: y, r: 2.5, fill: colour(i), opacity: .45});
    make(group, "circle", {cx: x(row.rank), cy: y, r: 7, fill: colour(i)});
  });
}

function costChart(box) {
  const shown = data.rows.map((row, i) => [row, i]).filter(([row]) => row.relative !== null && row.time !== null);
  const narrow = box.clientWidth < 560, height = narrow ? 320 : 400, left = 46, bottom = height - 44;
  const [svg, width] = canvas(box, height);
  const range = values => {
    const low = Math.min(1, ...values), high = Math.max(1, ...values), pad = Math.max(.04, (high - low) * .08);
    return [low - pad, high + pad];
  };
  const [x0, x1] = range(shown.map(([row]) => row.time)), [y0, y1] = range(shown.map(([row]) => row.relative));
  const x = v => left + (v - x0) / (x1 - x0) * (width - left - 16), y = v => bottom - (v - y0) / (y1 - y0) * (bottom - 12);
  for (const t of ticks(x0, x1, narrow ? 4 : 8)) {
    make(svg, "line", {x1: x(t), x2: x(t), y1: 8, y2: bottom, class: t === 1 ? "axis" : "grid"});
    make(svg, "text", {x: x(t), y: bottom + 17, "text-anchor": "middle"}, String(t));
  }
  for (const t of ticks(y0, y1, 5)) {
    make(svg, "line", {x1: left, x2: width - 12, y1: y(t), y2: y(t), class: t === 1 ? "axis" : "grid"});
    make(svg, "text", {x: left - 8, y: y(t) + 4, "text-anchor": "end"}, String(t));
  }
  make(svg, "text", {x: (left + width) / 2, y: height - 6, "text-anchor": "middle"}, `training time, ${data.baseline} = 1`);
  make(svg, "text", {x: -bottom / 2, y: 11, "text-anchor": "middle", transform: "rotate(-90)"}, `error, ${data.baseline} = 1`);
  for (const [row, i] of shown.reverse()) {
    const group = make(svg, "g");
    make(group, "circle", {cx: x(row.time), cy: y(row.relative), r: 11, fill: colour(i), stroke: "var(--card)", "stroke-width": 1.5});
    make(group, "text", {x: x(row.time), y: y(row.relative) + 4, "text-anchor": "middle", class: "number"}, String(i + 1));
    hover(group, event => tooltip(event, `${i + 1}: ${row.pooling}`, [
      [null, "error", `${show(row.relative)} of ${data.baseline}`], [null, "training time", `${show(row.time)} of ${data.baseline}`],
      [null, "mean rank", show(row.rank)]]));
  }
}

drawAll({ranks: rankChart, cost: costChart});
