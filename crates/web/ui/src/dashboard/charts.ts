// The charts, drawn by uPlot: lines over time, with what happened as marks, and one cursor for all.

import uPlot from "uplot";

import { type Cell, clock, number } from "./format.js";
import { type Connection, type Figure, type Model, sum } from "./model.js";

/** A line of a chart. */
export interface Line {
  label: string;
  /** Its place in the palette; −1 is the ink of the text. */
  color: number;
  values: Cell[];
}

/** What a chart shows. */
export interface Chart {
  id: string;
  title: string;
  unit: string;
  /** How a value is written. */
  show: (value: Cell) => string;
  lines: (model: Model) => Line[];
}

/** The name of the sum of all paths that have no columns of their own. */
export const OTHERS = "other paths";

/** Colours and dashes of lines, by the place of a path. */
export const COLORS = 12;
export const DASHES: number[][] = [[], [7, 3], [2, 3], [9, 3, 2, 3]];

/** The dash of a place: lines that are near each other differ by more than their colour, and those of one
 * colour by their dash. */
export function dashOf(color: number): number[] {
  return color < 0 ? [] : DASHES[(color + Math.floor(color / COLORS)) % DASHES.length];
}

function ofPaths(figure: Figure, scale: number, withSum: boolean): (model: Model) => Line[] {
  return (model) => {
    const scaled = (cells: Cell[]): Cell[] =>
      scale === 1 ? cells : cells.map((cell) => (typeof cell === "number" ? cell * scale : cell));
    const lines = model.paths.map((path) => ({
      label: path.name ?? OTHERS,
      color: path.color,
      values: scaled(path[figure]),
    }));
    if (withSum && lines.length > 1) {
      const rows = model.t.map((_, row) => sum(lines.map((line) => line.values[row])));
      lines.unshift({ label: "all paths", color: -1, values: rows });
    }
    return lines;
  };
}

/** The connections that have moved the most in what is kept, each with a line. */
const CONNECTIONS = 6;
/** A row has so many of those that moved at most; where it has fewer, the others moved nothing. */
const LISTED = 4;

/** What a connection moved, row by row. It is known from just before its first row to just after its last
 * one: what moved in one row only is seen, too. */
function moved(id: number, rows: Connection[][]): Cell[] {
  const cells = rows.map((row): Cell => {
    const own = row.find((one) => one[0] === id);
    return own ? own[1] + own[2] : row.length < LISTED ? 0 : null;
  });
  const listed = rows.map((row) => row.some((one) => one[0] === id));
  const [first, last] = [listed.indexOf(true), listed.lastIndexOf(true)];
  return cells.map((cell, row) => (row >= first - 1 && row <= last + 1 ? cell : null));
}

function ofConnections(model: Model): Line[] {
  const sums = new Map<number, number>();
  for (const row of model.conns) {
    for (const [id, send, receive] of row) sums.set(id, (sums.get(id) ?? 0) + send + receive);
  }
  const busiest = [...sums].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, CONNECTIONS);
  return busiest
    .map(([id]) => id)
    .sort((a, b) => a - b)
    .map((id) => ({
      label: `#${id}`,
      // A connection keeps its colour whichever others there are.
      color: id % COLORS,
      values: moved(id, model.conns),
    }));
}

export const PATH_CHARTS: Chart[] = [
  {
    id: "send",
    title: "Sending",
    unit: "Mb/s",
    show: number,
    lines: ofPaths("send", 1, true),
  },
  {
    id: "receive",
    title: "Receiving",
    unit: "Mb/s",
    show: number,
    lines: ofPaths("receive", 1, true),
  },
  {
    id: "srtt",
    title: "Round-trip time",
    unit: "ms, smoothed",
    show: number,
    lines: ofPaths("srtt", 1, false),
  },
  {
    id: "queueing",
    title: "Queueing delay",
    unit: "ms above the least round trip",
    show: number,
    lines: ofPaths("queueing", 1, false),
  },
  {
    id: "retransmitted",
    title: "Retransmitted",
    unit: "% of segments",
    show: number,
    lines: ofPaths("retransmitted", 100, false),
  },
];

export const CONNECTION_CHARTS: Chart[] = [
  {
    id: "conns",
    title: "Busiest connections",
    unit: "Mb/s, both directions",
    show: number,
    lines: ofConnections,
  },
  {
    id: "count",
    title: "Connections",
    unit: "open, and of these in use",
    show: (value) => (typeof value === "number" ? String(Math.round(value)) : number(value)),
    lines: (model) => [
      { label: "open", color: 0, values: model.open },
      { label: "in use", color: 1, values: model.used },
    ],
  },
];

export const CHARTS: Chart[] = [...PATH_CHARTS, ...CONNECTION_CHARTS];

/** What the page's style says of colours. */
export interface Theme {
  ink: string;
  soft: string;
  grid: string;
  lines: string[];
  levels: Record<string, string>;
}

export function theme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(name).trim();
  const lines = Array.from({ length: COLORS }, (_, place) => of(`--c${place}`));
  const levels = { good: of("--good"), warning: of("--warning"), error: of("--error") };
  return { ink: of("--ink"), soft: of("--soft"), grid: of("--grid"), lines, levels };
}

/** Something that happened, as a mark. */
export interface Mark {
  t: number;
  level: string;
}

/** What is shown of time, seconds since 1970. */
export interface Span {
  from: number;
  to: number;
}

const HEIGHT = 150;

/** A chart on the page. */
export class Plot {
  private plot: uPlot | undefined;
  private drawn = "";
  private span: Span = { from: 0, to: 1 };
  private marks: Mark[] = [];
  private readonly resized: ResizeObserver;

  /** `move` is told where the pointer is: the place of a row, or `null` when it has left. */
  constructor(
    private readonly chart: Chart,
    private readonly at: HTMLElement,
    private readonly move: (row: number | null) => void,
  ) {
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(at);
  }

  private width(): number {
    return Math.max(120, Math.floor(this.at.clientWidth));
  }

  private resize(): void {
    const width = this.width();
    if (this.plot && this.plot.width !== width) this.plot.setSize({ width, height: HEIGHT });
  }

  /** Draws the model as it is; `style` is the theme, `x` the time of each row. */
  draw(model: Model, x: number[], span: Span, marks: Mark[], style: Theme): void {
    const lines = this.chart.lines(model);
    this.span = span;
    this.marks = marks;
    const data = [x, ...lines.map((line) => line.values)] as uPlot.AlignedData;
    const looks = JSON.stringify([lines.map(({ label, color }) => [label, color]), style]);
    if (this.plot && looks === this.drawn) {
      this.plot.setData(data);
      return;
    }
    this.plot?.destroy();
    this.drawn = looks;
    const plot = new uPlot(this.options(lines, style), data, this.at);
    plot.over.addEventListener("mousemove", () => this.move(plot.cursor.idx ?? null));
    plot.over.addEventListener("mouseleave", () => this.move(null));
    this.plot = plot;
  }

  /** Shows the cursor at a time, or nowhere. What was drawn has to be on the page. */
  point(time: number | null): void {
    if (!this.plot) return;
    const left = time === null ? -10 : this.plot.valToPos(time, "x");
    this.plot.setCursor({ left, top: time === null ? -10 : 0 }, false);
  }

  private options(lines: Line[], style: Theme): uPlot.Options {
    const color = (line: Line): string =>
      line.color < 0 ? style.ink : style.lines[line.color % style.lines.length];
    const axis = { stroke: style.soft, grid: { stroke: style.grid, width: 1 } };
    const font = "12px system-ui, sans-serif";
    return {
      width: this.width(),
      height: HEIGHT,
      legend: { show: false },
      padding: [8, 6, 0, 0],
      cursor: {
        y: false,
        drag: { x: false, y: false },
        points: { size: 6 },
      },
      scales: {
        x: { time: true, range: () => [this.span.from, this.span.to] },
        y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] },
      },
      series: [
        {},
        ...lines.map((line) => ({
          label: line.label,
          stroke: color(line),
          width: line.color < 0 ? 1 : 1.75,
          dash: dashOf(line.color),
          points: { show: false },
          spanGaps: false,
        })),
      ],
      axes: [
        {
          ...axis,
          font,
          space: 76,
          size: 28,
          ticks: { stroke: style.grid, width: 1, size: 4 },
          values: (plot, times) => {
            // The last would be cut off by the edge.
            const most = plot.bbox.width / uPlot.pxRatio - 26;
            return times.map((time) => (plot.valToPos(time, "x") > most ? "" : clock(time)));
          },
        },
        {
          ...axis,
          font,
          size: 46,
          space: 28,
          ticks: { show: false },
          values: (_, values) => values.map((value) => String(+value.toPrecision(6))),
        },
      ],
      hooks: {
        drawAxes: [(plot) => this.drawMarks(plot, style)],
      },
    };
  }

  /** A line for each thing that happened: what went wrong is dashed. */
  private drawMarks(plot: uPlot, style: Theme): void {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.lineWidth = uPlot.pxRatio;
    for (const { t, level } of this.marks) {
      if (t < this.span.from || t > this.span.to) continue;
      const x = Math.round(plot.valToPos(t, "x", true)) + 0.5;
      ctx.strokeStyle = style.levels[level] ?? style.soft;
      ctx.setLineDash(level === "good" ? [] : [4 * uPlot.pxRatio, 3 * uPlot.pxRatio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }
}

