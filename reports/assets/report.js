"use strict";
// The script of a report: it draws the timelines of the runs in #data, and shows objects revision by revision.
// All text goes into the page as text, never as HTML: it comes from scenarios, objects and logs.
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const str = data.strings;
const root = document.documentElement;

// The kinds of rows and their flags, as htmldata.go has them.
const READ = 0, COMMIT = 1, UNCHANGED = 2, REFUSED = 3, NOT_FOUND = 4, UNANSWERED = 5, CACHED = 6, DELIVERY = 7, LIST = 8,
  START = 9, MACHINE = 10, PASS = 11, LOG = 12, ERROR_LOG = 13, BROKEN = 14, END = 15;
const kindNames = ["read", "commit", "unchanged", "refused", "notfound", "unanswered", "cached", "delivery", "list", "start",
  "machine", "pass", "log", "errorlog", "broken", "end"];
const kindWords = ["reads", "is committed", "changes nothing", "is refused", "finds nothing", "gets no answer", "reads a cache",
  "a cache is told of a commit", "a cache takes a list", "a process starts", "a queue, a timer or a handler", "a pass begins",
  "logs", "logs an error", "is broken", "the end"];
const SHOWN = 1, MARK = 2, FAULT = 4;
const CACHE_LANE = 1, SERVER_LANE = 2;
const GAP = 1000; // milliseconds without a step that are worth a line

// ---- small helpers

// h makes an element. Properties are set as such, those with a dash as attributes; children may be strings.
function h(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (name.includes("-") || name === "role" || name === "for") e.setAttribute(name, value);
    else if (name === "dataset") Object.assign(e.dataset, value);
    else e[name] = value;
  }
  e.append(...children.filter(c => c !== null && c !== undefined && c !== ""));
  return e;
}

// svg makes an element of a drawing.
function svg(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// clock prints virtual milliseconds as the text report does.
function clock(ms) {
  const hours = Math.floor(ms / 3600000), minutes = Math.floor(ms / 60000) % 60;
  const seconds = Math.floor(ms / 1000) % 60, tail = "." + String(ms % 1000).padStart(3, "0") + "s";
  const two = n => String(n).padStart(2, "0");
  if (hours) return `${hours}h${two(minutes)}m${two(seconds)}${tail}`;
  return minutes ? `${minutes}m${two(seconds)}${tail}` : seconds + tail;
}

// span prints a length of time in words.
function span(ms) {
  if (ms < 10000) return (ms / 1000).toFixed(1) + " s";
  const all = Math.round(ms / 1000), minutes = Math.floor(all / 60), seconds = all % 60;
  return [minutes ? minutes + " min" : "", seconds ? seconds + " s" : ""].filter(Boolean).join(" ");
}

const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
// colorOf returns a colour of the page as a drawing on a canvas can use it.
const probe = document.body.appendChild(h("span", { hidden: true }));
function colorOf(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

const said = document.getElementById("said");
function say(words) { said.textContent = ""; requestAnimationFrame(() => { said.textContent = words; }); }

// ---- shapes: every kind has one of its own, so that none needs its colour to be told

// shape draws the sign of a row's kind around a point.
function shape(kind, x, y) {
  const at = { class: "sign " + kindNames[kind], transform: `translate(${x} ${y})` };
  const path = d => svg("path", { ...at, d });
  switch (kind) {
    case COMMIT: return svg("circle", { ...at, r: 5.5 });
    case READ: return svg("circle", { ...at, r: 4 });
    case UNCHANGED: return path("M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0M-2.5 0H2.5");
    case REFUSED: return path("M-5 -5L5 5M5 -5L-5 5");
    case NOT_FOUND: return path("M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0M-5 5L5 -5");
    case UNANSWERED: return path("M-5 -5L0 0L-5 5M3 -5V1M3 4V5");
    case CACHED: return path("M0 -4.5L4.5 0L0 4.5L-4.5 0Z");
    case DELIVERY: return path("M0 -5.5L5.5 0L0 5.5L-5.5 0Z");
    case LIST: return path("M-5 -4H5M-5 0H5M-5 4H5");
    case START: return path("M-4 -5.5L6 0L-4 5.5Z");
    case PASS: return path("M-5 -3.5H5V1L0 5.5L-5 1Z");
    case LOG: return path("M-5 -3L-1.5 0L-5 3M0 -3L3.5 0L0 3");
    case ERROR_LOG: return path("M0 -6L6 5H-6ZM0 -2V1.5M0 3V3.6");
    case BROKEN: return path("M-6 -6L6 6M6 -6L-6 6");
    case END: return path("M-5 -5H5V5H-5Z");
    default: return svg("circle", { ...at, r: 1.8 });
  }
}
const bolt = (x, y) => svg("path", { class: "sign bolt", transform: `translate(${x} ${y})`, d: "M2 -9L-5 1.5H-0.5L-2 9L5 -2H0.5Z" });

// ---- one run

class Workbench {
  constructor(run, place) {
    this.run = run;
    this.rows = run.rows;
    this.n = run.rows.at.length;
    this.server = run.lanes.findIndex(l => l.kind === SERVER_LANE);
    this.all = false;
    this.query = ""; this.objectFilter = 0; this.laneFilter = -1;
    this.selected = -1; this.object = -1; this.version = 0; this.whole = false;
    this.lines = run.objects.map(() => []);
    this.badges = new Map(); // row → its number among those that decide
    for (const row of [...new Set(run.decisions.flat())].sort((a, b) => a - b)) this.badges.set(row, this.badges.size + 1);
    this.deliveries = [];
    for (let i = 0; i < this.n; i++) if (this.rows.kind[i] === DELIVERY && this.rows.cause[i]) this.deliveries.push(i);
    this.build(place);
    this.observe();
  }

  // lane returns the lane in which a row's own sign stands.
  lane(i) { return this.rows.lane[i]; }
  // far returns the lane at the other end of a call: the server's, or a cache's; -1 for what is no call.
  far(i) {
    const kind = this.rows.kind[i];
    if (kind <= UNANSWERED) return this.server;
    if (kind !== CACHED) return -1;
    const next = this.lane(i) + 1;
    return next < this.run.lanes.length && this.run.lanes[next].kind === CACHE_LANE ? next : -1;
  }
  actor(i) { return this.lane(i) < 0 ? "" : this.run.lanes[this.lane(i)].name; }

  build(place) {
    const { run } = this;
    this.filter = h("input", { type: "search", placeholder: "Filter steps", "aria-label": "Filter steps (/)", spellcheck: false,
      oninput: () => { this.query = this.filter.value.toLowerCase(); this.refresh(); } });
    this.objects = h("select", { "aria-label": "Only steps of one object", onchange: () => { this.objectFilter = +this.objects.value; this.refresh(); } },
      h("option", { value: 0 }, "All objects"));
    this.objectOrder = run.objects.map((_, i) => i).sort((a, b) =>
      !run.objects[a].variable - !run.objects[b].variable || run.objects[b].versions.length - run.objects[a].versions.length || a - b);
    for (const i of this.objectOrder) this.objects.append(h("option", { value: i + 1 }, run.objects[i].name));
    this.actors = h("select", { "aria-label": "Only steps of one actor", onchange: () => { this.laneFilter = +this.actors.value; this.refresh(); } },
      h("option", { value: -1 }, "All actors"));
    run.lanes.forEach((l, i) => { if (i !== this.server) this.actors.append(h("option", { value: i }, l.name)); });
    this.allBox = h("input", { type: "checkbox", onchange: () => { this.all = this.allBox.checked; this.refresh(); } });
    this.counted = h("p", { className: "counted", role: "status" });
    const tools = h("div", { className: "tools" },
      h("h3", {}, "Timeline"),
      h("span", { className: "jumps" },
        this.badges.size ? h("button", { type: "button", className: "jump decide", title: "Jump to the next step that decides (d)", onclick: () => this.nextDeciding() }, "▶ What decides") : null,
        run.violations.length ? h("button", { type: "button", className: "jump violate", title: "Jump to the violation (v)", onclick: () => this.nextViolation() }, "✗ Violation") : null),
      h("span", { className: "filters" }, this.filter, this.objects, this.actors,
        h("label", { className: "check", title: "Also caches, queues, timers, and reads by competitors (a)" }, this.allBox, " All steps")));

    this.overview = h("canvas", { className: "overview", "aria-hidden": "true", title: "All steps in their order; click to go there" });
    this.view = h("span", { className: "view" });
    this.heads = h("div", { className: "heads", "aria-hidden": "true" });
    this.graph = svg("svg", { class: "graph", "aria-hidden": "true" });
    this.list = h("div", { className: "rows" });
    this.space = h("div", { className: "space", role: "presentation" }, this.list, this.graph);
    this.scroller = h("div", { className: "scroller", role: "listbox", tabIndex: 0, "aria-label": "Steps in virtual time. " +
      "j and k move, v jumps to the violation." }, this.space);
    this.chart = h("div", { className: "chart" }, h("div", { className: "strip" }, this.overview, this.view), this.heads, this.scroller);
    this.stepPane = h("section", { className: "step", "aria-label": "The step" });
    this.objectPane = h("section", { className: "object", "aria-label": "The object" });
    this.inspector = h("aside", { className: "inspector", "aria-label": "Details" }, this.stepPane, this.objectPane);
    place.append(tools, this.counted, h("div", { className: "panes" }, this.chart, this.inspector));
    const legend = place.dataset.legend;
    place.append(h("p", { className: "note" }, (legend ? legend + " " : "") + "One line for each step, in the order of virtual time; " +
      "spans of a second or more without a step are named, not drawn."));
    this.buildObject();
  }

  observe() {
    this.scroller.addEventListener("scroll", () => this.later(), { passive: true });
    this.scroller.addEventListener("click", e => {
      const row = e.target.closest(".row");
      if (row) this.select(+row.dataset.row, false);
    });
    new ResizeObserver(() => { if (this.measure()) this.later(); }).observe(this.chart);
    const go = e => {
      const box = this.overview.getBoundingClientRect();
      const at = Math.min(Math.max((e.clientX - box.left) / box.width, 0), 1);
      this.scroller.scrollTop = at * this.items.length * this.rowHeight - this.scroller.clientHeight / 2;
    };
    this.overview.addEventListener("pointerdown", e => { this.overview.setPointerCapture(e.pointerId); go(e); });
    this.overview.addEventListener("pointermove", e => { if (e.buttons) go(e); });
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  filtered() { return this.query !== "" || this.objectFilter > 0 || this.laneFilter >= 0; }

  // matches reports whether a row passes the filters. What is broken, and the end, always do but for words.
  matches(i) {
    const r = this.rows, kind = r.kind[i];
    if (!this.all && !(r.flags[i] & SHOWN)) return false;
    if (this.objectFilter && r.object[i] !== this.objectFilter && kind < BROKEN) return false;
    if (this.laneFilter >= 0 && r.lane[i] !== this.laneFilter && this.far(i) !== this.laneFilter && kind < BROKEN) return false;
    if (!this.query) return true;
    const words = [this.actor(i), str[r.what[i]], str[r.answer[i]], str[r.notes[i]], str[r.detail[i]], str[r.event[i]]];
    return words.join(" ").toLowerCase().includes(this.query);
  }

  // refresh makes the list of items anew: rows by their indices, and spans without a step as negative milliseconds.
  refresh() {
    const { at } = this.rows;
    this.items = []; this.place = new Int32Array(this.n).fill(-1);
    let before = -1, rows = 0, steps = 0;
    for (let i = 0; i < this.n; i++) {
      const step = this.rows.event[i] > 0;
      steps += step;
      if (!this.matches(i)) continue;
      if (before >= 0 && at[i] - at[before] >= GAP) this.items.push(at[before] - at[i]);
      this.place[i] = this.items.length;
      this.items.push(i);
      before = i; rows += step;
    }
    const left = this.filtered() ? " pass the filter" : " shown";
    const others = this.all || this.filtered() || rows === steps ? "" : "; the others are of caches, queues and timers, and reads by competitors";
    this.counted.textContent = `${rows} of ${count(steps, "step")}${left}${others}.`;
    this.used = this.run.lanes.map((_, lane) => lane === this.server);
    for (const item of this.items) {
      if (item < 0) continue;
      if (this.lane(item) >= 0) this.used[this.lane(item)] = true;
      if (this.far(item) >= 0) this.used[this.far(item)] = true;
    }
    this.layPasses();
    this.measure(true);
    if (this.selected >= 0 && this.place[this.selected] >= 0) this.reveal(this.selected);
    this.draw();
  }

  // measure lays out the lanes for the width there is; it reports whether anything changed.
  measure(force) {
    const width = this.chart.clientWidth;
    if (!width || (width === this.width && !force)) return false;
    this.width = width;
    this.narrow = width < 560;
    this.rowHeight = this.narrow ? 44 : 27;
    this.timeWidth = this.narrow ? 0 : 92;
    const lanes = this.used.filter(Boolean).length;
    const share = width * (this.narrow ? 0.38 : 0.36);
    this.laneWidth = Math.max(this.narrow ? 20 : 34, Math.min(this.narrow ? 34 : 84, Math.floor(share / lanes)));
    let x = this.timeWidth;
    this.x = this.used.map(used => used ? (x += this.laneWidth) - this.laneWidth / 2 : -1);
    this.textLeft = x + (this.narrow ? 6 : 12);
    this.chart.classList.toggle("narrow", this.narrow);
    const longest = Math.max(...this.run.lanes.flatMap((l, i) => this.used[i] ? l.name.split(" ").map(w => w.length) : []));
    this.chart.classList.toggle("upright", longest * 6.8 > this.laneWidth - 2);
    this.heads.replaceChildren(...this.run.lanes.flatMap((l, i) => this.used[i] ? [this.head(l, i)] : []));
    this.space.style.height = this.items.length * this.rowHeight + "px";
    this.graph.setAttribute("width", x + 4);
    this.chart.style.setProperty("--row", this.rowHeight + "px");
    this.chart.style.setProperty("--left", this.textLeft + "px");
    this.drawOverview();
    return true;
  }

  head(lane, i) {
    const head = h("span", { className: "head", title: lane.name + (lane.what ? ": " + lane.what : "") }, h("span", {}, lane.name));
    head.style.left = this.x[i] - this.laneWidth / 2 + "px";
    head.style.width = this.laneWidth + "px";
    return head;
  }

  // draw makes the rows and the drawing of what is in view, and nothing else.
  draw() {
    if (!this.width) return;
    const { rowHeight, items } = this, view = this.scroller.clientHeight;
    const top = Math.min(this.scroller.scrollTop, Math.max(items.length * rowHeight - view, 0)); // the list may have become shorter
    const from = this.printing ? 0 : Math.max(Math.floor(top / rowHeight) - 8, 0);
    const to = this.printing ? items.length : Math.min(Math.ceil((top + view) / rowHeight) + 8, items.length);
    const rows = [];
    for (let k = from; k < to; k++) rows.push(items[k] < 0 ? this.gap(k) : this.row(k));
    const at = this.selected >= 0 ? this.place[this.selected] : -1;
    if (at >= 0 && (at < from || at >= to)) rows.push(this.row(at)); // aria-activedescendant must be there
    if (!items.length) rows.push(h("p", { className: "nothing" }, "No step passes the filter. Escape clears it."));
    this.list.replaceChildren(...rows);
    this.drawGraph(from, to);
    this.drawView();
  }

  id(i) { return `step-${this.run.number}-${i}`; }

  row(k) {
    const i = this.items[k], r = this.rows, kind = r.kind[i], badge = this.badges.get(i);
    const answer = str[r.answer[i]], notes = str[r.notes[i]], detail = str[r.detail[i]];
    const e = h("div", { id: this.id(i), role: "option", "aria-selected": String(i === this.selected), "aria-posinset": k + 1,
      "aria-setsize": this.items.length, className: `row ${kindNames[kind]}`, dataset: { row: i }, title: notes || detail ? [notes, detail].filter(Boolean).join("\n") : "" });
    e.style.top = k * this.rowHeight + "px";
    if (r.flags[i] & MARK) e.classList.add("mark");
    if (i === this.selected) e.classList.add("selected");
    const text = h("span", { className: "text" });
    if (badge) text.append(h("b", { className: "decides", "aria-label": "decides, number " + badge }, "▶ " + badge));
    text.append(h("span", { className: "what" }, (kind === BROKEN ? "✗ " : kind === LOG || kind === ERROR_LOG ? "» " : "") + str[r.what[i]]));
    const chip = answer ? this.chip(i) : null;
    if (chip && !this.narrow) text.append(chip);
    if (r.flags[i] & FAULT) text.append(h("span", { className: "fault" }, "⚡ " + notes.slice(notes.indexOf("fault "))));
    const rest = r.flags[i] & FAULT ? notes.slice(0, Math.max(notes.indexOf("fault ") - 2, 0)) : notes;
    const more = h("span", { className: "more" }, [rest, detail].filter(Boolean).join(" · "));
    const time = h("span", { className: "time" }, clock(r.at[i]));
    const who = h("span", { className: "who" }, this.actor(i));
    if (this.narrow) e.append(text, h("span", { className: "under" }, time, who, chip, more));
    else { text.append(more); e.append(time, h("span", { className: "who visually-hidden" }, this.actor(i) + ": "), text); }
    return e;
  }

  // chip is the answer to a request, with a sign that tells how it came out.
  chip(i) {
    const kind = this.rows.kind[i], sign = { [REFUSED]: "✗ ", [UNANSWERED]: "✗ ", [COMMIT]: "● " }[kind] || "";
    return h("span", { className: "answer " + kindNames[kind] }, sign + str[this.rows.answer[i]]);
  }

  gap(k) {
    const e = h("div", { className: "row gap", role: "presentation" }, h("span", { className: "text" }, `⋮ ${span(-this.items[k])} later`));
    e.style.top = k * this.rowHeight + "px";
    return e;
  }

  y(k) { return (k + 0.5) * this.rowHeight; }
  // point returns where a row's own sign is.
  point(i) { return [this.lane(i) < 0 ? this.x[this.server] : this.x[this.lane(i)], this.y(this.place[i])]; }

  drawGraph(from, to) {
    const g = [], top = from * this.rowHeight, bottom = to * this.rowHeight;
    this.graph.setAttribute("height", bottom - top);
    this.graph.setAttribute("viewBox", `0 ${top} ${this.graph.getAttribute("width")} ${bottom - top}`);
    this.graph.style.top = top + "px";
    this.run.lanes.forEach((lane, i) => {
      if (this.used[i]) g.push(svg("line", { class: i === this.server ? "life server" : "life", x1: this.x[i], x2: this.x[i], y1: top, y2: bottom }));
    });
    this.drawPasses(g, from, to);
    for (const i of this.deliveries) this.drawDelivery(g, i, from, to);
    for (let k = from; k < to; k++) if (this.items[k] >= 0) this.drawRow(g, this.items[k]); else this.drawGap(g, k);
    this.drawDecisions(g, from, to);
    this.graph.replaceChildren(...g);
  }

  drawGap(g, k) {
    for (const x of this.x) if (x >= 0) g.push(svg("line", { class: "torn", x1: x, x2: x, y1: k * this.rowHeight + 3, y2: (k + 1) * this.rowHeight - 3 }));
  }

  // layPasses finds from which to which item each pass goes. One of which some is filtered shrinks to what is left of it.
  layPasses() {
    this.bars = [];
    const ends = this.run.lanes.map(() => []); // where the last bar ends, of each that lie side by side in a lane
    for (const [lane, first, last, name, error] of this.run.passes) {
      let a = first, b = last;
      while (a <= b && this.place[a] < 0) a++;
      while (b > a && this.place[b] < 0) b--;
      if (a > b) continue;
      let side = ends[lane].findIndex(end => end < this.place[a]);
      if (side < 0) side = ends[lane].length;
      ends[lane][side] = this.place[b];
      this.bars.push([lane, this.place[a], this.place[b], name, error, side]);
    }
    this.beside = Math.max(1, ...ends.map(e => e.length));
  }

  drawPasses(g, from, to) {
    const step = Math.min(8, (this.laneWidth - 16) / this.beside); // passes at the same time lie side by side
    for (const [lane, a, b, name, error, side] of this.bars) {
      if (b < from || a > to) continue;
      const y1 = a * this.rowHeight + 3, y2 = (b + 1) * this.rowHeight - 3;
      g.push(svg("rect", { class: error ? "pass failed" : "pass", x: this.x[lane] - 7 + side * step, y: y1, width: side ? Math.max(step - 1, 2) : 14, height: y2 - y1, rx: side ? 2 : 7 },
        svg("title", {}, str[name] + (error ? "; it returned an error: " + str[error] : ""))));
    }
  }

  // drawDelivery draws the arrow from a commit to a cache that is told of it.
  drawDelivery(g, i, from, to) {
    const cause = this.rows.cause[i] - 1, a = this.place[cause], b = this.place[i];
    if (b < 0 || (a < 0 ? b : Math.min(a, b)) > to || b < from || this.lane(i) < 0) return;
    const x1 = this.x[this.server], x2 = this.x[this.lane(i)], y2 = this.y(b), y1 = a < 0 ? y2 : this.y(a);
    const picked = i === this.selected || cause === this.selected ? " picked" : "";
    const lit = (this.rows.flags[i] & MARK ? " mark" : "") + picked;
    this.arrow(g, "delivery" + lit, x1, y1, x2, y2, 7);
  }

  // arrow draws a line with a head that ends short of its goal.
  arrow(g, name, x1, y1, x2, y2, short) {
    const length = Math.hypot(x2 - x1, y2 - y1) || 1, ux = (x2 - x1) / length, uy = (y2 - y1) / length;
    const ex = x2 - ux * short, ey = y2 - uy * short, w = name.startsWith("edge") ? 6.5 : 3.5, l = name.startsWith("edge") ? 12 : 7;
    g.push(svg("path", { class: "arrow " + name, d: `M${x1} ${y1}L${ex - ux * l * 0.6} ${ey - uy * l * 0.6}` }));
    g.push(svg("path", { class: "tip " + name, d: `M${ex} ${ey}L${ex - ux * l - uy * w} ${ey - uy * l + ux * w}L${ex - ux * l + uy * w} ${ey - uy * l - ux * w}Z` }));
  }

  drawRow(g, i) {
    const kind = this.rows.kind[i], [x, y] = this.point(i), far = this.far(i);
    if (kind >= BROKEN) {
      g.push(svg("line", { class: kind === BROKEN ? "across broken" : "across", x1: this.timeWidth + 4, x2: this.textLeft - 8, y1: y, y2: y }));
      g.push(shape(kind, x, y));
      return;
    }
    if (x < 0) return;
    if (far >= 0 && far !== this.lane(i)) {
      const x2 = this.x[far];
      if (kind === UNANSWERED) g.push(svg("line", { class: "call unanswered", x1: x, y1: y, x2: x + (x2 - x) * 0.72, y2: y }));
      else this.arrow(g, "call " + kindNames[kind], x, y, x2, y, 8);
      g.push(svg("circle", { class: "sign from", transform: `translate(${x} ${y})`, r: 3 }), shape(kind, x2, y));
    } else {
      g.push(shape(kind, x, y));
    }
    if (this.rows.flags[i] & FAULT) g.push(bolt(far >= 0 ? x + (this.x[far] - x) * 0.55 : x + 15, y));
  }

  // drawDecisions draws what decides over all else: an edge from each step to the next, and a dashed one from a read to the write
  // that rests on it.
  drawDecisions(g, from, to) {
    const inView = (a, b) => a >= 0 && b >= 0 && Math.max(a, b) >= from && Math.min(a, b) <= to;
    for (const rows of this.run.decisions) {
      for (let k = 1; k < rows.length; k++) {
        const [a, b] = [rows[k - 1], rows[k]];
        if (!inView(this.place[a], this.place[b])) continue;
        const [x1, y1] = this.point(a), [x2, y2] = this.point(b);
        g.push(svg("path", { class: "halo", d: `M${x1} ${y1}L${x2} ${y2}` }));
        this.arrow(g, "edge", x1, y1, x2, y2, 10);
      }
      for (const i of rows) {
        const read = this.rows.reads[i] - 1;
        if (read < 0 || !rows.includes(read) || !inView(this.place[read], this.place[i])) continue;
        const [x, y1] = this.point(read), y2 = this.y(this.place[i]), out = Math.max(x - this.laneWidth * 0.62, this.timeWidth + 3);
        g.push(svg("path", { class: "rests", d: `M${x} ${y1}C${out} ${y1} ${out} ${y1 + 14} ${out} ${(y1 + y2) / 2}S${out} ${y2} ${x} ${y2}` }));
      }
    }
    for (const [i, number] of this.badges) {
      const k = this.place[i];
      if (k < from || k > to || k < 0) continue;
      const [x, y] = this.point(i);
      g.push(svg("circle", { class: "badge", cx: x, cy: y, r: 9.5 }));
      g.push(svg("text", { class: "badge-text", x, y: y + 4, "text-anchor": "middle" }, String(number)));
    }
  }

  // drawOverview draws all items small: a lane is a line, and what decides and what is broken stand out.
  drawOverview() {
    const lanes = this.used.filter(Boolean).length, width = this.overview.clientWidth, height = Math.max(lanes * 6 + 8, 30);
    const scale = window.devicePixelRatio || 1, c = this.overview.getContext("2d");
    this.overview.width = Math.round(width * scale);
    this.overview.height = Math.round(height * scale);
    this.overview.style.height = height + "px";
    c.scale(scale, scale);
    const step = width / Math.max(this.items.length, 1), tick = Math.max(step - 0.5, 1), middle = (height - lanes * 6) / 2;
    const [calm, good, bad, warn, link, text, line, decide] =
      ["--faint", "--good", "--bad", "--warn", "--link", "--text", "--line", "--decide"].map(colorOf);
    const paint = { [COMMIT]: good, [REFUSED]: bad, [UNANSWERED]: bad, [ERROR_LOG]: bad, [LOG]: warn, [DELIVERY]: link, [LIST]: link, [START]: text };
    let next = 0;
    const rank = this.used.map(used => used ? next++ : -1);
    this.items.forEach((i, k) => {
      if (i < 0) { c.fillStyle = line; c.fillRect(k * step, 0, Math.min(tick, 2), height); return; }
      const lane = this.lane(i) < 0 ? -1 : rank[this.lane(i)];
      if (lane < 0) return;
      c.fillStyle = paint[this.rows.kind[i]] || calm;
      c.fillRect(k * step, middle + lane * 6, tick, 4);
    });
    const stroke = (i, color) => {
      if (this.place[i] < 0) return;
      c.fillStyle = color;
      c.fillRect(this.place[i] * step, 0, Math.max(Math.min(tick, 3), 2), height);
    };
    for (const i of this.run.violations) stroke(i, bad);
    for (const i of this.badges.keys()) stroke(i, decide);
  }

  // drawView marks in the overview what is in view.
  drawView() {
    const total = Math.max(this.items.length * this.rowHeight, 1), part = this.scroller.clientHeight / total;
    this.view.hidden = part >= 1;
    this.view.style.left = this.scroller.scrollTop / total * 100 + "%";
    this.view.style.width = Math.min(part, 1) * 100 + "%";
  }

  // ---- moving

  reveal(i, center) {
    const k = this.place[i], top = k * this.rowHeight, view = this.scroller.clientHeight;
    if (k < 0) return;
    if (center || top < this.scroller.scrollTop - this.rowHeight * 8 || top > this.scroller.scrollTop + view + this.rowHeight * 8) this.scroller.scrollTop = top - view / 2 + this.rowHeight;
    else if (top < this.scroller.scrollTop + this.rowHeight) this.scroller.scrollTop = top - this.rowHeight;
    else if (top + 2 * this.rowHeight > this.scroller.scrollTop + view) this.scroller.scrollTop = top + 2 * this.rowHeight - view;
  }

  // select shows a step. One that the filters hide has them cleared.
  select(i, center) {
    if (this.place[i] < 0) { this.clear(i); center = true; }
    this.selected = i;
    this.reveal(i, center);
    this.scroller.setAttribute("aria-activedescendant", this.id(i));
    const object = this.rows.object[i];
    if (object) { this.object = object - 1; this.version = this.rows.version[i]; }
    this.showStep(i);
    this.showObject();
    this.draw();
    remember(`${this.run.id}:${i + 1}`);
  }

  clear(i) {
    this.query = this.filter.value = "";
    this.objectFilter = 0; this.objects.value = 0;
    this.laneFilter = -1; this.actors.value = -1;
    if (i !== undefined && !(this.rows.flags[i] & SHOWN)) this.all = this.allBox.checked = true;
    this.refresh();
  }

  move(by) {
    let k = this.selected < 0 ? (by > 0 ? -1 : this.items.length) : this.place[this.selected];
    do k += by > 0 ? 1 : -1; while (k >= 0 && k < this.items.length && this.items[k] < 0);
    if (k >= 0 && k < this.items.length) this.select(this.items[k], false);
  }

  page(by) {
    const k = this.selected < 0 ? 0 : this.place[this.selected];
    const goal = Math.min(Math.max(k + by * Math.max(Math.floor(this.scroller.clientHeight / this.rowHeight) - 2, 1), 0), this.items.length - 1);
    const item = this.items[goal] < 0 ? this.items[goal + 1] : this.items[goal];
    if (item !== undefined) this.select(item, false);
  }

  next(rows) {
    if (!rows.length) return;
    const after = rows.find(i => i > this.selected);
    this.select(after === undefined ? rows[0] : after, true);
  }
  nextDeciding() { this.next([...this.badges.keys()]); }
  nextViolation() { this.next(this.run.violations); }

  // ---- the step and the object

  showStep(i) {
    const r = this.rows, kind = r.kind[i], facts = [];
    const fact = (name, ...value) => facts.push(h("dt", {}, name), h("dd", {}, ...value));
    const link = (row) => h("button", { type: "button", className: "link", onclick: () => this.select(row, true) },
      `${clock(r.at[row])} ${this.actor(row)} ${str[r.what[row]]}`);
    fact("when", clock(r.at[i]) + " of virtual time");
    if (this.lane(i) >= 0) fact("who", this.actor(i) + (this.run.lanes[this.lane(i)].what ? ` (${this.run.lanes[this.lane(i)].what})` : ""));
    if (str[r.notes[i]]) fact("more", str[r.notes[i]]);
    if (str[r.detail[i]]) fact(kind === REFUSED || kind === UNANSWERED ? "message" : kind === COMMIT ? "changed" : "details", str[r.detail[i]]);
    const inPass = this.run.passes.find(p => i >= p[1] && i <= p[2] && p[0] === this.lane(i));
    if (inPass && kind !== PASS) fact("pass", str[inPass[3]] + (inPass[4] ? "; it returned: " + str[inPass[4]] : ""));
    if (r.reads[i]) fact("rests on", link(r.reads[i] - 1));
    if (r.cause[i]) fact("because of", link(r.cause[i] - 1));
    if (str[r.event[i]]) fact("its name", h("code", {}, str[r.event[i]]));
    const badge = this.badges.get(i);
    this.stepPane.replaceChildren(
      h("h4", {}, badge ? h("b", { className: "decides" }, "▶ " + badge) : null, str[r.what[i]],
        str[r.answer[i]] ? this.chip(i) : null),
      h("dl", { className: "facts" }, ...facts));
  }

  buildObject() {
    const pick = h("select", { "aria-label": "Object", onchange: () => { this.object = +pick.value; this.version = this.run.objects[this.object].versions.length - 1; this.showObject(); } });
    for (const i of this.objectOrder) {
      const o = this.run.objects[i];
      pick.append(h("option", { value: i }, o.name + (o.variable ? ` (${o.variable})` : "")));
    }
    this.pick = pick;
    this.older = h("button", { type: "button", "aria-label": "Revision before ([)", title: "Revision before ([)", onclick: () => this.turn(-1) }, "‹");
    this.newer = h("button", { type: "button", "aria-label": "Revision after (])", title: "Revision after (])", onclick: () => this.turn(1) }, "›");
    this.revision = h("span", { className: "revision", role: "status" });
    const whole = h("input", { type: "checkbox", onchange: () => { this.whole = whole.checked; this.showObject(); } });
    this.diff = h("pre", { className: "diff", tabIndex: 0, "aria-label": "What this revision changed" });
    this.origin = h("p", { className: "origin" });
    if (!this.run.objects.length) { this.objectPane.hidden = true; return; }
    this.objectPane.append(h("div", { className: "object-head" }, pick,
      h("span", { className: "turn" }, this.older, this.revision, this.newer), h("label", { className: "check" }, whole, " Whole object")), this.origin, this.diff);
    this.object = this.objectOrder[0];
    this.version = this.run.objects[this.object].versions.length - 1;
  }

  turn(by) {
    if (this.object < 0) return;
    const { versions } = this.run.objects[this.object];
    const goal = Math.min(Math.max(this.version + by, 0), versions.length - 1);
    if (goal === this.version) return;
    this.version = goal;
    const row = versions[goal].row - 1, object = this.object;
    if (row >= 0) this.select(row, false);
    this.object = object; this.version = goal; // a step may have met one version and made another
    this.showObject();
  }

  // linesOf returns the lines of a version, which are kept as edits of the one before.
  linesOf(object, version) {
    const known = this.lines[object], { versions } = this.run.objects[object];
    for (let v = known.length; v <= version; v++) {
      const lines = v ? known[v - 1].slice() : [];
      for (const [at, away, ...put] of versions[v].edits.slice().reverse()) lines.splice(at, away, ...put);
      known.push(lines);
    }
    return known[version];
  }

  showObject() {
    if (this.object < 0 || !this.run.objects.length) return;
    const o = this.run.objects[this.object], v = o.versions[this.version], row = v.row - 1;
    this.pick.value = this.object;
    this.older.disabled = this.version === 0;
    this.newer.disabled = this.version === o.versions.length - 1;
    this.revision.textContent = `revision ${v.revision} · ${this.version + 1} of ${o.versions.length}`;
    const by = row < 0 ? "" : ` at ${clock(this.rows.at[row])}, ${this.actor(row)}`;
    const how = { seen: "first seen", created: "created", written: "written", gone: "removed" }[v.how];
    this.origin.replaceChildren(row < 0 ? how : h("button", { type: "button", className: "link", onclick: () => this.select(row, true) }, how + by));
    const after = this.linesOf(this.object, this.version), before = this.version ? this.linesOf(this.object, this.version - 1) : [];
    const out = [], plain = this.version === 0;
    const line = (tone, sign, s) => out.push(h("span", { className: tone }, (plain ? "" : sign + " ") + str[s]), "\n");
    if (plain) after.forEach(s => line("", "", s));
    else this.diffLines(before, v.edits, line, words => out.push(h("span", { className: "dim hunk" }, words), "\n"));
    if (!out.length) out.push(h("span", { className: "dim" }, "nothing but bookkeeping changed"));
    this.diff.replaceChildren(...out);
    if (this.whole) { const first = this.diff.querySelector(".come, .gone"); if (first) this.diff.scrollTop = first.offsetTop - this.diff.offsetTop - 60; }
  }

  // diffLines walks over a version's edits with the lines around them; before a hunk it names the fields that it is in.
  diffLines(before, edits, line, hunk) {
    const context = this.whole ? Infinity : 2;
    let at = 0;
    edits.forEach(([start, away, ...put], k) => {
      const from = Math.max(at, start - context);
      if (from > at || (k === 0 && from > 0)) { const path = pathOf(before, from); hunk(path ? "… " + path : "…"); }
      for (let i = Math.max(from, at); i < start; i++) line("", " ", before[i]);
      for (let i = start; i < start + away; i++) line("gone", "-", before[i]);
      for (const s of put) line("come", "+", s);
      at = start + away;
      const next = k + 1 < edits.length ? edits[k + 1][0] : before.length;
      const end = Math.min(at + context, next);
      for (let i = at; i < end; i++) line("", " ", before[i]);
      at = Math.max(at, end);
    });
  }

  // print shows all rows, as far as paper can be asked to bear them.
  print(on) {
    this.printing = on && this.items.length <= 3000;
    this.draw();
  }
}

// pathOf names the fields that a line of YAML is in.
function pathOf(lines, at) {
  const indent = s => s.length - s.trimStart().length;
  let depth = at < lines.length ? indent(str[lines[at]]) : 0;
  const path = [];
  for (let i = at - 1; i >= 0 && depth > 0; i--) {
    const s = str[lines[i]], d = indent(s);
    if (d < depth && /^\s*(- )?[^\s].*:$/.test(s)) { path.unshift(s.trim().replace(/^- /, "").slice(0, -1)); depth = d; }
  }
  return path.join(" › ");
}

// ---- the page

const articles = [...document.querySelectorAll("article.run")], links = [...document.querySelectorAll(".finding-link")];
const benches = [];
let current = 0;
const bench = () => benches[current];

// remember keeps in the address what is shown, so that it can be linked to.
function remember(hash) {
  try { history.replaceState(null, "", "#" + hash); } catch { /* some browsers refuse that to files */ }
}

// show shows a run, and makes its workbench the first time.
function show(index, row) {
  current = index;
  articles.forEach((a, i) => a.classList.toggle("current", i === index));
  links.forEach((a, i) => { if (i === index) a.setAttribute("aria-current", "true"); else a.removeAttribute("aria-current"); });
  if (!benches[index]) {
    const run = data.runs[index];
    run.number = index + 1; run.id = articles[index].id;
    benches[index] = new Workbench(run, articles[index].querySelector(".workbench"));
    benches[index].refresh();
    const decided = run.decisions.length ? run.decisions[0] : [];
    const first = row !== undefined ? row : decided.length ? decided[decided.length - 1] : run.violations.length ? run.violations[0] : 0;
    if (first < benches[index].n) benches[index].select(first, true);
  } else if (row !== undefined) bench().select(row, true);
}

function showFinding(by) {
  const goal = current + by;
  if (goal < 0 || goal >= articles.length) return;
  show(goal);
  articles[goal].scrollIntoView();
  say(articles[goal].querySelector("h2").textContent);
}

function fromAddress() {
  const [id, row] = decodeURIComponent(location.hash.slice(1)).split(":");
  const index = articles.findIndex(a => a.id === id);
  return [Math.max(index, 0), index >= 0 && row > 0 && row <= data.runs[index].rows.at.length ? row - 1 : undefined];
}

// themes in the order the button goes through them; "auto" is the system's.
const themes = ["auto", "light", "dark"], themeButton = document.getElementById("theme");
function setTheme(theme) {
  if (!themes.includes(theme)) theme = "auto";
  root.dataset.theme = theme;
  themeButton.querySelector("span").textContent = theme;
  try { localStorage.setItem("stalemate-theme", theme); } catch { /* not kept, then */ }
  repaint();
}
// repaint draws again what has its colours from the theme, and not from the style sheet.
function repaint() { if (bench()) bench().drawOverview(); }
const turnTheme = () => setTheme(themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length]);

async function copy(button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
  } catch { // no permission, or no secure context: as it was done before
    getSelection().selectAllChildren(button.previousElementSibling);
    done = document.execCommand("copy");
  }
  button.textContent = done ? "Copied" : "Ctrl+C"; // the line is selected
  say(done ? "Copied: " + button.dataset.copy : "The line is selected: copy it with Control and C");
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

const help = document.getElementById("help");
function openHelp() {
  if (!help.open) help.showModal();
}

const keys = {
  j: () => bench().move(1), ArrowDown: () => bench().move(1), k: () => bench().move(-1), ArrowUp: () => bench().move(-1),
  PageDown: () => bench().page(1), PageUp: () => bench().page(-1),
  v: () => bench().nextViolation(), d: () => bench().nextDeciding(),
  "[": () => bench().turn(-1), "]": () => bench().turn(1),
  "/": () => { bench().filter.focus(); bench().filter.select(); },
  a: () => { bench().all = bench().allBox.checked = !bench().all; bench().refresh(); },
  n: () => showFinding(1), p: () => showFinding(-1),
};
// Keys that scroll belong to the timeline only while it has the focus, or nothing has.
const scrolling = ["ArrowDown", "ArrowUp", "PageDown", "PageUp"];

function onKey(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || help.open) return;
  const target = e.target instanceof Element ? e.target : document.body;
  const typing = target.matches("input[type=search], select, textarea");
  if (e.key === "Escape" && bench()) {
    if (bench().filtered()) bench().clear();
    bench().scroller.focus({ preventScroll: true });
    return;
  }
  if (typing) {
    if (e.key === "Enter" && target.matches("input")) bench().scroller.focus({ preventScroll: true });
    return;
  }
  if (e.key === "?") { openHelp(); e.preventDefault(); return; }
  if (e.key === "t") { turnTheme(); return; }
  if (!bench() || !keys[e.key]) return;
  if (scrolling.includes(e.key) && target !== document.body && target !== bench().scroller) return;
  keys[e.key]();
  e.preventDefault();
}

function begin() {
  root.classList.add("js");
  let theme = "auto";
  try { theme = localStorage.getItem("stalemate-theme") || "auto"; } catch { /* not kept */ }
  setTheme(theme);
  themeButton.hidden = false;
  themeButton.onclick = turnTheme;
  const helpButton = document.getElementById("help-open");
  helpButton.hidden = false;
  helpButton.onclick = openHelp;
  const signs = document.getElementById("signs");
  const sign = (drawing, words) => signs.append(h("dt", {}, svg("svg", { width: 20, height: 20, viewBox: "-10 -10 20 20", "aria-hidden": "true" }, drawing)), h("dd", {}, words));
  [COMMIT, READ, UNCHANGED, REFUSED, NOT_FOUND, UNANSWERED, CACHED, DELIVERY, LIST, START, PASS, LOG, ERROR_LOG, BROKEN].forEach(k => sign(shape(k, 0, 0), kindWords[k]));
  sign(bolt(0, 0), "a fault strikes");
  sign(svg("circle", { class: "badge", r: 9 }), "decides, with its number; the thick line is the order that made the difference");
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", e => {
    const button = e.target.closest("button.copy");
    if (button) copy(button);
  });
  links.forEach((a, i) => a.addEventListener("click", e => { e.preventDefault(); show(i); articles[i].scrollIntoView(); remember(articles[i].id); }));
  addEventListener("hashchange", () => { if (articles.length) show(...fromAddress()); });
  let opened = []; // paper cannot be asked to unfold anything
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const d of opened) d.open = true;
    if (bench()) bench().print(true);
  });
  addEventListener("afterprint", () => {
    for (const d of opened) d.open = false;
    if (bench()) bench().print(false);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  if (articles.length) show(...fromAddress());
  // Two frames on, what is in view has been painted: so long did it take since the page was asked for.
  requestAnimationFrame(() => requestAnimationFrame(() => { root.dataset.ready = performance.now().toFixed(0); }));
}
begin();
})();
