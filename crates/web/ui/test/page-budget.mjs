// What the dashboard's page takes of a processor in Chromium: scripts/dashboard-budget runs it.
//
//   node test/page-budget.mjs URL

import { readdirSync, readFileSync } from "node:fs";

import { done, launch } from "./browser.mjs";

const url = process.argv.at(-1);
const SECONDS = 15;
const browser = await launch();

/** CPU seconds of all processes of Chromium: no other one may run. */
function cpu() {
  let ticks = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("chromium")) continue;
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
      ticks += Number(fields[11]) + Number(fields[12]);
    } catch {
      // It has ended.
    }
  }
  return ticks / 100;
}

/** The share of a processor while nothing is done. */
async function share(page) {
  await page.waitForTimeout(3000);
  const [before, began] = [cpu(), performance.now()];
  await page.waitForTimeout(SECONDS * 1000);
  return Number(((100 * (cpu() - before)) / ((performance.now() - began) / 1000)).toFixed(1));
}

try {
  const context = await browser.newContext();
  const page = await context.newPage();
  const empty = await share(page);
  await page.goto(url);
  await page.locator("[role=status]").first().waitFor();
  const seen = await share(page);
  // The busiest connection.
  await page.locator("#weave-of").selectOption({ index: 1 });
  const weave = await share(page);
  await page.evaluate(() => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  const hidden = await share(page);
  console.log(JSON.stringify({ browser_percent_of_a_processor: { empty, seen, weave, hidden } }));
} finally {
  await browser.close();
  done();
  process.stdin.destroy();
}
