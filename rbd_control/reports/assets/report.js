"use strict";

// Draws the plots of a report, and lets the rows of its tables move their axis of time.

const MARGIN = 1.3; // least extent of the vertical axis: the threshold, at 1, is always visible

const MOST_POINTS = 3000; // of a curve, so that drawing is fast; 1.5 s at 1 kHz are fewer

const charts = new Map(); // id of the element of time plots: the range of its axis of time

/** Return the first index of an increasing array whose value is not below a limit. */
function indexOf(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < limit) low = middle + 1; else high = middle;
  }
  return low;
}

/** Return the columns of a source as plain arrays. */
function columnsOf(source) {
  const entries = source.data.get ? [...source.data] : Object.entries(source.data);
  return new Map(entries.map(([name, values]) => [name, Float64Array.from(values)]));
}

/** Return the part of columns with common times from begin to end [s], at most MOST_POINTS
 *  values of each: of more samples, the lowest and highest value of each of many short intervals. */
function reduced(columns, begin, end) {
  const times = columns.get("x");
  const first = Math.max(indexOf(times, begin) - 1, 0);
  const last = Math.min(indexOf(times, end) + 1, times.length);
  const count = last - first;
  if (count <= MOST_POINTS) {
    return new Map([...columns].map(([name, values]) => [name, values.slice(first, last)]));
  }
  const intervals = MOST_POINTS / 2;
  const edge = (k) => first + Math.floor((k * count) / intervals);
  const result = new Map();
  for (const [name, values] of columns) {
    const kept = new Float64Array(2 * intervals);
    for (let k = 0; k < intervals; k++) {
      const from = edge(k), to = edge(k + 1);
      let low = name === "x" ? values[from] : NaN;
      let high = name === "x" ? values[to - 1] : NaN;
      for (let i = from; i < to && name !== "x"; i++) {
        if (!(values[i] >= low)) low = Number.isNaN(values[i]) ? low : values[i];
        if (!(values[i] <= high)) high = Number.isNaN(values[i]) ? high : values[i];
      }
      kept[2 * k] = low;
      kept[2 * k + 1] = high;
    }
    result.set(name, kept);
  }
  return result;
}

/** Return the renderers of the curves of a panel. */
function curvesOf(figure) {
  return figure.renderers.filter((one) => one.glyph.x?.field && one.glyph.y?.field);
}

/** Fit the vertical axis to the shown parts of the curves. */
function fit(figure, shown) {
  let lowest = Infinity, highest = -Infinity;
  for (const renderer of curvesOf(figure)) {
    for (const value of shown.get(renderer.data_source).get(renderer.glyph.y.field)) {
      if (value < lowest) lowest = value;
      if (value > highest) highest = value;
    }
  }
  if (lowest > highest) return;
  if (figure.tags.includes("threshold")) {
    lowest = Math.min(lowest, -MARGIN);
    highest = Math.max(highest, MARGIN);
  }
  const room = 0.06 * (highest - lowest) || 1;
  figure.y_range.setv({ start: lowest - room, end: highest + room });
}

/** Show an interval of time [s] in the time plots of the element with this id. */
function show(id, begin, end) {
  charts.get(id)?.setv({ start: begin, end });
}

/** Prepare the time plots in one element: at each change of the axis of time, show the points in
 *  its range, and fit the vertical axes. */
function connect(holder, layout) {
  const figures = layout.children;
  const range = figures[0].x_range;
  const curves = figures.flatMap(curvesOf);
  const all = new Map(); // source: every point of its columns
  for (const { data_source } of curves) {
    if (!all.has(data_source)) all.set(data_source, columnsOf(data_source));
  }
  let pending = false;
  const follow = () => {
    pending = false;
    const shown = new Map();
    for (const [source, columns] of all) {
      shown.set(source, reduced(columns, range.start, range.end));
      source.data = Object.fromEntries(shown.get(source));
    }
    for (const figure of figures) fit(figure, shown);
    for (const curve of curves) curve.visible = true;
  };
  range.on_change([range.properties.start, range.properties.end], () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(follow);
  });
  charts.set(holder.id, range);
  follow();
}

/** Draw the plots in one element from their JSON. */
async function draw(holder) {
  const item = JSON.parse(document.getElementById(`${holder.id}-data`).textContent);
  const views = await Bokeh.embed.embed_item(item, holder);
  const layout = views.roots[0].model;
  const figures = layout.children ?? [layout];
  // A finger on a plot scrolls the page.
  if (matchMedia("(pointer: coarse)").matches) {
    for (const figure of figures) figure.toolbar.active_drag = null;
  }
  if (holder.classList.contains("time")) connect(holder, layout);
}

/** Show the interval of time of a row in the plots of its section, and mark the row. */
function choose(row) {
  const section = row.closest("section");
  const holder = section.querySelector(".plots.time");
  if (!holder) return;
  for (const other of section.querySelectorAll("tr.chosen")) other.classList.remove("chosen");
  row.classList.add("chosen");
  show(holder.id, Number(row.dataset.begin), Number(row.dataset.end));
  holder.scrollIntoView({ block: "nearest", behavior: "smooth" });
}

/** Choose the row before or after the chosen one. */
function step(section, by) {
  const rows = [...section.querySelectorAll("tr.jump")];
  const now = rows.findIndex((row) => row.classList.contains("chosen"));
  const next = now < 0 ? (by > 0 ? 0 : rows.length - 1) : now + by;
  if (rows[next]) choose(rows[next]);
}

document.addEventListener("click", (event) => {
  const section = event.target.closest("section");
  const row = event.target.closest("tr.jump");
  const order = event.target.closest("button[data-order]")?.dataset.order;
  if (row) choose(row);
  else if (order === "next") step(section, 1);
  else if (order === "previous") step(section, -1);
  else if (order === "whole") {
    const holder = section.querySelector(".plots.time");
    for (const chosen of section.querySelectorAll("tr.chosen")) chosen.classList.remove("chosen");
    show(holder.id, 0, Number(holder.dataset.length));
  }
});

(async () => {
  try {
    for (const holder of document.querySelectorAll(".plots")) await draw(holder);
    document.body.dataset.drawn = "true";
  } catch (error) {
    document.body.dataset.drawn = "false";
    console.error(error);
  }
})();
