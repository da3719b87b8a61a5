// The sound of the stream, decoded shortly before it is heard. What is not there when its GoP begins is silent.

import { type Frame, frames, soundSetup, type SoundSetup } from "./aac.js";
import type { Clock } from "./clock.js";
import type { ToPage } from "./talk.js";
import type { Manifest, Tile } from "./wire.js";

/** What is decoded ahead of what is heard, ms: more than pages are behind at most, as a loudspeaker may be so slow. */
const AHEAD = 600;
/** What a decoder has taken and not yet decoded, at most. */
const AT_ONCE = 16;
/** Decoders that fail so often, and decode nothing in between, are not tried again. */
const FAILURES = 8;

export class Sound {
  private manifest: Manifest | null = null;
  private on = false;
  private decoder: AudioDecoder | null = null;
  /** Those that finish what came before a gap. */
  private readonly ending = new Set<AudioDecoder>();
  private failures = 0;
  private trouble = "";
  /** That of the newest GoP that has begun: somebody may want to hear the rest of it. */
  private newest: Tile | undefined;
  private setup: SoundSetup | null = null;
  /** What waits to be decoded, each with its time in the video. */
  private waiting: Frame[] = [];
  /** The time in the video at which what was decoded last ends. */
  private ends = NaN;

  constructor(
    private readonly clock: Clock,
    private readonly post: (message: ToPage, transfer?: Transferable[]) => void,
  ) {}

  start(manifest: Manifest): void {
    this.stop();
    this.setup = null;
    [this.failures, this.trouble] = [0, ""];
    this.manifest = manifest;
  }

  /** Somebody wants to hear it, or no more. */
  turn(on: boolean): void {
    this.on = on;
    [this.failures, this.trouble] = [0, ""];
    this.waiting = [];
    this.close();
    if (on) this.begin(this.newest);
  }

  /** A GoP begins, of which this came in time. */
  begin(tile: Tile | undefined): void {
    this.newest = tile;
    if (!tile || !this.on || !this.manifest?.sound) return;
    try {
      const { gop } = this.manifest;
      this.setup ??= soundSetup(tile.init);
      const all = frames(tile.segment, this.setup, gop);
      // What waits for another time would hold up all that follows.
      if (!all.every(({ at }) => at >= -this.lasts && at <= gop)) throw new Error("it is of another time than its GoP");
      for (const { data, at } of all) this.waiting.push({ data, at: tile.gop * gop + at });
    } catch (error) {
      this.fail(String(error));
    }
  }

  /** To be called often: decodes what is soon to be heard. */
  step(): void {
    const [at, { lasts }] = [this.clock.position(), this];
    if (at === null) return;
    while (this.waiting.length > 0 && this.waiting[0].at <= at + AHEAD) {
      const [frame] = this.waiting;
      const isOver = frame.at + lasts < at;
      if (!isOver && this.failures < FAILURES && !this.decode(frame, lasts)) return;
      this.waiting.shift();
    }
  }

  /** Gives up all that is under way. */
  stop(): void {
    this.waiting = [];
    this.newest = undefined;
    this.close();
  }

  /** How long a frame lasts, ms. */
  private get lasts(): number {
    return this.manifest?.sound ? 1024_000 / this.manifest.sound.rate : 0;
  }

  private close(): void {
    for (const decoder of [...this.ending, this.decoder]) if (decoder && decoder.state !== "closed") decoder.close();
    this.ending.clear();
    this.decoder = null;
    this.ends = NaN;
  }

  /** Lets the decoder finish what it has, and no more. */
  private finish(): void {
    const { decoder } = this;
    this.decoder = null;
    if (!decoder || decoder.state === "closed") return;
    this.ending.add(decoder);
    const close = (): void => {
      if (this.ending.delete(decoder) && decoder.state !== "closed") decoder.close();
    };
    decoder.flush().then(close, close);
  }

  private fail(why: string): void {
    this.failures += 1;
    const text = `the sound cannot be decoded: ${why}`;
    if (text !== this.trouble) this.post({ is: "trouble", text });
    this.trouble = text;
  }

  /** Decodes a frame; `false` while there is no room. */
  private decode({ data, at }: Frame, lasts: number): boolean {
    if ((this.decoder?.decodeQueueSize ?? 0) >= AT_ONCE) return false;
    // Where a package begins anew a part of a frame is too much or too little: it goes on, and once that is more
    // than half of one, one is left out.
    const since = at - this.ends;
    if (since < -lasts / 2 && since > -lasts - 1) return true;
    // A frame overlaps with the one before it, and times are counted from the first.
    const goesOn = Math.abs(since) <= lasts / 2;
    if (!goesOn) this.finish();
    this.ends = (goesOn ? this.ends : at) + lasts;
    try {
      this.decoder ??= this.open();
      this.decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: Math.round(1000 * at), data }));
    } catch (error) {
      this.close();
      this.fail(String(error));
    }
    return true;
  }

  private open(): AudioDecoder {
    const decoder = new AudioDecoder({
      output: (data) => this.heard(data),
      error: (error) => {
        if (this.decoder === decoder) [this.decoder, this.ends] = [null, NaN];
        this.fail(error.message);
      },
    });
    const { codec, description } = this.setup as SoundSetup;
    const { rate, channels } = this.manifest?.sound ?? { rate: 0, channels: 0 };
    decoder.configure({ codec, description, sampleRate: rate, numberOfChannels: channels });
    return decoder;
  }

  private heard(data: AudioData): void {
    this.failures = 0;
    const channels = Array.from({ length: data.numberOfChannels }, (_, planeIndex) => {
      const plane = new Float32Array(data.numberOfFrames);
      data.copyTo(plane, { planeIndex, format: "f32-planar" });
      return plane;
    });
    const sound = { at: data.timestamp / 1000, rate: data.sampleRate, channels };
    data.close();
    this.post({ is: "sound", sound }, channels.map(({ buffer }) => buffer));
  }
}
