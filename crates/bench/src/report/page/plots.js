// Plots: one function makes a section's options for ECharts, another puts them on the page.
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const SYMBOLS = ["circle", "rect", "triangle", "diamond", "pin", "roundRect"];
const LINES = { measured: "solid", modelled: "dashed", quoted: "dotted" };
const SAMPLES = 4000; // more points than this in a plot are drawn without whiskers and symbols

/** Four significant digits, as in the tables. */
const figure = (v) => {
  const size = Math.abs(v);
  if (v === 0) return "0";
  if (!(size >= 1e-4 && size < 1e12)) return v.toExponential(3);
  if (size >= 1e4) return Math.round(v).toString().replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
  return String(Number(v.toPrecision(4)));
};
const withUnit = (axis) => (axis.unit ? `${axis.label} (${axis.unit})` : axis.label);
const element = (tag, text, attributes = {}) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  return e;
};
const colours = () => [0, 1, 2, 3, 4, 5, 6, 7].map((i) => css(`--c${i}`));

/** How points come to places on the x axis: by number, by nines, or one after the other. */
function xScale(section) {
  const points = section.series.flatMap((s) => s.points);
  const numbers = points.every((p) => typeof p.x === "number");
  if (section.view === "percentiles" && numbers) {
    // The largest value stands one nine to the right of the last percentile.
    const nines = (q) => -Math.log10(1 - q);
    const last = Math.max(1, ...points.filter((p) => p.x < 1).map((p) => nines(p.x)));
    const place = (p) => (p.x >= 1 ? last + 1 : nines(p.x));
    const ticks = [...new Map(points.map((p) => [place(p), p.label])).entries()].sort((a, b) => a[0] - b[0]);
    const shown = ticks.map((t) => t[0]);
    const label = (v) => (ticks.find((t) => Math.abs(t[0] - v) < 1e-9) ?? ["", ""])[1];
    const axis = { type: "value", min: 0, max: shown.at(-1), axisTick: { customValues: shown }, axisLabel: { customValues: shown, formatter: label, hideOverlap: true }, splitLine: { show: false } };
    return { axis, place, number: true };
  }
  if (section.view === "lines" && numbers) {
    const log = section.x.log && points.every((p) => p.x > 0);
    return { axis: { type: log ? "log" : "value", scale: true, axisLabel: { formatter: figure, hideOverlap: true }, splitLine: { show: false } }, place: (p) => p.x, number: true };
  }
  const at = new Map(section.places.map((label, i) => [label, i]));
  return { axis: { type: "category", data: section.places, axisLabel: { hideOverlap: true, width: 120, overflow: "truncate" }, axisTick: { alignWithLabel: true } }, place: (p) => at.get(p.label), number: false };
}

/** A line from the smallest to the largest sample with a dash at each end, at a given x in pixels. */
function whisker(x, top, bottom, half, colour) {
  const style = { stroke: colour, lineWidth: 1.4, fill: "none" };
  const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
  return { type: "group", children: [line(x, top, x, bottom), line(x - half, top, x + half, top), line(x - half, bottom, x + half, bottom)] };
}

function lineSeries(section, scale, palette) {
  const many = section.series.reduce((n, s) => n + s.points.length, 0) > SAMPLES;
  const drawn = section.series.map((s, i) => ({
    type: "line", name: s.name, id: `line-${i}`,
    data: s.points.map((p) => ({ value: [scale.place(p), p.m], point: p })),
    lineStyle: { type: LINES[s.obtained], width: s.obtained === "measured" ? 2.2 : 1.8 },
    symbol: (s.obtained === "measured" ? "" : "empty") + (s.obtained === "quoted" ? "Diamond" : SYMBOLS[i % SYMBOLS.length]).replace(/^./, (c) => (s.obtained === "measured" ? c.toLowerCase() : c.toUpperCase())),
    symbolSize: s.obtained === "measured" ? 8 : 9, showSymbol: !many, color: palette[i % palette.length],
    emphasis: { focus: "series" }, connectNulls: false, clip: true,
  }));
  const whiskers = many ? [] : section.series.map((s, i) => ({
    type: "custom", name: s.name, id: `whisker-${i}`, silent: true, tooltip: { show: false }, color: palette[i % palette.length], clip: true, z: 1,
    data: s.points.filter((p) => p.hi > p.lo).map((p) => [scale.place(p), p.lo, p.hi]), encode: { x: 0, y: [1, 2] },
    renderItem: (_, api) => {
      const [x, bottom] = api.coord([api.value(0), api.value(1)]);
      return whisker(x, api.coord([api.value(0), api.value(2)])[1], bottom, 4, palette[i % palette.length]);
    },
  }));
  return [...drawn, ...whiskers];
}

function barSeries(section, scale, palette) {
  const bars = section.series.length;
  const look = (s, colour) => {
    if (s.obtained === "quoted") return { color: "transparent", borderColor: colour, borderType: "dotted", borderWidth: 2 };
    if (s.obtained === "modelled") return { color: colour, opacity: 0.75, decal: { symbol: "rect", color: css("--card"), dashArrayX: [1, 0], dashArrayY: [2, 4], rotation: -Math.PI / 4 } };
    return { color: colour };
  };
  const row = (s, value) => {
    const out = new Array(section.places.length).fill("-");
    for (const p of s.points) out[scale.place(p)] = value(p);
    return out;
  };
  const drawn = section.series.map((s, i) => ({
    type: "bar", name: s.name, id: `bar-${i}`, barGap: "12%", barCategoryGap: "28%", color: palette[i % palette.length], barMinHeight: 1,
    itemStyle: look(s, palette[i % palette.length]), data: row(s, (p) => ({ value: p.m, point: p })),
  }));
  const whiskers = section.series.map((s, i) => ({
    type: "custom", name: s.name, id: `whisker-${i}`, silent: true, tooltip: { show: false }, color: palette[i % palette.length], z: 5,
    data: s.points.filter((p) => p.hi > p.lo).map((p) => [scale.place(p), p.lo, p.hi]), encode: { x: 0, y: [1, 2] },
    renderItem: (_, api) => {
      // Series that the legend hides leave their place to the others.
      const shown = api.currentSeriesIndices().filter((k) => k < bars);
      const layout = api.barLayout({ barGap: "12%", barCategoryGap: "28%", count: shown.length })[shown.indexOf(i)];
      if (!layout) return undefined;
      const [x, bottom] = api.coord([api.value(0), api.value(1)]);
      return whisker(x + layout.offsetCenter, api.coord([api.value(0), api.value(2)])[1], bottom, Math.min(6, layout.width / 3), css("--ink"));
    },
  }));
  return [...drawn, ...whiskers];
}

function heatOptions(section, scale, base) {
  const data = section.series.flatMap((s, row) => s.points.map((p) => ({
    value: [scale.place(p), row, p.m], point: p,
    itemStyle: s.obtained === "measured" ? {} : { borderColor: css("--ink"), borderType: LINES[s.obtained], borderWidth: 2 },
  })));
  const values = data.map((d) => d.value[2]);
  const low = Math.min(...values), high = Math.max(...values);
  const cells = section.places.length * section.series.length;
  return {
    ...base, legend: undefined,
    grid: { left: 16, right: 104, top: 16, bottom: 34, containLabel: true },
    yAxis: { type: "category", data: section.series.map((s) => s.name), inverse: true, axisLabel: { color: css("--soft"), width: 150, overflow: "truncate" }, axisLine: { lineStyle: { color: css("--line") } }, axisTick: { show: false } },
    visualMap: { type: "continuous", min: low, max: high > low ? high : low + 1, calculable: true, orient: "vertical", right: 4, top: "middle", itemHeight: 200, formatter: figure, text: [section.y.unit || section.y.label, ""], textStyle: { color: css("--soft") }, inRange: { color: [0, 1, 2, 3, 4].map((i) => css(`--h${i}`)) } },
    series: [{ type: "heatmap", id: "heat", data, label: { show: cells <= 200, formatter: (p) => figure(p.value[2]), color: "#14181f", textBorderColor: "#ffffff", textBorderWidth: 2, fontSize: 11 }, itemStyle: { borderColor: css("--card"), borderWidth: 2 }, emphasis: { itemStyle: { borderColor: css("--ink"), borderWidth: 2 } } }],
  };
}

/** What hovering shows, made of elements: nothing of anybody's words is read as HTML. */
function tip(section, params, palette) {
  const box = element("div", undefined, { class: "tip" });
  const all = (Array.isArray(params) ? params : [params]).filter((p) => p.data && p.data.point);
  if (all.length === 0) return "";
  const unit = section.view === "percentiles" ? "" : section.x.unit;
  box.append(element("b", `${section.x.label} ${all[0].data.point.label} ${unit}`.trim()));
  for (const p of all.slice(0, 20)) {
    const at = section.view === "heat_map" ? p.data.value[1] : p.seriesIndex;
    const series = section.series[at], point = p.data.point, row = element("div");
    const dot = element("i");
    dot.style.background = section.view === "heat_map" ? p.color : palette[at % palette.length];
    row.append(dot, element("span", series.name.slice(0, 120)), element("strong", `${figure(point.m)} ${section.y.unit}`));
    row.append(element("small", point.n > 1 ? `${series.obtained}; median of ${point.n}, ${figure(point.lo)} – ${figure(point.hi)}` : series.obtained));
    box.append(row);
  }
  if (all.length > 20) box.append(element("small", `and ${all.length - 20} more`));
  return box;
}

function options(section) {
  const palette = colours(), scale = xScale(section), soft = css("--soft"), grid = css("--grid");
  const positive = section.series.every((s) => s.points.every((p) => p.lo > 0));
  const line = { axisLine: { lineStyle: { color: css("--line") } }, nameTextStyle: { color: soft } };
  const base = {
    animation: false, backgroundColor: "transparent", color: palette,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: css("--ink") },
    grid: { left: 16, right: 24, top: 34, bottom: 62, containLabel: true },
    legend: { type: "scroll", bottom: 0, itemWidth: 30, textStyle: { color: css("--ink"), width: 260, overflow: "truncate" }, pageTextStyle: { color: soft }, data: section.series.map((s) => s.name) },
    tooltip: { trigger: section.view === "heat_map" ? "item" : "axis", confine: true, transitionDuration: 0, axisPointer: { type: section.view === "bars" ? "shadow" : "line", snap: true }, backgroundColor: css("--card"), borderColor: css("--line"), formatter: (p) => tip(section, p, palette) },
    // The box is drawn outside of the plot: its only use is that dragging selects what to zoom to.
    toolbox: { right: -200, feature: { dataZoom: { filterMode: "none", yAxisIndex: section.view === "heat_map" ? 0 : undefined } } },
    dataZoom: [{ type: "inside", xAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, moveOnMouseWheel: false }, { type: "inside", yAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, moveOnMouseWheel: false }],
    xAxis: { name: withUnit(section.x), nameLocation: "middle", nameGap: 28, ...line, ...scale.axis, axisLabel: { color: soft, ...scale.axis.axisLabel } },
    yAxis: { type: section.y.log && positive ? "log" : "value", scale: section.view === "percentiles", name: withUnit(section.y), nameTextStyle: { color: soft, align: "left" }, nameGap: 12, axisLabel: { color: soft, formatter: figure }, splitLine: { lineStyle: { color: grid } } },
  };
  if (section.view === "heat_map") return heatOptions(section, scale, base);
  return { ...base, series: section.view === "bars" ? barSeries(section, scale, palette) : lineSeries(section, scale, palette) };
}

/** Puts a plot on the page; `data-drawn` says how many paths it has, `data-failed` why it has none. */
function draw(figureElement, section) {
  const box = figureElement.querySelector(".plot");
  let chart;
  try {
    chart = echarts.init(box, null, { renderer: "svg" });
    chart.on("finished", () => { figureElement.dataset.drawn = String(box.querySelectorAll("svg path").length); });
    chart.setOption(options(section));
  } catch (e) {
    figureElement.dataset.failed = String(e);
    box.classList.add("broken");
    box.textContent = `This plot could not be drawn (${e}). The table below has its numbers.`;
    return undefined;
  }
  const drag = () => chart.dispatchAction({ type: "takeGlobalCursor", key: "dataZoomSelect", dataZoomSelectActive: true });
  drag();
  const again = () => { chart.setOption(options(section), { notMerge: true }); drag(); };
  const zoom = (by) => {
    const now = chart.getOption().dataZoom[0], middle = (now.start + now.end) / 2, half = Math.min(50, Math.max(0.5, ((now.end - now.start) / 2) * by));
    chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, start: Math.max(0, middle - half), end: Math.min(100, middle + half) });
  };
  const whole = () => { for (const i of [0, 1]) chart.dispatchAction({ type: "dataZoom", dataZoomIndex: i, start: 0, end: 100 }); };
  const save = () => download(`${section.id.replace(/[^\w-]/g, "_").slice(0, 80)}.svg`, decodeURIComponent(chart.getDataURL({ type: "svg" }).replace(/^[^,]*,/, "")), "image/svg+xml");
  const tools = figureElement.querySelector(".tools");
  tools.hidden = false;
  tools.addEventListener("click", (e) => ({ in: () => zoom(0.6), out: () => zoom(1 / 0.6), reset: whole, svg: save })[e.target.dataset.do]?.());
  chart.getZr().on("dblclick", whole);
  let at = -1;
  const longest = section.series.reduce((best, s, i) => (s.points.length > section.series[best].points.length ? i : best), 0);
  const count = section.view === "heat_map" ? section.series.reduce((n, s) => n + s.points.length, 0) : section.view === "bars" ? section.places.length : section.series[longest].points.length;
  box.addEventListener("keydown", (e) => {
    const move = (to) => { at = Math.min(count - 1, Math.max(0, to)); chart.dispatchAction({ type: "showTip", seriesIndex: section.view === "lines" || section.view === "percentiles" ? longest : 0, dataIndex: at }); };
    const keys = { ArrowRight: () => move(at + 1), ArrowLeft: () => move(at - 1), Home: () => move(0), End: () => move(count - 1), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: whole, Escape: () => chart.dispatchAction({ type: "hideTip" }) };
    if (keys[e.key] && !e.ctrlKey && !e.metaKey && !e.altKey) { keys[e.key](); e.preventDefault(); }
  });
  return { again, resize: () => chart.resize() };
}
