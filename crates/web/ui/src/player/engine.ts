// From messages to pictures: what is there of a GoP when it begins is decoded, and put together.

import { Bank, type Course } from "./bank.js";
import { Clock, now } from "./clock.js";
import { byDistance, type Head } from "./geometry.js";
import { samples, setup } from "./mp4.js";
import { Sound } from "./sound.js";
import { type Colour, GREY, LEAVE, type Planes, planes, THERE, type TileState, type ToPage } from "./talk.js";
import { type GopNotice, type Manifest, type Message, NOTHING, type Shown, SOUND, type Tile } from "./wire.js";

/** GoPs that are kept before they begin, and their bytes; the program sends so many, and half as much. */
const MAX_GOPS = 64;
const MAX_BYTES = 128 << 20;
/** Pictures that are decoded ahead of what is shown: at least, and at most, by their number and their bytes. The
 * page has room for some more. */
const AHEAD = 5;
const MAX_AHEAD = 24;
const MAX_AHEAD_BYTES = 144 << 20;
/** Buffers of pictures that are kept for others. */
const POOL = 8;

/** A GoP that has not begun. */
interface Coming {
  notice: GopNotice | null;
  /** Of each tile, what came of it by its QP. */
  tiles: Map<number, Map<number, Tile>>;
  sound?: Tile;
  bytes: number;
}

/** A GoP that is shown. */
interface Going {
  gop: number;
  /** Of each tile, the QP that is decoded, if any. */
  qps: (number | null)[];
  /** The QP that was there when it began. */
  had: (number | null)[];
  lateNetwork: number;
  /** Tiles that came and are none that can be decoded. */
  broken: number;
  /** In how many of the pictures shown each tile was not. */
  missed: number[];
  /** In how many it was. */
  there: number[];
  shown: number;
  dropped: number;
  lead: number;
  /** Whether the page has painted the places that become grey, as far as is known. */
  grey: "no" | "asked" | "yes";
}

/** A picture that is put together. */
interface Slot {
  number: number;
  gop: number;
  buffer: ArrayBuffer | null;
  tiles: Uint8Array;
  /** Tiles that are decoded for it, those that are there, and those that are copied just now. */
  wants: number;
  has: number;
  copying: number;
  /** When it went to the page. */
  posted: number | null;
}

export class Engine {
  private manifest: Manifest | null = null;
  private planes: Planes = planes(2, 2);
  private bank = new Bank(0, this);
  private readonly sound: Sound;
  private readonly coming = new Map<number, Coming>();
  private readonly going = new Map<number, Going>();
  private readonly slots = new Map<number, Slot>();
  private readonly pool: ArrayBuffer[] = [];
  private order: number[] = [];
  private colour = "";
  private trouble = "";
  /** What came first of each tile: its last picture of a GoP before this page came. */
  private readonly held = new Map<number, Tile>();
  /** Of each tile, the GoP of which it was there last. */
  private readonly last = new Map<number, number>();
  /** Tiles of which that is decoded just now. */
  private readonly holding = new Set<number>();
  /** The newest GoP that has begun. */
  private current = -1;
  /** The GoP of which sound was late last, and how much of it. */
  private tardy = { gop: -1, frames: 0 };
  private head: Head = { yaw: 0, pitch: 0, roll: 0 };
  private readonly sums = { gops: 0, shown: 0, dropped: 0, lateNetwork: 0, lateDecoding: 0, lead: 0 };

  constructor(
    private readonly clock: Clock,
    private readonly post: (message: ToPage, transfer?: Transferable[]) => void,
    private readonly report: (shown: Shown) => void,
  ) {
    this.sound = new Sound(clock, post);
  }

  /** How long a picture is shown, ms. */
  private get period(): number {
    return this.manifest ? this.manifest.gop / this.manifest.pictures : Infinity;
  }

  take(message: Message): void {
    switch (message.is) {
      case "manifest":
        return this.start(message.manifest);
      case "gop":
        // The word on a GoP that has begun is too late.
        if (message.notice.gop > this.current) this.open(message.notice.gop).notice = message.notice;
        return;
      case "tile":
        return this.keep(message.tile);
      case "held":
        this.held.set(message.tile.tile, message.tile);
        return;
      case "begin":
        return this.begin(message.gop, message.stood);
      default:
        return;
    }
  }

  private start(manifest: Manifest): void {
    this.stop();
    this.coming.clear();
    this.last.clear();
    this.manifest = manifest;
    this.current = -1;
    this.planes = planes(manifest.width, manifest.height);
    this.pool.length = 0;
    this.bank = new Bank(manifest.columns * manifest.rows, this);
    this.sound.start(manifest);
    this.turn(this.head);
    this.post({ is: "manifest", manifest, concealment: manifest.concealment });
  }

  /** The head is turned like this. */
  turn(head: Head): void {
    this.head = head;
    if (this.manifest) this.order = byDistance(this.manifest.columns, this.manifest.rows, head);
  }

  /** What is there of a GoP to come. Of too many those that begin last are let go. */
  private open(gop: number): Coming {
    let found = this.coming.get(gop);
    if (!found) {
      found = { notice: null, tiles: new Map(), bytes: 0 };
      this.coming.set(gop, found);
      if (this.coming.size > MAX_GOPS) this.coming.delete(Math.max(...this.coming.keys()));
    }
    return found;
  }

  /** How much is there of GoPs to come. */
  ahead(): { gops: number; bytes: number } {
    const all = [...this.coming.values()];
    return { gops: all.length, bytes: all.reduce((sum, { bytes }) => sum + bytes, 0) };
  }

  private keep(tile: Tile): void {
    if (!this.manifest || tile.gop <= this.current) return;
    const isSound = tile.tile === SOUND;
    if (!isSound && tile.tile >= this.manifest.columns * this.manifest.rows) throw new Error(`there is no tile ${tile.tile}`);
    const bytes = tile.init.length + tile.segment.length;
    const coming = this.open(tile.gop);
    if (isSound && coming.sound) return;
    const known = coming.tiles.get(tile.tile) ?? new Map<number, Tile>();
    if (known.has(tile.qp)) return;
    if (this.ahead().bytes + bytes > MAX_BYTES) throw new Error("there is no room for all that comes ahead");
    coming.bytes += bytes;
    if (isSound) {
      coming.sound = tile;
      return;
    }
    known.set(tile.qp, tile);
    coming.tiles.set(tile.tile, known);
  }

  /** A GoP's time has come in the program: what is there of it is all that is shown of it. */
  private begin(gop: number, stood: boolean): void {
    const { manifest } = this;
    if (!manifest || gop <= this.current) return;
    this.current = gop;
    this.clock.hint(gop * manifest.gop, stood);
    const coming = this.open(gop);
    for (const old of [...this.coming.keys()].filter((other) => other <= gop)) this.coming.delete(old);
    this.sound.begin(coming.sound);
    const count = manifest.columns * manifest.rows;
    const none = () => new Array<number>(count).fill(0);
    const going: Going = {
      gop, qps: [], had: [], lateNetwork: 0, broken: 0, missed: none(), there: none(), shown: 0, dropped: 0, lead: Infinity,
      grey: "no",
    };
    const wants = new Array<number>(manifest.pictures).fill(0);
    const states: TileState[] = [];
    for (let tile = 0; tile < count; tile++) {
      const chosen = this.choose(tile, coming, wants, gop);
      const qp = chosen?.qp ?? null;
      const planned = coming.notice?.tiles[tile]?.planned;
      const late = planned ? planned.qp !== qp : coming.notice === null && qp === null;
      if (chosen && qp === null) going.broken += 1;
      else if (late) going.lateNetwork += 1;
      going.qps.push(qp);
      going.had.push(chosen?.had ?? null);
      states.push({ qp, late });
    }
    this.recall(going, coming, wants);
    const places = going.qps.map((qp, tile) => (qp === null && !this.stays(tile, gop, coming) ? GREY : LEAVE));
    for (const [tile, qp] of going.qps.entries()) if (qp !== null) this.last.set(tile, gop);
    this.going.set(gop, going);
    const nothing = coming.notice !== null && coming.notice.tiles.every(({ planned, base }) => !planned && !base);
    this.post({ is: "gop", gop, tiles: states, nothing });
    for (const [picture, wanted] of wants.entries()) {
      const number = gop * manifest.pictures + picture;
      const tiles = Uint8Array.from(places);
      const slot = { number, gop, buffer: null, tiles, wants: wanted, has: 0, copying: 0, posted: null };
      this.slots.set(number, slot);
    }
    this.step();
  }

  /** Whether a tile of which nothing is there keeps its last picture: as long as the program knows what that is
   * worth. It is grey then, or before there was any. */
  private stays(tile: number, gop: number, { notice }: Coming): boolean {
    if (this.manifest?.concealment !== "last-received") return false;
    const last = this.last.get(tile);
    return last === undefined || notice === null || gop - last <= notice.tiles[tile].ages;
  }

  /** Decodes what is held of the tiles of which nothing is shown of this page's first GoP: the last picture
   * of each becomes its first. */
  private recall(going: Going, coming: Coming, wants: number[]): void {
    for (const [tile, held] of this.held) {
      this.last.set(tile, held.gop);
      if (going.qps[tile] !== null || !this.manifest || !this.stays(tile, going.gop, coming)) continue;
      try {
        const how = setup(held.init);
        const all = samples(held.segment, how);
        const first = going.gop * this.manifest.pictures - all.length + 1;
        this.bank.add(tile, { gop: going.gop, codec: how.codec, samples: all, first });
        this.holding.add(tile);
        wants[0] += 1;
      } catch (error) {
        this.failed(tile, String(error));
      }
    }
    this.held.clear();
  }

  /** The QP of a tile that is there of a GoP, the one that was planned, else the base layer; and the same as
   * what is decoded from now on, or `null` where it cannot be. `null`: nothing of it is there. */
  private choose(tile: number, coming: Coming, wants: number[], gop: number): { had: number; qp: number | null } | null {
    const { manifest } = this;
    const came = coming.tiles.get(tile);
    if (!came || !manifest) return null;
    const told = coming.notice?.tiles[tile];
    const wanted = told ? [told.planned?.qp, told.base?.qp] : [...came.keys()].sort((a, b) => a - b);
    const found = wanted.map((qp) => (qp === undefined ? undefined : came.get(qp))).find((one) => one);
    if (!found) return null;
    try {
      const how = setup(found.init);
      const all = samples(found.segment, how);
      if (all.length > manifest.pictures) throw new Error("a segment has more pictures than a GoP");
      const first = gop * manifest.pictures;
      const course: Course = { gop, codec: how.codec, samples: all, first };
      for (const { picture } of all) wants[picture] += 1;
      this.bank.add(tile, course);
      return { had: found.qp, qp: found.qp };
    } catch (error) {
      this.failed(tile, String(error));
      return { had: found.qp, qp: null };
    }
  }

  failed(tile: number, why: string): void {
    const text = `tile ${tile} cannot be decoded: ${why}`;
    if (text !== this.trouble) this.post({ is: "trouble", text });
    this.trouble = text;
  }

  room(): void {
    this.feed();
  }

  private feed(): void {
    const { manifest } = this;
    if (!manifest) return;
    const at = this.clock.position();
    const shown = at === null ? 0 : Math.floor(at / this.period);
    const room = Math.min(MAX_AHEAD, Math.floor(MAX_AHEAD_BYTES / this.planes.bytes));
    const ahead = Math.max(AHEAD, Math.min(room, Math.ceil(this.clock.delay / this.period) + 3));
    this.bank.feed(this.order, Math.floor(shown / manifest.pictures), shown + ahead);
  }

  /** To be called often: decodes, and lets go of what waits for too long. */
  step(): void {
    this.feed();
    this.sound.step();
    const at = now();
    for (const slot of this.slots.values()) {
      const due = this.clock.time(slot.number * this.period);
      if (due === null || at < due) break;
      if (slot.posted !== null || slot.copying > 0) continue;
      // Nothing of it is there: it is shown as it is concealed. What comes later than half a picture is too late,
      // but what is being copied is awaited.
      const late = at >= due + this.period / 2;
      if (slot.wants === 0) this.conceal(slot, late);
      else if (late) this.finish(slot);
    }
  }

  frame(tile: number, number: number, frame: VideoFrame): void {
    let slot = this.slots.get(number);
    // What is held is as good in a later picture.
    if (slot && slot.posted !== null && this.holding.has(tile)) {
      slot = [...this.slots.values()].find((other) => other.posted === null && other.tiles[tile] === LEAVE);
      if (slot) slot.wants += 1;
    }
    if (!slot || slot.posted !== null || !this.manifest) {
      frame.close();
      return;
    }
    this.holding.delete(tile);
    slot.copying += 1;
    this.look(frame);
    this.copy(tile, slot, frame)
      .then(
        () => {
          slot.tiles[tile] = THERE;
          slot.has += 1;
        },
        (error) => {
          slot.wants -= 1;
          this.failed(tile, String(error));
        },
      )
      .finally(() => {
        frame.close();
        slot.copying -= 1;
        if (slot.has === slot.wants && slot.posted === null && this.slots.get(slot.number) === slot) this.finish(slot);
        this.feed();
      });
  }

  /** Copies a tile's pixels into its place. */
  private async copy(tile: number, slot: Slot, frame: VideoFrame): Promise<void> {
    const { columns, rows } = this.manifest as Manifest;
    const { width, height, cb, cr, bytes } = this.planes;
    const [wide, high] = [width / columns, height / rows];
    if (frame.displayWidth !== wide || frame.displayHeight !== high) {
      throw new Error(`it has ${frame.displayWidth}x${frame.displayHeight} pixels, and ${wide}x${high} are its place`);
    }
    slot.buffer ??= this.pool.pop() ?? new ArrayBuffer(bytes);
    const [left, top] = [(tile % columns) * wide, Math.floor(tile / columns) * high];
    const chroma = (top / 2) * (width / 2) + left / 2;
    const layout = [
      { offset: top * width + left, stride: width },
      { offset: cb + chroma, stride: width / 2 },
      { offset: cr + chroma, stride: width / 2 },
    ];
    if (frame.format === "I420") {
      await frame.copyTo(slot.buffer, { layout });
    } else if (frame.format === "NV12") {
      await apart(frame, slot.buffer, layout, wide, high);
    } else {
      throw new Error(`its pixels are ${frame.format ?? "not to be had"}, and I420 or NV12 is wanted`);
    }
  }

  private look({ colorSpace }: VideoFrame): void {
    const colour: Colour = { matrix: colorSpace.matrix ?? "bt709", full: colorSpace.fullRange === true };
    const text = JSON.stringify(colour);
    if (text === this.colour) return;
    this.colour = text;
    this.post({ is: "colour", colour });
  }

  /** Shows a picture of which nothing is there. Where tiles become grey one of a GoP's paints them, and the others
   * look the same; where the page had no time for that one, the next does. */
  private conceal(slot: Slot, late: boolean): void {
    const going = this.going.get(slot.gop);
    if (!going || going.grey === "yes" || !slot.tiles.includes(GREY)) return this.settle(slot, true);
    // The page has still to say.
    if (going.grey === "asked") return;
    if (late && going.dropped > 0) this.settle(slot, false);
    else this.finish(slot);
  }

  /** Hands a picture to the page as it is. */
  private finish(slot: Slot): void {
    slot.posted = now();
    const is = slot.wants === 0 || slot.has > 0;
    if (!is) {
      // Nothing new is in it: the picture before stays.
      this.settle(slot, false);
      return;
    }
    const buffer = slot.buffer ?? new ArrayBuffer(0);
    slot.buffer = null;
    const { number, tiles } = slot;
    const going = this.going.get(slot.gop);
    if (going?.grey === "no" && tiles.includes(GREY)) going.grey = "asked";
    this.post({ is: "picture", picture: { number, at: number * this.period, buffer, tiles } }, [buffer]);
  }

  /** The page has shown a picture, or had no time for it. */
  done(number: number, shown: boolean, buffer: ArrayBuffer): void {
    if (buffer.byteLength === this.planes.bytes && this.pool.length < POOL) this.pool.push(buffer);
    const slot = this.slots.get(number);
    if (!slot) return;
    const going = this.going.get(slot.gop);
    if (going && going.grey !== "yes" && slot.tiles.includes(GREY)) going.grey = shown ? "yes" : "no";
    this.settle(slot, shown);
  }

  private settle(slot: Slot, shown: boolean): void {
    this.slots.delete(slot.number);
    const going = this.going.get(slot.gop);
    if (!going || !this.manifest) return;
    if (shown) {
      going.shown += 1;
      const due = this.clock.time(slot.number * this.period);
      if (due !== null && slot.posted !== null) going.lead = Math.min(going.lead, due - slot.posted);
      for (const [tile, qp] of going.qps.entries()) {
        if (qp === null) continue;
        const counts = slot.tiles[tile] === THERE ? going.there : going.missed;
        counts[tile] += 1;
      }
    } else {
      going.dropped += 1;
    }
    this.closeAll(this.manifest.pictures);
  }

  /** Closes what has had its time, in the order of GoPs: of an older one the page may still have to say whether it
   * showed a picture, while of a newer one there is nothing to draw. */
  private closeAll(pictures: number): void {
    for (const oldest of this.going.values()) {
      if (oldest.shown + oldest.dropped < pictures) return;
      this.close(oldest);
    }
  }

  /** All pictures of a GoP have had their time. */
  private close(going: Going): void {
    this.going.delete(going.gop);
    const late = going.missed.filter((missed) => missed > 0).length + going.broken;
    const lead = Number.isFinite(going.lead) ? going.lead : 0;
    const { gop, shown, dropped, lateNetwork } = going;
    const tiles = going.qps.map((qp, tile) => ({
      had: going.had[tile] ?? NOTHING,
      qp: qp !== null && going.there[tile] > 0 ? qp : NOTHING,
      missed: going.missed[tile],
    }));
    this.report({ gop, shown, dropped, lateNetwork, lateDecoding: late, lead, tiles });
    const { sums } = this;
    sums.gops += 1;
    sums.shown += shown;
    sums.dropped += dropped;
    sums.lateNetwork += lateNetwork;
    sums.lateDecoding += late;
    sums.lead = lead;
    this.post({ is: "figures", figures: { ...sums, ahead: this.ahead() } });
    if (late > 0) this.clock.slower();
  }

  /** Somebody wants to hear the sound, or no more. */
  listen(on: boolean): void {
    this.sound.turn(on);
    this.tardy = { gop: this.current, frames: 0 };
    if (!on) this.clock.silent();
  }

  /** A frame of sound came too late to the loudspeaker: where that was not the only one of a GoP, what comes is shown
   * later. */
  late(): void {
    if (this.tardy.gop !== this.current) this.tardy = { gop: this.current, frames: 0 };
    this.tardy.frames += 1;
    if (this.tardy.frames === 2) this.clock.slower(true);
  }

  /** Gives up all that is under way. */
  stop(): void {
    this.held.clear();
    this.holding.clear();
    this.bank.reset();
    this.sound.stop();
    this.slots.clear();
    this.going.clear();
  }
}

/** Copies a picture whose Cb and Cr alternate. */
async function apart(
  frame: VideoFrame,
  into: ArrayBuffer,
  layout: { offset: number; stride: number }[],
  wide: number,
  high: number,
): Promise<void> {
  const from = new Uint8Array(frame.allocationSize());
  const [luma, chroma] = await frame.copyTo(from);
  const to = new Uint8Array(into);
  for (let row = 0; row < high; row++) {
    const at = luma.offset + row * luma.stride;
    to.set(from.subarray(at, at + wide), layout[0].offset + row * layout[0].stride);
  }
  for (let row = 0; row < high / 2; row++) {
    for (let column = 0; column < wide / 2; column++) {
      const at = chroma.offset + row * chroma.stride + 2 * column;
      to[layout[1].offset + row * layout[1].stride + column] = from[at];
      to[layout[2].offset + row * layout[2].stride + column] = from[at + 1];
    }
  }
}
