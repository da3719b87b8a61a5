// The messages between the player's page and `weftline vr play`: big-endian, a type and its fields. Those
// of types 2 to 7 are the live stream's own (crates/video/src/live/wire.rs), the others are of the page
// alone (crates/web/src/player/message.rs). What is none is an error that says where.

/** What concealment puts in the place of a tile that is not there, by its number on the wire. */
export const CONCEALMENTS = ["grey", "last-received", "base-layer"] as const;
export type Concealment = (typeof CONCEALMENTS)[number];

const VERSION = 5;
/** The most pictures of a GoP: 480 a second, for 60 s. */
const MAX_PICTURES = 480 * 60;
/** In the place of a tile's number: the sound of a GoP. */
export const SOUND = 0xffff;
/** In the place of a QP: nothing was there. */
export const NOTHING = 255;

export interface Manifest {
  width: number;
  height: number;
  columns: number;
  rows: number;
  /** The length of a GoP, ms. */
  gop: number;
  /** Pictures in a GoP. */
  pictures: number;
  /** How many come; 0 if nobody knows, as of a live source. */
  gops: number;
  concealment: Concealment;
  scheme: string;
  qps: number[];
  /** Channels, and samples in a second; `null`: it has none. */
  sound: { channels: number; rate: number } | null;
}

export interface Rung {
  qp: number;
  bytes: number;
}

export interface TileNotice {
  planned: Rung | null;
  base: Rung | null;
  /** How many GoPs old its last picture may be, where that conceals it. */
  ages: number;
}

export interface GopNotice {
  gop: number;
  tiles: TileNotice[];
}

export interface Tile {
  gop: number;
  tile: number;
  qp: number;
  init: Uint8Array;
  segment: Uint8Array;
}

/** Which page this is among those that watch, and what was dropped of what was on its way to it. */
export interface Pong {
  echo: number;
  /** The time in the video, ms; `null` before it begins. */
  position: number | null;
  steers: boolean;
  moves: boolean;
  viewers: number;
  /** Tiles. */
  dropped: number;
}

export type Message =
  | { is: "manifest"; manifest: Manifest }
  | { is: "gop"; notice: GopNotice }
  | { is: "tile" | "held"; tile: Tile }
  | { is: "end"; gops: number }
  | { is: "refusal"; reason: string }
  | { is: "sample" | "report"; text: string }
  | { is: "pong"; pong: Pong }
  | { is: "begin"; gop: number; /** The picture stood still before. */ stood: boolean };

class Reader {
  private at = 1;
  private readonly view: DataView;

  constructor(private readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  private step(bytes: number): number {
    const at = this.at;
    if (at + bytes > this.bytes.length) {
      throw new Error(`a message of type ${this.bytes[0]} ends in the middle of a field`);
    }
    this.at += bytes;
    return at;
  }

  u8(): number {
    return this.view.getUint8(this.step(1));
  }
  u16(): number {
    return this.view.getUint16(this.step(2));
  }
  u32(): number {
    return this.view.getUint32(this.step(4));
  }
  u64(): bigint {
    return this.view.getBigUint64(this.step(8));
  }
  f32(): number {
    return this.view.getFloat32(this.step(4));
  }
  take(bytes: number): Uint8Array {
    const at = this.step(bytes);
    return this.bytes.subarray(at, at + bytes);
  }
  rest(): Uint8Array {
    return this.take(this.bytes.length - this.at);
  }
  end(): void {
    const extra = this.bytes.length - this.at;
    if (extra > 0) throw new Error(`a message of type ${this.bytes[0]} has ${extra} bytes too many`);
  }
}

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const ms = (nanos: bigint) => Number(nanos) / 1e6;

/** Reads a message, all of `bytes`; `null` for what another release may say. */
export function decode(bytes: Uint8Array): Message | null {
  const reader = new Reader(bytes);
  const message = read(bytes[0], reader);
  if (message) reader.end();
  return message;
}

function read(kind: number, reader: Reader): Message | null {
  switch (kind) {
    case 2:
      return { is: "manifest", manifest: manifest(reader) };
    case 3:
      return { is: "gop", notice: notice(reader) };
    case 4:
      return { is: "tile", tile: tile(reader) };
    case 36:
      return { is: "held", tile: tile(reader) };
    case 6:
      return { is: "end", gops: reader.u32() };
    case 7:
      return { is: "refusal", reason: text(reader.take(reader.u8())) };
    case 32:
      return { is: "sample", text: text(reader.rest()) };
    case 33:
      return { is: "report", text: text(reader.rest()) };
    case 34:
      return { is: "pong", pong: pong(reader) };
    case 35:
      return { is: "begin", gop: reader.u32(), stood: reader.u8() !== 0 };
    default:
      return null;
  }
}

function manifest(reader: Reader): Manifest {
  const version = reader.u16();
  if (version !== VERSION) {
    throw new Error(`the program has version ${version} of live streams and this page ${VERSION}: load it anew`);
  }
  const [width, height] = [reader.u32(), reader.u32()];
  const [columns, rows] = [reader.u8(), reader.u8()];
  const gop = ms(reader.u64());
  const [pictures, gops] = [reader.u32(), reader.u32()];
  const concealment = CONCEALMENTS[reader.u8()];
  if (!concealment || !columns || !rows || !pictures || pictures > MAX_PICTURES) throw new Error("the manifest has a value out of range");
  const scheme = text(reader.take(reader.u8()));
  const qps = [...reader.take(reader.u8())];
  const [channels, rate] = [reader.u8(), reader.u32()];
  const sound = channels > 0 ? { channels, rate } : null;
  return { width, height, columns, rows, gop, pictures, gops, concealment, scheme, qps, sound };
}

function notice(reader: Reader): GopNotice {
  const gop = reader.u32();
  // What the paths are expected to carry, and the sound.
  reader.take(12);
  const tiles: TileNotice[] = [];
  for (let count = reader.u16(); count > 0; count--) {
    const [flags, ages] = [reader.u8(), reader.u8()];
    const rung = (flag: number): Rung | null => {
      if (!(flags & flag)) return null;
      const found = { qp: reader.u8(), bytes: reader.u32() };
      reader.f32();
      return found;
    };
    const [planned, base] = [rung(1), rung(2)];
    // What concealment loses.
    reader.take(4 + 4 * ages);
    tiles.push({ planned, base, ages });
  }
  return { gop, tiles };
}

function tile(reader: Reader): Tile {
  const [gop, number, qp] = [reader.u32(), reader.u16(), reader.u8()];
  // The digests were judged by the program.
  reader.take(2 * DIGEST);
  const init = reader.take(reader.u32());
  return { gop, tile: number, qp, init, segment: reader.rest() };
}

/** The bytes of a digest. */
const DIGEST = 16;

function pong(reader: Reader): Pong {
  const echo = Number(reader.u64());
  const position = reader.u64();
  const [flags, viewers, dropped] = [reader.u8(), reader.u8(), reader.u32()];
  const begun = position !== 0xffff_ffff_ffff_ffffn;
  return {
    echo,
    position: begun ? ms(position) : null,
    steers: (flags & 1) !== 0,
    moves: (flags & 2) !== 0,
    viewers,
    dropped,
  };
}

/** Where the head looked when this was seen. */
export interface Pose {
  /** The time in the video, ms. */
  at: number;
  /** Degrees. */
  yaw: number;
  pitch: number;
  roll: number;
}

/** What a page has shown of a GoP. */
export interface Shown {
  gop: number;
  /** Pictures that were shown, and that were not. */
  shown: number;
  dropped: number;
  /** Tiles that did not come in time, and that came and were not decoded in time for all pictures. */
  lateNetwork: number;
  lateDecoding: number;
  /** How long before its time the last picture was ready that was so the latest, ms. */
  lead: number;
  /** Of each tile: the QP that was there when the GoP began, and the one that was shown, or `NOTHING`; and in how
   * many of the pictures shown it was not. */
  tiles: { had: number; qp: number; missed: number }[];
}

class Writer {
  private readonly view: DataView<ArrayBuffer>;
  private at = 0;

  constructor(bytes: number) {
    this.view = new DataView(new ArrayBuffer(bytes));
  }
  u8(value: number): this {
    this.view.setUint8(this.at, value);
    this.at += 1;
    return this;
  }
  u16(value: number): this {
    this.view.setUint16(this.at, Math.min(0xffff, value));
    this.at += 2;
    return this;
  }
  u32(value: number): this {
    this.view.setUint32(this.at, value);
    this.at += 4;
    return this;
  }
  u64(value: bigint): this {
    this.view.setBigUint64(this.at, value);
    this.at += 8;
    return this;
  }
  f32(value: number): this {
    this.view.setFloat32(this.at, value);
    this.at += 4;
    return this;
  }
  done(): ArrayBuffer {
    return this.view.buffer;
  }
}

export function poses(all: Pose[]): ArrayBuffer {
  const writer = new Writer(2 + 20 * all.length).u8(48).u8(all.length);
  for (const { at, yaw, pitch, roll } of all) {
    writer.u64(BigInt(Math.round(Math.max(0, at) * 1e6))).f32(yaw).f32(pitch).f32(roll);
  }
  return writer.done();
}

export function shown(of: Shown): ArrayBuffer {
  const writer = new Writer(19 + 4 * of.tiles.length).u8(49).u32(of.gop).u16(of.shown).u16(of.dropped);
  writer.u16(of.lateNetwork).u16(of.lateDecoding).f32(of.lead).u16(of.tiles.length);
  for (const { had, qp, missed } of of.tiles) writer.u8(had).u8(qp).u16(missed);
  return writer.done();
}

/** `echo` comes back. */
export function ping(echo: number): ArrayBuffer {
  return new Writer(9).u8(50).u64(BigInt(echo)).done();
}

/** This page wants to be the one whose head counts. */
export function steer(): ArrayBuffer {
  return new Writer(1).u8(51).done();
}
