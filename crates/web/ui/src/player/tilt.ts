// Looking by moving the device: what the browser says of how it is held (W3C, Device Orientation).

import { type Head, headOf } from "./geometry.js";

/** A device without such sensors says nothing: the viewer is told after so long, ms. */
const PATIENCE = 3000;

/** Where the back of a device looks that is turned by `alpha`, `beta` and `gamma`, and whose screen stands at
 * `screen` against its natural way up; all in degrees. Yaw is against where the device has its zero. */
export function held(alpha: number, beta: number, gamma: number, screen: number): Head {
  const [a, b, c, s] = [alpha, beta, gamma, screen].map((angle) => (angle * Math.PI) / 180);
  const [ca, sa, cb, sb, cg, sg] = [a, b, c].flatMap((angle) => [Math.cos(angle), Math.sin(angle)]);
  // The device's own right, its top and what comes out of its screen: to the east, the north and up.
  const right = [ca * cg - sa * sb * sg, cg * sa + ca * sb * sg, -cb * sg];
  const top = [-cb * sa, ca * cb, sb];
  const out = [ca * sg + cg * sa * sb, sa * sg - ca * cg * sb, cb * cg];
  const left = right.map((value, at) => top[at] * Math.sin(s) - value * Math.cos(s));
  const up = right.map((value, at) => value * Math.sin(s) + top[at] * Math.cos(s));
  // Ours are to the north, the west and up.
  const ours = ([east, north, high]: number[]) => [north, -east, high];
  const axes = [ours(out).map((value) => -value), ours(left), ours(up)];
  return headOf([0, 1, 2].flatMap((row) => axes.map((axis) => axis[row])));
}

interface Asks {
  requestPermission?(): Promise<string>;
}

/** Whether this may be a device that is held in the hand. */
export const isHeld = () => typeof DeviceOrientationEvent !== "undefined" && navigator.maxTouchPoints > 0;

/** Tells where the device looks, from when it is started. */
export class Tilt {
  private over: (() => void) | null = null;

  constructor(private readonly moved: (head: Head) => void) {}

  get isOn(): boolean {
    return this.over !== null;
  }

  /** Begins, in answer to a click. Some browsers ask the user first. `failed` hears why nothing comes. */
  async start(failed: (reason: string) => void): Promise<void> {
    const asking = () => undefined;
    this.over = asking;
    const asks = DeviceOrientationEvent as unknown as Asks;
    const answer = (await asks.requestPermission?.().catch((error: Error) => error.message)) ?? "granted";
    // It may have been stopped while the user was asked.
    if (this.over !== asking) return;
    if (answer === "granted") return this.listen(failed);
    this.stop();
    failed(`The browser does not let this page know how the device is held (${answer}).`);
  }

  private listen(failed: (reason: string) => void): void {
    const hear = ({ alpha, beta, gamma }: DeviceOrientationEvent) => {
      if (alpha === null || beta === null || gamma === null) return;
      clearTimeout(silence);
      this.moved(held(alpha, beta, gamma, screen.orientation?.angle ?? 0));
    };
    // One that is slow may still begin.
    const silence = setTimeout(() => failed("This device does not say how it is held."), PATIENCE);
    this.over = () => {
      clearTimeout(silence);
      removeEventListener("deviceorientation", hear);
    };
    addEventListener("deviceorientation", hear);
  }

  stop(): void {
    this.over?.();
    this.over = null;
  }
}
