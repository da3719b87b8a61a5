// The page's colours, for the pictures of a weave.

import type { Palette } from "./draw.js";

/** Colours that paths have: the first of the page's lines. */
const COLORS = 12;

/** What the page's style says now; `place` is a path's place among the colours. */
export function palette(place: (path: number) => number): Palette {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(name).trim();
  return {
    ink: of("--ink"),
    soft: of("--soft"),
    grid: of("--grid"),
    ground: of("--card"),
    error: of("--error"),
    of: (path) => of(`--c${place(path) % COLORS}`),
  };
}
