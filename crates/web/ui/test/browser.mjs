// What the tests in a browser have in common: the browser, and the program that runs them, which does to
// what is looked at what it is asked, a line each ("do: cut path", answered by a line).

import { existsSync } from "node:fs";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

/** Only what hangs takes so long, in milliseconds. */
export const timeout = 400_000;
const began = performance.now();

const input = createInterface({ input: process.stdin });
const answers = input[Symbol.asyncIterator]();

/** Asks for something to be done, and waits until it is. */
export async function act(what) {
  console.log(`do: ${what}`);
  await answers.next();
}

/** Waits for no more answers, so that the program can end. */
export function done() {
  input.close();
}

/** Says what was seen, with the time since the beginning. */
export function seen(what) {
  console.log(`${((performance.now() - began) / 1e3).toFixed(1)} s: ${what}`);
}

/** Chromium from the path, without a sandbox, as tests of root need. */
export function launch(...args) {
  const executablePath = process.env.PATH.split(":").map((dir) => `${dir}/chromium`).find(existsSync);
  return chromium.launch({ executablePath, args: ["--no-sandbox", ...args] });
}

/** A page of `context` that puts into `wrong` all that it should not do; `expected` are errors that the
 * browser itself tells of what the test does. */
export async function pageOf(context, origin, wrong, expected) {
  const page = await context.newPage();
  page.setDefaultTimeout(timeout);
  await page.addInitScript({ path: "node_modules/axe-core/axe.min.js" });
  page.on("pageerror", (error) => wrong.push(`error on the page: ${error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !expected.test(text)) wrong.push(text);
    if (/Content Security Policy|TrustedHTML|TrustedScript/.test(text)) wrong.push(text);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(origin)) wrong.push(`external request: ${request.url()}`);
  });
  return page;
}
