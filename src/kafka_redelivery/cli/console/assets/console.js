/* Keyboard, colours, clocks and charts. Everything else is htmx's, or plain links and forms. */
(() => {
  "use strict";
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  /* Colours: those of the system until another is chosen. */
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-theme-toggle], [data-help], [data-filters]");
    if (!target) return;
    if (target.matches("[data-theme-toggle]")) {
      root.dataset.theme = dark() ? "light" : "dark";
      localStorage.setItem("theme", root.dataset.theme);
      charts.redraw();
    } else if (target.matches("[data-filters]")) {
      const open = document.getElementById("filters").toggleAttribute("data-open");
      target.setAttribute("aria-expanded", open);
    } else if (target.matches("[data-help]")) {
      help();
    }
  });

  function help() {
    const dialog = document.getElementById("help");
    if (!dialog.open) dialog.showModal();
  }

  /* Rows: j and k move, o and Enter open, r redrives. */
  let going = 0;
  const places = { h: "/", f: "/failures", l: "/letters", j: "/jobs", w: "/waiting", t: "/topology", a: "/audit" };

  function move(by) {
    const rows = all(".rows-nav [data-open]");
    if (!rows.length) return;
    const at = rows.indexOf(document.activeElement.closest("[data-open]"));
    const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
    if (event.key === "Escape" && typing) {
      typing.blur();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const row = document.activeElement.closest("[data-open]");
    const onRow = row && row === document.activeElement;
    if (going && Date.now() - going < 1500) {
      going = 0;
      if (places[event.key]) {
        event.preventDefault();
        location.assign(places[event.key]);
      }
      return;
    }
    switch (event.key) {
      case "/": {
        const search = document.getElementById("search");
        if (search) {
          event.preventDefault();
          search.focus();
          search.select();
        }
        break;
      }
      case "j":
        move(1);
        break;
      case "k":
        move(-1);
        break;
      case "o":
        if (row) location.assign(row.dataset.open);
        break;
      case "Enter":
        if (onRow) location.assign(row.dataset.open);
        break;
      case "x":
        row?.querySelector(".pick input")?.click();
        break;
      case "r": {
        const picked = document.querySelector("[data-picked]:not([hidden]) [data-redrive-picked]");
        if (picked) {
          picked.click();
          break;
        }
        const target = (row && row.dataset.redrive) || document.querySelector("a[data-redrive]")?.getAttribute("href");
        if (target) location.assign(target);
        break;
      }
      case "g":
        going = Date.now();
        break;
      case "?":
        help();
        break;
    }
  });

  /* Rows that are selected stay so when a list is brought up to date. */
  const picks = new Set();
  const boxes = () => all("[data-picks] .pick input");
  function showPicks() {
    const shown = boxes();
    for (const each of shown) each.checked = picks.has(each.value);
    const number = shown.filter((each) => each.checked).length;
    for (const each of all("[data-picked]")) {
      each.hidden = !number;
      each.querySelector("[data-picked-number]").textContent = number;
    }
    for (const each of all("[data-pick-all]")) {
      each.checked = number > 0 && number === shown.length;
      each.indeterminate = number > 0 && number < shown.length;
    }
  }
  function pick(those, yes) {
    for (const each of those) yes ? picks.add(each.value) : picks.delete(each.value);
    showPicks();
  }
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.matches("[data-pick-all]")) pick(boxes(), box.checked);
    else if (box.matches("[data-picks] .pick input")) pick([box], box.checked);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-pick-none]")) pick(boxes(), false);
  });

  /* Clocks: how long ago, and how long until. */
  const units = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
  function span(ms) {
    for (const [unit, name] of units) {
      if (ms >= unit) {
        const shown = ms / unit;
        return `${shown >= 10 || unit === 1000 ? Math.round(shown) : shown.toFixed(1)} ${name}`;
      }
    }
    return "0 s";
  }
  function tick() {
    const offset = Number(document.body.dataset.offset || 0);
    const now = Date.now() + offset;
    for (const each of all("time[data-ms]")) {
      const distance = now - Number(each.dataset.ms);
      const text = Math.abs(distance) < 1000 ? "now" : distance > 0 ? `${span(distance)} ago` : `in ${span(-distance)}`;
      if (each.textContent !== text) each.textContent = text;
    }
  }
  setInterval(tick, 1000);

  /* Charts: uPlot, from numbers in the page. */
  function clock(seconds, all) {
    const text = new Date(seconds * 1000).toISOString();
    return all[all.length - 1] - all[0] > 86400 ? `${text.slice(5, 10)} ${text.slice(11, 16)}` : text.slice(11, 19);
  }
  const seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
  const charts = {
    drawn: new Map(),
    colour(name) {
      /* A canvas needs a colour, not the pair of light-dark() that the property has. */
      const probe = document.body.appendChild(document.createElement("span"));
      probe.style.color = `var(${name})`;
      const found = getComputedStyle(probe).color;
      probe.remove();
      return found;
    },
    draw(holder, text) {
      const data = JSON.parse(text);
      const axis = { stroke: charts.colour("--muted"), grid: { stroke: charts.colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
      const bars = uPlot.paths.bars({ size: [0.8, 60], align: 1 });
      const colours = ["--accent", "--ok", "--bad", "--warn"].map(charts.colour);
      const chart = new uPlot(
        {
          width: Math.max(200, holder.clientWidth),
          height: 230,
          padding: [null, 42, null, null], // room for half of the last label
          cursor: { y: false, points: { show: false } },
          legend: { show: false },
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
          scales: { y: { range: (_chart, _least, most) => [0, Math.max(1, most)] } },
          axes: [{ ...axis, space: 90, incrs: seconds, values: (_chart, ticks) => ticks.map((each) => clock(each, data.at)) }, { ...axis, size: 48 }],
          series: [
            {},
            ...data.series.map((label, number) => ({ label, fill: colours[number % 4], stroke: colours[number % 4], width: 0, paths: bars, points: { show: false } })),
          ],
        },
        [data.at, ...data.values],
        holder,
      );
      charts.drawn.set(holder, { chart, text });
    },
    update() {
      if (!window.uPlot) return;
      for (const holder of all("[data-chart-of]")) {
        const text = document.getElementById(holder.dataset.chartOf)?.dataset.chart;
        const known = charts.drawn.get(holder);
        if (!text && known) {
          known.chart.destroy();
          charts.drawn.delete(holder);
        } else if (text && !known) charts.draw(holder, text);
        else if (text && known.text !== text) {
          const data = JSON.parse(text);
          known.text = text;
          known.chart.setData([data.at, ...data.values]);
        }
      }
    },
    redraw() {
      for (const [holder, { chart }] of charts.drawn) {
        chart.destroy();
        charts.drawn.delete(holder);
      }
      charts.update();
    },
  };
  let resized = 0;
  addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => charts.redraw(), 150);
  });
  document.addEventListener("DOMContentLoaded", () => {
    for (const each of boxes()) if (each.checked) picks.add(each.value); // the browser has kept them
    showPicks();
    charts.update();
    tick();
  });
  document.addEventListener("htmx:afterSettle", () => {
    showPicks();
    charts.update();
    tick();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.redraw());

  /* A form is sent once. */
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || form.dataset.sent) {
      if (form.dataset.sent) event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    for (const button of all("button[type=submit]", form)) button.setAttribute("aria-busy", "true");
  });
  addEventListener("pageshow", () => {
    for (const form of all("form[data-sent]")) {
      delete form.dataset.sent;
      for (const button of all("button[aria-busy]", form)) button.removeAttribute("aria-busy");
    }
  });

  /* What is focused stays focused when a list is brought up to date. */
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr && event.detail.xhr.status === 400) event.detail.shouldSwap = true;
  });
})();
