// The page around the picture: how it stands, buttons, and figures.

import { html, nothing, type TemplateResult } from "lit-html";

import type { Figures, Link, Place, TileState } from "./talk.js";
import type { Manifest } from "./wire.js";

/** What the program tells twice a second. */
export interface Sample {
  /** Name, Mb/s and whether it is up, of each path. */
  paths: [name: string, mbps: number, up: boolean][];
  /** The angle that is planned for, degrees. */
  fov?: number;
}

/** The mean rates of samples of the same paths, and how the last one says that they are. */
export function mean(samples: Sample[]): Sample {
  const last = samples[samples.length - 1];
  const rate = (place: number) =>
    samples.reduce((sum, sample) => sum + (sample.paths[place]?.[1] ?? 0), 0) / samples.length;
  return { paths: last.paths.map(([name, , up], place) => [name, rate(place), up]) };
}

/** What the program says of a GoP that is over. */
export interface Report {
  gop: number;
  arrived: number;
  late: number;
  dropped: number;
  psnr_db: number | null;
  /** How long the picture stood still before it. */
  stalled_s: number;
}

export interface Page {
  link: Link;
  manifest: Manifest | null;
  gop: number;
  tiles: TileState[];
  /** Of the GoP that is shown the server has sent nothing. */
  nothing: boolean;
  figures: Figures | null;
  place: Place | null;
  sample: Sample | null;
  report: Report | null;
  /** Of all reports: how long the picture stood still, s, and tiles that the server left out. */
  stood: number;
  leftOut: number;
  trouble: string;
  delay: number;
  marks: boolean;
  direction: string;
  /** Why what was asked for by a button is not. */
  notice: string;
  /** Whether the view can follow the device, and does; whether there is a headset, and it is worn. */
  tilt: Switch | null;
  headset: Switch | null;
  /** Whether the stream has sound, and it is played. */
  sound: Switch | null;
  /** How long after its picture the sound is heard, ms, and what came too late of it. */
  heard: { off: number | null; late: number };
}

export interface Switch {
  on: boolean;
}

export interface Actions {
  marks(): void;
  tilt(): void;
  headset(): void;
  sound(): void;
  steer(): void;
  whole(): void;
  /** Takes the notice away. */
  dismiss(): void;
  /** Turns or zooms as a key does. */
  key(name: string): void;
}

const number = (value: number, digits = 0) => value.toFixed(digits);
const share = (part: number, of: number) => (of > 0 ? `${number((100 * part) / of, 1)} %` : "–");

/** Whether the program waits for what is to be shown. */
const isStill = ({ link, figures, place }: Page) =>
  link.is === "live" && figures !== null && place?.moves === false;

/** Whether the server sends nothing of what is to be seen now. */
const hasNothing = ({ link, nothing: is }: Page) => link.is === "live" && is;

function says(page: Page): string {
  const { link, manifest, gop } = page;
  switch (link.is) {
    case "connecting":
      return "connecting";
    case "live":
      if (!manifest || gop < 0) return "waiting for the stream";
      return `${isStill(page) ? "the picture stands still: what is next has not come" : hasNothing(page) ? "live, but the server sent nothing of this part: what is seen is older, or grey" : "live"}${page.place && !page.place.steers ? "; another page steers" : ""}`;
    case "over":
      return "the stream is over";
    default:
      return link.reason;
  }
}

/** How many tiles are shown at which QP. */
function qualities(page: Page): string {
  const counts = new Map<string, number>();
  const late = page.tiles.filter((tile) => tile.late).length;
  for (const { qp } of page.tiles) {
    const name = qp === null ? "none" : `QP ${qp}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const parts = [...counts].sort().map(([name, count]) => `${count} × ${name}`);
  return `${parts.join(", ")}${late > 0 ? `; ${late} late` : ""}`;
}

function hears({ off, late }: Page["heard"]): string {
  const lost = late > 0 ? `; ${late} frames came too late` : "";
  if (off === null) return `nothing is heard yet${lost}`;
  return `${number(Math.abs(off))} ms ${off < 0 ? "before" : "after"} the picture${lost}`;
}

function rows(page: Page): [string, string][] {
  const { manifest, figures, sample, report, place } = page;
  const all: [string, string][] = [];
  if (manifest) {
    const { width, height, columns, rows: high, gops, scheme, concealment } = manifest;
    all.push(["Stream", `${width}×${height}, ${columns}×${high} tiles, ${scheme}, ${concealment}`]);
    // Of a live source nobody knows how many come.
    if (page.gop >= 0) all.push(["GoP", gops > 0 ? `${page.gop + 1} of ${gops}` : `${page.gop + 1}, live`]);
  }
  if (page.tiles.length > 0) all.push(["Tiles shown", qualities(page)]);
  // What does not go on has no rates.
  for (const [name, mbps, up] of page.link.is === "live" ? (sample?.paths ?? []) : []) {
    all.push([`Path ${name}`, up ? `${number(mbps, 2)} Mb/s` : `${number(mbps, 2)} Mb/s, down`]);
  }
  if (report) {
    const psnr = report.psnr_db === null ? "–" : `${number(report.psnr_db, 1)} dB`;
    // The program knows one head.
    const whose = place && !place.steers ? "Viewport of the page that steers" : "Viewport";
    all.push([`${whose}, estimated`, `${psnr} (GoP ${report.gop + 1})`]);
  }
  if (figures) {
    const pictures = figures.shown + figures.dropped;
    all.push(["Pictures shown", `${figures.shown} of ${pictures} (${share(figures.shown, pictures)})`]);
    if (page.stood > 0) all.push(["The picture stood still", `${number(page.stood, 1)} s in all`]);
    if (page.leftOut > 0) all.push(["Tiles not sent, or their base layer only", String(page.leftOut)]);
    all.push(["Tiles late by the network", String(figures.lateNetwork)]);
    all.push(["Tiles late by decoding", String(figures.lateDecoding)]);
    const { gops, bytes } = figures.ahead;
    const lead = figures.lead < 0 ? `${number(-figures.lead)} ms too late` : `${number(figures.lead)} ms at least`;
    if (page.link.is === "live") {
      all.push(["Waiting to be shown", `${gops} ${gops === 1 ? "GoP" : "GoPs"}, ${number(bytes / 1e6, 2)} MB`]);
      all.push(["Ready before its time", `${lead}, of ${number(page.delay)} ms`]);
    }
  }
  if (page.sound?.on) all.push(["Sound", hears(page.heard)]);
  if (place) {
    all.push(["Pages that watch", String(place.viewers)]);
    if (place.dropped > 0) all.push(["Tiles this page was not sent", String(place.dropped)]);
  }
  if (page.trouble) all.push(["Trouble", page.trouble]);
  return all;
}

const switched = (name: string, words: string, { on }: Switch, click: () => void) =>
  html`<button name=${name} aria-pressed=${on ? "true" : "false"} @click=${click}>${words}</button>`;

export function view(page: Page, actions: Actions): TemplateResult {
  const { link } = page;
  const steers = page.place?.steers ?? true;
  return html`
    <h1 class="unseen">Weftline player</h1>
    <div class="bar">
      <p class="link ${isStill(page) || hasNothing(page) ? "still" : link.is}" role="status">${says(page)}</p>
      <p class="direction">${page.direction}</p>
      <div class="controls">
        ${steers ? nothing : html`<button name="steer" @click=${actions.steer}>Steer</button>`}
        ${page.sound ? switched("sound", "Sound", page.sound, actions.sound) : nothing}
        ${page.tilt && !page.headset?.on ? switched("tilt", "Follow this device", page.tilt, actions.tilt) : nothing}
        ${page.headset ? switched("headset", "Headset", page.headset, actions.headset) : nothing}
        ${switched("marks", "Tiles", { on: page.marks }, actions.marks)}
        ${document.fullscreenEnabled ? html`<button name="whole" @click=${actions.whole}>Full screen</button>` : nothing}
        ${turns(actions)}
      </div>
    </div>
    ${page.notice
      ? html`<p role="alert">${page.notice} <button @click=${actions.dismiss}>Close</button></p>`
      : nothing}
    ${page.trouble ? html`<p role="alert">${page.trouble}</p>` : nothing}
    ${page.marks
      ? html`<p class="legend">
          <span class="fine"></span>finest <span class="coarse"></span>coarsest
          <span class="late"></span>late
        </p>`
      : nothing}
    <details>
      <summary>Figures</summary>
      <table aria-label="Figures">
        <tbody>
          ${rows(page).map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${value}</td></tr>`)}
        </tbody>
      </table>
      <p>Drag the picture to look around, use the arrow keys on it, or the buttons; + and − zoom, Home looks ahead.
        ${page.tilt ? "Follow this device: turn it, and drag to turn further." : nothing}
        ${page.headset ? "Headset: until it is taken off, or the button is pressed again." : nothing}</p>
    </details>
  `;
}

/** For those who can point and not drag. */
const TURNS = [
  ["ArrowLeft", "←", "Look left"],
  ["ArrowUp", "↑", "Look up"],
  ["ArrowDown", "↓", "Look down"],
  ["ArrowRight", "→", "Look right"],
  ["+", "+", "Narrower view"],
  ["-", "−", "Wider view"],
];

const turns = ({ key }: Actions) =>
  html`<div class="turns" role="group" aria-label="Look around">
    ${TURNS.map(([name, sign, words]) => html`<button aria-label=${words} @click=${() => key(name)}>${sign}</button>`)}
  </div>`;

/** In place of all, where a browser cannot play. */
export function refused(reason: string, remedy: string): TemplateResult {
  return html`<div class="refused"><h1>This cannot be played here</h1><p role="alert">${reason}</p><p>${remedy}</p></div>`;
}
