// The status of the daemon, asked for now and then beside the stream: how old it is, where that is worth a word.

import { Refused } from "./api.js";

/** An answer that takes longer than this is late, ms. */
const LATE = 3000;

/** What is done with what becomes of a question. */
interface Asker<T> {
  ask(): Promise<T>;
  answered(now: T): void;
  /** There are no answers any more, but by the user. */
  refused(reason: string): void;
}

export class Asking<T> {
  /** Since when an answer is waited for, ms: where many pages share the browser's connections, they queue. */
  private since: number | null = null;
  private failed = false;
  /** When the last answer was asked for, ms. */
  private at: number | null = null;

  constructor(private readonly by: Asker<T>) {}

  /** Asks, at `now`, unless an answer is waited for. */
  async look(now: number): Promise<void> {
    if (this.since !== null) return;
    this.since = now;
    try {
      const answer = await this.by.ask();
      this.failed = false;
      this.at = now;
      this.by.answered(answer);
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return this.by.refused(error.message);
      // The next time may be better.
      this.failed = true;
    } finally {
      this.since = null;
    }
  }

  /** How old the last answer is at `now`, s, if the one after it failed or is late; `null`: it is as new as can be. */
  age(now: number): number | null {
    const isLate = this.since !== null && now - this.since > LATE;
    return this.at !== null && (this.failed || isLate) ? (now - this.at) / 1000 : null;
  }
}
