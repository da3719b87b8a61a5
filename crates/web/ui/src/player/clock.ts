// When pictures are shown: the program's time in the video, learnt by asking, and a delay for decoding.

/** The time in ms, the same in the page and its worker. */
export const now = () => performance.timeOrigin + performance.now();

/** What one answer says. */
interface Reading {
  /** How long it took, ms. */
  took: number;
  /** When the video began by it. */
  began: number;
  at: number;
}

/** Answers older than so are not asked, ms. */
const KEPT = 5000;
/** The delay at first, and at most; it grows by a step where decoding is late, ms. */
const DELAY = { first: 150, step: 50, most: 500 };
/** By so much more than its answer took the video has to be elsewhere for its clock to be set anew, ms. */
const JUMP = 60;

export class Clock {
  private readings: Reading[] = [];
  private begun: number | null = null;
  delay = DELAY.first;
  /** What of the delay is for a slow loudspeaker. */
  private forSound = 0;

  /** The program says that the video is at `position`. */
  pong(sent: number, position: number, at = now()): void {
    const took = at - sent;
    const reading = { took, began: at - took / 2 - position, at };
    const best = this.best(at);
    // The picture stood still, or the machine slept.
    if (best && Math.abs(best.began - reading.began) > JUMP + (best.took + took) / 2) this.readings = [];
    this.readings.push(reading);
    this.begun = this.best(at)?.began ?? this.begun;
  }

  /** The video is at `position` now, as a message that is under way for a time says; `stood`: the picture stood
   * still before, so that it may be later than is known. */
  hint(position: number, stood: boolean, at = now()): void {
    const began = at - position;
    const later = this.begun === null ? Infinity : began - this.begun;
    if (Math.abs(later) <= 1000 && !(stood && later > JUMP)) return;
    this.begun = began;
    this.readings = [];
  }

  /** That of the last seconds which was the fastest: it is off by half of what it took at most. */
  private best(at: number): Reading | undefined {
    this.readings = this.readings.filter((reading) => at - reading.at < KEPT);
    return this.readings.reduce<Reading | undefined>(
      (best, next) => (best && best.took <= next.took ? best : next),
      undefined,
    );
  }

  /** When this page shows what is at `position` in the video; `null` before it is known. */
  time(position: number): number | null {
    return this.begun === null ? null : this.begun + position + this.delay;
  }

  /** The time in the video that is shown at `at`. */
  position(at = now()): number | null {
    return this.begun === null ? null : at - this.begun - this.delay;
  }

  /** Decoding was late, or the sound: what comes is shown later. */
  slower(bySound = false): void {
    const step = Math.min(DELAY.step, DELAY.most - this.delay);
    this.delay += step;
    if (bySound) this.forSound += step;
  }

  /** Nobody listens any more: what comes is shown as early as before. */
  silent(): void {
    this.delay -= this.forSound;
    this.forSound = 0;
  }
}
