// How each path was over time, as a strip: states that last are one bar.

import { html, nothing, svg, type SVGTemplateResult, type TemplateResult } from "lit-html";

import type { Span } from "./charts.js";
import { OTHERS } from "./charts.js";
import { clock } from "./format.js";
import { type Model, type PathState, STATES } from "./model.js";

/** Units of a strip's width. */
const WIDTH = 1000;
const ROW = 22;

/** A state and the rows in which it was. */
interface Run {
  state: PathState;
  from: number;
  to: number;
}

/** The runs of one state each in `states`, from row `first`. */
export function runs(states: PathState[], first: number): Run[] {
  const found: Run[] = [];
  for (let row = first; row < states.length; row++) {
    const last = found.at(-1);
    if (last && last.state === states[row]) last.to = row + 1;
    else found.push({ state: states[row], from: row, to: row + 1 });
  }
  return found;
}

/** Hatching besides colour: who sees no colours sees which state it is. It stands once in the page. */
export function patterns(): TemplateResult {
  return html`<svg class="patterns" width="0" height="0" aria-hidden="true"><defs>
    <pattern id="hatch-standby" width="8" height="8" patternUnits="userSpaceOnUse">
      <rect class="standby" width="8" height="8"></rect><rect class="stripe" y="3" width="8" height="2"></rect>
    </pattern>
    <pattern id="hatch-silent" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
      <rect class="silent" width="8" height="8"></rect><rect class="stripe" width="3" height="8"></rect>
    </pattern>
    <pattern id="hatch-down" width="8" height="8" patternUnits="userSpaceOnUse">
      <rect class="down" width="8" height="8"></rect><path class="cross" d="M0 0L8 8M8 0L0 8"></path>
    </pattern>
  </defs></svg>`;
}

const HATCHED: PathState[] = ["standby", "silent", "down"];

function fill(state: PathState): string | typeof nothing {
  return HATCHED.includes(state) ? `url(#hatch-${state})` : nothing;
}

/** The strips of all paths in `span`; `x` is the time of each row. */
export function strips(model: Model, x: number[], span: Span): TemplateResult {
  const first = Math.max(0, x.findIndex((time) => time >= span.from));
  const place = (row: number): number => {
    // A sample is of the time before it.
    const time = row === 0 ? x[0] : x[row - 1];
    const share = (time - span.from) / (span.to - span.from);
    return Math.min(1, Math.max(0, share)) * WIDTH;
  };
  const bar = (run: Run): SVGTemplateResult => {
    const from = place(run.from);
    const width = Math.max(1, place(run.to) - from);
    const title = `${STATES[run.state][0]} from ${clock(x[Math.max(0, run.from - 1)])} to ${clock(x[run.to - 1])}`;
    return svg`<rect class="bar ${run.state}" fill=${fill(run.state)} x=${from} width=${width} height=${ROW - 4}><title>${title}</title></rect>`;
  };
  const strip = (name: string | null, states: PathState[]): TemplateResult => {
    const all = runs(states, first);
    const now = all.at(-1);
    const words = now ? `${STATES[now.state][0]} now; ${all.length - 1} changes in this time` : "";
    return html`<div class="strip">
      <span class="strip-name">${name ?? OTHERS}</span>
      <svg role="img" aria-label="${name ?? OTHERS}: ${words}" viewBox="0 0 ${WIDTH} ${ROW - 4}" preserveAspectRatio="none">
        ${all.map(bar)}
      </svg>
    </div>`;
  };
  return html`${model.paths.map((path) => strip(path.name, path.state))}`;
}

/** What the bars mean. */
export function legend(): TemplateResult {
  const shown: PathState[] = ["up", "standby", "silent", "down"];
  return html`<ul class="legend">
    ${shown.map(
      (state) => html`<li>
        <svg aria-hidden="true" viewBox="0 0 26 14" width="26" height="14"><rect class="bar ${state}" fill=${fill(state)} width="26" height="14"></rect></svg>
        ${STATES[state][0]}: ${STATES[state][1]}
      </li>`,
    )}
  </ul>`;
}
