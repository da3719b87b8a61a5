// Plays the sound when its pictures are shown.

import type { Heard } from "./talk.js";

/** What is decoded goes on with what is played, to the sample, as long as it is not further than this from its
 * pictures, ms: viewers notice sound that comes 45 ms before the picture (ITU-R BT.1359-1). */
const APART = 45;

interface Playing {
  node: AudioBufferSourceNode;
  /** The sample of the context after its last. */
  ends: number;
}

export class Speaker {
  private context: AudioContext | null = null;
  private playing: Playing[] = [];
  /** The sample at which what is played ends. */
  private next = -Infinity;
  /** What came too late to be played. */
  late = 0;
  /** How long after its picture what came last is heard, ms. */
  off: number | null = null;

  get isOn(): boolean {
    return this.context !== null;
  }

  /** Begins to play sound of so many samples a second. A browser allows it where somebody has asked for it.
   *
   * It fails where the browser does not play, and says why. */
  async start(rate: number): Promise<void> {
    const context = new AudioContext({ sampleRate: rate });
    this.context = context;
    [this.late, this.off] = [0, null];
    try {
      await context.resume();
    } catch (error) {
      if (this.context === context) this.stop();
      throw error;
    }
  }

  stop(): void {
    this.silence();
    void this.context?.close().catch(() => undefined);
    this.context = null;
  }

  /** What was to be played is not any more. */
  silence(): void {
    for (const { node } of this.playing) node.stop();
    this.playing = [];
    this.next = -Infinity;
  }

  /** Plays this; `begins` is when what is at 0 in the video is shown. */
  play({ at, rate, channels }: Heard, begins: number): void {
    const { context } = this;
    const place = context && this.place(context, begins + at, rate);
    if (!context || !place) return;
    const { from, off } = place;
    if (from < context.currentTime * rate) {
      this.late += 1;
      return;
    }
    this.off = off;
    const [{ length }] = channels;
    const buffer = context.createBuffer(channels.length, length, rate);
    for (const [channel, samples] of channels.entries()) buffer.copyToChannel(samples, channel);
    // What is elsewhere now is not heard twice.
    for (const { node, ends } of this.playing) if (ends > from) node.stop(from / rate);
    const node = context.createBufferSource();
    node.buffer = buffer;
    node.connect(context.destination);
    node.start(from / rate);
    this.next = from + length;
    const playing = { node, ends: this.next };
    this.playing.push(playing);
    node.onended = () => (this.playing = this.playing.filter((other) => other !== playing));
  }

  /** The sample of the context at which what is shown at `due` begins, and how much later that is heard, ms;
   * `null` while nothing is heard of the context. */
  private place(context: AudioContext, due: number, rate: number): { from: number; off: number } | null {
    const { contextTime, performanceTime } = context.getOutputTimestamp();
    if (context.state !== "running" || !contextTime || performanceTime === undefined) return null;
    // Its clock is that of the sound card.
    const wanted = Math.round(rate * (contextTime + (due - performance.timeOrigin - performanceTime) / 1000));
    const off = (1000 * (this.next - wanted)) / rate;
    return Math.abs(off) <= APART ? { from: this.next, off } : { from: wanted, off: 0 };
  }
}

/** Whether this browser decodes and plays the sound of streams. */
export async function plays(rate: number, channels: number): Promise<boolean> {
  if (typeof AudioDecoder === "undefined" || typeof AudioContext === "undefined") return false;
  const how = { codec: "mp4a.40.2", sampleRate: rate, numberOfChannels: channels };
  const { supported } = await AudioDecoder.isConfigSupported(how).catch(() => ({ supported: false }));
  return supported === true;
}
