// Figures as people read them. One unit for each quantity, so that columns can be compared.

/** What stands where nothing is known. */
export const NOTHING = "–";

export type Cell = number | null | undefined;

/** A number with about three digits that count. */
export function number(value: Cell): string {
  if (value === null || value === undefined) return NOTHING;
  const size = Math.abs(value);
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2;
  return value.toFixed(digits);
}

/** Megabits per second; what is sent in idle times is not told from nothing. */
export function rate(value: Cell): string {
  if (value === null || value === undefined) return NOTHING;
  return value < 0.005 ? "0" : number(value);
}

/** A share as per cent. */
export function percent(value: Cell): string {
  if (value === null || value === undefined) return NOTHING;
  return value === 0 ? "0" : (value * 100).toFixed(value < 0.1 ? 2 : 1);
}

/** Bytes in decimal units, as `weftline status` has them. */
export function bytes(value: Cell): string {
  if (value === null || value === undefined) return NOTHING;
  if (value < 1e4) return `${Math.round(value)} B`;
  if (value < 1e7) return `${(value / 1e3).toFixed(1)} kB`;
  if (value < 1e10) return `${(value / 1e6).toFixed(1)} MB`;
  return `${(value / 1e9).toFixed(1)} GB`;
}

/** A time of seconds: the two largest units. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const parts: [number, string][] = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0 s";
  const shown = parts.slice(first, first + 2).filter(([count]) => count > 0);
  return shown.map(([count, unit]) => `${count} ${unit}`).join(" ");
}

const two = (value: number): string => String(value).padStart(2, "0");

/** Times of a run are below this, and times of day are above, both in seconds since their beginning. */
const LONGEST_RUN = 1e9;

/** The time of day, of seconds since 1970; or the time of a run, of seconds since it began. */
export function clock(seconds: number): string {
  const date = new Date(seconds * 1e3);
  if (seconds >= LONGEST_RUN) {
    return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  }
  return seconds < 0 ? "" : `${Math.floor(seconds / 60)}:${two(Math.floor(seconds % 60))}`;
}
