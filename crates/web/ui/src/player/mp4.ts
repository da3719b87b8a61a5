// What a decoder needs of fragmented MP4 (ISO/IEC 14496-12, -15) with one track of H.264: parameter sets,
// and samples in Annex B's form.

export interface Setup {
  /** As WebCodecs names it, such as avc1.64000D. */
  codec: string;
  /** The parameter sets with start codes. */
  parameters: Uint8Array;
}

export interface Sample {
  data: Uint8Array;
  /** Which picture of the segment it is, in the order of showing. */
  picture: number;
}

export const view = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const START = [0, 0, 0, 1];

/** The content of the first box of this name among those that begin at `skip`. */
export function box(bytes: Uint8Array, name: string, skip = 0): Uint8Array {
  const all = view(bytes);
  for (let at = skip; at + 8 <= bytes.length; ) {
    const size = all.getUint32(at);
    const end = size === 0 ? bytes.length : at + size;
    if (size === 1 || end < at + 8 || end > bytes.length) break;
    if (String.fromCharCode(...bytes.subarray(at + 4, at + 8)) === name) return bytes.subarray(at + 8, end);
    at = end;
  }
  throw new Error(`there is no box ${name}; is the package damaged?`);
}

export const path = (bytes: Uint8Array, ...names: string[]) => names.reduce((inner, name) => box(inner, name), bytes);

/** What an initialisation segment says of the decoder. */
export function setup(init: Uint8Array): Setup {
  const descriptions = path(init, "moov", "trak", "mdia", "minf", "stbl", "stsd");
  // Version, flags and count; then the fields of a visual sample entry.
  const config = box(box(descriptions, "avc1", 8), "avcC", 78);
  if (config.length < 7) throw new Error("the box avcC is cut short; is the package damaged?");
  if ((config[4] & 3) !== 3) throw new Error("units of H.264 have lengths of four bytes, and these have not");
  const codec = `avc1.${[...config.subarray(1, 4)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  const sets: number[] = [];
  let at = 5;
  // Sequence parameter sets, then picture parameter sets: a count, and each with its length.
  for (const mask of [0x1f, 0xff]) {
    for (let count = config[at++] & mask; count > 0; count--) {
      const length = (config[at] << 8) | config[at + 1];
      if (!(at + 2 + length <= config.length)) throw new Error("a parameter set is cut short");
      sets.push(...START, ...config.subarray(at + 2, at + 2 + length));
      at += 2 + length;
    }
  }
  return { codec, parameters: Uint8Array.from(sets) };
}

/** The samples of a segment, in the order of decoding. The first has the parameter sets before it; the
 * lengths in `segment` become start codes. */
export function samples(segment: Uint8Array, { parameters }: Setup): Sample[] {
  const media = box(segment, "mdat");
  const found: { data: Uint8Array; time: number }[] = [];
  let at = 0;
  for (const { size, time } of runs(path(segment, "moof", "traf"))) {
    if (at + size > media.length) throw new Error("a picture is cut short; is the package damaged?");
    const data = media.subarray(at, at + size);
    startCodes(data);
    found.push({ data, time });
    at += size;
  }
  if (found.length === 0) throw new Error("a segment has no picture");
  const first = new Uint8Array(parameters.length + found[0].data.length);
  first.set(parameters);
  first.set(found[0].data, parameters.length);
  found[0].data = first;
  const times = found.map(({ time }) => time).sort((a, b) => a - b);
  return found.map(({ data, time }) => ({ data, picture: times.indexOf(time) }));
}

/** The most pictures of a segment: a minute at 120 a second. */
const MAX_PICTURES = 7200;

/** The samples of a fragment of a track: their lengths in bytes, and when they are shown, from its beginning, in the
 * track's units. */
export function runs(fragment: Uint8Array): { size: number; time: number }[] {
  const header = view(box(fragment, "tfhd"));
  const flags = header.getUint32(0) & 0xffffff;
  let at = 8 + (flags & 1 ? 8 : 0) + (flags & 2 ? 4 : 0);
  const field = (flag: number) => {
    if (!(flags & flag)) return 0;
    at += 4;
    return header.getUint32(at - 4);
  };
  const [usual, usualSize] = [field(8), field(16)];
  const run = view(box(fragment, "trun"));
  const has = run.getUint32(0) & 0xffffff;
  const count = run.getUint32(4);
  if (count > MAX_PICTURES) throw new Error(`a segment has ${count} pictures, and ${MAX_PICTURES} are the most`);
  at = 8 + (has & 1 ? 4 : 0) + (has & 4 ? 4 : 0);
  const next = (flag: number, instead: number) => {
    if (!(has & flag)) return instead;
    at += 4;
    return run.getUint32(at - 4);
  };
  let decoded = 0;
  return Array.from({ length: count }, () => {
    const lasts = next(0x100, usual);
    const size = next(0x200, usualSize);
    next(0x400, 0);
    // It may be negative in version 1, and is small in both.
    const time = decoded + (next(0x800, 0) | 0);
    decoded += lasts;
    return { size, time };
  });
}

/** Puts start codes in the places of units' lengths. */
function startCodes(data: Uint8Array): void {
  const all = view(data);
  for (let at = 0; at < data.length; ) {
    const length = at + 4 <= data.length ? all.getUint32(at) : 0;
    if (length === 0 || at + 4 + length > data.length) {
      throw new Error("a unit of H.264 is cut short; is the package damaged?");
    }
    all.setUint32(at, 1);
    at += 4 + length;
  }
}
