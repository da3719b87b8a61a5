// What the daemon has told: ten minutes of samples in columns, and its events.

import type { Cell } from "./format.js";

/** Samples that are kept, as many as the daemon keeps. */
export const ROWS = 1200;
/** Events that are kept. */
export const EVENTS = 256;

/** A path's figures, in the order of a sample; rates in Mb/s, times in ms, a share, bytes. */
export const FIGURES = ["send", "receive", "srtt", "queueing", "retransmitted", "cwnd"] as const;
export type Figure = (typeof FIGURES)[number];

export type PathState = "up" | "standby" | "silent" | "down" | "unused";

/** What a state is called here, and what it means. */
export const STATES: Record<PathState, [name: string, meaning: string]> = {
  up: ["up", "it carries what it is given"],
  standby: ["standby", "its role keeps data off it"],
  silent: ["stalled", "data is outstanding and nothing gets through"],
  down: ["down", "it has no TCP connection"],
  unused: ["unused", "no connection has it"],
};

export interface Path extends Record<Figure, Cell[]> {
  /** `null`: all paths that have no columns of their own. */
  name: string | null;
  state: PathState[];
  /** Its place among the colours, for as long as it is here. */
  color: number;
}

export type Connection = [number: number, send: number, receive: number];

export interface Happening {
  t: number;
  name: string;
  level: "info" | "good" | "warning" | "error";
  path: string | null;
  text: string;
}

export interface History {
  last: string;
  /** What `t` is of: "run": seconds of a run's own; else of this day. An earlier daemon says nothing. */
  clock?: "day" | "run";
  t: number[];
  open: number[];
  used: number[];
  conns: Connection[][];
  paths: Omit<Path, "color">[];
  events: Happening[];
}

export interface Sample {
  t: number;
  state: string;
  open: number;
  used: number;
  paths: [name: string | null, state: PathState, ...figures: Cell[]][];
  conns: Connection[];
}

export class Model {
  /** Seconds since the dashboard was opened, a row each. */
  t: number[] = [];
  open: number[] = [];
  used: number[] = [];
  conns: Connection[][] = [];
  paths: Path[] = [];
  /** The newest last. */
  events: Happening[] = [];
  /** What the daemon does, as it was said last. */
  state = "";
  /** The number of the last message. */
  last = "";
  /** Seconds since 1970 when `t` was 0, by this browser's clock; 0 where `t` is a run's own time. */
  epoch = 0;

  /** Begins anew with all that the daemon keeps; `now` is in seconds since 1970. */
  load(history: History, now: number): void {
    const { last, t, open, used, conns, paths, events } = history;
    Object.assign(this, { last, t, open, used, conns, events });
    const had = this.paths;
    this.paths = [];
    // One that was here before keeps its colour.
    const colors = paths.map(({ name }) => had.find((path) => path.name === name)?.color);
    for (const [place, path] of paths.entries()) {
      this.paths.push({ ...path, color: colors[place] ?? freeColor(this.paths, colors) });
    }
    this.epoch = history.clock === "run" ? 0 : now - (t.at(-1) ?? 0);
  }

  /** Whether a message has not been here before; then it is the last now. */
  private isNew(id: string): boolean {
    const [instance, number] = split(id);
    const [before, last] = split(this.last);
    if (instance === before && number <= last) return false;
    this.last = id;
    return true;
  }

  /** Adds a sample, unless it has come before; whether it has not. */
  add(sample: Sample, id: string): boolean {
    if (!this.isNew(id)) return false;
    this.state = sample.state;
    const rows = this.t.length;
    const had = new Set(this.paths);
    for (const [name, state, ...figures] of sample.paths) {
      const path = this.pathOf(name, rows);
      had.delete(path);
      path.state.push(state);
      FIGURES.forEach((figure, place) => path[figure].push(figures[place] ?? null));
    }
    for (const path of had) {
      path.state.push("unused");
      for (const figure of FIGURES) path[figure].push(null);
    }
    this.t.push(sample.t);
    this.open.push(sample.open);
    this.used.push(sample.used);
    this.conns.push(sample.conns);
    if (this.t.length > ROWS) this.forgetOldest();
    return true;
  }

  addEvent(event: Happening, id: string): void {
    if (!this.isNew(id)) return;
    this.events.push(event);
    if (this.events.length > EVENTS) this.events.shift();
  }

  private pathOf(name: string | null, rows: number): Path {
    const known = this.paths.find((path) => path.name === name);
    if (known) return known;
    const empty = (): Cell[] => new Array<Cell>(rows).fill(null);
    const path: Path = {
      name,
      color: freeColor(this.paths),
      state: new Array<PathState>(rows).fill("unused"),
      send: empty(),
      receive: empty(),
      srtt: empty(),
      queueing: empty(),
      retransmitted: empty(),
      cwnd: empty(),
    };
    // The sum of all others stays the last.
    const others = this.paths.findIndex((one) => one.name === null);
    this.paths.splice(name === null || others < 0 ? this.paths.length : others, 0, path);
    return path;
  }

  private forgetOldest(): void {
    for (const column of [this.t, this.open, this.used, this.conns]) column.shift();
    for (const path of this.paths) {
      path.state.shift();
      for (const figure of FIGURES) path[figure].shift();
    }
    // One that nothing is known of any more has gone.
    this.paths = this.paths.filter((path) => path.state.some((state) => state !== "unused"));
  }
}

/** The first place among the colours that no path has, nor is to have. */
function freeColor(paths: Path[], kept: (number | undefined)[] = []): number {
  const taken = new Set([...paths.map((path) => path.color), ...kept]);
  let color = 0;
  while (taken.has(color)) color++;
  return color;
}

/** The sum of what is known; `null` where nothing is. */
export function sum(cells: Cell[]): Cell {
  const known = cells.filter((cell): cell is number => cell !== null && cell !== undefined);
  return known.length > 0 ? known.reduce((a, b) => a + b, 0) : null;
}

/** The mean of what is known of rows from `from` up to `to`. */
export function mean(column: Cell[], from: number, to: number): Cell {
  const cells = column.slice(from, to).filter((cell) => cell !== null && cell !== undefined);
  const total = sum(cells);
  return total === null || total === undefined ? null : total / cells.length;
}

/** The process and the number of a message. */
function split(id: string): [instance: string, number: number] {
  const dash = id.lastIndexOf("-");
  return [id.slice(0, Math.max(0, dash)), Number(id.slice(dash + 1))];
}
