// The sound of the stream, decoded shortly before it is heard. What is not there when its GoP begins is silent.

import { type Frame, frames, soundSetup, type SoundSetup } from "./aac.js";
import type { Clock } from "./clock.js";
import type { ToPage } from "./talk.js";
import type { Manifest, Tile } from "./wire.js";

/** What is decoded ahead of what is heard, ms. */
const AHEAD = 400;
/** What a decoder has taken and not yet decoded, at most. */
const AT_ONCE = 16;
/** A frame that begins by so much elsewhere than where the one before it ends does not go on with it, ms. */
const GAP = 1;

export class Sound {
  private manifest: Manifest | null = null;
  private on = false;
  private decoder: AudioDecoder | null = null;
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
    this.manifest = manifest;
  }

  /** Somebody wants to hear it, or no more. */
  turn(on: boolean): void {
    this.on = on;
    if (!on) this.close();
  }

  /** A GoP begins, of which this came in time. */
  begin(tile: Tile | undefined): void {
    if (!tile || !this.manifest?.sound) return;
    try {
      const { gop } = this.manifest;
      this.setup ??= soundSetup(tile.init);
      for (const { data, at } of frames(tile.segment, this.setup, gop)) {
        this.waiting.push({ data, at: tile.gop * gop + at });
      }
    } catch (error) {
      this.fail(String(error));
    }
  }

  /** To be called often: decodes what is soon to be heard. */
  step(): void {
    const [at, sound] = [this.clock.position(), this.manifest?.sound];
    if (at === null || !sound) return;
    const lasts = 1024_000 / sound.rate;
    while (this.waiting.length > 0 && this.waiting[0].at <= at + AHEAD) {
      const [frame] = this.waiting;
      const isOver = frame.at + lasts < at;
      if (this.on && !isOver && !this.decode(frame, lasts)) return;
      this.waiting.shift();
    }
  }

  /** Gives up all that is under way. */
  stop(): void {
    this.waiting = [];
    this.close();
  }

  private close(): void {
    if (this.decoder && this.decoder.state !== "closed") this.decoder.close();
    this.decoder = null;
  }

  private fail(why: string): void {
    this.post({ is: "trouble", text: `the sound cannot be decoded: ${why}` });
  }

  /** Decodes a frame; `false` while there is no room. */
  private decode({ data, at }: Frame, lasts: number): boolean {
    if ((this.decoder?.decodeQueueSize ?? 0) >= AT_ONCE) return false;
    // A frame overlaps with the one before it, and times are counted from the first.
    if (!(Math.abs(at - this.ends) <= GAP)) this.close();
    this.ends = at + lasts;
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
        if (this.decoder === decoder) this.decoder = null;
        this.fail(error.message);
      },
    });
    const { codec, description } = this.setup as SoundSetup;
    const { rate, channels } = this.manifest?.sound ?? { rate: 0, channels: 0 };
    decoder.configure({ codec, description, sampleRate: rate, numberOfChannels: channels });
    return decoder;
  }

  private heard(data: AudioData): void {
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
