// The player's page: joins the worker, the picture, where the viewer looks, and figures.

import "./player.css";

import { render } from "lit-html";

import { begin } from "../dashboard/api.js";
import { now } from "./clock.js";
import { Screen } from "./draw.js";
import { flat, type Head } from "./geometry.js";
import { Headset, isThere, type Worn } from "./headset.js";
import { Look, type View } from "./look.js";
import { type Heard, type Picture, THERE, type TileState, type ToPage, type ToWorker } from "./talk.js";
import { plays, Speaker } from "./speaker.js";
import { isHeld, Tilt } from "./tilt.js";
import { type Actions, mean, type Page, refused, type Report, type Sample, view } from "./view.js";
import { Waiting } from "./waiting.js";

/** So many samples make what is shown of the paths, two seconds: GoPs come in bursts. */
const MEAN_OF = 4;
/** Between two drawings of the figures, ms. */
const FIGURES = 500;
/** Between two heads of a headset that the worker hears of, ms. */
const HEADS = 50;

/** Whether what is drawn is to be measured: `?measure`, before the `#` of the address. */
const measures = new URLSearchParams(location.search).has("measure");
/** GoPs whose tiles are known to a page that measures. */
const KNOWN = 64;

const canvas = document.getElementById("picture") as HTMLCanvasElement;
const panel = document.getElementById("app") as HTMLElement;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const page: Page = {
  link: { is: "connecting" },
  manifest: null,
  gop: -1,
  tiles: [],
  nothing: false,
  figures: null,
  place: null,
  sample: null,
  report: null,
  stood: 0,
  leftOut: 0,
  trouble: "",
  delay: 0,
  marks: false,
  direction: "",
  notice: "",
  tilt: null,
  headset: null,
  sound: null,
  heard: { off: null, late: 0 },
};

/** What this browser lacks, and what to do; `null` if nothing. */
function lacks(): [reason: string, remedy: string] | null {
  if (!isSecureContext) {
    return [
      `${location.origin} is no secure context, and browsers decode video only in one`,
      "Start it with weftline vr play --web-tls; open it on the machine on which it runs, at 127.0.0.1; reach it by ssh -L; or put a proxy with TLS in front of it, --behind-proxy NAME.",
    ];
  }
  if (typeof VideoDecoder === "undefined" || typeof EncodedVideoChunk === "undefined") {
    return [
      "This browser has no WebCodecs (VideoDecoder), by which the tiles are decoded",
      "Use a current Chromium, Chrome or Edge: the player was tried in Chromium only.",
    ];
  }
  return null;
}

/** The same of what tiles are encoded with: some browsers are built without H.264. */
async function lacksCodec(): Promise<[reason: string, remedy: string] | null> {
  const tile = { codec: "avc1.640028", codedWidth: 320, codedHeight: 320 };
  const { supported } = await VideoDecoder.isConfigSupported(tile).catch(() => ({ supported: false }));
  if (supported) return null;
  return [
    "This browser cannot decode H.264, which the tiles are encoded with",
    "Use one that can, such as Chrome or Edge; on Linux a Chromium that is built with proprietary codecs.",
  ];
}

class Player {
  private readonly worker: Worker;
  private readonly screen: Screen;
  readonly look: Look;
  private readonly tilt: Tilt;
  private readonly headset: Headset;
  /** Where the device looked last. */
  private held: Head | null = null;
  private headAt = 0;
  private awake: WakeLockSentinel | null = null;
  private awakeTurn = 0;
  private readonly waiting = new Waiting();
  private readonly speaker = new Speaker();
  private soundTurn = 0;
  private isHidden = true;
  private begins: number | null = null;
  /** Something else is to be seen than was drawn. */
  private stale = true;
  private figuresAt = 0;
  private samples: Sample[] = [];
  /** In a page that measures: the tiles of GoPs, and the picture that is shown. */
  private readonly known = new Map<number, TileState[]>();
  private shown: { number: number; whole: boolean } | null = null;
  /** Drawings so far; like the other data of the canvas for who looks at the page from outside. */
  private drawn = 0;

  constructor() {
    this.screen = new Screen(canvas);
    this.worker = new Worker(script("/a/player-worker.js") as unknown as string, { type: "module" });
    this.worker.onmessage = ({ data }: MessageEvent<ToPage>) => this.take(data);
    this.worker.onerror = (event) => this.say(event.message);
    this.look = new Look(canvas, ({ yaw, pitch, roll }) => {
      this.tell({ is: "pose", yaw, pitch, roll });
      this.stale = true;
    });
    this.tilt = new Tilt((head) => {
      if (!this.held) page.notice = "";
      this.look.follow(head, this.held);
      this.held = head;
    });
    this.headset = new Headset(this.screen.gl, {
      draw: (worn) => this.wear(worn),
      hidden: (is) => this.hide(is),
      over: () => this.takeOff(),
    });
    // What it draws into is gone as well.
    canvas.addEventListener("webglcontextlost", () => this.headset.stop());
    page.tilt = isHeld() ? { on: false } : null;
    void isThere().then((is) => {
      page.headset = is ? { on: false } : null;
      this.paint();
    });
    this.turned();
    new ResizeObserver(() => this.resize()).observe(canvas);
    document.addEventListener("visibilitychange", () => {
      // In a headset the page itself may count as hidden.
      if (!this.headset.isWorn) this.hide(document.hidden);
      void this.stayAwake();
    });
    // A page may be opened in the background. The worker waits until it hears that somebody sees it.
    this.hide(document.hidden);
    canvas.addEventListener("webglcontextrestored", () => {
      this.stale = true;
      // All is grey.
      this.shown = null;
    });
    this.paint();
    requestAnimationFrame(() => this.frame());
  }

  private tell(message: ToWorker, transfer: Transferable[] = []): void {
    this.worker.postMessage(message, transfer);
  }

  private say(trouble: string): void {
    page.trouble = trouble;
    this.paint();
  }

  private turned(): void {
    const { fov } = this.look.view;
    const [yaw, pitch] = [this.look.view.yaw, this.look.view.pitch].map(Math.round);
    const side = yaw === 0 ? "ahead" : `${Math.abs(yaw)}° ${yaw > 0 ? "right" : "left"}`;
    const height = pitch === 0 ? "" : `, ${Math.abs(pitch)}° ${pitch > 0 ? "up" : "down"}`;
    const direction = `${side}${height}${fov < this.look.widest ? `, ${fov.toFixed(0)}° wide` : ""}`;
    if (direction === page.direction) return;
    page.direction = direction;
    this.paint();
  }

  private resize(): void {
    const scale = Math.min(devicePixelRatio, 2);
    const [width, height] = [canvas.clientWidth * scale, canvas.clientHeight * scale].map(Math.round);
    if (width > 0 && height > 0 && (canvas.width !== width || canvas.height !== height)) {
      [canvas.width, canvas.height] = [width, height];
      this.stale = true;
    }
  }

  private take(message: ToPage): void {
    switch (message.is) {
      case "picture":
        for (const over of this.waiting.push(message.picture)) this.done(over, false);
        return;
      case "sound":
        this.hear(message.sound);
        return;
      case "clock":
        this.begins = message.begins;
        page.delay = message.delay;
        return;
      case "link":
        page.link = message.link;
        void this.stayAwake();
        // Who wears one cannot read why nothing moves.
        if (message.link.is === "over" || message.link.is === "refused") this.headset.stop();
        break;
      case "manifest":
        [page.manifest, page.gop, page.figures] = [message.manifest, -1, null];
        [page.tiles, page.nothing] = [[], false];
        page.trouble = "";
        page.sound = message.manifest.sound && { on: page.sound?.on ?? false };
        if (!page.sound) this.speaker.stop();
        this.shown = null;
        this.known.clear();
        try {
          this.screen.start(message.manifest);
        } catch (error) {
          page.trouble = String(error);
        }
        break;
      case "colour":
        this.screen.code(message.colour);
        break;
      case "gop":
        [page.gop, page.tiles, page.nothing] = [message.gop, message.tiles, message.nothing];
        if (measures) this.know(message.gop, message.tiles);
        this.screen.mark(message.tiles);
        canvas.dataset.qps = message.tiles.map(({ qp, late }) => (late ? "late" : (qp ?? ""))).join(",");
        break;
      case "figures":
        page.figures = message.figures;
        break;
      case "place":
        page.place = message.place;
        break;
      case "sample":
        this.samples = [...this.samples.slice(1 - MEAN_OF), JSON.parse(message.text) as Sample];
        page.sample = mean(this.samples);
        this.look.span(this.samples.at(-1)?.fov);
        break;
      case "report":
        page.report = JSON.parse(message.text) as Report;
        page.stood += page.report.stalled_s;
        page.leftOut += page.report.dropped;
        break;
      case "trouble":
        page.trouble = message.text;
        break;
    }
    // Words are drawn at once, figures now and then.
    if (message.is === "link" || now() - this.figuresAt > (calm.matches ? 10 : 1) * FIGURES) this.paint();
  }

  private paint(): void {
    this.figuresAt = now();
    render(view(page, actions), panel);
    document.title = page.link.is === "live" ? "Weftline player" : `Weftline player: ${page.link.is}`;
  }

  private done({ number, buffer }: Picture, shown: boolean): void {
    this.tell({ is: "done", number, shown, buffer }, [buffer]);
  }

  /** Puts the newest picture in place whose time has come, and gives it. */
  private advance(): Picture | undefined {
    const at = this.begins === null ? -Infinity : now() - this.begins;
    const { newest, missed } = this.waiting.due(at);
    for (const picture of missed) this.done(picture, false);
    if (newest) {
      this.screen.upload(newest);
      this.shown = { number: newest.number, whole: newest.tiles.every((state) => state === THERE) };
      this.stale = true;
    }
    return newest;
  }

  /** Says what has been drawn, and of which picture, if it is a new one. */
  private drew(newest: Picture | undefined): void {
    canvas.dataset.drawn = String((this.drawn += 1));
    if (!newest) return;
    canvas.dataset.number = String(newest.number);
    this.done(newest, !this.screen.lost);
  }

  /** Shows the newest picture whose time has come. */
  private frame(): void {
    requestAnimationFrame(() => this.frame());
    // The headset draws by its own clock.
    if (this.headset.isWorn) return;
    const newest = this.advance();
    if (!this.stale) return;
    const { view } = this.look;
    this.screen.draw([flat(view, view.fov, canvas.width, canvas.height)], page.marks);
    this.turned();
    this.stale = false;
    this.drew(newest);
  }

  /** The same for a headset, which wants a picture at each of its steps. */
  private wear(worn: Worn | null): void {
    const newest = this.advance();
    if (!worn) {
      if (newest) this.done(newest, false);
      return;
    }
    const { eyes, head, into } = worn;
    if (now() - this.headAt >= HEADS) {
      this.headAt = now();
      this.look.set({ ...this.look.view, ...head });
    }
    this.screen.draw(eyes, page.marks, into);
    if (now() - this.figuresAt > FIGURES) this.turned();
    canvas.dataset.eyes = String(eyes.length);
    this.drew(newest);
  }

  private know(gop: number, tiles: TileState[]): void {
    this.known.set(gop, tiles);
    const [oldest] = this.known.keys();
    if (this.known.size > KNOWN) this.known.delete(oldest);
  }

  /** The luma of the picture that is shown, as somebody sees it who looks so, and of what it consists: for
   * `weftline vr check --screens`. `null` where tiles of it are concealed. */
  measure(view: View): object | null {
    const { pictures } = page.manifest ?? { pictures: 1 };
    const gop = Math.floor((this.shown?.number ?? 0) / pictures);
    const qps = this.known.get(gop)?.map(({ qp }) => qp);
    if (!this.shown?.whole || !qps || qps.includes(null) || this.screen.lost) return null;
    const { width, height } = canvas;
    this.screen.draw([flat(view, view.fov, width, height)], false, null, true);
    // In the same task: later nothing is left of it.
    const png = canvas.toDataURL("image/png");
    this.stale = true;
    return { gop, picture: this.shown.number % pictures, qps, ...view, width, height, png };
  }

  private hear(sound: Heard): void {
    // What was under way when the page was hidden.
    if (this.isHidden || this.begins === null) return;
    const { late } = this.speaker;
    this.speaker.play(sound, this.begins);
    page.heard = { off: this.speaker.off, late: this.speaker.late };
    // A loudspeaker may be slow, as those by radio are.
    if (this.speaker.late > late) this.tell({ is: "late" });
  }

  /** Begins to play the sound, or ends it. */
  async switchSound(): Promise<void> {
    page.notice = "";
    const turn = (this.soundTurn += 1);
    const { sound } = page.manifest ?? { sound: null };
    if (page.sound?.on) {
      this.speaker.stop();
    } else if (sound) {
      // It takes a while, and another click ends it.
      page.sound = { on: true };
      this.paint();
      const notice = await this.listen(sound.rate, sound.channels, turn);
      if (turn !== this.soundTurn) return;
      page.notice = notice;
    }
    this.tell({ is: "listen", on: this.speaker.isOn });
    page.sound = sound && { on: this.speaker.isOn };
    page.heard = { off: null, late: 0 };
    this.paint();
  }

  /** Begins to play; why not, if it cannot. */
  private async listen(rate: number, channels: number, turn: number): Promise<string> {
    const does = await plays(rate, channels);
    if (turn !== this.soundTurn) return "";
    if (!does) {
      return "This browser does not decode the sound, which is AAC. Use one that does, such as Chrome or Edge.";
    }
    try {
      await this.speaker.start(rate);
      return "";
    } catch (error) {
      return `The sound: ${(error as Error).message}`;
    }
  }

  private takeOff(): void {
    page.headset = { on: false };
    delete canvas.dataset.eyes;
    this.look.upright();
    this.hide(document.hidden);
    this.paint();
  }

  /** Puts the headset on or takes it off. */
  async switchHeadset(): Promise<void> {
    page.notice = "";
    if (this.headset.isWorn) return this.headset.stop();
    try {
      await this.headset.start();
    } catch (error) {
      page.notice = `The headset: ${(error as Error).message}`;
    }
    if (this.headset.isWorn) {
      if (this.tilt.isOn) this.switchTilt();
      this.look.by = "headset";
      // The page itself may have been hidden for it.
      if (document.hidden) this.hide(false);
    }
    page.headset = { on: this.headset.isWorn };
    this.paint();
  }

  /** The view follows the device, or does no longer. */
  switchTilt(): void {
    page.notice = "";
    this.held = null;
    if (this.tilt.isOn) {
      this.tilt.stop();
      this.look.upright();
    } else {
      this.look.by = "device";
      void this.tilt.start((reason) => {
        page.notice = reason;
        page.tilt = { on: this.tilt.isOn };
        if (!this.tilt.isOn) this.look.upright();
        this.paint();
      });
    }
    page.tilt = { on: this.tilt.isOn };
    this.paint();
  }

  /** Nobody touches a device on which something is watched, and its screen is to stay on. */
  private async stayAwake(): Promise<void> {
    const turn = (this.awakeTurn += 1);
    const before = this.awake;
    this.awake = null;
    await before?.release().catch(() => undefined);
    if (page.link.is !== "live" || document.hidden) return;
    // Without it the screen goes dark as always.
    const lock = (await navigator.wakeLock?.request("screen").catch(() => null)) ?? null;
    // Meanwhile it may have been wanted no more, or again.
    if (turn === this.awakeTurn) this.awake = lock;
    else await lock?.release().catch(() => undefined);
  }

  private hide(hidden: boolean): void {
    for (const picture of this.waiting.clear()) this.done(picture, false);
    this.isHidden = hidden;
    this.speaker.pause(hidden);
    this.tell({ is: "hidden", hidden });
    this.stale = true;
  }

  /** Draws anew, as the tiles are marked or not. */
  again(): void {
    this.stale = true;
    this.paint();
  }

  steer(): void {
    this.tell({ is: "steer" });
  }
}

/** The address of a script of ours, as the policy of content wants it. */
function script(path: string): unknown {
  const types = (globalThis as { trustedTypes?: { createPolicy(name: string, rules: object): Policy } }).trustedTypes;
  const createScriptURL = (url: string) => {
    if (url !== path) throw new TypeError(`${url} is no script of ours`);
    return url;
  };
  return types ? types.createPolicy("weftline", { createScriptURL }).createScriptURL(path) : path;
}
interface Policy {
  createScriptURL(url: string): unknown;
}

let player: Player | null = null;
const actions: Actions = {
  marks() {
    page.marks = !page.marks;
    player?.again();
  },
  steer: () => player?.steer(),
  tilt: () => player?.switchTilt(),
  headset: () => void player?.switchHeadset(),
  sound: () => void player?.switchSound(),
  dismiss() {
    page.notice = "";
    player?.again();
  },
  key: (name) => void player?.look.key(name),
  whole() {
    void (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen());
  },
};

function refuse(reason: string, remedy: string): void {
  canvas.hidden = true;
  document.title = "Weftline player: not here";
  render(refused(reason, remedy), panel);
}

async function start(): Promise<void> {
  const missing = lacks() ?? (await lacksCodec());
  if (missing) return refuse(...missing);
  try {
    page.notice = await begin();
  } catch (error) {
    return refuse((error as Error).message, "Open the address that weftline vr play printed.");
  }
  try {
    player = new Player();
    const own = player;
    if (measures) Object.assign(globalThis, { weftlineMeasure: (view: View) => own.measure(view) });
  } catch (error) {
    const remedy = "The picture is drawn by WebGL 2: turn on hardware acceleration in the browser, or use another one.";
    refuse((error as Error).message, remedy);
  }
}

void start();
// An address with a token that is pasted while the page is open, as a restarted player prints one.
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#k=")) void another();
});

/** Begins anew with that address, if its token is good; else what goes on goes on. */
async function another(): Promise<void> {
  try {
    page.notice = await begin();
    if (!page.notice) return location.reload();
  } catch (error) {
    page.notice = (error as Error).message;
  }
  player?.again();
}
