// What a decoder needs of fragmented MP4 with one track of AAC (ISO/IEC 14496-3, -12, -14).

import { box, path, runs, view } from "./mp4.js";

/** What its decoder is set up from. */
export interface SoundSetup {
  /** As WebCodecs names it, such as mp4a.40.2. */
  codec: string;
  /** The AudioSpecificConfig. */
  description: Uint8Array;
  /** The units of time in a second. */
  scale: number;
}

export interface Frame {
  data: Uint8Array;
  /** When it begins, in ms from the beginning of the GoP to which its segment belongs. */
  at: number;
}

/** The tags of descriptors (ISO/IEC 14496-1 §7.2.2). */
const STREAM = 3;
const DECODER = 4;
const SPECIFIC = 5;

/** The content of a descriptor with this tag that begins at `at`. */
function descriptor(bytes: Uint8Array, tag: number, at: number): Uint8Array {
  if (bytes[at] !== tag) throw new Error(`a descriptor of AAC has tag ${bytes[at]} in the place of ${tag}`);
  let length = 0;
  for (let more = true; more; ) {
    const byte = bytes[(at += 1)] ?? 0;
    length = (length << 7) | (byte & 0x7f);
    more = (byte & 0x80) !== 0 && length < 1 << 21;
  }
  if (at + 1 + length > bytes.length) throw new Error("a descriptor of AAC is cut short; is the package damaged?");
  return bytes.subarray(at + 1, at + 1 + length);
}

/** What an initialisation segment says of the decoder. */
export function soundSetup(init: Uint8Array): SoundSetup {
  const media = path(init, "moov", "trak", "mdia");
  // Version and flags, and when it was made and changed, of 4 bytes each or of 8.
  const header = view(box(media, "mdhd"));
  const scale = header.getUint32(header.getUint8(0) === 1 ? 20 : 12);
  if (scale === 0) throw new Error("the sound has no unit of time");
  const descriptions = path(media, "minf", "stbl", "stsd");
  // Version, flags and count; the fields of an audio sample entry; version and flags.
  const stream = descriptor(box(box(descriptions, "mp4a", 8), "esds", 28), STREAM, 4);
  // Its number and flags, none of which we set; then five fields of the decoder.
  const description = descriptor(descriptor(stream, DECODER, 3), SPECIFIC, 13);
  if (description.length < 2) throw new Error("AAC says nothing of how it is coded");
  return { codec: `mp4a.40.${description[0] >> 3}`, description, scale };
}

/** The frames of a segment, whose GoPs are `gop` ms long. */
export function frames(segment: Uint8Array, { scale }: SoundSetup, gop: number): Frame[] {
  const media = box(segment, "mdat");
  // Its place in the package, from 1: a package may be played again, and its times begin anew then.
  const packaged = view(path(segment, "moof", "mfhd")).getUint32(4) - 1;
  const time = view(path(segment, "moof", "traf", "tfdt"));
  const first = time.getUint8(0) === 1 ? Number(time.getBigUint64(4)) : time.getUint32(4);
  const begins = (1000 * first) / scale - packaged * gop;
  let at = 0;
  return runs(path(segment, "moof", "traf")).map(({ size, time }) => {
    if (at + size > media.length) throw new Error("a frame of sound is cut short; is the package damaged?");
    at += size;
    return { data: media.subarray(at - size, at), at: begins + (1000 * time) / scale };
  });
}
