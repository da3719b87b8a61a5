// The worker of the player's page: the connection to the program, decoders and the clock.

import { Clock, now } from "./clock.js";
import { Engine } from "./engine.js";
import type { Link, ToPage, ToWorker } from "./talk.js";
import { decode, ping, poses, type Shown, shown, steer } from "./wire.js";

/** How often poses go to the program, and how often pictures are looked after, ms. */
const POSES = 50;
const STEP = 8;
/** How often the time is asked for: at first, so many times, and then, ms. */
const ASKING = { first: 100, times: 10, later: 500 };
/** Without a word for so long the connection is taken for broken, ms. */
const SILENCE = 10_000;
/** The wait before it is tried again, ms, and how long the program may take to say why it has to be. */
const AGAIN = 1000;
const PATIENCE = 10_000;

/** A worker's own scope, as far as it is used here. */
interface Scope {
  postMessage(message: ToPage, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
}
const scope = globalThis as unknown as Scope;
const post = (message: ToPage, transfer: Transferable[] = []) => scope.postMessage(message, transfer);
const link = (to: Link) => post({ is: "link", link: to });

let socket: WebSocket | null = null;
const send = (bytes: ArrayBuffer) => {
  if (socket?.readyState === WebSocket.OPEN) socket.send(bytes);
};

const clock = new Clock();
const engine = new Engine(clock, post, (of: Shown) => send(shown(of)));
let head = { yaw: 0, pitch: 0, roll: 0 };
let heard = now();
let asked = 0;
let lastAsked = 0;
/** The stream is over, or will not come. */
let final = false;
/** Nobody sees the page, as far as it has said. */
let hidden = true;
/** What tries again. */
let waiting: ReturnType<typeof setTimeout> | undefined;

function take(bytes: Uint8Array): void {
  heard = now();
  const message = decode(bytes);
  // A later release may say more.
  if (!message) return;
  switch (message.is) {
    case "pong": {
      const { echo, position, moves, steers, viewers, dropped } = message.pong;
      if (position !== null && moves) clock.pong(echo / 1e3 + performance.timeOrigin, position);
      post({ is: "place", place: { steers, viewers, moves, dropped } });
      const begins = clock.time(0);
      if (begins !== null) post({ is: "clock", begins, delay: clock.delay });
      return;
    }
    case "sample":
    case "report":
      post({ is: message.is, text: message.text });
      return;
    case "refusal":
      final = true;
      link({ is: "refused", reason: message.reason });
      return;
    case "end":
      return;
    default:
      engine.take(message);
      if (message.is === "begin") {
        const begins = clock.time(0);
        if (begins !== null) post({ is: "clock", begins, delay: clock.delay });
      }
  }
}

function connect(): void {
  clearTimeout(waiting);
  if (socket) return;
  // What is under way is of the connection before: the program takes this page for a new one.
  engine.stop();
  link({ is: "connecting" });
  asked = 0;
  const opening = new WebSocket(`${location.origin.replace(/^http/, "ws")}/api/1/player`, "weftline-vr-1");
  opening.binaryType = "arraybuffer";
  socket = opening;
  let opened = false;
  opening.onopen = () => {
    if (socket !== opening) return;
    opened = true;
    heard = now();
    link({ is: "live" });
  };
  opening.onmessage = ({ data }) => {
    if (socket !== opening) return;
    try {
      take(new Uint8Array(data as ArrayBuffer));
    } catch (error) {
      post({ is: "trouble", text: String(error) });
    }
  };
  opening.onclose = ({ code, reason }) => {
    if (socket !== opening) return;
    socket = null;
    if (final) return;
    if (code === 1000 && opened) {
      final = true;
      link({ is: "over" });
      return;
    }
    void again(reason || (opened ? "the connection broke off" : ""));
  };
}

/** Lets go of the connection: what still comes of it is not heard. */
function leave(code: number, reason: string): void {
  const old = socket;
  socket = null;
  old?.close(code, reason);
}

/** A page that nobody sees lets go of the program, and comes back as a new one. */
function hide(is: boolean): void {
  if (is === hidden) return;
  hidden = is;
  if (final) return engine.stop();
  if (!is) return connect();
  clearTimeout(waiting);
  leave(1000, "hidden");
  engine.stop();
}

/** Finds out why there is no connection, and tries again where that may help. Until then what is known of
 * it is told: the picture stands still. */
async function again(known: string): Promise<void> {
  let reason = known;
  if (known) link({ is: "waiting", reason });
  try {
    const answer = await fetch("/api/1/room", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    if (answer.status === 401 || answer.status === 403) {
      link({ is: "refused", reason: ((await answer.json()) as { error: string }).error });
      return;
    }
    if (answer.status === 503) reason = ((await answer.json()) as { error: string }).error;
    reason ||= "the WebSocket cannot be opened; a proxy has to pass Upgrade and Connection on";
  } catch {
    reason ||= "the program does not answer; it may have ended";
  }
  if (hidden || socket) return;
  link({ is: "waiting", reason });
  clearTimeout(waiting);
  waiting = setTimeout(connect, AGAIN);
}

scope.onmessage = ({ data }) => {
  switch (data.is) {
    case "pose":
      head = { yaw: data.yaw, pitch: data.pitch, roll: data.roll };
      engine.turn(head);
      break;
    case "done":
      engine.done(data.number, data.shown, data.buffer);
      break;
    case "hidden":
      hide(data.hidden);
      break;
    case "late":
      engine.late();
      break;
    case "listen":
      engine.listen(data.on);
      break;
    case "steer":
      send(steer());
      break;
  }
};

setInterval(() => engine.step(), STEP);
setInterval(() => {
  const at = now();
  if (!socket || socket.readyState !== WebSocket.OPEN) return;
  if (at - heard > SILENCE) {
    // Its end may not come for as long again.
    leave(4000, "silence");
    void again(`nothing has come for ${SILENCE / 1000} s`);
    return;
  }
  const position = clock.position(at);
  // Another page may steer now, and this one at any time.
  if (position !== null) send(poses([{ at: position, ...head }]));
  if (at - lastAsked >= (asked < ASKING.times ? ASKING.first : ASKING.later)) {
    lastAsked = at;
    asked += 1;
    send(ping(Math.round(performance.now() * 1e3)));
  }
}, POSES);
