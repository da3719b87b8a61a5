// The sphere as the Rust side has it (crates/video/src/geometry): x to the front, y to the left, z up; yaw
// to the right, pitch up, roll to the right, in this order, each about the head's own axes.

export interface Head {
  /** Degrees. */
  yaw: number;
  pitch: number;
  roll: number;
}

type Quaternion = [w: number, x: number, y: number, z: number];

function times(a: Quaternion, b: Quaternion): Quaternion {
  return [
    a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
    a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
    a[0] * b[2] + a[2] * b[0] + a[3] * b[1] - a[1] * b[3],
    a[0] * b[3] + a[3] * b[0] + a[1] * b[2] - a[2] * b[1],
  ];
}

const radians = (degrees: number) => (degrees * Math.PI) / 180;

/** The rotation matrix, row by row: world = matrix × head. */
export function matrix({ yaw, pitch, roll }: Head): number[] {
  const half = (degrees: number): [number, number] => [Math.sin(radians(degrees) / 2), Math.cos(radians(degrees) / 2)];
  const [[sy, cy], [sp, cp], [sr, cr]] = [half(yaw), half(pitch), half(roll)];
  const [w, x, y, z] = times(times([cy, 0, 0, -sy], [cp, 0, -sp, 0]), [cr, sr, 0, 0]);
  return [
    1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
    2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
    2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
  ];
}

const degrees = (radians: number) => (radians * 180) / Math.PI;

/** The head whose rotation matrix this is, row by row; one that looks straight up or down does not roll. */
export function headOf(m: number[]): Head {
  const pitch = degrees(Math.asin(Math.max(-1, Math.min(1, m[6]))));
  if (Math.abs(m[6]) > 1 - 1e-9) return { yaw: degrees(Math.atan2(m[1], m[4])), pitch, roll: 0 };
  return { yaw: degrees(Math.atan2(-m[3], m[0])), pitch, roll: degrees(Math.atan2(m[7], m[8])) };
}

/** Where a ray (front, left, up) of the head's meets the frame, as shares from the left and the top. */
export function framePosition(head: Head, ray: [number, number, number]): [number, number] {
  const m = matrix(head);
  const length = Math.hypot(...ray);
  const [x, y, z] = [0, 3, 6].map((at) => (m[at] * ray[0] + m[at + 1] * ray[1] + m[at + 2] * ray[2]) / length);
  const across = Math.atan2(-y, x) / (2 * Math.PI) + 0.5;
  return [across >= 1 ? 0 : across, 0.5 - Math.asin(Math.max(-1, Math.min(1, z))) / Math.PI];
}

/** Tiles in the order of how far they are from where the head looks. */
export function byDistance(columns: number, rows: number, head: Head): number[] {
  const m = matrix(head);
  const [x, y, z] = [m[0], m[3], m[6]];
  const near = Array.from({ length: columns * rows }, (_, tile) => {
    const yaw = ((tile % columns) + 0.5) / columns * 2 * Math.PI - Math.PI;
    const pitch = Math.PI / 2 - ((Math.floor(tile / columns) + 0.5) / rows) * Math.PI;
    const flat = Math.cos(pitch);
    return x * flat * Math.cos(yaw) - y * flat * Math.sin(yaw) + z * Math.sin(pitch);
  });
  return near.map((_, tile) => tile).sort((a, b) => near[b] - near[a]);
}

/** The angle that the longer side of the view spans at most: what the program plans for unless it says another
 * one, degrees. */
export const WIDEST = 100;

/** What one picture of the sphere is drawn by. */
export interface Eye {
  /** Its rotation matrix, row by row. */
  head: number[];
  /** Half of its sides at a distance of 1, and where its middle lies in halves: aside for an eye of two. */
  halves: [number, number];
  centre: [number, number];
  /** Its place in what is drawn, pixels from the left and the bottom. */
  port: [left: number, bottom: number, width: number, height: number];
}

/** The eye of a canvas, whose longer side spans `fov` degrees. */
export function flat(head: Head, fov: number, width: number, height: number): Eye {
  return { head: matrix(head), halves: halves(fov, width, height), centre: [0, 0], port: [0, 0, width, height] };
}

/** Half of the view's sides, at a distance of 1: its longer one spans `fov` degrees. */
export function halves(fov: number, width: number, height: number): [number, number] {
  const half = Math.tan((fov * Math.PI) / 360);
  return width >= height ? [half, (half * height) / width] : [(half * width) / height, half];
}
