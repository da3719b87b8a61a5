// A page of one weave that the simulator recorded: weftline sim run --weave FILE.html.

import { html, render } from "lit-html";

import { palette } from "./palette.js";
import { type WeaveMessage, Weave } from "./model.js";
import { paint, type Shown, shownAtFirst, view } from "./view.js";

const data = JSON.parse(document.getElementById("data")?.textContent ?? "{}") as WeaveMessage & { title: string };
const root = document.getElementById("app") as HTMLElement;
const weave = new Weave(null);
weave.take(data);
document.title = data.title;

const first = weave.sent.rows()[0]?.at ?? 0;
const shown: Shown = { ...shownAtFirst(), span: Math.max(1, Math.ceil((weave.now - first) / 1e6)), direction: "sent" };

function draw(): void {
  const change = (what: Partial<Shown>): void => {
    Object.assign(shown, what);
    draw();
  };
  render(
    html`<header><h1>${data.title}</h1></header>
      <main><section aria-label="The weave">${view(weave, shown, change, true)}</section></main>`,
    root,
  );
  paint(weave, shown, palette((path) => path), true);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
window.addEventListener("resize", draw);
draw();
