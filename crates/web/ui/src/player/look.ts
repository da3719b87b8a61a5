// Where the viewer looks: turned by dragging the picture, by touch, by keys, and by a device that moves.

import { halves, type Head, headOf, matrix, WIDEST } from "./geometry.js";

/** A head, and the angle that the view's longer side spans, degrees. */
export interface View extends Head {
  fov: number;
}

const NARROWEST = 30;
/** How far an arrow turns, and how far + and - narrow and widen, degrees. */
const TURN = 5;
const ZOOM = 10;

/** `degrees` within a turn. */
export const within = (degrees: number) => ((((degrees + 180) % 360) + 360) % 360) - 180;

/** The view that a key makes of `view`; `null` for other keys. */
export function byKey(view: View, key: string, widest = WIDEST): View | null {
  switch (key) {
    case "ArrowLeft":
      return turned(view, -TURN, 0);
    case "ArrowRight":
      return turned(view, TURN, 0);
    case "ArrowUp":
      return turned(view, 0, TURN);
    case "ArrowDown":
      return turned(view, 0, -TURN);
    case "+":
    case "=":
      return { ...view, fov: Math.max(Math.min(NARROWEST, widest), view.fov - ZOOM) };
    case "-":
      return { ...view, fov: Math.min(widest, view.fov + ZOOM) };
    case "Home":
      return { yaw: 0, pitch: 0, roll: 0, fov: widest };
    default:
      return null;
  }
}

function turned(view: View, yaw: number, pitch: number): View {
  return { ...view, yaw: within(view.yaw + yaw), pitch: Math.max(-90, Math.min(90, view.pitch + pitch)) };
}

/** The view after the picture was dragged by so many pixels of a canvas of that size: what is in the middle
 * follows the pointer. */
export function dragged(view: View, x: number, y: number, width: number, height: number): View {
  const [wide] = halves(view.fov, width, height);
  const perPixel = ((2 * wide) / width) * (180 / Math.PI);
  return turned(view, -x * perPixel, y * perPixel);
}

export class Look {
  view: View = { yaw: 0, pitch: 0, roll: 0, fov: WIDEST };
  /** What else turns the view: a device that is held leaves the turns to the sides to hands and keys, and a
   * headset nothing. */
  by: "hand" | "device" | "headset" = "hand";
  /** The widest that the view may be. */
  widest = WIDEST;

  constructor(
    canvas: HTMLCanvasElement,
    private readonly changed: (view: View) => void,
  ) {
    let held: { id: number; x: number; y: number } | null = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (held || event.button !== 0) return;
      held = { id: event.pointerId, x: event.clientX, y: event.clientY };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held?.id !== event.pointerId) return;
      // It was let go where nobody told this page of it.
      if (!(event.buttons & 1)) {
        held = null;
        return;
      }
      const [x, y] = [event.clientX - held.x, event.clientY - held.y];
      held = { id: held.id, x: event.clientX, y: event.clientY };
      this.move(dragged(this.view, x, y, canvas.clientWidth, canvas.clientHeight));
    });
    const release = (event: PointerEvent) => {
      if (held?.id === event.pointerId) held = null;
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("lostpointercapture", release);
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (this.key(event.key)) event.preventDefault();
    });
  }

  /** Does what a key does; whether it does anything. */
  key(name: string): boolean {
    const view = byKey(this.view, name, this.widest);
    if (view) this.move(view);
    return view !== null;
  }

  /** By hand or key. */
  private move(view: View): void {
    if (this.by === "headset") return;
    const { pitch, roll } = this.view;
    this.set(this.by === "device" ? { ...view, pitch, roll } : view);
  }

  /** Follows a device: its turns are the view's, and so are its pitch and roll. `before` is where it looked,
   * unless it is new. */
  follow(head: Head, before: Head | null): void {
    const turn = before ? head.yaw - before.yaw : 0;
    this.set({ ...this.view, yaw: within(this.view.yaw + turn), pitch: head.pitch, roll: head.roll });
  }

  /** It is turned by hand alone again, and upright. Who looks up or down goes on to see the same way up. */
  upright(): void {
    this.by = "hand";
    const { yaw, pitch } = this.view;
    const above = headOf(matrix({ ...this.view, pitch: 90 * Math.sign(pitch) }));
    this.set({ ...this.view, yaw: Math.abs(pitch) > 60 ? above.yaw : yaw, roll: 0 });
  }

  /** The program plans for a view of so many degrees. One that is as wide as it may be stays so. */
  span(fov = WIDEST): void {
    if (fov === this.widest) return;
    const is = this.view.fov === this.widest ? fov : Math.min(this.view.fov, fov);
    this.widest = fov;
    this.set({ ...this.view, fov: is });
  }

  set(view: View): void {
    this.view = view;
    this.changed(view);
  }
}
