// The player's messages, its files and its geometry, against what the Rust side says of them (fixtures),
// without a browser: node --test test/player-unit.mjs

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { mock, test } from "node:test";

import { modules } from "./modules.mjs";

const wire = await modules("player/wire");
const { setup, samples } = await modules("player/mp4");
const { Clock } = await modules("player/clock");
const { byDistance, framePosition, halves, headOf, matrix, WIDEST } = await modules("player/geometry");
const { held, Tilt } = await modules("player/tilt");
const { frames, soundSetup } = await modules("player/aac");
const { Sound } = await modules("player/sound");
const { Speaker } = await modules("player/speaker");
const { Screen } = await modules("player/draw");
const { eyes, turn } = await modules("player/headset");
const { byKey, dragged, Look, within } = await modules("player/look");
const { mean } = await modules("player/view");
const { Engine } = await modules("player/engine");

// sound-init.mp4 and sound.m4s are sound/init.mp4 and sound/000001.m4s of a package with GoPs of 0.5 s, whose source has
// a tone of 880 Hz in the first tenth of each half second, as crates/cli/tests/dashboard/player.rs makes it.
const fixture = async (name) => new Uint8Array(await readFile(`fixtures/${name}`));
const text = (bytes) => new TextDecoder().decode(bytes);
const decoded = async (name) => wire.decode(await fixture(`${name}.bin`));

test("messages are read as the Rust side writes them", async () => {
  assert.deepEqual((await decoded("manifest")).manifest, {
    width: 384, height: 192, columns: 4, rows: 2, gop: 500, pictures: 4, gops: 60,
    concealment: "last-received", scheme: "ows", qps: [22, 37], sound: { channels: 2, rate: 48_000 },
  });
  const { notice } = await decoded("gop");
  assert.deepEqual([notice.gop, notice.tiles.length], [7, 8]);
  assert.deepEqual(notice.tiles[5], { planned: { qp: 22, bytes: 900 }, base: { qp: 37, bytes: 70_000 }, ages: 0 });
  assert.deepEqual(notice.tiles[6], { planned: null, base: null, ages: 2 });
  const { tile } = await decoded("tile");
  assert.deepEqual([tile.gop, tile.tile, tile.qp, text(tile.init), text(tile.segment)], [7, 5, 37, "init", "segment"]);
  const { is, tile: old } = await decoded("held");
  assert.deepEqual([is, old.gop, text(old.segment)], ["held", 6, "older"]);
  assert.deepEqual(await decoded("end"), { is: "end", gops: 60 });
  assert.deepEqual(await decoded("refusal"), { is: "refusal", reason: "the server is stopping: ö" });
  assert.deepEqual(JSON.parse((await decoded("sample")).text), { paths: [["wifi", 1.5, true]] });
  assert.deepEqual(JSON.parse((await decoded("report")).text), { gop: 1 });
  const pong = { echo: 77_000_001, position: 2250, steers: true, moves: false, viewers: 3, dropped: 9 };
  assert.deepEqual(await decoded("pong"), { is: "pong", pong });
  assert.deepEqual((await decoded("pong-before")).pong.position, null);
  assert.deepEqual(await decoded("begin"), { is: "begin", gop: 7, stood: true });
  // What a later release says.
  assert.equal(wire.decode(Uint8Array.of(99, 1)), null);
});

test("messages are written as the Rust side reads them", async () => {
  const all = [
    { at: 1500, yaw: -170.5, pitch: 30, roll: 0 },
    { at: 1550, yaw: 180, pitch: -90, roll: 2.5 },
  ];
  const same = async (bytes, name) => assert.deepEqual(new Uint8Array(bytes), await fixture(`${name}.bin`));
  await same(wire.poses(all), "poses");
  const tiles = [{ had: 22, qp: 22, missed: 0 }, { had: 37, qp: wire.NOTHING, missed: 4 }];
  const of = { gop: 3, shown: 4, dropped: 1, lateNetwork: 2, lateDecoding: 5, lead: -12.5, tiles };
  await same(wire.shown(of), "shown");
  await same(wire.ping(77_000_001), "ping");
  await same(wire.steer(), "steer");
});

test("a message that is cut is an error and nothing else", async () => {
  for (const name of ["manifest", "gop", "pong", "begin", "end", "refusal"]) {
    const bytes = await fixture(`${name}.bin`);
    for (let end = 1; end < bytes.length; end++) {
      assert.throws(() => wire.decode(bytes.subarray(0, end)), /ends in the middle/, `${name} ${end}`);
    }
    assert.throws(() => wire.decode(Uint8Array.of(...bytes, 0)), /too many/, name);
  }
});

test("a manifest of a GoP with more pictures than there may be is refused", async () => {
  const bytes = await fixture("manifest.bin");
  const of = (pictures) => {
    const other = bytes.slice();
    // Behind the type, the version, the frame, the grid and the length of a GoP.
    new DataView(other.buffer).setUint32(1 + 2 + 8 + 2 + 8, pictures);
    return wire.decode(other).manifest.pictures;
  };
  for (const fine of [1, 28_800]) assert.equal(of(fine), fine);
  for (const wrong of [0, 28_801, 0xffff_ffff]) assert.throws(() => of(wrong), /out of range/);
});

test("a tile of a package becomes Annex B with its parameter sets, in the order of decoding", async () => {
  const how = setup(await fixture("tile-init.mp4"));
  assert.match(how.codec, /^avc1\.[0-9a-f]{6}$/);
  assert.deepEqual([...how.parameters.subarray(0, 4)], [0, 0, 0, 1]);
  assert.equal(how.parameters[4] & 31, 7, "a sequence parameter set");
  const all = samples(await fixture("tile.m4s"), how);
  const pictures = all.map(({ picture }) => picture);
  assert.deepEqual([...pictures].sort(), [0, 1, 2, 3, 4, 5]);
  assert.notDeepEqual(pictures, [0, 1, 2, 3, 4, 5], "the encoder looks ahead (B)");
  // The types of units (H.264 table 7-1), each after a start code.
  const types = ({ data }) => {
    const found = [];
    for (let at = 0; at + 4 < data.length; at++) {
      if (data[at] === 0 && data[at + 1] === 0 && data[at + 2] === 0 && data[at + 3] === 1) found.push(data[at + 4] & 31);
    }
    return found;
  };
  const first = types(all[0]);
  assert.deepEqual([first[0], first[1], first.at(-1)], [7, 8, 5]);
  for (const sample of all.slice(1)) assert.deepEqual(types(sample), [1]);
});

test("a damaged tile is an error that says so", async () => {
  const [init, segment] = [await fixture("tile-init.mp4"), await fixture("tile.m4s")];
  for (let end = 0; end < init.length; end += 7) assert.throws(() => setup(init.slice(0, end)), /there is no box/);
  const how = setup(init);
  for (let end = 0; end < segment.length; end += 7) {
    assert.throws(() => samples(segment.slice(0, end), how), /there is no box|cut short/);
  }
  // Whatever else it is: samples or an error, and no endless loop.
  for (let at = 0; at < segment.length; at++) {
    for (const value of [0, 255]) {
      const other = segment.slice();
      other[at] = value;
      try {
        samples(other, how);
      } catch (error) {
        assert.ok(error instanceof Error && error.message.length < 200);
      }
    }
  }
});

test("a GoP's sound becomes frames at the times that it says, however often the package is played", async () => {
  const how = soundSetup(await fixture("sound-init.mp4"));
  assert.deepEqual([how.codec, how.scale], ["mp4a.40.2", 48_000]);
  // AAC-LC, 48 kHz, one channel (ISO/IEC 14496-3 §1.6.2.1).
  assert.deepEqual([...how.description.subarray(0, 2)], [0x11, 0x88]);
  const segment = await fixture("sound.m4s");
  const all = frames(segment, how, 500);
  // The frames that begin within the second half of a second: of 1024 samples, from the 24th on.
  assert.equal(all.length, 23);
  const expected = all.map((_, frame) => ((24 + frame) * 1024) / 48 - 500);
  for (const [frame, { at }] of all.entries()) assert.ok(Math.abs(at - expected[frame]) < 1e-9, `${frame}: ${at}`);
  assert.ok(all.every(({ data }) => data.length > 0));
});

test("damaged sound is an error that says so", async () => {
  const [init, segment] = [await fixture("sound-init.mp4"), await fixture("sound.m4s")];
  for (let end = 0; end < init.length; end += 7) assert.throws(() => soundSetup(init.slice(0, end)), /no box|cut short|nothing of/);
  const how = soundSetup(init);
  for (let end = 0; end < segment.length; end += 7) {
    assert.throws(() => frames(segment.slice(0, end), how, 500), /there is no box|cut short/);
  }
  for (const [whole, read] of [[init, soundSetup], [segment, (bytes) => frames(bytes, how, 500)]]) {
    for (let at = 0; at < whole.length; at++) {
      for (const value of [0, 127, 128, 255]) {
        const other = whole.slice();
        other[at] = value;
        try {
          read(other);
        } catch (error) {
          assert.ok(error instanceof Error && error.message.length < 200);
        }
      }
    }
  }
});

/** What a page plays by, whose clock is 3 s ahead of that of its sound. */
function context() {
  const played = [];
  globalThis.AudioContext = class {
    state = "running";
    currentTime = 0;
    /** What is heard when the page's time is 3000 ms. */
    heard = 0.001;
    async resume() {}
    async close() {
      this.state = "closed";
    }
    getOutputTimestamp() {
      return { contextTime: this.heard, performanceTime: 3000 };
    }
    createBuffer(channels, length) {
      return { length, copyToChannel() {} };
    }
    createBufferSource() {
      const node = { connect() {}, start: (at) => (node.at = at), stop: (at = 0) => (node.stopped = at) };
      played.push(node);
      return node;
    }
  };
  const speaker = new Speaker();
  /** Gives it 960 samples, 20 ms, which are to be heard at this time of its clock, s. */
  const play = (due) => {
    const begins = performance.timeOrigin + 3000 - 1;
    speaker.play({ at: 1000 * due, rate: 48_000, channels: [new Float32Array(960)] }, begins);
  };
  return { speaker, played, play };
}
const sample = (at) => Math.round(at * 48_000);

test("sound is played when its pictures are shown, and without a gap while it is near them", async () => {
  const { speaker, played, play } = context();
  play(0.5);
  assert.deepEqual([played, speaker.isOn], [[], false]);
  await speaker.start(48_000);
  // The clocks go apart by 1 ms each time, until it is 45 ms.
  for (let n = 0; n < 50; n++) play(1 + 0.021 * n);
  const places = played.map(({ at }) => sample(at));
  assert.equal(places[0], 48_000);
  for (let n = 1; n < 46; n++) assert.equal(places[n] - places[n - 1], 960, `${n}`);
  assert.equal(places[46], sample(1 + 0.021 * 46), "it is where its pictures are again");
  assert.equal(places[47] - places[46], 960);
  assert.equal(Math.round(speaker.off), -3);
  assert.ok(played.every(({ stopped }) => stopped === undefined));
});

test("sound that is elsewhere, late or not wanted any more is not heard twice or wrongly", async () => {
  const { speaker, played, play } = context();
  await speaker.start(48_000);
  for (let n = 0; n < 10; n++) play(2 + 0.02 * n);
  // The picture is earlier by 97 ms: what was to be heard from then on is not, however much comes after it.
  for (let n = 0; n < 20; n++) play(2.103 + 0.02 * n);
  const stopped = played.map(({ stopped }) => stopped && sample(stopped));
  assert.deepEqual(stopped, [...Array(5).fill(undefined), ...Array(5).fill(sample(2.103)), ...Array(20).fill(undefined)]);
  // It is over.
  played[0].onended();
  play(-0.5);
  assert.deepEqual([played.length, speaker.late], [30, 1]);
  speaker.silence();
  assert.deepEqual(played.slice(1).map(({ stopped }) => stopped), Array(29).fill(0));
  // Who has just come hears nothing of what is over, and that is not late, but if it goes on for a second.
  for (let n = 0; n < 40; n++) play(-0.5);
  assert.equal(speaker.late, 1);
  for (let n = 0; n < 3; n++) play(-0.5);
  assert.equal(speaker.late, 4);
  speaker.stop();
  play(3);
  assert.deepEqual([played.length, speaker.isOn], [30, false]);
});

test("a browser that does not play is said to, one that stops is asked to go on, and one is not wanted any more", async () => {
  const { speaker, played, play } = context();
  const { AudioContext } = globalThis;
  const made = [];
  let resume = () => Promise.reject(new Error("not allowed"));
  globalThis.AudioContext = class extends AudioContext {
    constructor() {
      super();
      made.push(this);
    }
    resume() {
      return resume();
    }
  };
  await assert.rejects(speaker.start(48_000), /not allowed/);
  assert.deepEqual([speaker.isOn, made[0].state], [false, "closed"]);
  // A second click ends it, and nothing is said of the first.
  let refuse;
  resume = () => new Promise((_, reject) => (refuse = reject));
  const first = speaker.start(48_000);
  speaker.stop();
  refuse(new Error("closed"));
  await first;
  assert.equal(made[1].state, "closed");
  let resumed = 0;
  resume = async () => (resumed += 1);
  await speaker.start(48_000);
  play(1);
  made[2].state = "interrupted";
  play(1.02);
  assert.deepEqual([played.length, resumed, speaker.off], [1, 2, null]);
  made[2].state = "running";
  play(1.04);
  assert.equal(played.length, 2);
});

test("that the server sends nothing of a GoP is its own word, and not what was lost on the way", async () => {
  const { announce, come, begin, of } = await stage();
  const nothing = (gop) => {
    begin(gop);
    return of("gop").at(-1).nothing;
  };
  announce(0, Array(8).fill(null));
  assert.equal(nothing(0), true);
  // It was sent, and did not come; or nobody has said anything.
  announce(1, [32, ...Array(7).fill(null)]);
  assert.equal(nothing(1), false);
  assert.equal(nothing(2), false);
  announce(3);
  come(3, 1);
  assert.equal(nothing(3), false);
});

test("a slow loudspeaker has all shown later, and no more than it must", async () => {
  const { engine, clock, announce, begin } = await stage();
  const [first] = [new Clock().delay];
  Object.assign(clock, { delay: first });
  const hear = (gop, late) => {
    announce(gop);
    begin(gop);
    for (let n = 0; n < late; n++) engine.late();
  };
  engine.listen(true);
  hear(0, 1);
  assert.equal(clock.delay, first, "one was late by chance");
  for (let gop = 1; gop < 4; gop++) hear(gop, 9);
  assert.equal(clock.delay, first + 150);
  clock.slower();
  for (let gop = 4; gop < 40; gop++) hear(gop, 9);
  assert.equal(clock.delay, 500);
  // Nobody listens: what is for decoding stays.
  engine.listen(false);
  assert.equal(clock.delay, first + 50);
});

test("the sound of a package that is played again goes on, however many frames it has", async () => {
  const times = [];
  let [made, at] = [0, 0];
  globalThis.AudioDecoder = class {
    state = "configured";
    decodeQueueSize = 0;
    constructor() {
      made += 1;
    }
    configure() {}
    decode({ timestamp }) {
      times.push(timestamp);
    }
    async flush() {}
    close() {}
  };
  globalThis.EncodedAudioChunk = class {
    constructor(chunk) {
      Object.assign(this, chunk);
    }
  };
  const sound = new Sound(Object.assign(new Clock(), { position: () => at }), assert.fail);
  const [init, segment] = [await fixture("sound-init.mp4"), await fixture("sound.m4s")];
  const place = (name) => segment.findIndex((_, n) => text(segment.subarray(n, n + 4)) === name) + 8;
  // It becomes the first of its package, and the only one: 23 frames, where 22.5 have room.
  const view = new DataView(segment.buffer, segment.byteOffset);
  view.setUint32(place("mfhd"), 1);
  view.setBigUint64(place("tfdt"), 0n);
  sound.turn(true);
  sound.start({ gop: 480, sound: { channels: 1, rate: 48_000 } });
  for (let gop = 0; gop < 20; gop++) {
    sound.begin({ gop, tile: wire.SOUND, qp: 0, init, segment });
    at = 480 * gop;
    for (let n = 0; n < 3; n++) sound.step();
    at += 200;
    sound.step();
  }
  assert.deepEqual([made, times.length], [1, 451]);
  const last = (1024_000 / 48) * 450;
  assert.ok(Math.abs(times.at(-1) - last) < 11_000, `${times.at(-1)} is where ${last} should be`);
  // A GoP that lacks is a gap: all that follows would be too early.
  at = 480 * 21;
  sound.begin({ gop: 21, tile: wire.SOUND, qp: 0, init, segment });
  sound.step();
  assert.equal(made, 2);
});

test("sound is decoded shortly before it is heard, from the beginning after a gap, and for who listens", async () => {
  const decoders = [];
  globalThis.AudioDecoder = class {
    state = "configured";
    decodeQueueSize = 0;
    times = [];
    constructor() {
      decoders.push(this);
    }
    configure(how) {
      this.how = how;
    }
    decode({ timestamp }) {
      this.times.push(timestamp);
    }
    async flush() {}
    close() {
      this.state = "closed";
    }
  };
  globalThis.EncodedAudioChunk = class {
    constructor(chunk) {
      Object.assign(this, chunk);
    }
  };
  let at = 0;
  const posted = [];
  const sound = new Sound(Object.assign(new Clock(), { position: () => at }), (message) => posted.push(message));
  const [init, segment] = [await fixture("sound-init.mp4"), await fixture("sound.m4s")];
  const begin = (gop) => sound.begin({ gop, tile: wire.SOUND, qp: 0, init, segment });
  sound.start({ gop: 500, sound: { channels: 1, rate: 48_000 } });
  begin(0);
  sound.step();
  assert.deepEqual([decoders.length, posted], [0, []], "nobody listens");
  // Who comes in the middle of a GoP hears the rest of it.
  at = 300;
  sound.turn(true);
  sound.step();
  assert.equal(decoders[0].times[0], 289_333);
  sound.turn(false);
  [at, decoders.length] = [0, 0];
  begin(1);
  sound.turn(true);
  at = 600;
  for (let n = 0; n < 9; n++) sound.step();
  assert.equal(decoders.length, 1);
  // What is over is not decoded, and the rest not yet.
  assert.deepEqual([decoders[0].times[0], decoders[0].times.at(-1)], [597_333, 981_333]);
  at = 900;
  sound.step();
  assert.equal(decoders[0].times.length, 19);
  begin(3);
  at = 1400;
  sound.step();
  // What was before the gap is decoded to its end, and then it begins anew.
  assert.deepEqual([decoders.length, decoders[0].state, decoders[1].times[0]], [2, "configured", 1_512_000]);
  await new Promise((done) => setTimeout(done, 0));
  assert.equal(decoders[0].state, "closed");
  // Of a GoP without sound there is nothing, and of one that is damaged a word.
  sound.begin(undefined);
  sound.begin({ gop: 4, tile: wire.SOUND, qp: 0, init, segment: segment.slice(0, 90) });
  assert.deepEqual(posted.map(({ is }) => is), ["trouble"]);
  // One that says another time than its GoP's would hold up all others.
  const far = segment.slice();
  const time = far.findIndex((_, n) => String.fromCharCode(...far.subarray(n, n + 4)) === "tfdt");
  far[time + 8 + 4] += 1;
  sound.begin({ gop: 5, tile: wire.SOUND, qp: 0, init, segment: far });
  assert.match(posted[1].text, /of another time/);
  begin(6);
  at = 3000;
  sound.step();
  assert.equal(decoders.at(-1).times[0], 3_012_000);
  // A decoder that always fails is not asked for ever, and nobody is told of it again and again.
  AudioDecoder.prototype.configure = () => {
    throw new Error("no such codec");
  };
  begin(8);
  at = 4000;
  for (let n = 0; n < 50; n++) sound.step();
  assert.deepEqual([posted.length, decoders.length < 12], [3, true]);
  sound.turn(false);
  assert.ok(decoders.every(({ state, how }) => state === "closed" || !how));
});

test("rays meet the frame where the Rust renderer says", async () => {
  for (const [[yaw, pitch, roll], ray, [across, down]] of JSON.parse(text(await fixture("geometry.json")))) {
    const found = framePosition({ yaw, pitch, roll }, ray);
    assert.ok(Math.abs(found[0] - across) < 1e-8 && Math.abs(found[1] - down) < 1e-8, `${found} ${across} ${down}`);
  }
  assert.deepEqual(byDistance(4, 2, { yaw: 50, pitch: 60, roll: 0 })[0], 2);
  assert.deepEqual(byDistance(4, 2, { yaw: -170, pitch: -60, roll: 0 })[0], 4);
});

test("the longer side of the view is the one that the program plans for", () => {
  const half = Math.tan((50 * Math.PI) / 180);
  assert.deepEqual(halves(WIDEST, 200, 100), [half, half / 2]);
  assert.deepEqual(halves(WIDEST, 100, 400), [half / 4, half]);
});

test("keys and the pointer turn the head", () => {
  const view = { yaw: 178, pitch: 88, roll: 0, fov: 100 };
  assert.equal(byKey(view, "ArrowRight").yaw, -177);
  assert.equal(byKey(view, "ArrowUp").pitch, 90);
  assert.equal(byKey(view, "-").fov, 100);
  assert.equal(byKey({ ...view, fov: 35 }, "+").fov, 30);
  assert.deepEqual(byKey(view, "Home"), { yaw: 0, pitch: 0, roll: 0, fov: 100 });
  assert.equal(byKey(view, "Tab"), null);
  assert.equal(within(540), -180);
  // What is seen follows the pointer: to the left, and the head turns right.
  const after = dragged({ ...view, yaw: 0, pitch: 0 }, -100, 50, 1000, 500);
  assert.ok(after.yaw > 10 && after.pitch > 5);
});

test("the clock takes the fastest answer, and follows a picture that stood still", () => {
  const clock = new Clock();
  assert.equal(clock.position(0), null);
  clock.pong(1000, 500, 1100);
  clock.pong(1200, 710, 1210);
  // The video began at 495 by the second, which is off by five at most.
  assert.equal(clock.position(1700) + clock.delay, 1205);
  clock.pong(1800, 1270, 1900);
  assert.equal(clock.time(0), 495 + clock.delay);
  // It has stood still for a second.
  clock.pong(3000, 1500, 3010);
  assert.equal(clock.time(0), 1505 + clock.delay);
  for (let late = 0; late < 20; late++) clock.slower();
  assert.equal(clock.delay, 500);
});

test("rates of paths are means of two seconds", () => {
  const sample = (one, two, up = true) => ({ paths: [["wifi", one, true], ["lte", two, up]] });
  assert.deepEqual(mean([sample(4, 1), sample(0, 2, false)]), { paths: [["wifi", 2, true], ["lte", 1.5, false]] });
});

/** A decoder that shows pictures as they come. */
class Decoder {
  static made = [];
  static decoded = [];
  static throws = false;
  constructor({ output }) {
    this.output = output;
    this.decodeQueueSize = 0;
    this.state = "configured";
    Decoder.made.push(this);
  }
  configure() {}
  decode({ timestamp }) {
    Decoder.decoded.push(timestamp);
    if (Decoder.throws) throw new DOMException("a key picture is wanted", "DataError");
    const frame = {
      timestamp, format: "I420", displayWidth: 48, displayHeight: 48, colorSpace: { matrix: "bt709" },
      copyTo: async () => [], close() {},
    };
    queueMicrotask(() => this.output(frame));
  }
  async flush() {}
  close() {
    this.state = "closed";
  }
}

/** An engine at a time of the test's own, what it posts and reports, and its tiles. */
async function stage(other = {}) {
  globalThis.VideoDecoder = Decoder;
  globalThis.EncodedVideoChunk = class {
    constructor(chunk) {
      Object.assign(this, chunk);
    }
  };
  Decoder.decoded = [];
  const [posted, reports] = [[], []];
  const clock = Object.assign(new Clock(), { position: () => 0, hint() {}, time: () => Infinity });
  const engine = new Engine(clock, (message) => posted.push(message), (shown) => reports.push(shown));
  const [init, segment] = [await fixture("tile-init.mp4"), await fixture("tile.m4s")];
  const manifest = {
    width: 192, height: 96, columns: 4, rows: 2, gop: 500, pictures: 6, gops: 99, concealment: "grey", scheme: "ows",
    qps: [32, 42], ...other,
  };
  engine.take({ is: "manifest", manifest });
  const rung = (qp) => ({ qp, bytes: 1 });
  /** A GoP is announced, with the rungs of its tiles, and how old what conceals them may be. */
  const announce = (gop, planned = Array(8).fill(32), ages = 0) => {
    const tiles = planned.map((qp) => ({ planned: qp === null ? null : rung(qp), base: null, ages }));
    engine.take({ is: "gop", notice: { gop, tiles } });
  };
  const come = (gop, tile, qp = 32) =>
    engine.take({ is: "tile", tile: { gop, tile, qp, init: init.slice(), segment: segment.slice() } });
  const begin = (gop) => engine.take({ is: "begin", gop, stood: false });
  const settle = async () => {
    for (let turn = 0; turn < 30; turn++) {
      await new Promise((done) => setTimeout(done, 0));
      engine.step();
    }
  };
  const of = (is) => posted.filter((message) => message.is === is);
  return { engine, clock, posted, reports, announce, come, begin, settle, of };
}

test("GoPs of a long buffer are there when they begin", async () => {
  const { announce, come, begin, of } = await stage();
  for (let gop = 0; gop < 12; gop++) {
    announce(gop);
    for (let tile = 0; tile < 8; tile++) come(gop, tile);
  }
  for (let gop = 0; gop < 12; gop++) {
    begin(gop);
    assert.deepEqual(of("gop")[gop].tiles.map(({ qp }) => qp), Array(8).fill(32), `GoP ${gop}`);
    // A buffer stays as long as it is.
    announce(gop + 12);
  }
});

test("what comes of GoPs that are not begun is kept within bounds, what begins first the longest", async () => {
  const { engine, announce, come, begin, of } = await stage();
  for (let gop = 0; gop < 1000; gop++) {
    announce(gop);
    come(gop, 1);
  }
  assert.equal(engine.ahead().gops, 64);
  // Again and again is once.
  const { bytes } = engine.ahead();
  for (let time = 0; time < 10; time++) come(3, 1);
  assert.equal(engine.ahead().bytes, bytes);
  begin(0);
  assert.equal(of("gop")[0].tiles[1].qp, 32);
  const large = { gop: 1, qp: 42, init: new Uint8Array(1), segment: new Uint8Array(40 << 20) };
  const take = (tile) => engine.take({ is: "tile", tile: { ...large, tile } });
  for (let tile = 0; tile < 3; tile++) take(tile);
  assert.throws(() => take(3), /no room/);
  assert.ok(engine.ahead().bytes <= 128 << 20, `${engine.ahead().bytes}`);
  for (let gop = 1; gop < 64; gop++) begin(gop);
  assert.deepEqual(engine.ahead(), { gops: 0, bytes: 0 });
});

test("after a stall the pictures of the next GoP are shown", () => {
  const clock = new Clock();
  clock.pong(0, 0, 0);
  clock.delay = 150;
  // A begin that is late without a stall was late on its way.
  clock.hint(500, false, 650);
  assert.equal(clock.time(500), 650);
  // The picture stood still for 600 ms: what is due follows at once, and answers from before are forgotten.
  clock.hint(1000, true, 1600);
  assert.equal(clock.time(1000), 1750);
  clock.pong(1700, 1105, 1710);
  assert.equal(clock.time(1000), 1750);
  // An answer that knew of it came first.
  clock.hint(1000, true, 1620);
  assert.equal(clock.time(1000), 1750);
});

test("what was received last conceals a tile for as long as the stream says, and is grey then", async () => {
  const { announce, come, begin, of, settle, clock } = await stage({ concealment: "last-received" });
  for (let gop = 0; gop < 4; gop++) {
    announce(gop, gop === 0 ? undefined : [32, ...Array(7).fill(null)], 2);
    for (let tile = 0; tile < (gop === 0 ? 8 : 1); tile++) come(gop, tile);
  }
  for (let gop = 0; gop < 4; gop++) {
    clock.position = () => gop * 500;
    begin(gop);
    await settle();
  }
  const first = (gop) => [...of("picture").find(({ picture }) => picture.number === gop * 6).picture.tiles];
  assert.deepEqual(first(0), Array(8).fill(1));
  assert.deepEqual(first(1), [1, ...Array(7).fill(0)]);
  assert.deepEqual(first(2), [1, ...Array(7).fill(0)]);
  assert.deepEqual(first(3), [1, ...Array(7).fill(2)], "three GoPs old, and two are known");
});

test("pictures of which nothing came have their time, too", async () => {
  const { engine, announce, begin, of, settle, clock, reports } = await stage();
  const { now } = await modules("player/clock");
  let shown = -1;
  clock.time = (position) => (position <= shown ? now() - 1 : now() + 1e6);
  announce(0);
  begin(0);
  await settle();
  assert.deepEqual(of("picture"), [], "before its time");
  shown = 450;
  await settle();
  // One paints it grey, and no more is to be done.
  const numbers = () => of("picture").map(({ picture }) => picture.number);
  assert.deepEqual(numbers(), [0]);
  assert.deepEqual(reports, [], "the page has not said that it is grey");
  // The page had no time for that one: the next paints it.
  engine.done(0, false, new ArrayBuffer(0));
  await settle();
  assert.deepEqual(numbers(), [0, 1]);
  assert.deepEqual([...of("picture")[1].picture.tiles], Array(8).fill(2));
  engine.done(1, true, new ArrayBuffer(0));
  await settle();
  assert.deepEqual(numbers(), [0, 1]);
  // Of another it had none until all of it was over.
  announce(1);
  begin(1);
  clock.time = () => now() - 1000;
  await settle();
  engine.done(6, false, new ArrayBuffer(0));
  await settle();
  assert.deepEqual(numbers(), [0, 1, 6]);
  const told = reports.map(({ gop, shown, dropped, lateNetwork }) => [gop, shown, dropped, lateNetwork]);
  assert.deepEqual(told, [[0, 5, 1, 8], [1, 0, 6, 8]]);
});

test("GoPs are told of in their order, however late the page answers", async () => {
  const { engine, clock, announce, come, begin, of, settle, reports } = await stage();
  announce(0);
  for (let tile = 0; tile < 8; tile++) come(0, tile);
  begin(0);
  await settle();
  const pictures = of("picture").map(({ picture }) => picture);
  assert.equal(pictures.length, 6);
  // Of the next one nothing came, and but for what paints it grey the page is not asked.
  announce(1);
  begin(1);
  const { now } = await modules("player/clock");
  clock.time = () => now() - 1;
  await settle();
  for (const { picture } of of("picture").slice(6)) engine.done(picture.number, true, picture.buffer);
  await settle();
  assert.deepEqual(reports, [], "the page has not said what became of the pictures before");
  for (const { number, buffer } of pictures.reverse()) engine.done(number, number > 0, buffer);
  assert.deepEqual(reports.map(({ gop, shown, dropped }) => [gop, shown, dropped]), [[0, 5, 1], [1, 6, 0]]);
});

test("what a page had when a GoP began is told apart from what it decoded", async () => {
  const { announce, come, begin, of, settle, reports, engine } = await stage();
  announce(0);
  come(0, 0);
  Decoder.throws = true;
  try {
    come(0, 1);
    begin(0);
    await settle();
  } finally {
    Decoder.throws = false;
  }
  // A decoder that refuses a picture is not asked for the rest of the GoP again and again.
  assert.deepEqual(Decoder.decoded.length, 2);
  assert.match(of("trouble")[0].text, /cannot be decoded/);
  const { time } = engine.clock;
  engine.clock.time = () => 0;
  await settle();
  for (const { picture } of of("picture")) engine.done(picture.number, true, picture.buffer);
  engine.clock.time = time;
  assert.deepEqual(reports[0].tiles.map(({ had }) => had), [32, 32, 255, 255, 255, 255, 255, 255]);
  assert.ok(reports[0].tiles.every(({ qp }) => qp === wire.NOTHING));
});

test("pictures that wait for their time are bounded, and those due next are kept", async () => {
  const { Waiting } = await modules("player/waiting");
  const waiting = new Waiting();
  const picture = (number, bytes = 0) => ({ number, at: number * 10, buffer: { byteLength: bytes }, tiles: [] });
  const over = [];
  for (let number = 39; number >= 0; number--) over.push(...waiting.push(picture(number)));
  assert.deepEqual(over.map(({ number }) => number), [39, 38, 37, 36, 35, 34, 33, 32]);
  const { newest, missed } = waiting.due(25);
  assert.deepEqual([newest.number, missed.map(({ number }) => number)], [2, [0, 1]]);
  assert.equal(waiting.due(25).newest, undefined);
  assert.equal(waiting.clear().length, 29);
  const numbers = Array.from({ length: 12 }, (_, number) => number);
  const large = numbers.flatMap((number) => waiting.push(picture(number, 64 << 20)));
  assert.deepEqual(large.map(({ number }) => number), [8, 9, 10, 11]);
});

/** The worker, with a connection and timers of the test's own. */
async function worker() {
  const [sent, posted, sockets, timers] = [[], [], [], []];
  class Socket {
    static OPEN = 1;
    readyState = 1;
    constructor() {
      sockets.push(this);
    }
    send(bytes) {
      sent.push(new Uint8Array(bytes));
    }
    close() {}
  }
  const old = globalThis.setInterval;
  Object.assign(globalThis, {
    WebSocket: Socket,
    location: { origin: "http://127.0.0.1:1" },
    postMessage: (message) => posted.push(message),
    setInterval: (run) => timers.push(run),
  });
  try {
    await modules("player/worker");
  } finally {
    globalThis.setInterval = old;
  }
  const say = (data) => globalThis.onmessage({ data });
  const hear = async (name, socket = sockets.at(-1)) =>
    socket.onmessage({ data: (await fixture(`${name}.bin`)).slice().buffer });
  return { sent, posted, sockets, tick: () => timers.forEach((run) => run()), say, hear };
}

test("a page has one connection, and what is under way on another one is not heard and not told of", async () => {
  const { sent, posted, sockets, tick, say, hear } = await worker();
  const { fetch, setTimeout: wait, clearTimeout: clear } = globalThis;
  const [asked, waiting] = [[], new Map()];
  globalThis.fetch = () => new Promise((answer) => asked.push(() => answer({ status: 204 })));
  globalThis.setTimeout = (run) => (waiting.set(waiting.size, run), waiting.size - 1);
  globalThis.clearTimeout = (which) => waiting.delete(which);
  const turn = () => new Promise((done) => setImmediate(done));
  const alone = () => sockets.length;
  try {
    say({ is: "hidden", hidden: false });
    sockets[0].onopen();
    await hear("manifest");
    await hear("begin");
    // While it asks why the connection broke off it is hidden and seen again, and that one breaks off, too.
    sockets[0].onclose({ code: 1006, reason: "" });
    say({ is: "hidden", hidden: true });
    say({ is: "hidden", hidden: false });
    assert.equal(alone(), 2);
    sockets[1].onclose({ code: 1006, reason: "" });
    for (const answer of asked) answer();
    await turn();
    assert.equal(waiting.size, 1, "it tries again once");
    for (const run of [...waiting.values(), ...waiting.values()]) run();
    assert.equal(alone(), 3);
    posted.length = 0;
    sockets[1].onopen();
    await hear("refusal", sockets[1]);
    assert.deepEqual(posted, [], "the old connection is not heard");
    // The time of a GoP of which nothing came is that of the next connection.
    sockets[2].onopen();
    await hear("manifest");
    await hear("begin");
    sockets[2].onclose({ code: 1006, reason: "" });
    asked.at(-1)();
    await turn();
    [...waiting.values()].at(-1)();
    assert.equal(alone(), 4);
    sockets[3].onopen();
    const later = performance.now() + 2000;
    performance.now = () => later;
    tick();
    assert.ok(!sent.some(([kind]) => kind === 49), "the program knows of none that this page has shown");
  } finally {
    delete performance.now;
    Object.assign(globalThis, { fetch, setTimeout: wait, clearTimeout: clear });
  }
});

test("a page says why nothing moves before it knows more, and where a proxy lets no WebSocket through", async () => {
  const { posted, sockets, tick, say } = await worker();
  const { fetch, setTimeout: wait } = globalThis;
  const [asked, limits] = [[], []];
  globalThis.fetch = (_, { signal }) => new Promise((resolve, reject) => asked.push({ signal, resolve, reject }));
  globalThis.setTimeout = () => 0;
  const limit = mock.method(AbortSignal, "timeout", (ms) => (limits.push(ms), new AbortController().signal));
  const turn = () => new Promise((done) => setImmediate(done));
  const links = () => posted.filter(({ is }) => is === "link").map(({ link }) => link);
  try {
    say({ is: "hidden", hidden: false });
    sockets[0].onopen();
    assert.deepEqual(links().at(-1), { is: "live" });
    // The tunnel stalls: nothing comes, no end of the connection, and no answer.
    const later = performance.now() + 11_000;
    performance.now = () => later;
    tick();
    assert.deepEqual(links().at(-1), { is: "waiting", reason: "nothing has come for 10 s" });
    assert.deepEqual([asked.length, limits], [1, [10_000]]);
    assert.ok(asked[0].signal);
    tick();
    assert.equal(asked.length, 1, "it is asked once");
    asked[0].reject(new DOMException("", "TimeoutError"));
    await turn();
    assert.deepEqual(links().at(-1), { is: "waiting", reason: "nothing has come for 10 s" });
    // The proxy answers as the program, but for the WebSocket.
    say({ is: "hidden", hidden: true });
    say({ is: "hidden", hidden: false });
    sockets[1].onclose({ code: 1006, reason: "" });
    asked[1].resolve({ status: 204 });
    await turn();
    const { is, reason } = links().at(-1);
    assert.equal(is, "waiting");
    assert.match(reason, /WebSocket cannot be opened; a proxy has to pass Upgrade and Connection on/);
  } finally {
    limit.mock.restore();
    delete performance.now;
    Object.assign(globalThis, { fetch, setTimeout: wait });
  }
});

test("a page in the background does not watch, and one that does not steer tells where it looks", async () => {
  const { sent, sockets, tick, say, hear } = await worker();
  assert.equal(sockets.length, 0, "until the page says that it is seen");
  say({ is: "hidden", hidden: true });
  assert.equal(sockets.length, 0);
  say({ is: "hidden", hidden: false });
  assert.equal(sockets.length, 1);
  sockets[0].onopen();
  await hear("manifest");
  await hear("begin");
  say({ is: "pose", yaw: 30, pitch: 0, roll: 0 });
  tick();
  assert.ok(sent.some(([kind]) => kind === 48), "another may leave, and this is the one that steers");
});

test("what was there when its GoP began is shown, and each loss has its reason", async () => {
  globalThis.VideoDecoder = Decoder;
  globalThis.EncodedVideoChunk = class {
    constructor(chunk) {
      Object.assign(this, chunk);
    }
  };
  Decoder.made = [];
  const posted = [];
  const reports = [];
  // Time stands still, however long this takes.
  const clock = Object.assign(new Clock(), { position: () => 0, hint() {}, time: () => Infinity });
  const engine = new Engine(clock, (message) => posted.push(message), (shown) => reports.push(shown));
  const [init, segment] = [await fixture("tile-init.mp4"), await fixture("tile.m4s")];
  const manifest = {
    width: 192, height: 96, columns: 4, rows: 2, gop: 500, pictures: 6, gops: 9, concealment: "grey", scheme: "ows",
    qps: [32, 42],
  };
  engine.take({ is: "manifest", manifest });
  const rung = (qp) => ({ qp, bytes: 1 });
  const tiles = Array.from({ length: 8 }, () => ({ planned: rung(32), base: null }));
  tiles[5] = { planned: rung(32), base: rung(42) };
  tiles[6] = { planned: null, base: null };
  engine.take({ is: "gop", notice: { gop: 0, tiles } });
  const come = (tile, qp, gop = 0) =>
    engine.take({ is: "tile", tile: { gop, tile, qp, init: init.slice(), segment: segment.slice() } });
  for (const tile of [0, 1, 2, 3]) come(tile, 32);
  // Of one its base layer only; one is damaged, one never comes, and one comes late.
  come(5, 42);
  engine.take({ is: "tile", tile: { gop: 0, tile: 4, qp: 32, init, segment: segment.slice(0, 40) } });
  engine.take({ is: "begin", gop: 0, stood: false });
  come(7, 32);
  for (let turn = 0; turn < 50; turn++) {
    await new Promise((done) => setTimeout(done, 0));
    engine.step();
  }
  const pictures = posted.filter(({ is }) => is === "picture").map(({ picture }) => picture);
  pictures.sort((a, b) => a.number - b.number);
  assert.deepEqual(pictures.map(({ number }) => number), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual([...pictures[3].tiles], [1, 1, 1, 1, 2, 1, 2, 2]);
  for (const { number, buffer } of pictures) engine.done(number, number !== 2, buffer);
  assert.equal(reports.length, 1);
  const [{ gop, shown, dropped, lateNetwork, lateDecoding, tiles: of }] = reports;
  assert.deepEqual([gop, shown, dropped, lateNetwork, lateDecoding], [0, 5, 1, 2, 1]);
  assert.deepEqual(of.map(({ qp }) => qp), [32, 32, 32, 32, 255, 42, 255, 255]);
  assert.ok(of.every(({ missed }) => missed === 0));
  assert.match(posted.find(({ is }) => is === "trouble").text, /tile 4 cannot be decoded/);
  // Nobody looks: nothing is decoded, and nothing is reported.
  engine.stop();
  engine.step();
  assert.ok(Decoder.made.every(({ state }) => state === "closed"));
  assert.equal(reports.length, 1);
  // A page that comes later shows the last picture of what it is given first, until another comes.
  posted.length = 0;
  engine.take({ is: "manifest", manifest: { ...manifest, concealment: "last-received" } });
  const held = (tile) =>
    engine.take({ is: "held", tile: { gop: 2, tile, qp: 42, init: init.slice(), segment: segment.slice() } });
  for (let tile = 0; tile < 8; tile++) held(tile);
  come(1, 32, 5);
  clock.position = () => 2500;
  engine.take({ is: "begin", gop: 5, stood: false });
  for (let turn = 0; turn < 50; turn++) {
    await new Promise((done) => setTimeout(done, 0));
    engine.step();
  }
  const later = posted.filter(({ is }) => is === "picture").map(({ picture }) => picture);
  later.sort((a, b) => a.number - b.number);
  assert.deepEqual([later.length, [...later[0].tiles]], [6, Array(8).fill(1)]);
  assert.deepEqual([...later[1].tiles], [0, 1, 0, 0, 0, 0, 0, 0]);
  for (const { number, buffer } of later) engine.done(number, true, buffer);
  assert.deepEqual(reports[1].tiles.map(({ qp }) => qp), [255, 32, ...Array(6).fill(255)]);
});

test("what a browser loads of the player is small", async () => {
  const { gzipSync } = await import("node:zlib");
  let bytes = 0;
  for (const name of ["player.html", "player.css", "player.js", "player-worker.js"]) {
    bytes += gzipSync(await readFile(`../dist/${name}`), { level: 9 }).length;
  }
  assert.ok(bytes < 30_000, `${bytes} bytes gzipped`);
});

/** Heads that are the same but for rounding. */
function alike(head, [yaw, pitch, roll]) {
  const apart = [within(head.yaw - yaw), head.pitch - pitch, within(head.roll - roll)];
  assert.ok(apart.every((angle) => Math.abs(angle) < 1e-6), `${JSON.stringify(head)} is not ${[yaw, pitch, roll]}`);
}

test("a head is found again from its matrix", () => {
  for (let yaw = -170; yaw <= 180; yaw += 35) {
    for (let pitch = -85; pitch <= 85; pitch += 17) {
      for (let roll = -170; roll <= 180; roll += 35) alike(headOf(matrix({ yaw, pitch, roll })), [yaw, pitch, roll]);
    }
  }
  // Straight up there is no telling a roll from a turn.
  alike(headOf(matrix({ yaw: 30, pitch: 90, roll: 0 })), [30, 90, 0]);
});

test("a device looks where its back does", () => {
  // Upright, its top up; its zero is what is ahead.
  alike(held(0, 90, 0, 0), [0, 0, 0]);
  // Its first angle grows to the left.
  alike(held(90, 90, 0, 0), [-90, 0, 0]);
  alike(held(330, 90, 0, 0), [30, 0, 0]);
  // Tilted back it looks up, and flat on a table down.
  alike(held(0, 110, 0, 0), [0, 20, 0]);
  alike(held(0, 0, 0, 0), [0, -90, 0]);
  // Its top to the left (west), and to the right: the picture is upright, as the screen has turned with it.
  alike(held(90, 0, -90, 90), [0, 0, 0]);
  alike(held(270, 0, 90, 270), [0, 0, 0]);
  // Its top to the left on a screen that has not turned: who looks leans to the left.
  alike(held(90, 0, -90, 0), [0, 0, -90]);
});

test("a headset's turns are ours", () => {
  const about = (axis, degrees) => {
    const half = (degrees * Math.PI) / 360;
    return { x: 0, y: 0, z: 0, w: Math.cos(half), [axis]: Math.sin(half) };
  };
  alike(headOf(turn({ x: 0, y: 0, z: 0, w: 1 })), [0, 0, 0]);
  // Its axes are to the right, up and to the back: to the left, up, and to the left side.
  alike(headOf(turn(about("y", 40))), [-40, 0, 0]);
  alike(headOf(turn(about("x", 25))), [0, 25, 0]);
  alike(headOf(turn(about("z", 15))), [0, 0, -15]);
});

test("an eye of two sees aside, as its projection says", () => {
  // From tan 1.2 to the left to tan 0.8 to the right, and from tan 0.9 down to tan 1.1 up (GLM's frustum).
  const [left, right, bottom, top, near] = [-1.2, 0.8, -0.9, 1.1, 1];
  const p = new Float32Array(16);
  [p[0], p[5]] = [2 / (right - left), 2 / (top - bottom)];
  [p[8], p[9], p[11]] = [(right + left) / (right - left), (top + bottom) / (top - bottom), -1];
  const view = (width) => ({ width, projectionMatrix: p, transform: { orientation: { x: 0, y: 0, z: 0, w: 1 } } });
  const layer = { getViewport: ({ width }) => ({ x: 320, y: 0, width, height: 240 }) };
  const found = eyes(layer, [view(320), view(0)]);
  assert.equal(found.length, 1, "one has no place");
  const [{ halves, centre, port }] = found;
  assert.deepEqual(port, [320, 0, 320, 240]);
  // As the shader has it: what its corners see.
  const sees = (x, y) => [x, y].map((value, axis) => (value + centre[axis]) * halves[axis]);
  for (const [corner, wanted] of [[sees(-1, -1), [left, bottom]], [sees(1, 1), [right, top]]]) {
    corner.forEach((value, axis) => assert.ok(Math.abs(value / near - wanted[axis]) < 1e-6, `${corner}`));
  }
});

test("a device that is not let tell, or has nothing to tell, is told of", async () => {
  const heard = new Set();
  let answer;
  Object.assign(globalThis, {
    addEventListener: (_, hear) => heard.add(hear),
    removeEventListener: (_, hear) => heard.delete(hear),
    screen: { orientation: { angle: 0 } },
    DeviceOrientationEvent: { requestPermission: () => new Promise((resolve) => (answer = resolve)) },
  });
  mock.timers.enable({ apis: ["setTimeout"] });
  const [moved, failed] = [[], []];
  const tilt = new Tilt((head) => moved.push(head));
  const fails = (reason) => failed.push(reason);
  try {
    const start = async (said, meanwhile = () => undefined) => {
      const started = tilt.start(fails);
      assert.ok(tilt.isOn);
      // Who is asked may take a while.
      mock.timers.tick(60_000);
      meanwhile();
      answer(said);
      await started;
    };
    await start("denied");
    assert.ok(!tilt.isOn && heard.size === 0 && /does not let.*denied/.test(failed.pop()));
    await start("granted", () => tilt.stop());
    assert.ok(!tilt.isOn && heard.size === 0, "it was stopped while the user was asked");
    await start("granted");
    assert.ok(tilt.isOn && heard.size === 1);
    for (const hear of heard) hear({ alpha: null, beta: null, gamma: null });
    mock.timers.tick(60_000);
    assert.ok(tilt.isOn && heard.size === 1 && /does not say/.test(failed.pop()), "it may still begin");
    tilt.stop();
    assert.equal(heard.size, 0);
    await start("granted");
    for (const hear of heard) hear({ alpha: 0, beta: 110, gamma: 0 });
    mock.timers.tick(60_000);
    assert.ok(tilt.isOn && failed.length === 0);
    alike(moved[0], [0, 20, 0]);
    tilt.stop();
    assert.equal(heard.size, 0);
  } finally {
    mock.timers.reset();
  }
});

test("hands turn a view that follows a device to the sides alone, and a headset's not at all", () => {
  const listeners = {};
  const canvas = { clientWidth: 640, clientHeight: 360, addEventListener: (name, hear) => (listeners[name] = hear) };
  const look = new Look(canvas, () => undefined);
  const press = (key) => listeners.keydown({ key, preventDefault: () => undefined });
  look.by = "device";
  look.follow({ yaw: 100, pitch: 20, roll: 5 }, null);
  look.follow({ yaw: 110, pitch: 30, roll: 6 }, { yaw: 100, pitch: 20, roll: 5 });
  alike(look.view, [10, 30, 6]);
  press("ArrowUp");
  press("ArrowRight");
  alike(look.view, [15, 30, 6]);
  look.by = "headset";
  press("ArrowRight");
  press("Home");
  alike(look.view, [15, 30, 6]);
  look.upright();
  alike(look.view, [15, 30, 0]);
  press("ArrowUp");
  alike(look.view, [15, 35, 0]);
  // Almost straight down, and upside down: what is up on the screen stays so.
  look.set({ ...look.view, yaw: 20, pitch: -89, roll: 180 });
  look.upright();
  alike(look.view, [-160, -89, 0]);
});

test("each eye is drawn into its part of what the headset gives", () => {
  const calls = [];
  const gl = new Proxy({}, {
    get: (_, name) => {
      if (/^[A-Z0-9_]+$/.test(name)) return name;
      return (...args) => {
        calls.push([name, ...args]);
        if (name === "isContextLost") return false;
        if (name === "getUniformLocation") return args[1];
        return name.startsWith("get") ? 4096 : {};
      };
    },
  });
  const screen = new Screen({ getContext: () => gl, addEventListener: () => undefined });
  screen.start({ width: 64, height: 32, columns: 4, rows: 2, qps: [22] });
  const eye = (left, aside) => ({ head: matrix({ yaw: 0, pitch: 0, roll: 0 }), halves: [1, 0.5], centre: [aside, 0], port: [left, 0, 320, 240] });
  const into = { its: "framebuffer" };
  calls.length = 0;
  screen.draw([eye(0, -0.1), eye(320, 0.1)], false, into);
  const of = (...names) => calls.filter(([name]) => names.includes(name));
  assert.deepEqual(of("bindFramebuffer"), [["bindFramebuffer", "FRAMEBUFFER", into]]);
  assert.deepEqual(of("viewport", "drawArrays").map(([name, , ...rest]) => [name, ...rest.slice(-2)]), [
    ["viewport", 320, 240], ["drawArrays", 0, 3], ["viewport", 320, 240], ["drawArrays", 0, 3],
  ]);
  assert.deepEqual(of("uniform4f").map(([, name, left]) => [name, left]), [["port", 0], ["port", 320]]);
  assert.deepEqual(of("uniform2f").filter(([, name]) => name === "centre").map(([, , aside]) => aside), [-0.1, 0.1]);
  calls.length = 0;
  screen.draw([eye(0, 0)], false);
  assert.deepEqual(of("bindFramebuffer"), [["bindFramebuffer", "FRAMEBUFFER", null]]);
});
