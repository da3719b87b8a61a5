// Pictures that wait for their time.

import type { Picture } from "./talk.js";

/** So many wait at most, and so many bytes of them, but for the few that are always decoded ahead: where a page is
 * not drawn nobody takes them. */
const MAX_PICTURES = 32;
const ALWAYS = 8;
const MAX_BYTES = 192 << 20;

export class Waiting {
  /** In the order in which they are shown. */
  private pictures: Picture[] = [];

  /** One more waits. Returns those for which there is no room, which are the last to be shown. */
  push(picture: Picture): Picture[] {
    const after = this.pictures.findIndex(({ number }) => number > picture.number);
    this.pictures.splice(after < 0 ? this.pictures.length : after, 0, picture);
    const over: Picture[] = [];
    while (this.isFull()) over.push(this.pictures.pop() as Picture);
    return over;
  }

  /** Takes those whose time has come at `at` in the video: the newest, and those for which it is too late. */
  due(at: number): { newest: Picture | undefined; missed: Picture[] } {
    const missed = this.pictures.filter((picture) => picture.at <= at);
    this.pictures.splice(0, missed.length);
    const newest = missed.pop();
    return { newest, missed };
  }

  /** Takes all. */
  clear(): Picture[] {
    return this.pictures.splice(0);
  }

  private isFull(): boolean {
    const bytes = this.pictures.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
    return this.pictures.length > (bytes > MAX_BYTES ? ALWAYS : MAX_PICTURES);
  }
}
