// The two pictures of a weave on canvases: the cloth and the strand.

import type { Part, Row } from "./model.js";

/** Rows of the cloth, and how high each is. */
export const SLOTS = 64;
const HEIGHT = 6;
/** Parts that are narrower have no edge where they begin, nor have those of rows with more. */
const EDGE = 20;
const MANY = 10;
/** How high the strand is. */
const STRAND = 190;
/** What the strand shows of time: so much, or more if a row took longer, µs. */
const LEAST = 40_000;
const MOST = 2_000_000;
const LEFT = 64;
const RIGHT = 6;

/** Colours of the page, and of each path. */
export interface Palette {
  ink: string;
  soft: string;
  grid: string;
  ground: string;
  error: string;
  of: (path: number) => string;
}

/** A canvas as wide as its place, in CSS pixels, wiped. */
function begin(canvas: HTMLCanvasElement, height: number): [CanvasRenderingContext2D, number] {
  const scale = window.devicePixelRatio || 1;
  const width = Math.max(160, Math.floor(canvas.parentElement?.clientWidth ?? 160));
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d") as CanvasRenderingContext2D;
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.font = "11px system-ui, sans-serif";
  return [ctx, width];
}

/** Stripes over what is a copy, or was sent again: `slant` is how far one leans. Upright ones would look
 * like paths that take turns. */
function stripes(ctx: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, slant: number, color: string): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, w, h);
  ctx.clip();
  ctx.strokeStyle = color;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  for (let at = x - Math.abs(slant); at < x + w + Math.abs(slant); at += 4) {
    ctx.moveTo(at, y + h);
    ctx.lineTo(at + slant, y);
  }
  ctx.stroke();
  ctx.restore();
}

/** How a part looks, also in the legend; `begins` says whether it is begun where its edge is. */
export function drawPart(ctx: CanvasRenderingContext2D, part: Pick<Part, "path" | "why" | "backward">, begins: boolean, place: [x: number, y: number, w: number, h: number], palette: Palette): void {
  const [x, y, w, h] = place;
  ctx.fillStyle = palette.of(part.path);
  ctx.fillRect(x, y, w, h);
  if (part.why === "copy") stripes(ctx, x, y, w, h, h, palette.ground);
  if (part.why === "again") stripes(ctx, x, y, w, h, -h, palette.ink);
  if (part.why === "new" && begins && w >= EDGE) {
    ctx.fillStyle = palette.ink;
    ctx.fillRect(part.backward ? x + w - 2 : x, y, 2, h);
  }
}

/** Whether a part is not what another one of its row goes on as. */
function isBegun(part: Part, row: Row): boolean {
  const goesOn = (other: Part): boolean =>
    other.path === part.path &&
    other.why === part.why &&
    other.backward === part.backward &&
    (part.backward ? other.from === part.to : other.to === part.from);
  return !row.parts.some(goesOn);
}

export function drawMissing(ctx: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, palette: Palette): void {
  ctx.save();
  ctx.globalAlpha = 0.65;
  ctx.fillStyle = palette.ground;
  ctx.fillRect(x, y, w, h);
  ctx.restore();
}

export function drawWait(ctx: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, palette: Palette): void {
  // With a rim of the ground's colour: a path may have one like it.
  for (const [color, width] of [[palette.ground, 4], [palette.error, 2]] as const) {
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.strokeRect(x + 1, y, Math.max(2, w - 2), h);
  }
}

/** The time that a cloth shows, µs: up to `until`, and nothing is known of its `gaps`. */
export interface Time {
  span: number;
  until: number;
  gaps: [from: number, to: number][];
  /** Whether times are those of a run, and not ages. */
  isRun: boolean;
}

/** Draws the cloth: a row for each slot of time, the newest on top. */
export function drawCloth(canvas: HTMLCanvasElement, rows: (Row | undefined)[], shown: Time, selected: Row | undefined, palette: Palette): void {
  const [ctx, width] = begin(canvas, rows.length * HEIGHT + 4);
  const scale = width - LEFT - RIGHT;
  const outlined: (() => void)[] = [];
  for (const slot of ticks(rows.length, shown)) time(ctx, slot, rows.length, shown, palette);
  const unknown = unknownSlots(rows, shown);
  for (const [from, to] of unknown) unrecorded(ctx, from, to, scale, palette);
  for (let slot = 0, high = 1; slot < rows.length; slot += high) {
    const row = rows[slot];
    const y = slot * HEIGHT + 1;
    if (!row) {
      high = 1;
      if (unknown.some(([from, to]) => from <= slot && slot < to)) continue;
      ctx.fillStyle = palette.grid;
      ctx.fillRect(LEFT, y + HEIGHT / 2, scale, 1);
      continue;
    }
    // It is as high as the time that it was filled in.
    for (high = 1; rows[slot + high] === row; ) high++;
    const h = high * HEIGHT - 1;
    // On whole pixels there is no line between what belongs together.
    const x = (offset: number): number => LEFT + Math.round((Math.max(0, Math.min(row.length, offset)) / row.length) * scale);
    const wide = (from: number, to: number): number => Math.max(1, x(to) - x(from));
    for (const part of row.parts) {
      drawPart(ctx, part, row.parts.length <= MANY && isBegun(part, row), [x(part.from), y, wide(part.from, part.to), h], palette);
    }
    for (const [from, to] of row.missing) drawMissing(ctx, x(from), y, wide(from, to), h, palette);
    const { wait } = row;
    if (wait) outlined.push(() => drawWait(ctx, x(wait.from), y, wide(wait.from, wait.to), h, palette));
    if (row === selected) {
      outlined.push(() => {
        const middle = y + h / 2;
        ctx.fillStyle = palette.ink;
        ctx.beginPath();
        ctx.moveTo(LEFT - 7, middle - 4);
        ctx.lineTo(LEFT - 1, middle);
        ctx.lineTo(LEFT - 7, middle + 4);
        ctx.fill();
      });
    }
  }
  outlined.forEach((draw) => draw());
}

/** The slots that have no row and lie in a gap by their middles, those that follow each other as one. */
export function unknownSlots(rows: (Row | undefined)[], { span, until, gaps }: Pick<Time, "span" | "until" | "gaps">): [from: number, to: number][] {
  const found: [from: number, to: number][] = [];
  rows.forEach((row, slot) => {
    const at = until - ((slot + 0.5) / rows.length) * span;
    if (row || !gaps.some(([from, to]) => from < at && at < to)) return;
    const last = found.at(-1);
    if (last?.[1] === slot) last[1] = slot + 1;
    else found.push([slot, slot + 1]);
  });
  return found;
}

/** Says of such slots that nothing is known of them. */
function unrecorded(ctx: CanvasRenderingContext2D, from: number, to: number, scale: number, palette: Palette): void {
  const [y, high] = [from * HEIGHT + 1, (to - from) * HEIGHT];
  stripes(ctx, LEFT, y, scale, high, high, palette.grid);
  if (high < 3 * HEIGHT) return;
  const words = "not recorded";
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  const wide = ctx.measureText(words).width + 12;
  ctx.fillStyle = palette.ground;
  ctx.fillRect(LEFT + (scale - wide) / 2, y + high / 2 - 8, wide, 16);
  ctx.fillStyle = palette.soft;
  ctx.fillText(words, LEFT + scale / 2, y + high / 2);
}

/** Where times are told: at both ends, and between them at round ones. */
export function ticks(slots: number, { span, until, isRun }: Pick<Time, "span" | "until" | "isRun">): number[] {
  const step = [0.25, 0.5, 1, 2, 5, 10, 15, 30, 60].find((seconds) => span / 1e6 / seconds <= 6) ?? span / 4e6;
  const found = [0];
  // Ages count from now, and a run's times from its beginning.
  const first = isRun ? (until / 1e6) % step : step;
  // Before a run there is nothing.
  const last = isRun ? Math.min(span, until) : span;
  const end = (last * slots) / span;
  for (let ago = first; ago * 1e6 < last; ago += step) {
    const slot = (ago * 1e6 * slots) / span;
    // No two lie over each other.
    if (slot > 2.5 && slot < end - 2.5) found.push(slot);
  }
  return [...found, end];
}

/** When a slot was: how long ago, or in a run. */
function time(ctx: CanvasRenderingContext2D, slot: number, slots: number, { span, until, isRun }: Time, palette: Palette): void {
  const ago = (slot / slots) * span;
  const digits = span < 8e6 ? 2 : 1;
  ctx.fillStyle = palette.soft;
  ctx.textAlign = "right";
  ctx.textBaseline = slot === 0 ? "top" : slot > slots - 2.5 ? "bottom" : "middle";
  const said = isRun ? (Math.max(0, until - ago) / 1e6).toFixed(digits) : `−${(ago / 1e6).toFixed(digits)}`;
  ctx.fillText(slot === 0 && !isRun ? "newest" : `${said} s`, LEFT - 10, slot * HEIGHT + 1);
}

/** The slot at a height of the cloth's canvas, CSS pixels. */
export function slotAt(y: number, slots: number): number {
  return Math.max(0, Math.min(slots - 1, Math.floor((y - 1) / HEIGHT)));
}

/** The time that a row's strand shows, µs. */
export function strandTime(row: Row): [from: number, to: number] {
  const last = Math.max(...row.parts.map((part) => part.last), row.at);
  const span = Math.min(MOST, Math.max(LEAST, (last - row.at) * 1.5));
  const from = row.at - Math.min(span * 0.25, LEAST / 2);
  return [from, from + span];
}

/** Draws the strand: the stream over time around a row. What is filled upwards rises. */
export function drawStrand(canvas: HTMLCanvasElement, rows: Row[], around: Row, palette: Palette, isRun: boolean): void {
  const [ctx, width] = begin(canvas, STRAND);
  const [from, to] = strandTime(around);
  const shown = rows.flatMap((row) =>
    row.parts
      .filter((part) => part.last >= from && part.first <= to)
      .map((part) => ({ ...part, from: row.start + part.from, to: row.start + part.to })),
  );
  // What lies far off in the stream would make all else a line.
  const near = (at: number): boolean => Math.abs(at - around.start) <= 8 * around.length;
  const parts = shown.filter((part) => near(part.from));
  const least = Math.min(around.start, ...parts.map((part) => part.from));
  const most = Math.max(around.start + around.length, ...parts.map((part) => part.to));
  const [top, bottom] = [8, STRAND - 22];
  const x = (time: number): number => LEFT + ((time - from) / (to - from)) * (width - LEFT - RIGHT);
  const y = (offset: number): number => bottom - ((offset - least) / (most - least)) * (bottom - top);
  ctx.fillStyle = palette.grid;
  const high = y(around.start) - y(around.start + around.length);
  ctx.fillRect(LEFT, y(around.start + around.length), width - LEFT - RIGHT, Math.max(1, high));
  ctx.save();
  ctx.beginPath();
  ctx.rect(LEFT, 0, width - LEFT - RIGHT, bottom + 2);
  ctx.clip();
  ctx.lineCap = "round";
  for (const part of parts) {
    const [begins, ends] = part.backward ? [part.to, part.from] : [part.from, part.to];
    ctx.strokeStyle = palette.of(part.path);
    ctx.lineWidth = part.why === "new" ? 2.5 : 2;
    ctx.setLineDash(part.why === "new" ? [] : part.why === "copy" ? [2, 4] : [6, 3]);
    ctx.beginPath();
    ctx.moveTo(x(part.first), y(begins));
    ctx.lineTo(Math.max(x(part.last), x(part.first) + 1), y(ends));
    ctx.stroke();
  }
  ctx.restore();
  ctx.fillStyle = palette.soft;
  ctx.textBaseline = "bottom";
  ctx.textAlign = "left";
  const said = (at: number): string => (isRun ? `${(Math.max(0, at) / 1e6).toFixed(2)} s` : `${((at - from) / 1e3).toFixed(0)} ms`);
  ctx.fillText(said(from), LEFT, STRAND - 2);
  ctx.textAlign = "right";
  ctx.fillText(said(to), width - RIGHT, STRAND - 2);
  ctx.textBaseline = "top";
  ctx.fillText("stream ↑", LEFT - 8, top);
}
