// dash.js and Shaka in a real browser, with a package from `weftline vr http`: they show the whole sphere, and
// only where the server lets their page read it.
//
//   node test/dash.mjs MANIFEST-OF-A-SERVER-THAT-LETS-NOBODY-READ MANIFEST

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

import { done, launch, seen, timeout } from "./browser.mjs";

const [closed, open] = process.argv.slice(-2);

/** Each player: its script, and what plays a manifest. Both say what went wrong. */
const players = {
  "dash.js": {
    script: "node_modules/dashjs/dist/modern/umd/dash.mediaplayer.min.js",
    play: (video, url, failed) => {
      const player = dashjs.MediaPlayer().create();
      player.on("error", (event) => failed(`${event.error.code ?? ""} ${event.error.message ?? event.error}`));
      player.initialize(video, url, true);
    },
  },
  Shaka: {
    script: "node_modules/shaka-player/dist/shaka-player.dash.js",
    play: async (video, url, failed) => {
      const player = new shaka.Player();
      player.addEventListener("error", (event) => failed(`${event.detail.code}`));
      await player.attach(video);
      await player.load(url).catch((error) => failed(`${error.code}`));
      await video.play();
    },
  },
};

const pages = createServer(async (request, response) => {
  const player = players[decodeURIComponent(request.url.split("/")[1])];
  if (!player) return response.writeHead(404).end();
  if (request.url.endsWith(".js")) return response.writeHead(200, { "Content-Type": "text/javascript" }).end(await readFile(player.script));
  response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" });
  response.end(`<!doctype html><title>player</title><video muted width=640 height=320></video><script src="player.js"></script>`);
});
await new Promise((listens) => pages.listen(0, "127.0.0.1", listens));
const origin = `http://127.0.0.1:${pages.address().port}`;

const browser = await launch("--autoplay-policy=no-user-gesture-required");

/** A page in which a player plays a manifest; what it asks for is put into `asked`. */
async function play(name, url, asked) {
  const page = await browser.newPage();
  page.setDefaultTimeout(timeout);
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.goto(`${origin}/${name}/`);
  await page.evaluate(
    ([source, url]) => {
      globalThis.wrong = [];
      const play = new Function(`return ${source}`)();
      play(document.querySelector("video"), url, (what) => globalThis.wrong.push(what));
    },
    [players[name].play.toString(), url],
  );
  return page;
}

for (const name of Object.keys(players)) {
  const asked = [];
  const page = await play(name, open, asked);
  await page.waitForFunction(() => document.querySelector("video").ended || globalThis.wrong.length > 0, undefined, { timeout });
  const found = await page.evaluate(() => {
    const { videoWidth, videoHeight, duration } = document.querySelector("video");
    return { videoWidth, videoHeight, duration, wrong: globalThis.wrong };
  });
  assert.deepEqual({ ...found, duration: Math.round(found.duration) }, { videoWidth: 384, videoHeight: 192, duration: 2, wrong: [] });
  for (const part of ["/manifest.mpd", "/init.mp4", "/000000.m4s", "/000001.m4s"]) {
    assert(asked.some((path) => path.endsWith(part)), `${name} has not asked for ${part}: ${asked}`);
  }
  assert(!asked.some((path) => path.startsWith("/tiles/")), `${name} has asked for tiles: ${asked}`);
  await page.close();
  seen(`${name} has shown the whole sphere to its end`);

  const refused = await play(name, closed, []);
  await refused.waitForFunction(() => globalThis.wrong.length > 0, undefined, { timeout });
  assert.equal(await refused.evaluate(() => document.querySelector("video").videoWidth), 0);
  await refused.close();
  seen(`${name} may not read what is not for its page`);
}

await browser.close();
pages.close();
pages.closeAllConnections();
done();
console.log("all seen");
