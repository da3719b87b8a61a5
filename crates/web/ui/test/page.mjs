// The dashboard in a real browser, of real daemons. What is to be done to these is asked of the program
// that runs this (crates/cli/tests/dashboard/page.rs), a line each: "do: cut path", answered by a line.
//
//   node test/page.mjs URL

import assert from "node:assert/strict";

import { act, done, launch, pageOf, seen, timeout } from "./browser.mjs";

const url = process.argv[2];
const origin = new URL(url).origin;
// Charts are plain canvases, which a processor draws faster than it plays a GPU.
const browser = await launch("--disable-gpu");
const wrong = [];
const requests = [];

/** A page of its own, or of the given context, that notes all it should not do. */
async function open(target, context) {
  context ??= await browser.newContext({ viewport: { width: 1280, height: 900 } });
  // What the browser itself says of a link that is cut, and of answers that are refusals.
  const page = await pageOf(context, origin, wrong, /net::ERR_|status of 40[13]/);
  page.on("request", (request) => requests.push(request.url()));
  await page.addInitScript(() => {
    // When the first chart is drawn.
    window.drawn = [];
    const clear = CanvasRenderingContext2D.prototype.clearRect;
    CanvasRenderingContext2D.prototype.clearRect = function (...where) {
      if (this.canvas.closest("#plot-send")) window.drawn.push(performance.now());
      clear.apply(this, where);
    };
  });
  await page.goto(target);
  return page;
}

const linkSays = (page, words) =>
  page.waitForFunction(
    (words) => document.querySelector(".link [role=status]")?.textContent.includes(words),
    words,
    { timeout },
  );
const pathIs = (page, name, state) =>
  page.waitForFunction(
    ([name, state]) => {
      const rows = [...document.querySelectorAll('[aria-label="Table of paths"] tbody tr')];
      const row = rows.find((row) => row.querySelector("th").textContent.trim() === name);
      return row?.querySelector(".state").textContent === state;
    },
    [name, state],
    { timeout },
  );
const eventSays = (page, words) =>
  page.waitForFunction(
    (words) =>
      [...document.querySelectorAll(".log li")].some((event) => event.textContent.includes(words)),
    words,
    { timeout },
  );
const picture = (page) =>
  page.evaluate(() => document.querySelector("#plot-send canvas").toDataURL());

/** Waits until a chart looks other than before: what comes is drawn. Not each drawing is of something
 * new, however many there are. */
async function moves(page) {
  const before = await picture(page);
  await page.waitForFunction(
    (before) => document.querySelector("#plot-send canvas").toDataURL() !== before,
    before,
    { timeout, polling: 100 },
  );
}

/** WCAG 2.2 AA, as far as a program can tell. */
async function accessible(page, what) {
  const found = await page.evaluate(async () => {
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const { violations, passes } = await window.axe.run(document, { runOnly: tags });
    const said = violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`,
    );
    return { said, passes: passes.length };
  });
  assert.deepEqual(found.said, [], what);
  assert.ok(found.passes > 15, `${what}: only ${found.passes} rules applied`);
  seen(`${what}: axe finds nothing in ${found.passes} rules`);
}

/** Waits until there are colours on a canvas that are none of its ground's: what it shows may come later than
 * what was waited for before. */
const isDrawn = (page, selector, opaque = 200) =>
  page.waitForFunction(
    ([selector, opaque]) => {
      const canvas = document.querySelector(selector);
      if (!canvas) return false;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const colors = new Set();
      for (let at = 0; at < data.length; at += 4) {
        if (data[at + 3] > opaque) colors.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
      }
      return colors.size >= 3;
    },
    [selector, opaque],
    { timeout, polling: 100 },
  );

/** Waits until the pages have asked for something, as it is told here later than it is asked for. */
async function isAsked(what, enough) {
  const end = performance.now() + timeout;
  while (!enough()) {
    assert.ok(performance.now() < end, `${what} is not asked for: ${requests}`);
    await new Promise((then) => setTimeout(then, 10));
  }
}

async function shows() {
  const page = await open(url);
  await linkSays(page, "live");
  assert.equal(page.url(), `${origin}/`, "the token is not in the address any more");
  await pathIs(page, "one", "up");
  await pathIs(page, "two", "up");
  await moves(page);
  for (const id of ["send", "receive", "srtt", "conns", "count"]) await isDrawn(page, `#plot-${id} canvas`);
  // The pointer over a chart shows that moment everywhere, and away from it the present.
  const when = (words) =>
    page.waitForFunction(
      (words) => document.querySelector("#when").textContent.startsWith(words),
      words,
      { timeout },
    );
  // What comes meanwhile may move the chart away from under the pointer.
  const end = performance.now() + timeout;
  do {
    assert.ok(performance.now() < end, "the pointer over a chart shows no moment");
    const box = await page.locator("#plot-srtt .u-over").boundingBox();
    await page.mouse.move(box.x + box.width / 2, 5);
    await page.mouse.move(box.x + box.width - 4, box.y + box.height / 2);
    // With the next frame.
    await page.evaluate(() => new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(then))));
  } while (!(await page.locator("#when").textContent()).startsWith("at "));
  const box = await page.locator("#plot-srtt .u-over").boundingBox();
  await page.mouse.move(box.x + box.width / 2, 5);
  await when("now");
  // The table behind a chart has what the chart has.
  await page.locator("figure", { hasText: "Sending" }).first().locator("summary").click();
  const table = page.locator('[aria-label="Sending, as a table"]');
  await table.waitFor();
  assert.deepEqual(await table.locator("thead th").allTextContents(), ["until", "all paths", "one", "two"]);
  await page.waitForFunction(
    () => {
      const cells = document.querySelectorAll('[aria-label="Sending, as a table"] tbody td');
      return [...cells].some((cell) => Number(cell.textContent) > 0);
    },
    undefined,
    { timeout },
  );
  // And each connection its paths.
  await page.locator("#connections-heading ~ .scroll button").first().click();
  await page.getByText("Paths of #").first().waitFor();
  seen("charts, tables, connections");
  return page;
}

async function pathDiesAndReturns(page) {
  // What is in the log already keeps its element, so that it is not said aloud again.
  await page.locator(".log li").first().waitFor();
  await page.evaluate(() => {
    const first = document.querySelector(".log li");
    first.dataset.said = first.textContent;
  });
  await act("cut path");
  await pathIs(page, "two", "down");
  await pathIs(page, "one", "up");
  await eventSays(page, "path two lost its subflow");
  await page.waitForFunction(() => document.querySelector(".strip .bar.down"), undefined, { timeout });
  await page.waitForFunction(() => document.title.startsWith("⚠"), undefined, { timeout });
  await act("restore path");
  await pathIs(page, "two", "up");
  await eventSays(page, "path two is back");
  const said = await page.evaluate(() => {
    const first = document.querySelector(".log li[data-said]");
    return [first.dataset.said, first.textContent];
  });
  assert.equal(said[1], said[0], "an event keeps its element");
  await page.waitForFunction(() => !document.title.startsWith("⚠"), undefined, { timeout });
  seen("a path died and returned");
  await act("block path");
  await pathIs(page, "two", "stalled");
  await eventSays(page, "path two makes no progress");
  await page.waitForFunction(() => document.querySelector(".strip .bar.silent"), undefined, { timeout });
  await act("restore path");
  await pathIs(page, "two", "up");
  seen("a path stalled and returned");
}

/** Waits until what the cloth says in words is as wanted. */
const clothSays = (page, pattern) =>
  page.waitForFunction(
    (source) => {
      const label = document.querySelector("#cloth")?.parentElement.getAttribute("aria-label") ?? "";
      return new RegExp(source).test(label);
    },
    pattern,
    { timeout },
  );

/** The cloth of a connection over two paths, one of which is blocked. */
async function weaves(page) {
  const streams = () => requests.filter((one) => one.includes("/stream?weave=")).length;
  assert.equal(streams(), 0, "nothing is recorded before it is asked for");
  const used = await page.locator("#weave-of option:not([value='']):not(:text('kept ready'))").first().getAttribute("value");
  await page.selectOption("#weave-of", used);
  // The page says that it is live until it draws the next frame, also of the stream before.
  await isAsked("the weave", () => streams() > 0);
  await linkSays(page, "live");
  assert.ok(requests.at(-1).includes("/api/") && streams() === 1, requests.at(-1));
  // The other end sends as much back, of which this one sees only what arrives.
  for (const direction of ["received", "sent"]) {
    await page.locator(`input[name=weave-direction][value=${direction}]`).check({ force: true });
    await clothSays(page, `was ${direction}: [1-9].*one [1-9].*two [1-9]`);
  }
  for (const id of ["#cloth", "#strand"]) await isDrawn(page, id, 250);
  const legend = await page.locator("#weave-legend li").allTextContents();
  for (const words of ["one", "two", "faint", "sent again", "sent over two paths", "reader waited"]) {
    assert.ok(legend.some((text) => text.includes(words)), `${words} in ${legend}`);
  }
  seen("a cloth of two paths");
  // However long all of this takes, what is waited for is in view.
  await page.locator('input[name=weave-span][value="1 min"]').check({ force: true });
  await act("block path");
  await pathIs(page, "two", "stalled");
  // Whether the reader came to wait for it is a matter of luck: copies may have been quicker.
  await clothSays(page, "[1-9][0-9]* with bytes sent again");
  await page.locator("#pause").click();
  await linkSays(page, "paused");
  await page.locator(".weave details", { hasText: "Table" }).first().locator("summary").click();
  const table = page.locator('[aria-label="The weave, as a table"]');
  await table.waitFor();
  const head = await table.locator("thead th").allTextContents();
  assert.deepEqual(head.slice(3).map((text) => text.trim()), ["one", "two", "copies", "sent again", "not arrived", "waited ms"]);
  await page.waitForFunction(
    () => {
      const rows = [...document.querySelectorAll('[aria-label="The weave, as a table"] tbody tr')];
      const cells = rows.map((row) => [...row.querySelectorAll("td")].map((cell) => parseInt(cell.textContent, 10)));
      return cells.length > 0 && cells.every((row) => row.slice(-4).every((cell) => cell >= 0));
    },
    undefined,
    { timeout },
  );
  await page.locator("#pause").click();
  await linkSays(page, "live");
  // In a minute, a row is as long as a slot, and two may fall into one.
  await page.locator('input[name=weave-span][value="10 s"]').check({ force: true });
  // A row is chosen by the pointer and by keys, and its strand is drawn.
  const chosen = () => page.locator("#weave-row + output").textContent();
  const isChosen = (old, is) =>
    page.waitForFunction(
      ([old, is]) => (document.querySelector("#weave-row + output").textContent === old) === is,
      [old, is],
      { timeout },
    );
  await act("restore path");
  await pathIs(page, "two", "up");
  await clothSays(page, ": ([2-9]|[1-9][0-9]+) rows");
  await page.locator("#pause").click();
  await linkSays(page, "paused");
  await page.locator("#weave-row").focus();
  await page.keyboard.press("End");
  await page.keyboard.press("Home");
  const newest = await page.evaluate(() => document.querySelector("#weave-row").max);
  await page.waitForFunction(() => document.querySelector("#weave-row").value === "0", undefined, { timeout });
  // The slider has moved at once, and what it says is drawn with the next frame.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const oldest = await chosen();
  assert.notEqual(newest, "0");
  await page.keyboard.press("End");
  await isChosen(oldest, false);
  const box = await page.locator("#cloth").boundingBox();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height - 6);
  await isChosen(oldest, true);
  if (process.env.WEFTLINE_SCREENS) {
    await page.locator("section", { has: page.locator("#cloth") }).screenshot({ path: `${process.env.WEFTLINE_SCREENS}/cloth.png` });
  }
  await page.locator("#pause").click();
  await linkSays(page, "live");
  seen("a path that is blocked, in the cloth");
}

/** Watched no longer: the stream goes on without it. */
async function watchesNoLonger(page) {
  const plain = () => requests.filter((one) => one.endsWith("/stream")).length;
  const before = plain();
  await page.selectOption("#weave-of", "");
  await isAsked("the stream without a weave", () => plain() > before);
  await linkSays(page, "live");
  await moves(page);
  assert.equal(plain(), before + 1);
  assert.equal(await page.locator("#cloth").count(), 0);
  seen("watched no longer");
}

async function reconnects(page) {
  const histories = () => requests.filter((one) => one.endsWith("/history")).length;
  const before = histories();
  await act("cut link");
  await linkSays(page, "No connection: the daemon does not answer");
  await act("restore link");
  await linkSays(page, "live");
  assert.equal(histories(), before, "what was missed is sent, and no more than that");
  seen("reconnected");
}

/** Lets a page be hidden, or seen: a browser without a screen shows all of its tabs. */
const show = (page, state) =>
  page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);

async function sixTabs(first) {
  const tabs = [first];
  for (let more = 0; more < 5; more++) {
    await show(tabs.at(-1), "hidden");
    await linkSays(tabs.at(-1), "not followed while hidden");
    const page = await open(`${origin}/`, first.context());
    await linkSays(page, "live");
    await pathIs(page, "two", "up");
    // What was before it was opened is there, too.
    await eventSays(page, "path two lost its subflow");
    tabs.push(page);
  }
  seen("one tab is seen, five are hidden");
  // All at once, in windows side by side.
  for (const page of tabs) await show(page, "visible");
  for (const page of tabs) {
    await page.bringToFront();
    await linkSays(page, "live");
    await moves(page);
  }
  for (const page of tabs.slice(1)) await page.close();
  seen("six tabs");
}

async function isSmallAndDark(page) {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const wide = () =>
    page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  await accessible(page, "wide and light");
  const light = await ground();
  await page.emulateMedia({ colorScheme: "dark" });
  assert.notEqual(await ground(), light);
  await accessible(page, "wide and dark");
  await page.setViewportSize({ width: 320, height: 640 });
  await page.waitForFunction(
    () => document.querySelector("#plot-send canvas").getBoundingClientRect().right <= 320,
    undefined,
    { timeout },
  );
  assert.deepEqual(await wide(), [320, 320], "nothing is wider than the page");
  await accessible(page, "320 px and dark");
  await page.emulateMedia({ colorScheme: "light" });
  await accessible(page, "320 px and light");
  await page.setViewportSize({ width: 1280, height: 900 });
}

/** All that the mouse can do the keys can. */
async function byKeyboard(page) {
  const focus = () =>
    page.evaluate(() => {
      const { activeElement: now } = document;
      return now.id || now.name || now.getAttribute("aria-label") || now.textContent.trim();
    });
  const tabTo = async (name, key = "Tab") => {
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press(key);
      if ((await focus()).includes(name)) return;
    }
    assert.fail(`the keyboard does not lead to ${name}`);
  };
  await page.evaluate(() => document.activeElement?.blur());
  await tabTo("window");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(
    () => document.querySelectorAll("input[name=window]")[2].checked,
    undefined,
    { timeout },
  );
  await tabTo("pause");
  await page.keyboard.press("Space");
  await linkSays(page, "paused");
  await tabTo("cursor");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  await page.waitForFunction(
    () => document.querySelector("#when").textContent.startsWith("at "),
    undefined,
    { timeout },
  );
  const before = await picture(page);
  // Samples go on to come, which other pages show.
  const other = await open(`${origin}/`, page.context());
  await linkSays(other, "live");
  await moves(other);
  await other.close();
  assert.equal(await picture(page), before, "nothing moves while it is paused");
  await tabTo("pause", "Shift+Tab");
  await page.keyboard.press("Space");
  await linkSays(page, "live");
  await moves(page);
  seen("by keyboard, and paused");
}

/** For those who want little motion the charts stand still for five seconds. */
async function isCalm(page) {
  await page.emulateMedia({ reducedMotion: "reduce" });
  // The page's own clock says when each was.
  const drawn = await page.evaluate(() => window.drawn.length);
  await page.waitForFunction((drawn) => window.drawn.length >= drawn + 2, drawn, { timeout });
  const [before, after] = await page.evaluate((drawn) => window.drawn.slice(drawn), drawn);
  assert.ok(after - before > 2500, `the charts moved after ${after - before} ms`);
  await page.emulateMedia({ reducedMotion: "no-preference" });
  seen("with little motion");
}

async function refuses(page) {
  const stranger = await open(`${origin}/`);
  await stranger.getByText("open the address that the daemon printed").waitFor();
  await accessible(stranger, "without a token");
  const forged = await open(`${origin}/#k=00000000000000000000000000000000`);
  await forged.getByText("that token is not this daemon's").waitFor();
  // Who opens an old address in a page that goes on is told, and it goes on.
  const old = await open(`${origin}/`, page.context());
  await linkSays(old, "live");
  await old.evaluate(() => (location.hash = "#k=00000000000000000000000000000000"));
  await old.getByRole("alert").getByText("that token is not this daemon's").waitFor();
  await linkSays(old, "live");
  await moves(old);
  assert.equal(await old.evaluate(() => location.hash), "", "nor is that token left in the address");
  await old.getByRole("button", { name: "Close" }).click();
  await old.getByRole("alert").waitFor({ state: "detached" });
  await old.close();
  // A daemon that starts anew has another token.
  await act("restart");
  await page.getByText("open the address that the daemon printed").waitFor();
  seen("strangers, and a daemon that was restarted");
}

try {
  const page = await shows();
  await pathDiesAndReturns(page);
  await weaves(page);
  await reconnects(page);
  await sixTabs(page);
  await isSmallAndDark(page);
  await watchesNoLonger(page);
  await byKeyboard(page);
  await isCalm(page);
  await refuses(page);
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
