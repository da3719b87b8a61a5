// What the page and its worker tell each other.

import type { Concealment, Manifest } from "./wire.js";

/** What is to be done with a tile's place in a picture. */
export const LEAVE = 0;
export const THERE = 1;
export const GREY = 2;

/** Where planes are in a picture's buffer. Between them is room: what copies a tile into its place may want
 * whole rows there. */
export interface Planes {
  width: number;
  height: number;
  /** Where Cb and Cr begin, in bytes; Y begins at 0. */
  cb: number;
  cr: number;
  bytes: number;
}

export function planes(width: number, height: number): Planes {
  const [luma, chroma] = [width * height, (width * height) / 4];
  const cb = luma + width;
  const cr = cb + chroma + width / 2;
  return { width, height, cb, cr, bytes: cr + chroma + width / 2 };
}

export interface Picture {
  /** Counted from the beginning of the video. */
  number: number;
  /** The time in the video, ms. */
  at: number;
  buffer: ArrayBuffer;
  /** Of each tile: `LEAVE`, `THERE` or `GREY`. */
  tiles: Uint8Array;
}

/** A stretch of sound. */
export interface Heard {
  /** When it begins, as time in the video, ms. */
  at: number;
  /** Samples in a second. */
  rate: number;
  channels: Float32Array<ArrayBuffer>[];
}

/** How colours are coded, where pictures say it. */
export interface Colour {
  matrix: string;
  full: boolean;
}

/** What is shown of a tile in a GoP. */
export interface TileState {
  /** `null`: nothing. */
  qp: number | null;
  /** It was planned, and was not there in time. */
  late: boolean;
}

export interface Place {
  steers: boolean;
  viewers: number;
  /** Whether the picture moves. */
  moves: boolean;
  /** Tiles that this page was not sent: it was too slow, or there was no room. */
  dropped: number;
}

/** How it stands with the program. */
export type Link =
  | { is: "connecting" | "live" | "over" }
  | { is: "waiting" | "refused"; reason: string };

/** Figures of the page's own. */
export interface Figures {
  /** GoPs whose fate is known, and of them pictures and tiles. */
  gops: number;
  shown: number;
  dropped: number;
  lateNetwork: number;
  lateDecoding: number;
  lead: number;
  /** What is there of GoPs to come. */
  ahead: { gops: number; bytes: number };
}

export type ToPage =
  | { is: "link"; link: Link }
  | { is: "manifest"; manifest: Manifest; concealment: Concealment }
  | { is: "clock"; /** When what is at 0 in the video is shown. */ begins: number; delay: number }
  | { is: "picture"; picture: Picture }
  | { is: "sound"; sound: Heard }
  | { is: "colour"; colour: Colour }
  | { is: "gop"; gop: number; tiles: TileState[]; /** The server sends nothing of it. */ nothing: boolean }
  | { is: "figures"; figures: Figures }
  | { is: "place"; place: Place }
  | { is: "sample" | "report"; text: string }
  | { is: "trouble"; text: string };

export type ToWorker =
  | { is: "pose"; yaw: number; pitch: number; roll: number }
  | { is: "done"; number: number; shown: boolean; buffer: ArrayBuffer }
  | { is: "hidden"; hidden: boolean }
  | { is: "listen"; on: boolean }
  | { is: "late" }
  | { is: "steer" };
