// The dashboard: joins what comes from the daemon, what the user wants, and the page.

import "./style.css";

import { render } from "lit-html";

import { placesOf, Weave, type WeaveMessage } from "../weave/model.js";
import { palette } from "../weave/palette.js";
import { paint as paintWeave, shownAtFirst } from "../weave/view.js";
import { begin, type Link, status, Stream } from "./api.js";
import { Asking } from "./asking.js";
import { CHARTS, COLORS, type Mark, Plot, theme } from "./charts.js";
import { laneRates } from "./lanes.js";
import { type Happening, type History, Model, ROWS, type Sample } from "./model.js";
import { rates, type Status } from "./tables.js";
import { type Actions, type Page, view, WINDOWS } from "./view.js";

/** Connections that are listed, and as many as there may be. */
const LISTED = 50;
const LISTED_MOST = 1000;
/** How often the connections are asked for, ms. */
const ASKING = 2000;
/** How often the page is drawn at most for those who want little motion, ms. */
const CALM = 5000;
/** Events that leave a mark in the charts. */
const MARKED = ["path_down", "path_silent", "path_stalled", "path_recovered", "path_up"];

/** Messages that are kept while the page is paused. */
const MAX_HELD = 2 * ROWS;

const root = document.getElementById("app") as HTMLElement;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const page: Page = {
  model: new Model(),
  status: undefined,
  statusAge: null,
  rates: new Map(),
  laneRates: new Map(),
  link: { is: "connecting" },
  notice: "",
  x: [],
  span: { from: 0, to: 1 },
  window: WINDOWS[1][0],
  paused: false,
  row: null,
  tables: new Set(),
  opened: new Set(),
  listsMore: false,
  problemsOnly: false,
  weave: null,
  weaveShown: shownAtFirst(),
};

let plots: Plot[] = [];
let style = theme();
let lastDrawn = 0;
let wanted = false;
/** Whether the charts are to be drawn with it, too. */
let charts = true;

/** Draws the page with the next frame. Where nothing is to move only what the user does is drawn. What
 * comes of a weave draws no charts. */
function draw(byUser = false, withCharts = true): void {
  if (!byUser && page.paused) return;
  charts ||= withCharts;
  if (!byUser && calm.matches && performance.now() - lastDrawn < CALM) return;
  if (wanted) return;
  wanted = true;
  requestAnimationFrame(() => {
    wanted = false;
    paint();
  });
}

function paint(): void {
  const { model } = page;
  lastDrawn = performance.now();
  page.x = model.t.map((t) => model.epoch + t);
  const to = page.x.at(-1) ?? (model.epoch === 0 ? 0 : Date.now() / 1e3);
  // A run begins at 0, and before that there is nothing.
  const from = to - page.window;
  page.span = model.epoch === 0 ? { from: Math.max(0, from), to: Math.max(1, to) } : { from, to };
  // The row under the cursor may have gone.
  if (page.row !== null && page.row >= page.x.length) page.row = null;
  // Where all stands still, so do the figures, and the page says why.
  page.statusAge = page.paused || page.link.is !== "live" ? null : asking.age(lastDrawn);
  render(view(page, actions), root);
  document.title = title();
  if (page.link.is === "refused") {
    plots = [];
    return;
  }
  if (page.weave) {
    const places = placesOf(page.weave.names, model.paths, COLORS);
    paintWeave(page.weave, page.weaveShown, palette((path) => places.get(path) ?? path), false);
  }
  if (!charts && plots.length > 0) return;
  charts = false;
  if (plots.length === 0) plots = CHARTS.map(plotOf);
  const marks: Mark[] = model.events
    .filter((event) => MARKED.includes(event.name) && event.level !== "info")
    .map((event) => ({ t: model.epoch + event.t, level: event.level }));
  for (const plot of plots) plot.draw(model, page.x, page.span, marks, style);
  // uPlot draws when this task is done; then all charts have the same cursor.
  const time = page.row === null ? null : page.x[page.row];
  queueMicrotask(() => plots.forEach((plot) => plot.point(time)));
}

function plotOf(chart: (typeof CHARTS)[number]): Plot {
  const at = document.getElementById(`plot-${chart.id}`) as HTMLElement;
  return new Plot(chart, at, (row) => {
    if (page.row === row) return;
    page.row = row;
    draw(true);
  });
}

function title(): string {
  const { model, status: known, link } = page;
  const row = model.t.length - 1;
  if (link.is !== "live" || row < 0) return "Weftline";
  const bad = model.paths.some((path) => ["silent", "down"].includes(path.state[row]));
  return `${bad ? "⚠ " : ""}Weftline ${known?.daemon ?? ""}`.trim();
}

const actions: Actions = {
  show(window) {
    page.window = window;
    page.row = null;
    draw(true);
  },
  pause() {
    page.paused = !page.paused;
    if (!page.paused) resume();
    draw(true);
  },
  retry() {
    stream.now();
  },
  dismiss() {
    page.notice = "";
    draw(true);
  },
  point(row) {
    page.row = row;
    draw(true);
  },
  table(id, open) {
    if (open === page.tables.has(id)) return;
    if (open) page.tables.add(id);
    else page.tables.delete(id);
    draw(true);
  },
  connection(id) {
    if (!page.opened.delete(id)) page.opened.add(id);
    draw(true);
  },
  list(more) {
    page.listsMore = more;
    askStatus();
    draw(true);
  },
  problems(only) {
    page.problemsOnly = only;
    draw(true);
  },
  watch(connection) {
    page.weave = connection === null ? null : new Weave(connection);
    page.weaveShown = { ...page.weaveShown, direction: null, row: null };
    // The daemon records what is watched, and that alone: the stream says what it is.
    stream.again();
    draw(true);
  },
  weave(what) {
    Object.assign(page.weaveShown, what);
    draw(true, false);
  },
};

/** What has come while nothing was to move; `undefined`: more than is worth keeping. */
let held: (() => void)[] | undefined = [];

/** Takes what has come, now or when the page may move again. */
function take(what: () => void, withCharts = true): void {
  if (!page.paused) {
    what();
    draw(false, withCharts);
  } else if (held && held.push(what) > MAX_HELD) {
    held = undefined;
  }
}

/** Catches up with what has come meanwhile. */
function resume(): void {
  if (held) {
    for (const what of held) what();
  } else {
    page.model.last = "";
    stream.again();
  }
  held = [];
  askStatus();
}

/** Which daemon the stream is of. */
let instance = "";

const stream = new Stream({
  last: () => page.model.last,
  instance(name: string) {
    // The numbers of another daemon's connections, and their times, are others.
    if (page.weave && instance !== "" && instance !== name) page.weave = new Weave(page.weave.connection);
    instance = name;
  },
  load(history: History) {
    const now = Date.now() / 1e3;
    take(() => {
      page.model.load(history, now);
      page.row = null;
    });
  },
  sample(sample: Sample, id: string) {
    take(() => {
      const isFull = page.model.t.length === ROWS;
      // The oldest row goes, and what the cursor is on moves up.
      if (page.model.add(sample, id) && isFull && page.row !== null) page.row = Math.max(0, page.row - 1);
    });
  },
  event(event: Happening, id: string) {
    take(() => page.model.addEvent(event, id));
  },
  watched() {
    // Of one that is over there is nothing more to come.
    return page.weave && !page.weave.over ? page.weave.connection : null;
  },
  weave(message: WeaveMessage) {
    // What was on its way from the one before is of no use.
    const { weave } = page;
    if (!weave || message.connection !== weave.connection) return;
    // It is of this weave, also if another one is looked at when it is taken.
    take(() => weave.take(message), false);
  },
  link(link: Link) {
    page.link = link;
    draw(true);
    askStatus();
  },
});

const asking = new Asking({
  ask: () => status<Status>(page.listsMore ? LISTED_MOST : LISTED),
  answered(now: Status) {
    if (page.status && page.status.pid === now.pid) {
      page.rates = rates(page.status, now);
      page.laneRates = laneRates(page.status, now);
    }
    page.status = now;
    const open = new Set(now.connections.map((one) => one.number));
    for (const id of page.opened) if (!open.has(id)) page.opened.delete(id);
    draw();
  },
  refused: (reason) => stream.refuse(reason),
});

/** Asks for the connections, where somebody looks. */
function askStatus(): void {
  if (page.link.is === "live" && !page.paused) void asking.look(performance.now());
}

window.addEventListener("resize", () => page.weave && draw(true));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  style = theme();
  draw(true);
});
setInterval(askStatus, ASKING);

/** Begins: with a session, if there is one to be had. */
async function start(): Promise<void> {
  try {
    page.notice = await begin();
  } catch (error) {
    page.link = { is: "refused", reason: error instanceof Error ? error.message : String(error) };
    draw(true);
    return;
  }
  stream.follow();
  draw(true);
}

root.replaceChildren();
draw(true);
void start();
// An address with a token that is pasted while the page is open.
window.addEventListener("hashchange", () => void start());
