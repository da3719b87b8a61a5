// The page: what stands where. It is drawn anew from what is known, and only what differs changes.

import { html, nothing, type TemplateResult } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";

import type { Weave } from "../weave/model.js";
import { type Shown, view as weaveView } from "../weave/view.js";
import type { Link } from "./api.js";
import { type Chart, CONNECTION_CHARTS, PATH_CHARTS, type Span } from "./charts.js";
import { bytes, clock, duration, number } from "./format.js";
import { hasLanes, type LaneRates, lanes } from "./lanes.js";
import { type Happening, type Model, sum } from "./model.js";
import { legend, patterns, strips } from "./states.js";
import { behind, connections, paths, type Rates, type Status, swatch } from "./tables.js";

/** Times that can be shown, in s. */
export const WINDOWS: [seconds: number, name: string][] = [
  [60, "1 min"],
  [180, "3 min"],
  [600, "10 min"],
];

/** All that the page shows, and what it was told to show. */
export interface Page {
  model: Model;
  status: Status | undefined;
  /** How old that is, s, where it is older than it should be. */
  statusAge: number | null;
  rates: Rates;
  laneRates: LaneRates;
  link: Link;
  /** What was refused while the page goes on. */
  notice: string;
  /** The time of each row, seconds since 1970. */
  x: number[];
  span: Span;
  window: number;
  /** Nothing moves until it is off again. */
  paused: boolean;
  /** The row under the cursor; `null`: the newest. */
  row: number | null;
  /** Charts whose tables are open, and connections whose paths are. */
  tables: Set<string>;
  opened: Set<number>;
  /** As many connections are listed as there may be. */
  listsMore: boolean;
  problemsOnly: boolean;
  /** The weave that is watched, and how it is looked at. */
  weave: Weave | null;
  weaveShown: Shown;
}

/** What can be done on the page. */
export interface Actions {
  show(window: number): void;
  pause(): void;
  retry(): void;
  /** Takes the notice away. */
  dismiss(): void;
  /** Moves the cursor to a row; `null`: to the newest. */
  point(row: number | null): void;
  table(id: string, open: boolean): void;
  connection(id: number): void;
  /** Lists more connections, or fewer again. */
  list(more: boolean): void;
  problems(only: boolean): void;
  /** Watches the weave of a connection; `null`: of none. */
  watch(connection: number | null): void;
  weave(what: Partial<Shown>): void;
}

export function view(page: Page, actions: Actions): TemplateResult {
  if (page.link.is === "refused") return refused(page.link.reason);
  return html`${patterns()}
    <header>${heading(page)} ${link(page, actions)}</header>
    ${page.notice
      ? html`<p class="notice" role="alert">${page.notice} <button type="button" @click=${actions.dismiss}>Close</button></p>`
      : nothing}
    <main>
      ${tiles(page)}
      <section aria-labelledby="paths-heading">
        <div class="bar-of-controls">
          <h2 id="paths-heading">Paths</h2>
          ${controls(page, actions)}
        </div>
        ${paths(page.model, shownRow(page), when(page))} ${timeline(page, actions)}
        <div class="charts">
          ${PATH_CHARTS.map((chart) => figure(chart, page, actions))}
          <figure class="states">
            <figcaption>State</figcaption>
            ${strips(page.model, page.x, page.span)} ${legend()}
          </figure>
        </div>
      </section>
      <section aria-labelledby="lanes-heading" ?hidden=${!hasLanes(page.status)}>
        <h2 id="lanes-heading">Lanes</h2>
        <p class="empty">${asOf(page)}</p>
        ${page.status ? lanes(page.status, page.laneRates) : nothing}
      </section>
      <section aria-labelledby="connections-heading" ?hidden=${!hasConnections(page)}>
        <h2 id="connections-heading">Connections</h2>
        <div class="charts">${CONNECTION_CHARTS.map((chart) => figure(chart, page, actions))}</div>
        <p class="empty">${asOf(page)}</p>
        ${page.status
          ? html`${connections(page.status, page.rates, page.opened, actions.connection)} ${listed(page, actions)}`
          : html`<p class="empty">They are being asked for.</p>`}
      </section>
      ${weave(page, actions)} ${events(page, actions)}
    </main>
    <footer>
      <p>
        Rates are means over the time from point to point. Retransmitted counts segments of 1,448 bytes. Lines across
        the charts are events. <a href="/a/licenses.txt">Licences</a>
      </p>
    </footer>`;
}

function refused(reason: string): TemplateResult {
  return html`<main class="refused">
    <h1>Weftline</h1>
    <p role="alert">${reason}</p>
  </main>`;
}

/** From when figures are that do not come with the samples, where they are older than they should be. */
function asOf({ statusAge }: Page): string {
  return statusAge === null ? "" : `as of ${duration(statusAge)} ago`;
}

/** Nodes of a coded tunnel carry packets and have links only. */
function hasConnections({ status }: Page): boolean {
  return !status?.daemon.startsWith("cotag");
}

/** The row that tables of the moment show. */
function shownRow({ row, model }: Page): number {
  return row ?? model.t.length - 1;
}

function when(page: Page): string {
  if (page.row === null) return "now";
  return `at ${clock(page.x[page.row])}`;
}

/** Who this is, and how it does. */
function heading(page: Page): TemplateResult {
  const { status, model } = page;
  const state = model.state || status?.state || "";
  const facts = status
    ? [
        `version ${status.version}`,
        `process ${status.pid}`,
        `up for ${duration(status.uptime_s)}`,
        status.listening.length > 0 ? `listening on ${status.listening.join(", ")}` : "",
        asOf(page),
      ]
    : [];
  return html`<div>
    <h1>
      Weftline ${status ? html`<code>${status.daemon}</code>` : nothing}
      ${state ? html`<span class="badge ${state}">${state}</span>` : nothing}
    </h1>
    <p class="facts">${facts.filter(Boolean).join(" · ")}</p>
  </div>`;
}

/** How the page hears from the daemon; said aloud when it changes. */
function link({ link, paused }: Page, { retry }: Actions): TemplateResult {
  const words: Record<Link["is"], string> = {
    connecting: "connecting…",
    live: paused ? "paused: nothing on the page moves" : "live",
    hidden: "not followed while hidden",
    waiting: "",
    refused: "",
  };
  const reason = link.is === "waiting" ? link.reason : "";
  return html`<div class="link ${link.is}">
    <p role="status">
      ${reason ? `No connection: ${reason}. Trying again by itself.` : words[link.is]}
    </p>
    ${link.is === "waiting"
      ? html`<button type="button" @click=${retry}>Try now</button>`
      : nothing}
  </div>`;
}

/** The most important figures. */
function tiles(page: Page): TemplateResult {
  const { model, status } = page;
  const row = model.t.length - 1;
  // Of those without columns of their own it is not known how many there are.
  const own = model.paths.filter((path) => path.name !== null && (path.state[row] ?? "unused") !== "unused");
  const up = own.filter((path) => path.state[row] === "up").length;
  const hasOthers = model.paths.some((path) => path.name === null && (path.state[row] ?? "unused") !== "unused");
  const all = (figure: "send" | "receive"): string =>
    number(sum(model.paths.map((path) => path[figure][row])) ?? 0);
  const tile = (name: string, value: unknown, more: unknown = ""): TemplateResult =>
    html`<div class="tile"><dt>${name}</dt><dd>${value} <span class="unit">${more}</span></dd></div>`;
  const memory = status?.memory;
  const old = asOf(page) && `, ${asOf(page)}`;
  return html`<dl class="tiles">
    ${tile("Sending", all("send"), "Mb/s")} ${tile("Receiving", all("receive"), "Mb/s")}
    ${tile("Paths up", up, `of ${own.length}${hasOthers ? ", and others" : ""}`)}
    ${tile("Connections in use", model.used[row] ?? 0, `of ${model.open[row] ?? 0} open`)}
    ${memory ? tile("Memory", bytes(memory.resident_bytes), `${bytes(memory.reserved_bytes)} reserved${old}`) : nothing}
    ${status
      ? tile(
          "Since the start",
          status.connections_opened,
          `connections, ${status.connections_failed} failed, ${status.handshakes_refused} handshakes refused${old}`,
        )
      : nothing}
  </dl>`;
}

function controls(page: Page, { show, pause }: Actions): TemplateResult {
  return html`<div class="controls">
    <fieldset>
      <legend class="unseen">Time shown</legend>
      ${WINDOWS.map(
        ([seconds, name]) => html`<label>
          <input type="radio" name="window" .checked=${page.window === seconds} @change=${() => show(seconds)} />
          <span>${name}</span>
        </label>`,
      )}
    </fieldset>
    <button type="button" id="pause" aria-pressed=${page.paused ? "true" : "false"} @click=${pause}>Pause</button>
  </div>`;
}

/** The cursor of all charts, for those who have no pointer. */
function timeline(page: Page, { point }: Actions): TemplateResult {
  const rows = page.x.length;
  if (rows === 0) return html``;
  const first = Math.max(0, page.x.findIndex((time) => time >= page.span.from));
  const move = (event: Event): void => {
    const row = Number((event.target as HTMLInputElement).value);
    point(row >= rows - 1 ? null : row);
  };
  return html`<div class="timeline">
    <label for="cursor">Moment</label>
    <input
      id="cursor"
      type="range"
      min=${first}
      max=${rows - 1}
      .value=${String(shownRow(page))}
      aria-valuetext=${when(page)}
      @input=${move}
    />
    <output for="cursor">${when(page)}</output>
  </div>`;
}

/** A chart with its words and its table. */
function figure(chart: Chart, page: Page, { table }: Actions): TemplateResult {
  const row = shownRow(page);
  const lines = chart.lines(page.model);
  const words = lines.map((line) => `${line.label} ${chart.show(line.values[row])}`).join(", ");
  const open = page.tables.has(chart.id);
  const first = Math.max(0, page.x.findIndex((time) => time >= page.span.from));
  return html`<figure>
    <figcaption>${chart.title} <span class="unit">${chart.unit}</span></figcaption>
    <div class="plot" id="plot-${chart.id}" role="img" aria-label="${chart.title}, ${chart.unit}, ${when(page)}: ${words || "nothing yet"}"></div>
    ${chart.id === "conns" || chart.id === "count" ? keys(lines) : nothing}
    <details @toggle=${(event: Event) => table(chart.id, (event.target as HTMLDetailsElement).open)}>
      <summary>Table<span class="unseen"> of ${chart.title}</span></summary>
      ${open ? behind(chart, page.model, page.x, first) : nothing}
    </details>
  </figure>`;
}

/** Which line is which, where no table says it. */
function keys(lines: { label: string; color: number }[]): TemplateResult {
  return html`<ul class="legend">
    ${lines.map((line) => html`<li>${swatch(line.color)} ${line.label}</li>`)}
  </ul>`;
}

/** How many connections are not listed, and what lists them. */
function listed({ status, listsMore }: Page, { list }: Actions): TemplateResult | typeof nothing {
  const more = status?.connections_unlisted ?? 0;
  if (more === 0 && !listsMore) return nothing;
  const words = listsMore ? "List the busiest only" : "List all (up to 1,000)";
  return html`<p class="empty">
    ${more > 0 ? html`and ${more} more` : nothing}
    <button type="button" name="list" @click=${() => list(!listsMore)}>${words}</button>
  </p>`;
}

/** Which path carries which part of a connection's stream, while somebody wants to know. */
function weave(page: Page, { watch, weave }: Actions): TemplateResult {
  const { weave: watched, status } = page;
  const listed = status?.connections ?? [];
  const named = listed.map((one): [number, string] => [one.number, `#${one.number} ${one.label ?? "kept ready"}`]);
  const known = named.sort(([one], [other]) => one - other);
  // One that is over stays while it is looked at.
  if (watched?.connection != null && !known.some(([number]) => number === watched.connection)) {
    known.unshift([watched.connection, `#${watched.connection} ${watched.over ? "(over)" : ""}`]);
  }
  const choose = (event: Event): void => {
    const { value } = event.target as HTMLSelectElement;
    watch(value === "" ? null : Number(value));
  };
  return html`<section aria-labelledby="weave-heading" ?hidden=${!hasConnections(page)}>
    <div class="bar-of-controls">
      <h2 id="weave-heading">Weave</h2>
      <label class="check">
        of connection
        <select id="weave-of" @change=${choose}>
          <option value="" .selected=${watched === null}>none: nothing is recorded</option>
          ${known.map(([number, text]) => html`<option value=${number} .selected=${watched?.connection === number}>${text}</option>`)}
        </select>
      </label>
    </div>
    ${watched
      ? html`${watched.over ? html`<p class="empty" role="status">Nothing more comes of it: the connection is over, or it has no weave.</p>` : nothing}
          ${weaveView(watched, page.weaveShown, weave, false)}`
      : html`<p class="empty">Choose a connection to see which path carries which part of its stream. The daemon records it for as long as it is watched.</p>`}
  </section>`;
}

/** What has happened, the newest on top. */
function events(page: Page, { problems }: Actions): TemplateResult {
  const isShown = (event: Happening): boolean =>
    !page.problemsOnly || event.level === "error" || event.level === "warning";
  const shown = page.model.events.filter(isShown).slice(-100).reverse();
  const names = { info: "", good: "good: ", warning: "warning: ", error: "error: " };
  const time = (event: Happening): TemplateResult =>
    html`<time>${clock(page.model.epoch + event.t)}</time>`;
  // Each keeps its element, so that only what is new is said aloud.
  const item = (event: Happening): TemplateResult => html`<li class=${event.level}>
    ${time(event)}
    <span><span class="unseen">${names[event.level] ?? ""}</span>${event.text}</span>
  </li>`;
  return html`<section aria-labelledby="events-heading">
    <div class="bar-of-controls">
      <h2 id="events-heading">Events</h2>
      <label class="check">
        <input type="checkbox" .checked=${page.problemsOnly} @change=${(event: Event) => problems((event.target as HTMLInputElement).checked)} />
        only what goes wrong
      </label>
    </div>
    <div class="log" role="log" aria-labelledby="events-heading" tabindex="0">
      ${shown.length === 0
        ? html`<p class="empty">Nothing has happened${page.problemsOnly ? " that is wrong" : ""}.</p>`
        : html`<ol reversed>
            ${repeat(shown, (event) => event, item)}
          </ol>`}
    </div>
  </section>`;
}
