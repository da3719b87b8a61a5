// Talks to the daemon: a session for the token, and a stream that comes back by itself.

import type { WeaveMessage } from "../weave/model.js";
import type { Happening, History, Sample } from "./model.js";

/** How the stream is. */
export type Link =
  | { is: "connecting" }
  | { is: "live" }
  | { is: "hidden" }
  | { is: "waiting"; reason: string; until: number }
  /** Nothing can be done but by the user. */
  | { is: "refused"; reason: string };

/** An answer that is not the one that was asked for. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    reason: string,
  ) {
    super(reason);
  }
}

/** Waits between attempts, ms: the last holds on. */
const WAITS = [500, 1000, 2000, 5000];
/** Without a word for so long the stream is taken for broken, ms; the daemon says something every
 * half second, and at least every ten. */
const SILENCE = 30_000;
/** How long a short answer may take, and the next piece of a long one, ms. */
const PATIENCE = 10_000;

async function ask(path: string, options: RequestInit = {}): Promise<Response> {
  const answer = await fetch(path, { cache: "no-store", credentials: "same-origin", ...options });
  if (answer.ok) return answer;
  const said = await answer.text();
  let reason = said.trim();
  try {
    reason = JSON.parse(said).error;
  } catch {
    // It is no answer of ours, as from a proxy; its text has to do.
  }
  throw new Refused(answer.status, reason || `HTTP ${answer.status}`);
}

/** Ends what nothing is heard of for so long. What goes on, however slowly, is waited for. */
class Silence {
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly open: AbortController,
    private readonly patience: number,
  ) {
    this.heard();
  }

  get signal(): AbortSignal {
    return this.open.signal;
  }

  heard(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open.abort(), this.patience);
  }

  end(): void {
    clearTimeout(this.timer);
  }
}

/** An answer piece by piece, as it comes. */
async function* pieces(path: string, silence: Silence, headers: HeadersInit = {}): AsyncGenerator<string> {
  const answer = await ask(path, { headers, signal: silence.signal });
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    silence.heard();
    yield value;
  }
}

async function json<T>(path: string, silence: Silence): Promise<T> {
  let text = "";
  for await (const piece of pieces(path, silence)) text += piece;
  return JSON.parse(text) as T;
}

/** The status of the daemon with at most so many connections, as the control socket has it. */
export async function status<T>(connections: number): Promise<T> {
  const silence = new Silence(new AbortController(), PATIENCE);
  try {
    return await json<T>(`/api/1/status?connections=${connections}`, silence);
  } finally {
    silence.end();
  }
}

/** What comes of `attempt`, which is made again where it was not refused: the address has its token no more. */
async function tried<T>(attempt: () => Promise<T>): Promise<T> {
  for (const wait of WAITS) {
    try {
      return await attempt();
    } catch (error) {
      if (error instanceof Refused) throw error;
      await new Promise((done) => setTimeout(done, wait));
    }
  }
  return attempt();
}

/** Gets a session for the token in the address, and takes it out of there. What is to be said comes back: a
 * token that is refused ends no session that there is. */
export async function begin(): Promise<string> {
  const token = new URLSearchParams(location.hash.slice(1)).get("k");
  if (!token) return "";
  // Whoever looks over a shoulder, or at the list of pages, does not see it.
  history.replaceState(null, "", location.pathname);
  const body = JSON.stringify({ token });
  const session = (options: RequestInit) =>
    tried(() => ask("/api/1/session", { ...options, signal: AbortSignal.timeout(PATIENCE) }));
  try {
    const answer = await session({ method: "POST", body });
    // Browsers keep a connection until all of its answer is read, and have six.
    await answer.text();
    return "";
  } catch (error) {
    // Another refusal, as a proxy's, says nothing of the token.
    if (!(error instanceof Refused && error.status === 403 && error.message.includes("token"))) throw error;
    const refused = await session({}).then(() => false, (why) => why instanceof Refused);
    if (refused) throw error;
    return `The address that was opened last is of another start: ${error.message}. This page goes on.`;
  }
}

/** What is done with what comes. */
export interface Listener {
  /** The number of the last message that came. */
  last(): string;
  /** Which daemon it is: another one after a restart. */
  instance(name: string): void;
  load(history: History): void;
  sample(sample: Sample, id: string): void;
  event(event: Happening, id: string): void;
  /** The connection whose weave is watched; `null`: none. */
  watched(): number | null;
  weave(message: WeaveMessage): void;
  link(link: Link): void;
}

/** One message of a stream of server-sent events. */
export interface Message {
  id: string;
  event: string;
  data: string;
}

/** Takes the whole messages out of `text`; what is left of it comes back, too. */
export function messages(text: string): [messages: Message[], rest: string] {
  const parts = text.split("\n\n");
  const rest = parts.pop() ?? "";
  const read = parts.map((part) => {
    const message: Message = { id: "", event: "", data: "" };
    for (const line of part.split("\n")) {
      const colon = line.indexOf(": ");
      const name = line.slice(0, colon);
      if (name === "id" || name === "event" || name === "data") message[name] = line.slice(colon + 2);
    }
    return message;
  });
  return [read, rest];
}

/** The stream: closed while the page is hidden, and opened again whenever it breaks. */
export class Stream {
  private attempts = 0;
  private open: AbortController | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly to: Listener) {
    document.addEventListener("visibilitychange", () => this.follow());
    window.addEventListener("online", () => this.now());
    window.addEventListener("pagehide", () => this.stop());
    window.addEventListener("pageshow", (event) => event.persisted && this.follow());
  }

  /** Begins or stops, as the page is to be seen or not. */
  follow(): void {
    if (document.visibilityState === "hidden") {
      this.stop();
      this.to.link({ is: "hidden" });
    } else {
      this.now();
    }
  }

  /** Connects at once, if it does not already. */
  now(): void {
    if (this.open || document.visibilityState === "hidden") return;
    clearTimeout(this.timer);
    this.to.link({ is: "connecting" });
    void this.run();
  }

  /** Connects anew, also if it is connected. */
  again(): void {
    this.stop();
    this.now();
  }

  /** Ends it, as there is nothing to be had but by the user. */
  refuse(reason: string): void {
    this.stop();
    this.to.link({ is: "refused", reason });
  }

  private stop(): void {
    clearTimeout(this.timer);
    this.open?.abort();
    this.open = undefined;
  }

  private async run(): Promise<void> {
    const open = new AbortController();
    this.open = open;
    let reason = "the daemon has ended the stream";
    try {
      await this.read(open);
    } catch (error) {
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
        return this.refuse(error.message);
      }
      reason = error instanceof Refused ? error.message : "the daemon does not answer";
    }
    // Whoever stopped it knows what comes next.
    if (this.open !== open) return;
    open.abort();
    this.open = undefined;
    const wait = WAITS[Math.min(this.attempts++, WAITS.length - 1)];
    this.to.link({ is: "waiting", reason, until: Date.now() + wait });
    this.timer = setTimeout(() => this.now(), wait);
  }

  /** Reads the stream to its end. */
  private async read(open: AbortController): Promise<void> {
    const silence = new Silence(open, SILENCE);
    try {
      // All that is kept comes first; the stream goes on from there.
      if (!this.to.last()) this.to.load(await json<History>("/api/1/history", silence));
      const headers = { "Last-Event-ID": this.to.last() };
      const watched = this.to.watched();
      const query = watched === null ? "" : `?weave=${watched}`;
      let text = "";
      for await (const piece of pieces(`/api/1/stream${query}`, silence, headers)) {
        const [read, rest] = messages(text + piece);
        text = rest;
        for (const message of read) await this.take(message, silence);
      }
    } finally {
      silence.end();
    }
  }

  private async take({ id, event, data }: Message, silence: Silence): Promise<void> {
    const said = JSON.parse(data);
    switch (event) {
      case "hello":
        this.to.instance(String(said.instance));
        // Too much was missed, or the daemon is another one: all of it anew.
        if (!said.resumed) this.to.load(await json<History>("/api/1/history", silence));
        this.attempts = 0;
        this.to.link({ is: "live" });
        break;
      case "sample":
        this.to.sample(said as Sample, id);
        break;
      case "event":
        this.to.event(said as Happening, id);
        break;
      case "weave":
        this.to.weave(said as WeaveMessage);
        break;
      default:
        // A later daemon may say more.
        break;
    }
  }
}
