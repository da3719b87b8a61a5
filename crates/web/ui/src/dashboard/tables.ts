// The tables: paths at a moment, what is behind a chart, and the connections.

import { html, nothing, svg, type TemplateResult } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";

import { type Chart, COLORS, dashOf, OTHERS } from "./charts.js";
import { bytes, type Cell, clock, duration, NOTHING, number, percent, rate } from "./format.js";
import type { StatusBond } from "./lanes.js";
import { mean, type Model, STATES, sum } from "./model.js";
import { scrolled } from "./scrolled.js";

/** A path of a connection, as the control socket has it; what is not used here is left out. */
export interface StatusPath {
  name: string;
  role: string;
  state: string;
  peer: string | null;
  srtt_ms: number | null;
  cwnd_bytes: number | null;
  congestion: string | null;
  retransmitted_segments: number | null;
  delivered_bytes: number;
  received_bytes: number;
  rescued_bytes: number;
  lost_subflows: number;
}

export interface StatusConnection {
  number: number;
  peer: string;
  client: string | null;
  label: string | null;
  scheduler: string;
  age_s: number;
  sent_bytes: number;
  received_bytes: number;
  duplicate_bytes: number;
  memory_bytes: number;
  window_bytes: number | null;
  forward: string | null;
  paths: StatusPath[];
}

export interface Status {
  daemon: string;
  version: string;
  pid: number;
  state: string;
  uptime_s: number;
  listening: string[];
  connections_opened: number;
  connections_failed: number;
  handshakes_refused: number;
  connections_open: number;
  connections_ready: number;
  connections_unlisted: number;
  memory: { resident_bytes: number; reserved_bytes: number; total_bytes: number };
  connections: StatusConnection[];
  bonds?: StatusBond[];
}

/** A short piece of a line, as it is in the charts. */
export function swatch(color: number): TemplateResult {
  const dash = dashOf(color).join(" ");
  return html`<svg class="swatch line-${color < 0 ? "ink" : color % COLORS}" aria-hidden="true" viewBox="0 0 26 8" width="26" height="8">
    ${svg`<path d="M0 4H26" stroke-dasharray=${dash || nothing}></path>`}
  </svg>`;
}

/** The paths at a row; `when` says when that was. */
export function paths(model: Model, row: number, when: string): TemplateResult {
  if (model.paths.length === 0) {
    return html`<p class="empty">No path has carried anything yet.</p>`;
  }
  const cells = model.paths.map((path) => {
    const state = path.state[row] ?? "unused";
    const [name, meaning] = STATES[state];
    return html`<tr>
      <th scope="row">${swatch(path.color)} ${path.name ?? OTHERS}</th>
      <td class="word"><span class="state ${state}" title=${meaning}>${name}</span></td>
      <td>${rate(path.send[row])}</td>
      <td>${rate(path.receive[row])}</td>
      <td>${number(path.srtt[row])}</td>
      <td>${number(path.queueing[row])}</td>
      <td>${percent(path.retransmitted[row])}</td>
      <td>${bytes(path.cwnd[row])}</td>
    </tr>`;
  });
  if (model.paths.length > 1) {
    const all = (figure: "send" | "receive"): Cell => sum(model.paths.map((path) => path[figure][row]));
    cells.unshift(html`<tr class="all">
      <th scope="row">${swatch(-1)} all paths</th>
      <td></td>
      <td>${rate(all("send"))}</td>
      <td>${rate(all("receive"))}</td>
      <td colspan="4"></td>
    </tr>`);
  }
  return scrolled(
    "Table of paths",
    html`<table>
      <caption>Paths, <span id="when">${when}</span></caption>
      <thead>
        <tr>
          <th scope="col">path</th>
          <th scope="col" class="word">state</th>
          <th scope="col">sending <span class="unit">Mb/s</span></th>
          <th scope="col">receiving <span class="unit">Mb/s</span></th>
          <th scope="col">round trip <span class="unit">ms</span></th>
          <th scope="col">queueing <span class="unit">ms</span></th>
          <th scope="col">retransmitted <span class="unit">%</span></th>
          <th scope="col">cwnd</th>
        </tr>
      </thead>
      <tbody>${cells}</tbody>
    </table>`,
  );
}

/** Rows of the table behind a chart. */
const ROWS = 30;

/** What a chart shows from row `first`, as a table: means over equal times, the newest on top. */
export function behind(chart: Chart, model: Model, x: number[], first: number): TemplateResult {
  const lines = chart.lines(model);
  const rows = x.length - first;
  const step = Math.max(1, Math.ceil(rows / ROWS));
  const starts: number[] = [];
  for (let to = x.length; to > first; to -= step) starts.push(Math.max(first, to - step));
  const row = (from: number, place: number): TemplateResult => {
    const to = x.length - place * step;
    return html`<tr>
      <th scope="row">${clock(x[to - 1])}</th>
      ${lines.map((line) => html`<td>${chart.show(mean(line.values, from, to))}</td>`)}
    </tr>`;
  };
  const each = step === 1 ? "each sample" : `means of ${step} samples`;
  return scrolled(
    `${chart.title}, as a table`,
    html`<table>
      <caption>${chart.title}, ${chart.unit}; ${each}</caption>
      <thead>
        <tr>
          <th scope="col">until</th>
          ${lines.map((line) => html`<th scope="col">${line.label}</th>`)}
        </tr>
      </thead>
      <tbody>${starts.map(row)}</tbody>
    </table>`,
  );
}

/** Rates between two statuses, by connection, Mb/s. */
export type Rates = Map<number, [send: number, receive: number]>;

export function rates(before: Status, now: Status): Rates {
  const found: Rates = new Map();
  const old = new Map(before.connections.map((one) => [one.number, one]));
  for (const one of now.connections) {
    const then = old.get(one.number);
    // Of a run that is watched, time is the run's.
    const seconds = then ? one.age_s - then.age_s : 0;
    if (!then || seconds <= 0) continue;
    const mbps = (after: number, earlier: number): number =>
      (Math.max(0, after - earlier) * 8) / seconds / 1e6;
    const send = mbps(one.sent_bytes, then.sent_bytes);
    found.set(one.number, [send, mbps(one.received_bytes, then.received_bytes)]);
  }
  return found;
}

/** The connections; `opened` has those whose paths are shown. */
export function connections(
  status: Status,
  now: Rates,
  opened: Set<number>,
  toggle: (id: number) => void,
): TemplateResult {
  if (status.connections.length === 0) {
    return html`<p class="empty">No connection is open.</p>`;
  }
  const row = (one: StatusConnection): TemplateResult => {
    const [send, receive] = now.get(one.number) ?? [null, null];
    const is = opened.has(one.number);
    return html`<tr>
        <th scope="row">
          <button class="plain" aria-expanded=${is ? "true" : "false"} aria-controls="paths-${one.number}" @click=${() => toggle(one.number)}>
            <span aria-hidden="true">${is ? "▾" : "▸"}</span> #${one.number}
          </button>
        </th>
        <td class="word">${one.label ?? "kept ready"}</td>
        <td class="word">${one.client ?? NOTHING}</td>
        <td class="word">${one.peer}</td>
        <td>${rate(send)}</td>
        <td>${rate(receive)}</td>
        <td>${bytes(one.sent_bytes)}</td>
        <td>${bytes(one.received_bytes)}</td>
        <td>${bytes(one.duplicate_bytes)}</td>
        <td>${bytes(one.memory_bytes)}</td>
        <td class="word">${one.scheduler}</td>
        <td>${duration(one.age_s)}</td>
      </tr>
      <tr id="paths-${one.number}" ?hidden=${!is}>
        ${is ? html`<td colspan="12" class="inner">${pathsOf(one)}</td>` : nothing}
      </tr>`;
  };
  return scrolled(
    "Table of connections",
    html`<table>
      <caption>Connections: those in use first, then by what they have carried</caption>
      <thead>
        <tr>
          <th scope="col">number</th>
          <th scope="col" class="word">used</th>
          <th scope="col" class="word">client</th>
          <th scope="col" class="word">peer</th>
          <th scope="col">sending <span class="unit">Mb/s</span></th>
          <th scope="col">receiving <span class="unit">Mb/s</span></th>
          <th scope="col">sent</th>
          <th scope="col">received</th>
          <th scope="col">duplicates</th>
          <th scope="col">memory</th>
          <th scope="col" class="word">scheduler</th>
          <th scope="col">age</th>
        </tr>
      </thead>
      <tbody>${repeat(status.connections, (one) => one.number, row)}</tbody>
    </table>`,
  );
}

/** The paths of one connection. */
function pathsOf(one: StatusConnection): TemplateResult {
  const window = one.window_bytes === null ? "" : `, window ${bytes(one.window_bytes)}`;
  const forward = one.forward === null ? "" : `, ${one.forward} sends forward`;
  const count = (value: Cell): string => (typeof value === "number" ? String(value) : NOTHING);
  const row = (path: StatusPath): TemplateResult => html`<tr>
    <th scope="row">${path.name}</th>
    <td class="word">${path.role}</td>
    <td class="word"><span class="state ${path.state}">${path.state === "silent" ? STATES.silent[0] : path.state}</span></td>
    <td class="word">${path.peer ?? NOTHING}</td>
    <td>${number(path.srtt_ms)}</td>
    <td class="word">${path.congestion ?? NOTHING}</td>
    <td>${bytes(path.cwnd_bytes)}</td>
    <td>${bytes(path.delivered_bytes)}</td>
    <td>${bytes(path.received_bytes)}</td>
    <td>${bytes(path.rescued_bytes)}</td>
    <td>${count(path.retransmitted_segments)}</td>
    <td>${count(path.lost_subflows)}</td>
  </tr>`;
  return html`<table>
    <caption>Paths of #${one.number}${window}${forward}</caption>
    <thead>
      <tr>
        <th scope="col">path</th>
        <th scope="col" class="word">role</th>
        <th scope="col" class="word">state</th>
        <th scope="col" class="word">peer</th>
        <th scope="col">round trip <span class="unit">ms</span></th>
        <th scope="col" class="word">control</th>
        <th scope="col">cwnd</th>
        <th scope="col">sent</th>
        <th scope="col">received</th>
        <th scope="col">sent again</th>
        <th scope="col">retransmitted</th>
        <th scope="col">lost</th>
      </tr>
    </thead>
    <tbody>${one.paths.map(row)}</tbody>
  </table>`;
}
