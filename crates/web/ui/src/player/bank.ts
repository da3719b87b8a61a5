// Decoders, one for each tile. All go on with the same pictures, so that tiles need not wait for others.

import type { Sample } from "./mp4.js";

/** What a decoder has taken and not yet decoded, at most: what waits here can still be given up. */
const AT_ONCE = 6;

/** A tile's pictures of one GoP. */
export interface Course {
  gop: number;
  codec: string;
  samples: Sample[];
  /** The number of its first picture, counted from the beginning of the video. */
  first: number;
}

interface Waiting {
  course: Course;
  /** The next sample of it. */
  next: number;
}

export interface Outcome {
  frame(tile: number, number: number, frame: VideoFrame): void;
  failed(tile: number, why: string): void;
  /** There is room for more. */
  room(): void;
}

/** The decoder of a tile. */
class Lane {
  private decoder: VideoDecoder | null = null;
  private codec = "";
  private waiting: Waiting[] = [];

  constructor(
    private readonly tile: number,
    private readonly to: Outcome,
  ) {}

  add(course: Course): void {
    this.waiting.push({ course, next: 0 });
  }

  /** Decodes what is due up to picture `until`; what is of GoPs before `from` is given up. */
  feed(from: number, until: number): void {
    while (this.waiting.length > 0 && this.waiting[0].course.gop < from) this.waiting.shift();
    while (this.waiting.length > 0) {
      const [waiting] = this.waiting;
      const { course, next } = waiting;
      if (course.first + next > until || (this.decoder?.decodeQueueSize ?? 0) >= AT_ONCE) return;
      const decoder = next === 0 ? this.ready(course.codec) : this.decoder;
      // One that has failed goes on with the next GoP.
      if (!decoder) {
        this.waiting.shift();
        continue;
      }
      const { data, picture } = course.samples[next];
      const type = next === 0 ? "key" : "delta";
      try {
        decoder.decode(new EncodedVideoChunk({ type, timestamp: course.first + picture, data }));
      } catch (error) {
        // It would refuse the same again and again, and those after it would wait.
        this.waiting.shift();
        this.close();
        this.to.failed(this.tile, String(error));
        continue;
      }
      waiting.next += 1;
      if (waiting.next === course.samples.length) {
        this.waiting.shift();
        // It keeps the last pictures back otherwise, in case others are shown before them.
        decoder.flush().catch(() => undefined);
      }
    }
  }

  private ready(codec: string): VideoDecoder | null {
    if (this.decoder && this.codec === codec) return this.decoder;
    this.close();
    const decoder = new VideoDecoder({
      output: (frame) => this.to.frame(this.tile, frame.timestamp, frame),
      error: (error) => {
        if (this.decoder === decoder) this.decoder = null;
        this.to.failed(this.tile, error.message);
      },
    });
    decoder.ondequeue = () => this.to.room();
    try {
      // Parameter sets are in the stream. Hardware has few decoders, and does not say how many.
      decoder.configure({ codec, hardwareAcceleration: "prefer-software", optimizeForLatency: true });
    } catch (error) {
      this.to.failed(this.tile, String(error));
      return null;
    }
    this.codec = codec;
    this.decoder = decoder;
    return decoder;
  }

  close(): void {
    if (this.decoder && this.decoder.state !== "closed") this.decoder.close();
    this.decoder = null;
  }

  reset(): void {
    this.close();
    this.waiting = [];
  }
}

export class Bank {
  private readonly lanes: Lane[];

  constructor(tiles: number, to: Outcome) {
    this.lanes = Array.from({ length: tiles }, (_, tile) => new Lane(tile, to));
  }

  add(tile: number, course: Course): void {
    this.lanes[tile].add(course);
  }

  /** Decodes in this order of tiles, as far as there is room. */
  feed(order: number[], from: number, until: number): void {
    for (const tile of order) this.lanes[tile].feed(from, until);
  }

  /** Gives up all that is under way. */
  reset(): void {
    for (const lane of this.lanes) lane.reset();
  }
}
