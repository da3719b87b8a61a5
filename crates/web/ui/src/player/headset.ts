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
  getViewport(view: XrView): { x: number; y: number; width: number; height: number };
}
interface XrSession extends EventTarget {
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

export class Headset {
  private session: XrSession | null = null;

  /** `draw` draws a picture; `over` hears that the headset was taken off, by whomever. */
  constructor(
    private readonly gl: WebGL2RenderingContext,
    private readonly draw: (worn: Worn) => void,
    private readonly over: () => void,
  ) {}

  get isWorn(): boolean {
    return this.session !== null;
  }

  /** Begins, in answer to a click. Throws the browser's refusal. */
  async start(): Promise<void> {
    const session = await xr()?.requestSession("immersive-vr");
    if (!session) throw new Error("there is no WebXR");
    session.addEventListener("end", () => {
      this.session = null;
      this.over();
    });
    try {
      await (this.gl as Compatible).makeXRCompatible();
      const { XRWebGLLayer } = globalThis as unknown as { XRWebGLLayer: Layers };
      const layer = new XRWebGLLayer(session, this.gl, { antialias: false, alpha: false, depth: false });
      await session.updateRenderState({ baseLayer: layer });
      const space = await session.requestReferenceSpace("local");
      this.session = session;
      const next = (_: number, frame: XrFrame) => {
        if (this.session !== session) return;
        session.requestAnimationFrame(next);
        const pose = frame.getViewerPose(space);
        if (pose) this.draw({ eyes: eyes(layer, pose.views), head: headOf(turn(pose.transform.orientation)), into: layer.framebuffer });
      };
      session.requestAnimationFrame(next);
    } catch (error) {
      await session.end().catch(() => undefined);
      throw error;
    }
  }

  stop(): void {
    void this.session?.end();
  }
}

/** The eyes of a picture, each in its part of the layer; one that has none is not seen. */
export function eyes(layer: Pick<XrLayer, "getViewport">, views: XrView[]): Eye[] {
  const all = views.map((view): Eye => {
    const { x, y, width, height } = layer.getViewport(view);
    const { projectionMatrix: p, transform } = view;
    // Column by column: the view's sides at a distance of 1, and where its middle lies.
    return { head: turn(transform.orientation), halves: [1 / p[0], 1 / p[5]], centre: [p[8], p[9]], port: [x, y, width, height] };
  });
  return all.filter(({ port: [, , width, height] }) => width > 0 && height > 0);
}
