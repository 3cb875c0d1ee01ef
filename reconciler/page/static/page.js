"use strict";
// Filters in the address bar, keys, and the stream of the live view. All views can be read without this.

function filterRows(form) {
  const wanted = new Map();
  const address = new URLSearchParams(location.search);
  address.delete("closed");
  for (const field of form.elements) {
    address.delete(field.name);
    if (!field.name || (field.type === "checkbox" && !field.checked)) continue;
    if (!field.value) continue;
    address.set(field.name, field.value);
    if (!("order" in field.dataset) && !("mark" in field.dataset)) wanted.set(field.name, field.value);
  }
  const words = (wanted.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
  wanted.delete("q");
  let shown = 0;
  for (const group of document.querySelectorAll("[data-group]")) {
    let here = 0;
    for (const row of group.querySelectorAll("[data-row]")) {
      let fits = true;
      for (const [name, value] of wanted) fits = fits && row.dataset[name] === value;
      if (fits && words.length) {
        const text = Object.values(row.dataset).join(" ").toLowerCase();
        fits = words.every((word) => text.includes(word));
      }
      row.hidden = !fits;
      if (fits) here += 1;
    }
    for (const curve of group.querySelectorAll("[data-curve]")) {
      const points = [...group.querySelectorAll("[data-row]:not([hidden])")];
      curve.hidden = !points.some((row) => row.dataset.benchmark === curve.dataset.benchmark);
    }
    for (const line of group.querySelectorAll("[data-line]")) line.hidden = !line.querySelector("[data-row]:not([hidden])");
    group.hidden = here === 0;
    shown += here;
  }
  const count = form.querySelector("[data-count]");
  if (count) count.textContent = shown + " " + count.dataset.count + (shown === 1 ? "" : "s") + " shown";
  const closed = [...document.querySelectorAll("details[data-group]:not([data-unlisted], [open])")].map((group) => group.dataset.group);
  if (closed.length) address.set("closed", closed.join(","));
  const query = address.toString();
  history.replaceState(null, "", query ? "?" + query : location.pathname);
}

function orderLines(order) {
  for (const body of document.querySelectorAll("tbody:has(> [data-line])")) {
    const lines = [...body.querySelectorAll("[data-line]")];
    lines.forEach((line, i) => { line.dataset.declared ??= i; });
    const by = { name: (a, b) => a.dataset.name.localeCompare(b.dataset.name), due: (a, b) => b.dataset.due - a.dataset.due };
    lines.sort(by[order] || ((a, b) => a.dataset.declared - b.dataset.declared));
    body.append(...lines);
  }
}

function applyFilters(form) {
  filterRows(form);
  for (const field of form.querySelectorAll("[data-order]")) orderLines(field.value);
  for (const field of form.querySelectorAll("[data-mark]")) document.body.toggleAttribute(`data-${field.dataset.mark}`, field.checked);
}

function startFilters(form) {
  const groups = [...document.querySelectorAll("details[data-group]:not([data-unlisted])")];
  for (const [name, value] of new URLSearchParams(location.search)) {
    const field = form.elements.namedItem(name);
    if (field && field.type === "checkbox") field.checked = true;
    else if (field) field.value = value;
    if (name === "closed") groups.forEach((group) => { group.open = !value.split(",").includes(group.dataset.group); });
  }
  groups.forEach((group) => group.addEventListener("toggle", () => filterRows(form)));
  form.addEventListener("input", () => applyFilters(form));
  form.addEventListener("submit", (event) => event.preventDefault());
  applyFilters(form);
}

function moveAmongRows(step) {
  const links = [...document.querySelectorAll("[data-row]:not([hidden]) [data-open], [data-curve]:not([hidden]) [data-open]")];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step));
  links[next].focus();
  links[next].scrollIntoView({ block: "nearest" });
}

function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    const field = document.querySelector("[data-filters] input[type=search]");
    if (event.key === "/" && !typing && field) {
      event.preventDefault();
      field.focus();
    } else if (event.key === "Escape" && typing) {
      event.target.blur();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && document.activeElement.matches("[data-open], [data-filters] input[type=search]")) {
      event.preventDefault();
      moveAmongRows(event.key === "ArrowDown" ? 1 : -1);
    }
  });
}

function followStream(status) {
  const target = document.getElementById("live");
  const stream = new EventSource(status.dataset.stream);
  const show = (state, words) => {
    status.dataset.state = state;
    status.textContent = words;
  };
  stream.addEventListener("open", () => show("open", "Connected: what changes appears by itself."));
  stream.addEventListener("error", () => show("lost", "The connection is lost; trying again."));
  stream.addEventListener("message", (event) => {
    // Our own server's HTML, escaped there; the policy of this page lets nothing in it run.
    const pre = [...target.querySelectorAll("pre")].map((log) => log.scrollTop);
    target.innerHTML = event.data;
    target.querySelectorAll("pre").forEach((log, i) => { log.scrollTop = pre[i] ?? log.scrollHeight; });
  });
  target.querySelectorAll("pre").forEach((log) => { log.scrollTop = log.scrollHeight; });
  addEventListener("pagehide", () => stream.close());
}

function loadScript(address) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.addEventListener("load", resolve);
    script.addEventListener("error", reject);
    document.head.append(script);
  });
}

function drawPlot(place, themes) {
  const spec = JSON.parse(place.querySelector("script").textContent);
  const config = themes[matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"];
  config.background = "transparent";
  spec.encoding.color.scale.range = spec.usermeta.tones.map((tone) => config.range.category[tone]);
  const drawing = place.querySelector("div") || place.appendChild(document.createElement("div"));
  // `ast`: expressions are interpreted, since the policy of this page allows no evaluation.
  return vegaEmbed(drawing, spec, { ast: true, actions: false, config, defaultStyle: false, renderer: "svg", tooltip: { disableDefaultStyle: true } });
}

// Drawn as they come into view, and again when the colours of the system change.
function startPlots() {
  const places = [...document.querySelectorAll("[data-plot]")];
  if (!places.length) return;
  const list = places[0].closest("[data-vega]");
  const themes = JSON.parse(list.dataset.themes);
  let library;
  const draw = (place) => {
    library ??= loadScript(list.dataset.vega);
    library.then(() => drawPlot(place, themes)).then(() => { place.dataset.drawn = ""; }, () => { place.dataset.failed = ""; });
  };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "200px" });
  places.forEach((place) => seen.observe(place));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places.filter((place) => "drawn" in place.dataset).forEach(draw));
}

// Say where a table is wider than its box, which scrolls.
function startBoxes() {
  const hints = [...document.querySelectorAll("[data-sideways]")];
  const check = () => hints.forEach((hint) => { hint.hidden = hint.nextElementSibling.scrollWidth <= hint.nextElementSibling.clientWidth; });
  addEventListener("resize", check);
  check();
}

document.querySelectorAll("form[data-filters]").forEach(startFilters);
startBoxes();
document.querySelectorAll("[data-stream]").forEach(followStream);
startKeys();
startPlots();
