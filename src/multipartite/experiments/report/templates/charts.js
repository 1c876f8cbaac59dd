// What the charts of all pages share. They are drawn at the width they have, again whenever that changes.
// Data only ever becomes text, never markup.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tooltip");
const colour = i => `var(--s${i % 10})`;
const show = v => v === null || v === undefined ? "" : Math.abs(v) >= 0.0995 || v === 0 ? v.toFixed(2) : v.toPrecision(2);

const breakable = name => name.replace(/([:,])/g, "$1\u200b");

function make(parent, tag, attributes = {}, text = null, ns = "http://www.w3.org/2000/svg") {
  const node = ns ? document.createElementNS(ns, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}

function canvas(box, height) {
  const width = Math.max(240, box.clientWidth);
  box.replaceChildren();
  return [make(box, "svg", {viewBox: `0 0 ${width} ${height}`, height}), width];
}

function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(m => m * power >= rough * 0.999);
  const found = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-6; t += step) found.push(+t.toPrecision(8));
  return found;
}

function tooltip(event, title, lines) {
  tip.replaceChildren();
  make(tip, "b", {}, breakable(title), null);
  const table = make(tip, "table", {}, null, null);
  for (const [i, ...cells] of lines) {
    const row = make(table, "tr", {}, null, null);
    cells.forEach((cell, column) => {
      const td = make(row, "td", {}, null, null);
      if (!column && i !== null) make(td, "span", {class: "dot", style: `--c:${colour(i)}`}, "", null);
      td.append(cell);
    });
  }
  tip.hidden = false;
  const {offsetWidth: w, offsetHeight: h} = tip;
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - w - 8))}px`;
  tip.style.top = `${event.clientY + 18 + h < innerHeight ? event.clientY + 18 : Math.max(8, event.clientY - h - 14)}px`;
}

function hover(target, act, leave = () => {}) {
  for (const kind of ["pointermove", "pointerdown"]) target.addEventListener(kind, act);
  target.addEventListener("pointerleave", () => { tip.hidden = true; leave(); });
}

// Charts with a row a pooling: its name stands left of it, or above where the chart is narrow.
function rowLayout(box) {
  const narrow = box.clientWidth < 560, step = narrow ? 50 : 40;
  const longest = Math.max(...data.rows.map(r => Math.max(r.name.length, Math.min(36, r.options.length) * .82)));
  return {narrow, step, left: narrow ? 8 : 30 + 7 * longest, place: i => i * step + (narrow ? 38 : 26)};
}

function rowName(svg, row, y, width, {narrow, left}) {
  const {name, options} = row, room = narrow ? width / 5.6 - name.length * 1.5 : 36;
  const short = options.length > room ? `${options.slice(0, room - 1)}…` : options;
  if (narrow) make(make(svg, "text", {x: left, y: y - 16, class: "name"}, `${name} `), "tspan", {"font-size": 10.5}, short);
  else {
    make(svg, "text", {x: left - 14, y: y + (short ? -1 : 4), "text-anchor": "end", class: "name"}, name);
    make(svg, "text", {x: left - 14, y: y + 11, "text-anchor": "end", class: "options"}, short);
  }
}

function rowGroup(svg, row, y, step, width, lines) {
  const group = make(svg, "g");
  make(group, "rect", {x: 0, y: y - step / 2, width, height: step, fill: "transparent"});
  hover(group, event => tooltip(event, row.pooling, lines(row)));
  return group;
}

function drawAll(charts) {
  const draw = () => {
    for (const [id, chart] of Object.entries(charts)) {
      const box = document.getElementById(id);
      if (box) chart(box);
    }
  };
  let width = 0;
  new ResizeObserver(() => { if (width !== innerWidth) { width = innerWidth; draw(); } }).observe(document.body);
  draw();
  return draw;
}
