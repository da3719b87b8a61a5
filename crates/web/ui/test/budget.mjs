// What the player's page takes and how late it is, on this machine: scripts/player-budget runs it.
//
//   node test/budget.mjs URL SECONDS SHOWN

import { readdirSync, readFileSync } from "node:fs";

import { done, launch } from "./browser.mjs";

const [url, seconds, log] = process.argv.slice(-3);
const browser = await launch("--use-angle=swiftshader", "--enable-unsafe-swiftshader");
const page = await (await browser.newContext({ viewport: { width: 640, height: 560 } })).newPage();

/** Processors that were busy since a time, all programs together. */
function busy(since) {
  const [user, nice, system, , , irq, softirq] = readFileSync("/proc/stat", "utf8").split("\n")[0].split(/ +/).slice(1).map(Number);
  const at = { ticks: user + nice + system + irq + softirq, time: performance.now() };
  return since ? (at.ticks - since.ticks) * 10 / (at.time - since.time) : at;
}

/** The same of each program that takes part. */
function busyEach(since) {
  const at = { serve: 0, play: 0, browser: 0 };
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      const which = words[1] === "vr" ? words[2] : words[0].includes("chromium") ? "browser" : "";
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
      if (which in at) at[which] += Number(fields[11]) + Number(fields[12]);
    } catch {
      // It has ended.
    }
  }
  const time = performance.now();
  const share = (which) => Number((((at[which] - since[which]) * 10) / (time - since.time)).toFixed(2));
  return since ? Object.fromEntries(Object.keys(at).map((which) => [which, share(which)])) : { ...at, time };
}

const figures = () =>
  page.evaluate(() => Object.fromEntries([...document.querySelectorAll("tr")].map((row) => [row.querySelector("th").textContent, row.querySelector("td").textContent])));
const shown = (of) => of["Pictures shown"].match(/(\d+) of (\d+)/).slice(1).map(Number);

/** Of the pictures of all tiles that were there, how many were not in the pictures shown, in percent, by what the
 * page has told of the GoPs from one on. */
function late(from) {
  let [all, missed] = [0, 0];
  for (const line of readFileSync(log, "utf8").split("\n").slice(from, -1)) {
    const gop = JSON.parse(line);
    all += gop.pictures_shown * gop.had.filter((qp) => qp !== null).length;
    missed += gop.missed.reduce((sum, of) => sum + (of ?? 0), 0);
  }
  return Number(((100 * missed) / all).toFixed(3));
}
const told = () => readFileSync(log, "utf8").split("\n").length - 1;
const drawn = () => page.evaluate(() => Number(document.querySelector("#picture").dataset.drawn));

try {
  const began = performance.now();
  await page.goto(url);
  await page.waitForFunction(() => document.querySelector("#picture").dataset.number !== undefined);
  const first = performance.now() - began;
  // As the budgets have it.
  await page.evaluate(() => Object.assign(document.querySelector("#picture").style, { height: "360px", flex: "none" }));
  await page.locator("summary").click();
  await page.waitForFunction(() => [...document.querySelectorAll("th")].some((head) => head.textContent === "Pictures shown"));
  await page.waitForTimeout(4000);
  const size = await page.evaluate(() => { const { width, height } = document.querySelector("#picture"); return `${width}x${height}`; });
  const [before, drawnBefore, toldBefore] = [await figures(), await drawn(), told()];
  const [idle, each] = [busy(), busyEach()];
  await page.waitForTimeout(seconds * 1000);
  const [after, drawnAfter, cores, shares] = [await figures(), await drawn(), busy(idle), busyEach(each)];
  const rates = ["Path one", "Path two"].map((path) => parseFloat(after[path]));
  const [pictures, all] = shown(after).map((count, place) => count - shown(before)[place]);
  // From a pointer's event to what is drawn by it.
  await page.evaluate(() => {
    const canvas = document.querySelector("#picture");
    window.delays = [];
    let moved = null;
    canvas.addEventListener("pointermove", (event) => (moved ??= event.timeStamp));
    new MutationObserver(() => {
      if (moved !== null) window.delays.push(performance.now() - moved);
      moved = null;
    }).observe(canvas, { attributeFilter: ["data-drawn"] });
  });
  await page.mouse.move(320, 180);
  await page.mouse.down();
  for (let n = 0; n < 60; n++) {
    await page.mouse.move(320 + (n % 30) * 4, 180 + (n % 7));
    await page.waitForTimeout(90);
  }
  await page.mouse.up();
  const delays = (await page.evaluate(() => window.delays)).sort((a, b) => a - b);
  const of = (share) => Math.round(delays[Math.floor(share * (delays.length - 1))]);
  console.log(JSON.stringify({
    canvas: size,
    first_picture_ms: Math.round(first),
    pictures: all,
    shown_percent: Number(((100 * pictures) / all).toFixed(2)),
    tile_pictures_late_by_decoding_percent: late(toldBefore),
    redraws_per_s: Math.round((drawnAfter - drawnBefore) / seconds),
    busy_processors: Number(cores.toFixed(2)),
    busy_by_program: shares,
    paths_mbps: rates,
    tiles: after["Tiles shown"],
    pointer_to_picture_ms: { median: of(0.5), p95: of(0.95), most: of(1), events: delays.length },
  }));
} finally {
  await browser.close();
  done();
  process.stdin.destroy();
}
