// A headset, by WebXR: each of its pictures has an eye or two, and where the head is turned goes to the
// program as from the page.

import { type Eye, type Head, headOf } from "./geometry.js";

// What of WebXR (https://www.w3.org/TR/webxr/) is used here.
interface Point {
  x: number;
  y: number;
  z: number;
  w: number;
}
interface XrView {
  projectionMatrix: Float32Array;
  transform: { orientation: Point };
}
interface XrFrame {
  getViewerPose(space: object): { transform: { orientation: Point }; views: XrView[] } | null;
}
interface XrLayer {
  framebuffer: WebGLFramebuffer | null;
  getViewport(view: XrView): { x: number; y: number; width: number; height: number } | null;
}
interface XrSession extends EventTarget {
  visibilityState: string;
  requestReferenceSpace(kind: string): Promise<object>;
  requestAnimationFrame(then: (time: number, frame: XrFrame) => void): number;
  updateRenderState(state: { baseLayer: XrLayer }): Promise<void> | void;
  end(): Promise<void>;
}
interface Xr {
  isSessionSupported(mode: string): Promise<boolean>;
  requestSession(mode: string): Promise<XrSession>;
}
type Layers = new (session: XrSession, gl: WebGL2RenderingContext, how: object) => XrLayer;
type Compatible = WebGL2RenderingContext & { makeXRCompatible(): Promise<void> };

const xr = () => (navigator as { xr?: Xr }).xr;

/** Whether there is a headset. */
export async function isThere(): Promise<boolean> {
  return (await xr()?.isSessionSupported("immersive-vr").catch(() => false)) ?? false;
}

/** The rotation matrix of a turn of WebXR's, row by row. Its axes are to the right, up and to the back. */
export function turn({ x, y, z, w }: Point): number[] {
  const right = [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)];
  const up = [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)];
  const back = [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)];
  // Ours are to the front, to the left and up.
  const ours = ([east, high, south]: number[], sign: number) => [-south, -east, high].map((value) => sign * value);
  const axes = [ours(back, -1), ours(right, -1), ours(up, 1)];
  return [0, 1, 2].flatMap((row) => axes.map((axis) => axis[row]));
}

/** What a headset's picture is drawn by. */
export interface Worn {
  eyes: Eye[];
  head: Head;
  into: WebGLFramebuffer | null;
}

/** What a headset does to the page. */
export interface Hooks {
  /** A picture is to be drawn; without one, nobody knows where the head is. */
  draw(worn: Worn | null): void;
  /** Nobody sees its pictures, or somebody does again. */
  hidden(is: boolean): void;
  /** It was taken off, by whomever. */
  over(): void;
}

export class Headset {
  private session: XrSession | null = null;
  private isStarting = false;

  constructor(
    private readonly gl: WebGL2RenderingContext,
    private readonly hooks: Hooks,
  ) {}

  get isWorn(): boolean {
    return this.session !== null;
  }

  /** Begins, in answer to a click. Throws the browser's refusal. */
  async start(): Promise<void> {
    if (this.isStarting || this.session) return;
    this.isStarting = true;
    try {
      const session = await xr()?.requestSession("immersive-vr");
      if (!session) throw new Error("this browser has no WebXR");
      await this.begin(session);
    } finally {
      this.isStarting = false;
    }
  }

  private async begin(session: XrSession): Promise<void> {
    let isOver = false;
    session.addEventListener("end", () => {
      isOver = true;
      if (this.session !== session) return;
      this.session = null;
      this.hooks.over();
    });
    try {
      await (this.gl as Compatible).makeXRCompatible();
      const { XRWebGLLayer } = globalThis as unknown as { XRWebGLLayer: Layers };
      const layer = new XRWebGLLayer(session, this.gl, { antialias: false, alpha: false, depth: false });
      await session.updateRenderState({ baseLayer: layer });
      const space = await session.requestReferenceSpace("local");
      if (isOver) throw new Error("it was taken off");
      session.requestAnimationFrame((_, frame) => this.step(session, layer, space, frame));
      this.session = session;
      session.addEventListener("visibilitychange", () => this.hooks.hidden(session.visibilityState === "hidden"));
    } catch (error) {
      if (!isOver) await session.end().catch(() => undefined);
      throw error;
    }
  }

  private step(session: XrSession, layer: XrLayer, space: object, frame: XrFrame): void {
    if (this.session !== session) return;
    session.requestAnimationFrame((_, next) => this.step(session, layer, space, next));
    const pose = frame.getViewerPose(space);
    if (!pose) return this.hooks.draw(null);
    const head = headOf(turn(pose.transform.orientation));
    this.hooks.draw({ eyes: eyes(layer, pose.views), head, into: layer.framebuffer });
  }

  stop(): void {
    // It may be over already.
    void this.session?.end().catch(() => undefined);
  }
}

/** The eyes of a picture, each in its part of the layer; one that has none is not seen. */
export function eyes(layer: Pick<XrLayer, "getViewport">, views: XrView[]): Eye[] {
  return views.flatMap((view): Eye[] => {
    const place = layer.getViewport(view);
    if (!place || place.width === 0 || place.height === 0) return [];
    const { x, y, width, height } = place;
    const { projectionMatrix: p, transform } = view;
    // Column by column: the view's sides at a distance of 1, and where its middle lies.
    return [{ head: turn(transform.orientation), halves: [1 / p[0], 1 / p[5]], centre: [p[8], p[9]], port: [x, y, width, height] }];
  });
}
