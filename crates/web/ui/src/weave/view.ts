// What stands around the two pictures: what is shown, the legend, and the table behind them.

import { html, nothing, type TemplateResult } from "lit-html";

import { bytes, NOTHING, number } from "../dashboard/format.js";
import { scrolled } from "../dashboard/scrolled.js";
import { drawCloth, drawMissing, drawPart, drawStrand, drawWait, type Palette, slotAt, SLOTS, strandTime, unknownSlots } from "./draw.js";
import { choose, type Cloth, type Direction, eachOnce, filled, repeated, type Row, shares, telling, type Weave, within } from "./model.js";

/** Times that can be shown, in s. */
export const SPANS: [seconds: number, name: string][] = [
  [2, "2 s"],
  [10, "10 s"],
  [60, "1 min"],
];

/** What is looked at. */
export interface Shown {
  span: number;
  /** `null`: that which carries much more, or what is sent. */
  direction: Direction | null;
  /** The start of the row whose strand is shown; `null`: of a run the one that shows the most, else the newest that
   * shows something. */
  row: number | null;
  /** The end of the time that is shown, µs; `null`: now. */
  until: number | null;
  /** Whether the table is open. */
  table: boolean;
}

export function shownAtFirst(): Shown {
  return { span: SPANS[1][0], direction: null, row: null, until: null, table: false };
}

/** What is in view. */
interface Scene {
  cloth: Cloth;
  direction: Direction;
  /** All rows that are kept, and those that are drawn. */
  all: Row[];
  slots: (Row | undefined)[];
  rows: Row[];
  /** All of the time that is shown, drawn or not. */
  told: Row[];
  selected: Row | undefined;
  until: number;
  /** Times are those of a run that is over, and not ages. */
  isRun: boolean;
  /** How long a slot is, µs. */
  slot: number;
}

function scene(weave: Weave, shown: Shown, isRun: boolean): Scene {
  const direction = shown.direction ?? weave.busier();
  const cloth = weave[direction];
  const all = cloth.rows();
  const until = shown.until ?? weave.now;
  const from = until - shown.span * 1e6;
  const [slots, told] = [choose(all, from, until, SLOTS), within(all, from, until)];
  const rows = eachOnce(slots);
  const shows = isRun ? telling(rows) : rows.find((row) => row.wait !== null || repeated(row) > 0);
  const selected = rows.find((row) => row.start === shown.row) ?? shows ?? rows[0];
  return { cloth, direction, all, slots, rows, told, selected, until, isRun, slot: (shown.span * 1e6) / SLOTS };
}

/** Draws the canvases, which have to be on the page. */
export function paint(weave: Weave, shown: Shown, palette: Palette, isRun: boolean): void {
  const { direction, slots, all, selected, until } = scene(weave, shown, isRun);
  const time = { span: shown.span * 1e6, until, gaps: weave[direction].gaps, isRun };
  const of = (id: string): HTMLCanvasElement | null => document.querySelector(`#${id}`);
  const [cloth, strand] = [of("cloth"), of("strand")];
  if (cloth) drawCloth(cloth, slots, time, selected, palette);
  if (strand && selected) drawStrand(strand, all, selected, palette, isRun);
  for (const key of document.querySelectorAll<HTMLCanvasElement>("canvas[data-key]")) drawKey(key, palette);
}

/** A piece of the legend, drawn as the cloth is, where it looks other than before. */
function drawKey(canvas: HTMLCanvasElement, palette: Palette): void {
  const scale = window.devicePixelRatio || 1;
  const looks = `${canvas.dataset.key} ${palette.of(Number(canvas.dataset.path))} ${palette.ink} ${scale}`;
  if (canvas.dataset.looks === looks) return;
  canvas.dataset.looks = looks;
  [canvas.width, canvas.height] = [26 * scale, 12 * scale];
  const ctx = canvas.getContext("2d") as CanvasRenderingContext2D;
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  const path = Number(canvas.dataset.path ?? 0);
  const place: [number, number, number, number] = [1, 1, 24, 10];
  const key = canvas.dataset.key;
  if (key === "none") {
    ctx.strokeStyle = palette.grid;
    ctx.strokeRect(1.5, 1.5, 23, 9);
    return;
  }
  const why = key === "copy" || key === "again" ? key : "new";
  if (key === "wait") drawWait(ctx, ...place, palette);
  else drawPart(ctx, { path, why, backward: key === "backward" }, true, place, palette);
  if (key === "missing") drawMissing(ctx, ...place, palette);
}

/** The weave with all that belongs to it; `change` is called with what is to be other. */
export function view(weave: Weave, shown: Shown, change: (what: Partial<Shown>) => void, isRecorded: boolean): TemplateResult {
  const now = scene(weave, shown, isRecorded);
  const { direction, all, rows, selected } = now;
  const first = all[0]?.at ?? 0;
  const radio = (name: string, value: string, text: string, is: boolean, set: () => void): TemplateResult =>
    html`<label><input type="radio" name=${name} value=${value} .checked=${is} @change=${set} /><span>${text}</span></label>`;
  const spans = isRecorded ? [...SPANS, [Math.max(1, Math.ceil((weave.now - first) / 1e6)), "all"] as [number, string]] : SPANS;
  return html`<div class="controls">
      <fieldset>
        <legend class="unseen">Direction of the weave</legend>
        ${radio("weave-direction", "sent", "sent", direction === "sent", () => change({ direction: "sent", row: null }))}
        ${radio("weave-direction", "received", "received", direction === "received", () => change({ direction: "received", row: null }))}
      </fieldset>
      <fieldset>
        <legend class="unseen">Time of the cloth</legend>
        ${spans.map(([seconds, name]) => radio("weave-span", name, name, shown.span === seconds, () => change({ span: seconds, row: null })))}
      </fieldset>
    </div>
    ${rows.length === 0 ? html`<p class="empty" id="weave-empty">${empty(weave, shown, now)}</p>` : nothing}
    <div class="weave" ?hidden=${rows.length === 0}>
      ${isRecorded ? moment(now, shown, first, weave.now, change) : nothing}
      <p class="caption" id="weave-caption">${caption(now)}${unknown(weave, shown, now) > 0 ? " Grey stripes: it was not recorded." : ""}</p>
      <div class="plot" role="img" aria-label=${words(weave, now)}>
        <canvas id="cloth" @pointerdown=${(event: PointerEvent) => point(event, now, change)}></canvas>
      </div>
      ${legend(weave, now)}
      ${slider(now, change)}
      <p class="caption">The strand of that row: its bytes of the stream over time. What a path fills from the start rises, what it fills from the end falls; dashed: ${direction === "sent" ? "sent again, or a copy" : "came a second time"}.</p>
      <div class="plot" role="img" aria-label=${selected ? strandWords(weave, selected) : "no row"}>
        <canvas id="strand"></canvas>
      </div>
      <details @toggle=${(event: Event) => change({ table: (event.target as HTMLDetailsElement).open })}>
        <summary>Table<span class="unseen"> of the weave</span></summary>
        ${shown.table ? table(weave, now) : nothing}
      </details>
      ${howToRead(direction)}
    </div>`;
}

/** Slots of which nothing is known. */
function unknown(weave: Weave, { span }: Shown, { slots, until, direction }: Scene): number {
  const found = unknownSlots(slots, { span: span * 1e6, until, gaps: weave[direction].gaps });
  return found.reduce((sum, [from, to]) => sum + to - from, 0);
}

/** Why there is no row. */
function empty(weave: Weave, shown: Shown, now: Scene): string {
  const known = now.slots.length - unknown(weave, shown, now);
  if (known === 0) return "Nothing is known of this time: it was not recorded.";
  const rest = known < now.slots.length ? " as far as it was recorded" : "";
  return `Nothing was ${now.direction} in this time${rest}.`;
}

/** Which row was pointed at. */
function point(event: PointerEvent, { slots }: Scene, change: (what: Partial<Shown>) => void): void {
  const at = slotAt(event.offsetY, slots.length);
  // The nearest slot that has one.
  const order = slots.map((row, slot) => ({ row, far: Math.abs(slot - at) })).sort((a, b) => a.far - b.far);
  const row = order.find((one) => one.row)?.row;
  if (row) change({ row: row.start });
}

/** How the rows were cut, and which there are. */
function caption(scene: Scene): string {
  const { cloth, rows, told, slot } = scene;
  const kinds = {
    windows: "a window of the scheduler",
    inferred: "a window, as inferred from the direction in which it was filled",
    fixed: "a MiB of the stream",
  };
  const every = cloth.every > 1 ? ` Of so many rows the page has one in ${cloth.every}; those that show something come first.` : "";
  const drawn = told.length > rows.length ? `${rows.length} of ${told.length} rows are drawn` : `${rows.length} rows`;
  const lost = cloth.leftOut > 0 ? ` ${cloth.leftOut} stretches came and went between two looks.` : "";
  const left = rows.reduce((sum, row) => sum + row.left, 0);
  const torn = left > 0 ? ` Too fine to be drawn: in these rows ${left} short parts are put together by path.` : "";
  const known = cloth.knownTo === null ? "" : ` What has arrived beyond ${(cloth.knownTo / 1e6).toFixed(2)} MB is not known: it came in too many pieces.`;
  return `The cloth: each row is ${kinds[cloth.cut]}, the newest on top (${drawn}). From left to right it goes from its first byte to its last; its height is the time in which it was filled, in steps of ${duration(Math.round(slot / 1e3))}.${waits(scene)}${every}${torn}${known}${lost}`;
}

/** When something was, in words. */
const when = ({ until, isRun }: Scene, at: number): string =>
  isRun ? `at ${(at / 1e6).toFixed(2)} s` : `${(Math.max(0, until - at) / 1e6).toFixed(1)} s before`;

/** How long the reader waited, in words: the longest waits, and where they are. */
function waits(scene: Scene): string {
  const all = scene.told.filter((row) => row.wait).sort((a, b) => (b.wait?.ms ?? 0) - (a.wait?.ms ?? 0));
  if (all.length === 0) return "";
  const longest = all.slice(0, 3).map((row) => `${duration(row.wait?.ms ?? 0)} in the row ${when(scene, row.at)}`);
  const within = all.length === 1 ? "one row" : `${all.length} rows`;
  return ` The reader waited within ${within}: ${longest.join(", ")}${all.length > 3 ? ", and less in others" : ""}.`;
}

const duration = (ms: number): string => (ms < 1000 ? `${ms} ms` : `${(ms / 1e3).toFixed(1)} s`);

/** Chooses a row by keys. */
function slider({ rows, selected, isRun }: Scene, change: (what: Partial<Shown>) => void): TemplateResult {
  const at = selected ? rows.indexOf(selected) : 0;
  // To the right is newer, as in the charts.
  const move = (event: Event): void => {
    const place = rows.length - 1 - Number((event.target as HTMLInputElement).value);
    change({ row: rows[place]?.start ?? null });
  };
  const wait = selected?.wait ? `; the reader waited ${duration(selected.wait.ms)}` : "";
  const seconds = (at: number): string => (at / 1e6).toFixed(2);
  const times = selected && isRun ? `${seconds(selected.at)} to ${seconds(filled(selected))} s, ` : "";
  const text = selected ? `${times}at ${seconds(selected.start)} MB of the stream${wait}` : "none";
  return html`<div class="timeline">
    <label for="weave-row">Row</label>
    <input id="weave-row" type="range" min="0" max=${Math.max(0, rows.length - 1)} .value=${String(rows.length - 1 - at)} aria-valuetext=${text} @input=${move} />
    <output for="weave-row">${text}</output>
  </div>`;
}

/** Until when the cloth shows what was recorded. */
function moment({ until }: Scene, { span }: Shown, first: number, last: number, change: (what: Partial<Shown>) => void): TemplateResult {
  const [least, most] = [Math.min(last, first + span * 1e6) / 1e6, last / 1e6];
  if (least >= most) return html``;
  const move = (event: Event): void =>
    change({ until: Number((event.target as HTMLInputElement).value) * 1e6, row: null });
  const text = `${(until / 1e6).toFixed(2)} s`;
  return html`<div class="timeline">
    <label for="weave-until">Until</label>
    <input id="weave-until" type="range" min=${least} max=${most} step="0.05" .value=${String(until / 1e6)} aria-valuetext=${text} @input=${move} />
    <output for="weave-until">${text}</output>
  </div>`;
}

/** What all the parts of the picture mean. */
function legend(weave: Weave, { told, cloth, direction }: Scene): TemplateResult {
  const key = (kind: string, text: unknown, path = 0): TemplateResult =>
    html`<li><canvas data-key=${kind} data-path=${path} aria-hidden="true" width="26" height="12"></canvas> ${text}</li>`;
  const any = [...shares(told).keys()][0] ?? 0;
  const upwards = cloth.cut === "fixed" ? nothing : key("backward", "filled from its end: the edge is where that began", any);
  return html`<ul class="legend" id="weave-legend">
    ${[...shares(told)].map(([path, share]) => key("new", html`<strong>${weave.name(path)}</strong> ${(share * 100).toFixed(0)} %`, path))}
    ${upwards}
    ${direction === "sent"
      ? html`${key("missing", "faint: sent, and not known to have arrived", any)}
          ${key("again", "stripes like \\: sent again, as the path that has it is slow or gone; drawn in its place in the stream", any)}
          ${key("copy", "stripes like /: sent over two paths at once, to be safe", any)}`
      : html`${key("none", "blank: has not arrived", any)}
          ${key("copy", "stripes like /: came a second time", any)}`}
    ${key("wait", "outlined: the reader waited for these bytes 50 ms or more; its length is bytes, not time")}
  </ul>`;
}

function howToRead(direction: Direction): TemplateResult {
  return html`<details>
    <summary>How to read it</summary>
    <p>
      Each colour is a path. Where two paths fill a row from both ends, they meet at a seam; it wanders
      with their rates. The path that would deliver first begins on the left: where the colours change sides, that
      was the other one from then on. A path that gets slow has less of each row, and rows get higher; one that is
      gone has no part of them. A thin line means that nothing was ${direction} then.
      ${direction === "sent"
        ? `A path that stalls leaves its part faint: the bytes are on their way and do not arrive. If they come
          before others that have arrived, the reader waits, and they are outlined. Then another path sends them
          again: stripes like \\ on its own colour.`
        : `What a path that stalls was given is blank, until another path brings it: it has then that path's colour,
          and what comes a second time has stripes like /. If it comes before others that have arrived, the
          reader waits, and it is outlined.`}
    </p>
  </details>`;
}

/** What is at the head of the column of times. */
const timeHead = (isRun: boolean): TemplateResult => html`${isRun ? "begun" : "age"} <span class="unit">s</span>`;

const percent = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(0)} %`;

/** The cloth in words. */
function words(weave: Weave, { rows, told, direction }: Scene): string {
  const of = [...shares(told)].map(([path, share]) => `${weave.name(path)} ${(share * 100).toFixed(0)} %`).join(", ");
  const again = rows.filter((row) => repeated(row) > 0).length;
  const waited = Math.max(0, ...rows.map((row) => row.wait?.ms ?? 0));
  const wait = waited > 0 ? `; the reader waited up to ${waited} ms` : "";
  return `Cloth of what was ${direction}: ${rows.length} rows; ${of}; ${again} with bytes sent again${wait}`;
}

function strandWords(weave: Weave, row: Row): string {
  const [from, to] = strandTime(row);
  const of = [...shares([row])].map(([path, share]) => `${weave.name(path)} ${(share * 100).toFixed(0)} %`).join(", ");
  return `Strand: ${((to - from) / 1e3).toFixed(0)} ms around the row at ${(row.start / 1e6).toFixed(2)} MB: ${of}`;
}

/** What is behind the picture. */
function table(weave: Weave, { rows, until, direction, isRun }: Scene): TemplateResult {
  const paths = [...shares(rows).keys()];
  const sum = (row: Row, is: (part: Row["parts"][number]) => boolean): number =>
    row.parts.filter(is).reduce((total, part) => total + part.to - part.from, 0);
  const line = (row: Row): TemplateResult => {
    const of = (path: number): string => {
      const own = row.parts.filter((part) => part.path === path && part.why === "new");
      if (own.length === 0) return NOTHING;
      const ways = `${own.some((part) => !part.backward) ? "↑" : ""}${own.some((part) => part.backward) ? "↓" : ""}`;
      return `${percent(sum(row, (part) => own.includes(part)), row.length)} ${ways}`;
    };
    const missing = row.missing.reduce((total, [from, to]) => total + to - from, 0);
    return html`<tr>
      <th scope="row">${isRun ? (row.at / 1e6).toFixed(2) : number((until - row.at) / 1e6)}</th>
      <td>${(row.start / 1e6).toFixed(2)}</td>
      <td>${bytes(row.length)}</td>
      ${paths.map((path) => html`<td>${of(path)}</td>`)}
      <td>${percent(sum(row, (part) => part.why === "copy"), row.length)}</td>
      <td>${percent(sum(row, (part) => part.why === "again"), row.length)}</td>
      <td>${percent(missing, row.length)}</td>
      <td>${row.wait?.ms ?? 0}</td>
    </tr>`;
  };
  return scrolled(
    "The weave, as a table",
    html`<table>
      <caption>Rows of what was ${direction}, as drawn; ↑ filled from the start, ↓ from the end</caption>
      <thead>
        <tr>
          <th scope="col">${timeHead(isRun)}</th>
          <th scope="col">offset <span class="unit">MB</span></th>
          <th scope="col">length</th>
          ${paths.map((path) => html`<th scope="col">${weave.name(path)}</th>`)}
          <th scope="col">copies</th>
          <th scope="col">sent again</th>
          <th scope="col">not arrived</th>
          <th scope="col">waited <span class="unit">ms</span></th>
        </tr>
      </thead>
      <tbody>${rows.map(line)}</tbody>
    </table>`,
  );
}
