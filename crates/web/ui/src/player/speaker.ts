// Plays the sound when its pictures are shown.

import type { Heard } from "./talk.js";

/** What is decoded goes on with what is played, to the sample, as long as it is not further than this from its
 * pictures, ms: viewers notice sound that comes 45 ms before the picture (ITU-R BT.1359-1). */
const APART = 45;

/** So many stretches of sound, a second or so, may come too late when it begins, and are no reason to wait. */
const UNHEARD = 40;
/** How long a browser may take until it plays, ms. */
const PATIENCE = 5000;

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
  /** What came too late to be played, since something was or should have been. */
  late = 0;
  /** What came too late before anything was played. */
  private unheard = 0;
  /** How long after its picture what came last is heard, ms. */
  off: number | null = null;

  get isOn(): boolean {
    return this.context !== null;
  }

  /** Begins to play sound of so many samples a second. A browser allows it where somebody has asked for it.
   *
   * It fails where the browser does not play, and says why. */
  async start(rate: number): Promise<void> {
    this.stop();
    const context = new AudioContext({ sampleRate: rate });
    this.context = context;
    [this.late, this.unheard] = [0, 0];
    const waits = new Promise<never>((_, reject) => {
      setTimeout(() => reject(new Error("the browser does not begin to play; is there a loudspeaker?")), PATIENCE);
    });
    try {
      await Promise.race([context.resume(), waits]);
    } catch (error) {
      // It is wanted no more.
      if (this.context !== context) return;
      this.stop();
      throw error;
    }
  }

  /** Nobody is there, or somebody is again. */
  pause(is: boolean): void {
    if (is) this.silence();
    void (is ? this.context?.suspend() : this.context?.resume())?.catch(() => undefined);
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
    [this.next, this.off] = [-Infinity, null];
  }

  /** Plays this, if it does not come too late; `begins` is when what is at 0 in the video is shown. */
  play({ at, rate, channels }: Heard, begins: number): void {
    const { context } = this;
    const place = context && this.place(context, begins + at, rate);
    if (!context || !place) return;
    const { from, off } = place;
    if (from < context.currentTime * rate) {
      // What somebody hears who has just come begins in the middle.
      if (this.off !== null || (this.unheard += 1) > UNHEARD) this.late += 1;
      return;
    }
    this.unheard = 0;
    this.off = off;
    const [{ length }] = channels;
    const buffer = context.createBuffer(channels.length, length, rate);
    for (const [channel, samples] of channels.entries()) buffer.copyToChannel(samples, channel);
    // What is elsewhere now is not heard twice.
    for (const playing of this.playing) {
      if (playing.ends <= from) continue;
      // A later stop would take the place of this one.
      playing.ends = from;
      playing.node.stop(from / rate);
    }
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
    if (context.state !== "running") {
      // A call, or another output device, has stopped it.
      this.pause(false);
      this.off = null;
      return null;
    }
    const { contextTime, performanceTime } = context.getOutputTimestamp();
    if (!contextTime || performanceTime === undefined) return null;
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
