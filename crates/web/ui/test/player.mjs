// The player in a real browser, of a real stream over two paths. What is to be done to these is asked of the
// program that runs this (crates/cli/tests/dashboard/player.rs), a line each: "do: cut path", answered by a
// line.
//
//   node test/player.mjs [--brief [--screens=DIR]] URL

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";

import { act, done, launch, pageOf, seen, timeout } from "./browser.mjs";

const url = process.argv.at(-1);
/** Only whether pictures go on. */
const brief = process.argv.includes("--brief");
const screens = process.argv.find((word) => word.startsWith("--screens="))?.slice("--screens=".length);
const origin = new URL(url).origin;
// WebGL without a GPU.
const browser = await launch("--use-angle=swiftshader", "--enable-unsafe-swiftshader");
const wrong = [];
const contextOf = (size, more) => browser.newContext({
  viewport: size ?? { width: 640, height: 480 },
  // Nobody vouches for the certificate.
  ignoreHTTPSErrors: true,
  ...more,
});

/** A page of its own, or of the given context, that notes all it should not do. */
async function open(target, context, prepare, script) {
  context ??= await contextOf();
  // What the browser itself says of answers that are refusals, and of a stream that is over.
  const page = await pageOf(context, origin, wrong, /net::ERR_|status of 40[13]|WebSocket connection to/);
  await page.addInitScript(() =>
    addEventListener("securitypolicyviolation", (event) => console.error(`Content Security Policy: ${event.violatedDirective}`)),
  );
  if (script) await page.addInitScript({ path: script });
  if (prepare) await page.addInitScript(prepare);
  await page.goto(target);
  return page;
}

const says = (page, words) =>
  page.waitForFunction((words) => document.querySelector("[role=status]")?.textContent.includes(words), words, { timeout });
const figure = (page, name, pattern) =>
  page.waitForFunction(
    ([name, pattern]) => {
      const row = [...document.querySelectorAll("tr")].find((row) => row.querySelector("th").textContent === name);
      return row && new RegExp(pattern).test(row.querySelector("td").textContent);
    },
    [name, pattern],
    { timeout },
  );
const number = (page) => page.evaluate(() => Number(document.querySelector("#picture").dataset.number ?? -1));

/** Waits until so many pictures later are shown, from one that is. */
async function goesOn(page, pictures = 6) {
  const reaches = (least) =>
    page.waitForFunction((least) => Number(document.querySelector("#picture").dataset.number ?? -1) >= least, least, { timeout });
  await reaches(0);
  await reaches((await number(page)) + pictures);
}

/** A page that measures pictures; ours may not load such. */
const bench = await (await contextOf()).newPage();
/** How bright a screenshot of the picture is, how much that varies, how much it differs from another, and its left
 * half from its right one. */
async function measure(page, other) {
  const shot = async () => (await page.locator("#picture").screenshot()).toString("base64");
  const one = await shot();
  const found = await bench.evaluate(
    async (all) => {
      const pixels = await Promise.all(
        all.map(async (base64) => {
          const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
          const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
          const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
          canvas.drawImage(image, 0, 0);
          const { data } = canvas.getImageData(0, 0, image.width, image.height);
          const grey = Array.from({ length: data.length / 4 }, (_, at) => (data[4 * at] + 2 * data[4 * at + 1] + data[4 * at + 2]) / 4);
          return Object.assign(grey, { width: image.width });
        }),
      );
      const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
      const [first, second] = pixels;
      const bright = mean(first);
      const differs = second ? mean(first.map((value, at) => Math.abs(value - second[at]))) : 0;
      const half = first.width / 2;
      const apart = mean(first.map((value, at) => (at % first.width < half ? Math.abs(value - first[at + half]) : 0)));
      return { bright, varies: Math.sqrt(mean(first.map((value) => (value - bright) ** 2))), differs, apart };
    },
    other ? [one, other] : [one],
  );
  return { ...found, shot: one };
}

/** Measures until the picture is as `wanted`: a machine without time shows grey where tiles were not decoded. */
async function measured(page, wanted) {
  const end = performance.now() + timeout;
  for (;;) {
    const found = await measure(page);
    if (wanted(found)) return found;
    assert.ok(performance.now() < end, `the picture stays ${found.bright} ± ${found.varies}, its halves ${found.apart} apart`);
    await goesOn(page, 1);
  }
}

/** WCAG 2.2 AA, as far as a program can tell. */
async function accessible(page, what) {
  const found = await page.evaluate(async () => {
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const { violations, passes } = await window.axe.run(document, { runOnly: tags });
    return { said: violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join("; ")}`), passes: passes.length };
  });
  assert.deepEqual(found.said, [], what);
  seen(`${what}: axe finds nothing in ${found.passes} rules`);
}


async function shows() {
  const page = await open(url);
  await says(page, "live");
  assert.equal(page.url(), `${origin}/`, "the token is not in the address any more");
  await goesOn(page);
  const { bright, varies } = await measure(page);
  assert.ok(varies > 10, `the picture is flat: ${bright} ± ${varies}`);
  await page.locator("summary").click();
  await figure(page, "Path one", "^[0-9.]+ Mb/s$");
  await figure(page, "Path two", "^[0-9.]+ Mb/s$");
  await figure(page, "Viewport, estimated", "[0-9]+\\.[0-9] dB");
  await figure(page, "Pictures shown", "^[1-9]");
  await figure(page, "Pages that watch", "^1$");
  seen(`pictures: ${bright.toFixed(0)} ± ${varies.toFixed(0)}`);
  return page;
}

/** Waits until the page says that its viewer looks there. */
const looks = (page, pattern) =>
  page.waitForFunction(
    (pattern) => new RegExp(pattern).test(document.querySelector(".direction").textContent),
    pattern,
    { timeout },
  );

/** The viewer turns round, and the server sends the finer tiles there. */
async function looksAround(page) {
  /** Waits until what is planned for the half to the front is finer than the rest, or the other way round, by
   * however little, and gives both mean QPs. What is left out counts as coarse, and what was late not at all. */
  const finer = async (front) => {
    const found = await page.waitForFunction(
      (front) => {
        const qps = (document.querySelector("#picture").dataset.qps ?? "").split(",");
        const mean = (want) => {
          // Columns 1 and 2 of four are to the front.
          const chosen = qps.filter((qp, tile) => (tile % 4 === 1 || tile % 4 === 2) === want && qp !== "late");
          return chosen.reduce((sum, qp) => sum + (qp === "" ? 51 : Number(qp)), 0) / chosen.length;
        };
        return mean(front) < mean(!front) ? [mean(true), mean(false)] : null;
      },
      front,
      { timeout },
    );
    return found.jsonValue();
  };
  const ahead = await finer(true);
  const { shot } = await measure(page);
  const box = await page.locator("#picture").boundingBox();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  for (let turn = 0; turn < 2; turn++) {
    await page.mouse.move(x + 200, y);
    await page.mouse.down();
    await page.mouse.move(x, y + 2);
    await page.mouse.move(x - 200, y);
    await page.mouse.up();
  }
  // The arrow keys do the rest.
  await looks(page, "^1[67][0-9]° right");
  await page.locator("#picture").focus();
  for (let turn = 0; turn < 3; turn++) await page.keyboard.press("ArrowRight");
  await looks(page, "^1[78][0-9]° ");
  const { differs } = await measure(page, shot);
  assert.ok(differs > 5, `another direction looks other: ${differs}`);
  seen(`turned round, and the server with it: QP ahead and behind ${ahead}, then ${await finer(false)}`);
  await page.keyboard.press("Home");
  await finer(true);
}

async function pathDies(page) {
  await act("cut path");
  await figure(page, "Path two", "down");
  await goesOn(page, 12);
  await act("restore path");
  await figure(page, "Path two", "Mb/s$");
  await goesOn(page);
  seen("a path died and returned, and pictures went on");
}

async function others(page) {
  const context = await contextOf({ width: 320, height: 640 });
  const second = await open(url, context);
  await says(second, "another page steers");
  await goesOn(second);
  await figure(page, "Pages that watch", "^2$");
  const wide = await second.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 320, `at 320 pixels the page is ${wide} wide`);
  assert.ok((await measure(second)).varies > 10, "it is not flat there either");
  await second.locator("summary").click();
  await accessible(second, "at 320 pixels");
  await second.locator("[name=steer]").click();
  await says(page, "another page steers");
  await second.waitForFunction(() => document.querySelector("[name=steer]") === null, undefined, { timeout });
  // It vanishes.
  await context.close();
  await page.waitForFunction(() => document.querySelector("[role=status]").textContent === "live", undefined, { timeout });
  await figure(page, "Pages that watch", "^1$");
  await goesOn(page);
  seen("a second page steered and vanished, and the first went on");
}

async function marks(page) {
  const { shot } = await measure(page);
  // Who can point and not drag.
  const direction = page.locator(".direction");
  const before = await direction.textContent();
  await page.getByRole("button", { name: "Look right" }).click();
  await page.waitForFunction((before) => document.querySelector(".direction").textContent !== before, before, { timeout });
  await page.getByRole("button", { name: "Look left" }).click();
  await page.waitForFunction((before) => document.querySelector(".direction").textContent === before, before, { timeout });
  await page.locator("[name=marks]").focus();
  await page.keyboard.press("Space");
  await page.locator(".legend").waitFor();
  await goesOn(page, 2);
  const { differs } = await measure(page, shot);
  assert.ok(differs > 5, `tiles are marked: ${differs}`);
  await accessible(page, "with tiles marked");
  await page.screenshot({ path: process.env.WEFTLINE_SCREENSHOT }).catch(() => undefined);
  await page.keyboard.press("Space");
  seen("tiles marked, by keyboard");
}

/** A phone that is moved. */
async function tilts() {
  const context = await contextOf(undefined, { hasTouch: true });
  const page = await open(url, context);
  await goesOn(page, 1);
  const browser = await context.newCDPSession(page);
  const hold = (alpha, beta, gamma) => browser.send("DeviceOrientation.setDeviceOrientationOverride", { alpha, beta, gamma });
  await page.locator("#picture").focus();
  await page.keyboard.press("ArrowRight");
  await looks(page, "^5° right");
  await hold(200, 100, 0);
  const tilt = page.locator("[name=tilt]");
  await tilt.click();
  // Where it is at first is where the view was, but for how far up.
  await looks(page, "^5° right, 10° up");
  await hold(170, 110, 0);
  await looks(page, "^35° right, 20° up");
  await accessible(page, "following a device");
  await tilt.click();
  // It is not listened to any more, once it has been heard.
  const heard = page.evaluate(
    () => new Promise((resolve) => addEventListener("deviceorientation", ({ alpha }) => alpha === 100 && resolve(alpha))),
  );
  await hold(100, 90, 0);
  await heard;
  await page.locator("#picture").focus();
  await page.keyboard.press("ArrowLeft");
  await looks(page, "^30° right, 20° up");
  await context.close();
  seen("a device was moved, and the view with it");
}

/** A headset, as IWER has it. */
async function wears(first) {
  const put = () => {
    globalThis.device = new IWER.XRDevice(IWER.metaQuest3);
    globalThis.device.installRuntime({ forceInstall: true });
    globalThis.device.stereoEnabled = true;
  };
  const context = await contextOf();
  const page = await open(url, context, put, "node_modules/iwer/build/iwer.min.js");
  const eyes = (many) =>
    page.waitForFunction((many) => document.querySelector("#picture").dataset.eyes === many, many, { timeout });
  await goesOn(page, 1);
  const { apart: before } = await measured(page, ({ apart }) => apart > 2);
  await page.locator("[name=headset]").click();
  await eyes("2");
  await goesOn(page);
  // To the right by 90 degrees: its axis is up.
  await page.evaluate(() => globalThis.device.quaternion.set(0, -Math.SQRT1_2, 0, Math.SQRT1_2));
  await looks(page, "^90° right");
  const { apart } = await measured(page, ({ varies }) => varies > 10);
  assert.ok(apart < before / 4, `both eyes see the same: ${apart}, and before ${before}`);
  // Nobody sees it for a while.
  await figure(first, "Pages that watch", "^2$");
  await page.evaluate(() => globalThis.device.updateVisibilityState("hidden"));
  await figure(first, "Pages that watch", "^1$");
  await page.evaluate(() => globalThis.device.updateVisibilityState("visible"));
  await figure(first, "Pages that watch", "^2$");
  await goesOn(page);
  // By the keyboard: the runtime's own layer lies over the page.
  await page.locator("[name=headset]").focus();
  await page.keyboard.press("Space");
  await eyes(undefined);
  await goesOn(page);
  await page.locator("[name=headset][aria-pressed=false]").waitFor();
  await context.close();
  seen("a headset was worn and taken off");
}

/** A page that nobody sees lets go, and comes back. */
async function hides(page) {
  const hide = (hidden) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  const second = await open(url);
  await figure(page, "Pages that watch", "^2$");
  await second.locator("summary").click();
  await hide(true);
  await figure(second, "Pages that watch", "^1$");
  await hide(false);
  await figure(second, "Pages that watch", "^2$");
  await second.context().close();
  await goesOn(page);
  seen("hidden and seen again");
}

/** Takes pictures of luma alone, of five pictures of the stream six views each, for `vr check --screens`. */
async function measures() {
  const page = await open(url.replace("/#", "/?measure#"));
  await goesOn(page);
  const views = [[0, 0, 0, 100], [120, 0, 0, 100], [-75, 35, 0, 90], [40, -60, 20, 70], [180, 10, -45, 100], [10, 88, 0, 60]];
  for (let of = 0; of < 5; of++) {
    const taken = await page.evaluate(async ([views, timeout]) => {
      // Until all tiles of a picture are there.
      for (const end = performance.now() + timeout; performance.now() < end; ) {
        const all = views.map(([yaw, pitch, roll, fov]) => globalThis.weftlineMeasure({ yaw, pitch, roll, fov }));
        if (all.every(Boolean)) return all;
        await new Promise((done) => requestAnimationFrame(done));
      }
      return null;
    }, [views, timeout]);
    assert.ok(taken, "no picture had all of its tiles");
    for (const [place, { png, ...said }] of taken.entries()) {
      const name = `${screens}/${of}-${place}`;
      await writeFile(`${name}.png`, Buffer.from(png.split(",")[1], "base64"));
      await writeFile(`${name}.json`, JSON.stringify(said));
    }
    await goesOn(page, 7);
  }
  await page.context().close();
  seen("thirty pictures to be measured");
}

/** The tone at the beginning of each GoP is heard when the GoP is shown, once somebody asks for the sound. */
async function hears() {
  const page = await open(url, undefined, () => {
    const notes = { begins: NaN, played: 0, before: 0, tones: [], onsets: [], loudUntil: -Infinity };
    globalThis.notes = notes;
    const { Worker } = globalThis;
    globalThis.Worker = class extends Worker {
      constructor(...how) {
        super(...how);
        this.addEventListener("message", ({ data }) => {
          if (data.is === "clock") notes.begins = data.begins;
          if (data.is !== "sound") return;
          // Where in the video a tone begins, as it was decoded.
          const { at, rate, channels } = data.sound;
          const loud = channels[0].findIndex((sample) => Math.abs(sample) > 0.2);
          if (loud >= 0 && at - notes.loudUntil > 200) notes.onsets.push(((at + (1000 * loud) / rate + 250) % 500) - 250);
          if (loud >= 0) notes.loudUntil = at;
        });
      }
    };
    const { start } = AudioBufferSourceNode.prototype;
    AudioBufferSourceNode.prototype.start = function (when) {
      const { contextTime, performanceTime } = this.context.getOutputTimestamp();
      const samples = this.buffer.getChannelData(0);
      const loud = samples.findIndex((sample) => Math.abs(sample) > 0.2);
      notes.played += 1;
      // A tone begins; it lasts for some stretches of sound.
      if (loud >= 0 && when - notes.before > 0.2) {
        const since = when + loud / this.buffer.sampleRate - contextTime;
        const at = performance.timeOrigin + performanceTime + 1000 * since - notes.begins;
        notes.tones.push(((at + 250) % 500) - 250);
      }
      if (loud >= 0) notes.before = when;
      return start.call(this, when);
    };
  });
  await goesOn(page);
  assert.equal(await page.evaluate(() => globalThis.notes.played), 0, "nobody has asked for sound");
  const button = page.locator("[name=sound]");
  await button.click();
  await page.locator("[name=sound][aria-pressed=true]").waitFor();
  await page.waitForFunction(() => globalThis.notes.tones.length >= 6, undefined, { timeout });
  const { tones, onsets } = await page.evaluate(() => globalThis.notes);
  // The first may have begun before anybody listened. A frame of AAC has 21 ms, by which they may not be off: one
  // may, where the package begins anew.
  const decoded = onsets.slice(1).sort((one, other) => one - other);
  const median = decoded[Math.floor(decoded.length / 2)];
  assert.ok(decoded.length > 3 && median > -14 && median < 19, `tones are decoded so much after their GoPs begin, ms: ${onsets}`);
  // The page lets it be 45 ms off, a tone in AAC begins up to 16 ms late, and one may lack its first frame.
  assert.ok(tones.every((off) => Math.abs(off) < 45 + 16 + 22), `tones are so much after their pictures, ms: ${tones}`);
  await page.locator("summary").click();
  await figure(page, "Sound", "^[0-9]+ ms (before|after) the picture");
  await accessible(page, "with sound");
  await button.click();
  await page.locator("[name=sound][aria-pressed=false]").waitFor();
  const { played } = await page.evaluate(() => globalThis.notes);
  await goesOn(page, 12);
  assert.equal(await page.evaluate(() => globalThis.notes.played), played, "nobody listens any more");
  await page.context().close();
  seen(`heard, so much after the picture, ms: ${tones.map(Math.round)}; decoded: ${decoded.map(Math.round)}`);
}

/** Who opens an old address in a page that goes on is told, and it goes on. */
async function anOldAddress(page) {
  await page.evaluate(() => (location.hash = "#k=00000000000000000000000000000000"));
  await page.getByRole("alert").getByText("that token is not this player's").waitFor();
  await goesOn(page);
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByRole("alert").waitFor({ state: "detached" });
}

async function cannot() {
  const without = await open(url, undefined, () => {
    delete globalThis.VideoDecoder;
  });
  await without.getByText("This browser has no WebCodecs").waitFor();
  await without.getByText("Use a current Chromium").waitFor();
  await accessible(without, "without WebCodecs");
  const open_ = await open(url, undefined, () => {
    Object.defineProperty(globalThis, "isSecureContext", { get: () => false });
  });
  await open_.getByText("is no secure context").waitFor();
  await open_.getByText("ssh -L").waitFor();
  const flat = await open(url, undefined, () => {
    HTMLCanvasElement.prototype.getContext = () => null;
  });
  await flat.getByText("WebGL 2 is not to be had").waitFor();
  const stranger = await open(`${origin}/`);
  await stranger.getByText("open the address that the player printed").waitFor();
  const forged = await open(`${origin}/#k=00000000000000000000000000000000`);
  await forged.getByText("that token is not this player's").waitFor();
  for (const page of [without, open_, flat, stranger, forged]) await page.context().close();
  seen("without WebCodecs, a secure context, WebGL, a token");
}

try {
  const page = await shows();
  if (brief) {
    // One that comes later has all, too.
    const second = await open(url);
    await says(second, "another page steers");
    await goesOn(second);
    await figure(second, "Pictures shown", "^[1-9]");
    await hears();
    await measures();
  } else {
    await looksAround(page);
    await pathDies(page);
    await others(page);
    await marks(page);
    await anOldAddress(page);
    await tilts();
    await wears(page);
    await hides(page);
    await cannot();
  }
  await goesOn(page);
  // Of the pages that were there at least two have told of what they showed.
  await act("wait for what was shown");
  await goesOn(page);
  await act("stop server");
  await says(page, "the server");
  assert.deepEqual(wrong, []);
  seen("all seen");
} catch (error) {
  console.log(error.stack);
  if (wrong.length > 0) console.log("and on the pages:", wrong);
  process.exitCode = 1;
} finally {
  await browser.close();
  done();
  process.stdin.destroy();
}
