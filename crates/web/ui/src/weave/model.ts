// The weave of a connection: which path carried which part of the stream, as the daemon tells it.

/** Rows that are kept of each direction: a minute of what is sent at most. */
export const ROWS = 4000;

/** Gaps that are kept: what lies before is one. */
const GAPS = 64;

/** Why a part was sent. */
export type Why = "new" | "copy" | "again";

/** What one path was given of a row in one go; offsets from the row's start in bytes, times in µs. */
export interface Part {
  from: number;
  to: number;
  first: number;
  last: number;
  path: number;
  backward: boolean;
  why: Why;
}

export interface Row {
  start: number;
  length: number;
  /** When the first of it was given, µs. */
  at: number;
  parts: Part[];
  /** What was given and has not arrived. */
  missing: [from: number, to: number][];
  /** What the reader stood still before, and for how many ms. */
  wait: { from: number; to: number; ms: number } | null;
  /** Parts that were left out, as there were too many. */
  left: number;
}

export type Cut = "windows" | "inferred" | "fixed";

/** A row on the wire: see crates/web/src/weave.rs. */
export type WireRow = [
  start: number,
  length: number,
  at: number,
  parts: [offset: number, length: number, first: number, last: number, path: number, flags: number][],
  missing: [offset: number, length: number][],
  wait: [offset: number, length: number, ms: number] | null,
  left: number,
];

export interface WireDirection {
  /** Since when it is known, µs; told once. */
  since?: number;
  cut: Cut;
  every: number;
  left_out: number;
  known_to: number | null;
  rows: WireRow[];
}

/** What is told of a weave at a time. */
export interface WeaveMessage {
  connection?: number;
  over?: boolean;
  now?: number;
  names?: Record<string, string>;
  sent?: WireDirection;
  received?: WireDirection;
}

const BACKWARD = 1;
const COPY = 2;
const AGAIN = 4;

export function rowOf([start, length, at, parts, missing, wait, left]: WireRow): Row {
  return {
    start,
    length,
    at,
    parts: parts.map(([offset, size, first, last, path, flags]) => ({
      from: offset,
      to: offset + size,
      first: at + first,
      last: at + last,
      path,
      backward: (flags & BACKWARD) !== 0,
      why: flags & COPY ? "copy" : flags & AGAIN ? "again" : "new",
    })),
    missing: missing.map(([offset, size]) => [offset, offset + size]),
    wait: wait && { from: wait[0], to: wait[0] + wait[1], ms: wait[2] },
    left,
  };
}

/** One direction of it. */
export class Cloth {
  cut: Cut = "fixed";
  /** Of so many rows one was told, the last time. */
  every = 1;
  /** Stretches that came and went between two looks. */
  leftOut = 0;
  /** Up to which byte of the stream it is known what has arrived; `null`: all of it. */
  knownTo: number | null = null;
  /** Times that nothing is known of, µs. */
  gaps: [from: number, to: number][] = [];
  private last = -Infinity;
  private byStart = new Map<number, Row>();

  /** Takes what is told of it at `now`, µs. */
  add({ since, cut, every, left_out, known_to, rows }: WireDirection, now: number): void {
    // While nobody looked it was not recorded.
    if (since !== undefined && since > this.last) this.gaps.push([this.last, since]);
    this.last = Math.max(this.last, now);
    if (this.gaps.length > GAPS) this.gaps.splice(0, 2, [-Infinity, this.gaps[1][1]]);
    // Rows that are cut in another way are others.
    if (cut !== this.cut) this.byStart.clear();
    this.cut = cut;
    this.leftOut = left_out;
    this.knownTo = known_to;
    if (rows.length > 0) this.every = every;
    for (const wire of rows) {
      const row = rowOf(wire);
      this.byStart.set(row.start, row);
    }
    const over = this.byStart.size - ROWS;
    if (over > 0) {
      for (const row of this.rows().slice(0, over)) this.byStart.delete(row.start);
    }
  }

  /** The rows, the oldest first. */
  rows(): Row[] {
    return [...this.byStart.values()].sort((a, b) => a.at - b.at || a.start - b.start);
  }

  bytes(): number {
    let sum = 0;
    for (const row of this.byStart.values()) sum += row.length;
    return sum;
  }
}

export type Direction = "sent" | "received";

/** A connection's weave, both directions. */
export class Weave {
  over = false;
  /** The time of the last message, µs. */
  now = 0;
  names: Record<string, string> = {};
  sent = new Cloth();
  received = new Cloth();

  constructor(readonly connection: number | null) {}

  take(message: WeaveMessage): void {
    if (message.over) this.over = true;
    if (message.now !== undefined) this.now = message.now;
    if (message.names) this.names = message.names;
    if (message.sent) this.sent.add(message.sent, this.now);
    if (message.received) this.received.add(message.received, this.now);
  }

  /** The direction that carries much more, else what is sent: of that more is known. */
  busier(): Direction {
    return this.received.bytes() > 4 * this.sent.bytes() ? "received" : "sent";
  }

  name(path: number): string {
    return this.names[path] ?? `path ${path}`;
  }
}

/** The colour of each path of a connection, of so many: that of its line on the page, or where it has none,
 * or another path of the connection has that colour, one that no other has, and if possible no line. */
export function placesOf(names: Record<string, string>, lines: { name: string | null; color: number }[], colors: number): Map<number, number> {
  const places = new Map<number, number>();
  const paths = Object.keys(names).map(Number).sort((a, b) => a - b);
  const free = new Set(Array.from({ length: colors }, (_, color) => color));
  for (const path of paths) {
    const color = lines.find((line) => line.name === names[path])?.color;
    if (color !== undefined && free.delete(color % colors)) places.set(path, color % colors);
  }
  const ofLines = new Set(lines.map(({ color }) => color % colors));
  for (const path of paths.filter((path) => !places.has(path))) {
    const color = [...free].find((one) => !ofLines.has(one)) ?? [...free][0];
    free.delete(color);
    places.set(path, color ?? path % colors);
  }
  return places;
}

/** Bytes of a row that were sent again. */
export function repeated(row: Row): number {
  return row.parts.reduce((sum, part) => sum + (part.why === "new" ? 0 : part.to - part.from), 0);
}

/** The row that shows the most: of which most was sent again, else where the reader waited the longest, else of which
 * most was sent twice. */
export function telling(rows: Row[]): Row | undefined {
  const again = (row: Row): number =>
    row.parts.reduce((sum, part) => sum + (part.why === "again" ? part.to - part.from : 0), 0);
  const by = [again, (row: Row) => row.wait?.ms ?? 0, repeated];
  for (const shows of by) {
    const most = rows.reduce<Row | undefined>((best, row) => (shows(row) > (best ? shows(best) : 0) ? row : best), undefined);
    if (most) return most;
  }
  // The newest may not be done.
  return rows[1];
}

/** When the last of what is new in a row was given to a path, µs. */
export function filled(row: Row): number {
  return row.parts.reduce((last, part) => (part.why === "new" ? Math.max(last, part.last) : last), row.at);
}

/** For each of `slots` equal parts of the time up to `to`, the newest first, the row that shows the most of
 * those begun in it: where the reader stood still the longest, or most was sent again. Where none was
 * begun it is the one that was being filled then; where nothing was filled there is none. */
export function choose(rows: Row[], from: number, to: number, slots: number): (Row | undefined)[] {
  const chosen = new Array<Row | undefined>(slots).fill(undefined);
  const slotOf = (at: number): number => Math.max(0, Math.min(slots - 1, Math.floor(((to - at) / (to - from)) * slots)));
  const shows = (row: Row): number => (row.wait?.ms ?? 0) * 1e12 + repeated(row);
  for (const row of rows) {
    if (row.at < from || row.at > to) continue;
    const slot = slotOf(row.at);
    const other = chosen[slot];
    if (!other || shows(other) < shows(row)) chosen[slot] = row;
  }
  const begun = new Set(chosen);
  const going = [...chosen];
  for (const row of rows) {
    // One that is only partly in this time is shown, too.
    if (row.at > to || filled(row) < from || (row.at >= from && !begun.has(row))) continue;
    for (const part of row.parts) {
      if (part.why !== "new" || part.first > to || part.last < from) continue;
      for (let slot = slotOf(Math.max(from, part.first)); slot >= slotOf(part.last); slot--) {
        if (!chosen[slot]) going[slot] = row;
      }
    }
  }
  return going;
}

/** The rows that were begun or went on in a time. */
export function within(rows: Row[], from: number, to: number): Row[] {
  return rows.filter((row) => row.at <= to && filled(row) >= from);
}

/** The rows of slots, each once, in the order of the slots in which they begin: one that took long may be
 * seen on both sides of others. */
export function eachOnce(slots: (Row | undefined)[]): Row[] {
  const begun = new Set([...slots].reverse());
  return [...begun].reverse().filter((row): row is Row => row !== undefined);
}

/** What each path carried of what was new in rows, as shares, by the path's number. */
export function shares(rows: Row[]): Map<number, number> {
  const bytes = new Map<number, number>();
  let sum = 0;
  for (const row of rows) {
    for (const { path, from, to, why } of row.parts) {
      if (why !== "new") continue;
      bytes.set(path, (bytes.get(path) ?? 0) + to - from);
      sum += to - from;
    }
  }
  return new Map([...bytes].sort((a, b) => a[0] - b[0]).map(([path, n]) => [path, n / sum]));
}
