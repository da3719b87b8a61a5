// What the page makes of what comes, without a browser: node --test test/unit.mjs

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { modules as of } from "./modules.mjs";

/** The exports of modules of the dashboard. */
const modules = (...names) => of(...names.map((name) => `dashboard/${name}`));

const { messages, status, Stream, Asking, CONNECTION_CHARTS, Model, ROWS, EVENTS, sum, mean, runs, rates, number,
  percent, bytes, duration } = await modules("api", "asking", "charts", "model", "states", "tables", "format");
const { laneRates, hasLanes } = await modules("lanes");

const { ticks, unknownSlots } = await modules("../weave/draw");
const { Weave, choose, eachOnce, placesOf, shares, repeated, rowOf, telling, within, ROWS: WEAVE_ROWS } = await modules("../weave/model");

const sample = (t, paths) => ({ t, state: "running", open: 3, used: 1, paths, conns: [] });
const path = (name, send, state = "up") => [name, state, send, 0, 6.2, null, 0, 1000];

test("messages come in pieces and are taken when they are whole", () => {
  const text = 'id: a-1\nevent: hello\ndata: {"x":": "}\n\nid: a-2\nevent: sample\ndata: {}\n\nid: a';
  for (let cut = 0; cut <= text.length; cut++) {
    const [first, rest] = messages(text.slice(0, cut));
    const [second, left] = messages(rest + text.slice(cut));
    assert.deepEqual(
      [...first, ...second],
      [
        { id: "a-1", event: "hello", data: '{"x":": "}' },
        { id: "a-2", event: "sample", data: "{}" },
      ],
    );
    assert.equal(left, "id: a");
  }
});

test("ten minutes are kept, in columns of one length, and a path that comes late has a past of nothing", () => {
  const model = new Model();
  for (let row = 1; row <= ROWS + 50; row++) {
    const paths = row < 1000 ? [path("wifi", row)] : [path("wifi", row), path("lte", 5)];
    assert.ok(model.add(sample(row / 2, paths), `a-${row}`));
  }
  assert.equal(model.t.length, ROWS);
  assert.deepEqual([model.t[0], model.last], [25.5, `a-${ROWS + 50}`]);
  for (const one of model.paths) assert.deepEqual([one.send.length, one.state.length], [ROWS, ROWS]);
  const lte = model.paths[1];
  assert.deepEqual([lte.send[948], lte.state[948]], [null, "unused"]);
  assert.deepEqual([lte.send[949], lte.state[949]], [5, "up"]);
});

test("what was sent again is not taken twice", () => {
  const model = new Model();
  assert.ok(model.add(sample(1, [path("wifi", 1)]), "a-7"));
  assert.ok(!model.add(sample(1, [path("wifi", 1)]), "a-7"));
  model.addEvent({ t: 1, name: "path_up", level: "info", path: "wifi", text: "" }, "a-6");
  assert.deepEqual([model.t.length, model.events.length], [1, 0]);
  // A daemon that began anew counts anew.
  assert.ok(model.add(sample(2, [path("wifi", 1)]), "b-1"));
  for (let number = 0; number < EVENTS + 9; number++) {
    model.addEvent({ t: 1, name: "path_up", level: "info", path: "wifi", text: "" }, `b-${2 + number}`);
  }
  assert.equal(model.events.length, EVENTS);
});

test("a path that is not sent has nothing in its row, and the sum of others stays the last", () => {
  const model = new Model();
  model.add(sample(1, [path("wifi", 1), path(null, 9)]), "a-1");
  model.add(sample(2, [path("lte", 2), path(null, 9)]), "a-2");
  assert.deepEqual(model.paths.map((one) => one.name), ["wifi", "lte", null]);
  assert.deepEqual(model.paths.map((one) => one.send), [[1, null], [null, 2], [9, 9]]);
  assert.deepEqual(model.paths[0].state, ["up", "unused"]);
});

test("runs of states", () => {
  assert.deepEqual(runs(["up", "up", "down", "up"], 1), [
    { state: "up", from: 1, to: 2 },
    { state: "down", from: 2, to: 3 },
    { state: "up", from: 3, to: 4 },
  ]);
});

test("sums and means are of what is known", () => {
  assert.equal(sum([1, null, 2, undefined]), 3);
  assert.equal(sum([null]), null);
  assert.equal(mean([1, null, 3, 100], 0, 3), 2);
  assert.equal(mean([null, null], 0, 2), null);
});

/** An answer in pieces of which each takes so long, by the test's clock; without an end, if one never comes. */
const slowly = (pieces, each) => async (_, { signal }) => {
  const rest = [...pieces];
  const body = new ReadableStream({
    start: (controller) => signal.addEventListener("abort", () => controller.error(signal.reason)),
    pull: (controller) =>
      new Promise((taken) =>
        setTimeout(() => {
          if (signal.aborted) return;
          if (rest.length > 0) controller.enqueue(new TextEncoder().encode(rest.shift()));
          else controller.close();
          taken();
        }, each),
      ),
  });
  return new Response(body);
};

/** Lets so many seconds pass by the test's clock, and what comes of each. */
async function pass(seconds) {
  for (let second = 0; second < seconds; second++) {
    mock.timers.tick(1000);
    for (let turn = 0; turn < 5; turn++) await new Promise((done) => setImmediate(done));
  }
}

test("what comes slowly is waited for as long as something comes", async () => {
  const { fetch } = globalThis;
  mock.timers.enable({ apis: ["setTimeout"] });
  // By the same clock.
  const limit = mock.method(AbortSignal, "timeout", (ms) => {
    const ends = new AbortController();
    setTimeout(() => ends.abort(), ms);
    return ends.signal;
  });
  const seen = { addEventListener: () => {} };
  Object.assign(globalThis, { document: { ...seen, visibilityState: "visible" }, window: seen });
  try {
    globalThis.fetch = slowly(['{"connec', 'tions":', "[1]}"], 8000);
    const answer = status(5);
    await pass(40);
    assert.deepEqual(await answer, { connections: [1] });
    globalThis.fetch = slowly(["{}"], 11_000);
    const none = status(5).then(() => "an answer", () => "none");
    await pass(20);
    assert.equal(await none, "none");

    // All that is kept, and then the stream.
    const [loaded, links] = [[], []];
    const to = {
      last: () => (loaded.length > 0 ? "a-1" : ""),
      load: (history) => loaded.push(history),
      watched: () => null,
      instance: () => {},
      link: ({ is }) => links.push(is),
    };
    const [history, stream] = [slowly(['{"las', 't":"a', '-1"', "}"], 20_000), slowly(["x"], 1e9)];
    globalThis.fetch = (path, options) => (path.endsWith("/history") ? history : stream)(path, options);
    new Stream(to).now();
    await pass(110);
    assert.deepEqual([loaded, links], [[{ last: "a-1" }], ["connecting"]]);
    await pass(30);
    assert.deepEqual(links.slice(0, 2), ["connecting", "waiting"], "nothing comes of the stream");
  } finally {
    limit.mock.restore();
    mock.timers.reset();
    globalThis.fetch = fetch;
    delete globalThis.document;
    delete globalThis.window;
  }
});

test("a connection that is not listed has moved nothing where there was room for it", () => {
  const many = [11, 12, 13, 14].map((id) => [id, 1, 0]);
  const conns = [[], [], [[7, 3, 1]], [], many, [[11, 1, 0]], [[7, 2, 0]], [], []];
  const model = Object.assign(new Model(), { conns, t: conns.map((_, row) => row) });
  const lines = CONNECTION_CHARTS.find(({ id }) => id === "conns").lines(model);
  const seven = lines.find(({ label }) => label === "#7").values;
  assert.deepEqual(seven, [null, 0, 4, 0, null, 0, 2, 0, null]);
  // A burst is a line, not a point that none goes to; and an idle time counts for a mean.
  assert.deepEqual(lines.find(({ label }) => label === "#12").values.slice(3, 6), [0, 1, 0]);
  assert.equal(mean(seven, 1, 8), 1);
});

test("rates of connections are of the time between two statuses", () => {
  const at = (age_s, bytes) => ({
    connections: [{ number: 5, age_s, sent_bytes: bytes, received_bytes: 0 }],
  });
  assert.deepEqual(rates(at(10, 1e6), at(12, 2e6)).get(5), [4, 0]);
  assert.equal(rates(at(10, 1e6), at(10, 2e6)).size, 0);
});

test("rates of lanes tell what is urgent from the rest, and a lane that begins anew has none", () => {
  const at = (uptime_s, sent_bytes, urgent_bytes, client = null) => ({
    uptime_s,
    bonds: [{ client, lanes: [{ name: "wlan0", sent_bytes, urgent_bytes, received_bytes: 0 }] }],
  });
  const found = laneRates(at(10, 1e6, 1e5), at(12, 2e6, 3.5e5));
  assert.deepEqual([...found.values()], [{ urgent: 1, rest: 3, receive: 0 }]);
  assert.equal(laneRates(at(10, 1e6, 1e5), at(12, 1e5, 1e5)).size, 0);
  assert.equal(laneRates(at(10, 1e6, 1e5, "ann"), at(12, 2e6, 1e5, "bob")).size, 0);
  // A daemon without lanes says nothing of them.
  assert.equal(laneRates({ uptime_s: 1 }, { uptime_s: 2 }).size, 0);
  assert.deepEqual([hasLanes(undefined), hasLanes({ uptime_s: 1 }), hasLanes(at(1, 0, 0))], [false, false, true]);
});

test("an answer says how old it is when a later one fails or is late, and a refusal is one", async () => {
  const heard = [];
  const questions = [];
  const asking = new Asking({
    ask: () => new Promise((resolve, reject) => questions.push({ resolve, reject })),
    answered: (what) => heard.push(what),
    refused: (reason) => heard.push(`refused: ${reason}`),
  });
  const answer = async (how, what) => {
    questions.pop()[how](what);
    await new Promise((done) => setImmediate(done));
  };
  void asking.look(1000);
  assert.equal(asking.age(5000), null, "there is none yet");
  await answer("resolve", "a");
  // Nobody has asked meanwhile: the page was hidden.
  assert.equal(asking.age(60_000), null);
  void asking.look(60_000);
  void asking.look(62_000);
  assert.equal(questions.length, 1, "one at a time");
  assert.deepEqual([asking.age(62_500), asking.age(63_500)], [null, 62.5]);
  await answer("reject", new Error("timeout"));
  assert.equal(asking.age(64_000), 63);
  void asking.look(64_000);
  assert.equal(asking.age(64_500), 63.5);
  await answer("resolve", "b");
  assert.equal(asking.age(65_000), null);
  assert.deepEqual(heard, ["a", "b"]);
  globalThis.fetch = async () => new Response('{"error":"open the address"}', { status: 401 });
  await new Asking({ ask: () => status(5), answered: () => {}, refused: (reason) => heard.push(reason) }).look(0);
  assert.equal(heard.at(-1), "open the address");
});

test("figures", () => {
  assert.deepEqual([351.24, 41.04, 6.15, 0, null].map(number), ["351", "41.0", "6.15", "0", "–"]);
  assert.deepEqual([0, 0.0123, 0.5, null].map(percent), ["0", "1.23", "50.0", "–"]);
  assert.deepEqual([512, 371000, 12e6, 3e10].map(bytes), ["512 B", "371.0 kB", "12.0 MB", "30.0 GB"]);
  assert.deepEqual([0, 59, 3600, 90061].map(duration), ["0 s", "59 s", "1 h", "1 d 1 h"]);
});

const wire = (start, at, more = [], wait = null) => [
  start, 1000, at, [[0, 600, 0, 4000, 0, 0], [600, 400, 0, 4000, 1, 1], ...more], [], wait, 0,
];
const told = (rows, more = {}) => ({ cut: "windows", every: 1, left_out: 0, known_to: null, rows, ...more });

test("of a run the row is looked at of which most was sent again, else the one with the longest wait", () => {
  const part = (length, flags) => [0, length, 0, 10, 0, flags];
  const row = (start, parts, wait = null) => rowOf([start, 1000, start, parts, [], wait, 0]);
  const [new_, copied, copy, again] = [row(0, [part(9, 0)]), row(1, [part(2, 2)]), row(2, [part(900, 2)]), row(3, [part(50, 4)])];
  const [short, long] = [row(4, [part(9, 0)], [0, 900, 60]), row(5, [part(9, 0)], [0, 1, 120])];
  assert.equal(telling([new_, copy, short, again, long]), again);
  assert.equal(telling([new_, copy, short, long]), long);
  assert.equal(telling([new_, copied, copy]), copy);
  // Else the newest that is whole.
  assert.equal(telling([new_, row(9, [])]).start, 9);
});

test("times are told at round ones, of a run from its beginning", () => {
  const at = (seconds, slots = 70) => (seconds / 7) * slots;
  const near = (found, expected) => [found, expected].every(({ length }) => length === expected.length) ? found.forEach((slot, n) => assert.ok(Math.abs(slot - expected[n]) < 1e-9, `${found}`)) : assert.fail(`${found}`);
  // A run of 7.5 s of which the last seven are shown: 6, 4 and 2 s.
  near(ticks(70, { span: 7e6, until: 7.5e6, isRun: true }), [0, at(1.5), at(3.5), at(5.5), 70]);
  near(ticks(70, { span: 7e6, until: 7.5e6, isRun: false }), [0, at(2), at(4), at(6), 70]);
  // Before a run there is nothing: of 8 s, 7.5 and no more.
  near(ticks(80, { span: 8e6, until: 7.5e6, isRun: true }), [0, 15, 35, 55, 75]);
  // What would lie over the end is left out.
  assert.equal(ticks(64, { span: 2e6, until: 2e6, isRun: true }).length, 5);
});

test("rows of a weave are read, and one that comes again takes the place of the first", () => {
  const weave = new Weave(7);
  weave.take({ connection: 7, now: 9000, names: { 0: "wifi" }, sent: told([wire(0, 0), wire(1000, 5000)]) });
  assert.deepEqual([weave.name(0), weave.name(1), weave.busier(), weave.over], ["wifi", "path 1", "sent", false]);
  weave.take({ now: 300_000, sent: told([wire(0, 0, [[0, 600, 200_000, 210_000, 1, 5]], [0, 600, 180])]) });
  const [first, second, ...rest] = weave.sent.rows();
  assert.deepEqual([first.start, second.start, rest], [0, 1000, []]);
  assert.deepEqual(first.parts[2], { from: 0, to: 600, first: 200_000, last: 210_000, path: 1, backward: true, why: "again" });
  assert.deepEqual([first.wait, repeated(first), repeated(second)], [{ from: 0, to: 600, ms: 180 }, 600, 0]);
  assert.deepEqual([...shares([first, second])], [[0, 0.6], [1, 0.4]]);
  weave.take({ over: true });
  assert.ok(weave.over);
});

test("what was not recorded while nobody looked is not taken for nothing sent", () => {
  const weave = new Weave(7);
  const tell = (now, since, rows = []) => weave.take({ now, sent: told(rows, since === null ? {} : { since }) });
  tell(2_000_000, 1_000_000);
  tell(3_000_000, null);
  // The page was away: nobody had it recorded, and then somebody else had.
  tell(6_000_000, 5_000_000, [wire(0, 4_400_000)]);
  tell(8_000_000, 5_000_000);
  assert.deepEqual(weave.sent.gaps, [[-Infinity, 1_000_000], [3_000_000, 5_000_000]]);
  const slots = new Array(16).fill(undefined);
  const unknown = () => unknownSlots(slots, { span: 8e6, until: 8_000_000, gaps: weave.sent.gaps });
  assert.deepEqual(unknown(), [[6, 10], [14, 16]]);
  [slots[7]] = weave.sent.rows();
  assert.deepEqual(unknown(), [[6, 7], [8, 10], [14, 16]], "what is known is shown");
  for (let n = 0; n < 200; n++) tell(10_000_000 + n, 9_999_999.5 + n);
  assert.ok(weave.sent.gaps.length <= 64 && weave.sent.gaps[0][0] === -Infinity);
});

test("paths of a weave have the colours of their lines, and those without a line others", () => {
  const names = { 0: "wifi", 3: "old", 4: "lte", 10: "older" };
  const line = (name, color) => ({ name, color });
  const lines = [line("lte", 0), line("wifi", 1), line(null, 2)];
  const places = (...all) => Object.fromEntries(placesOf(names, ...all));
  assert.deepEqual(places(lines, 12), { 0: 1, 3: 3, 4: 0, 10: 4 });
  assert.deepEqual(places([], 12), { 0: 0, 3: 1, 4: 2, 10: 3 });
  // Two lines that differ by their dash only: a cloth has none.
  assert.deepEqual(places([line("lte", 1), line("wifi", 13)], 12), { 0: 1, 3: 0, 4: 2, 10: 3 });
  // More lines than colours: those of other connections' paths may be had.
  const many = Array.from({ length: 17 }, (_, n) => line(`p${n}`, n));
  assert.equal(new Set(Object.values(places([...many, line("wifi", 17)], 12))).size, 4);
});

test("a minute of a weave is kept, and rows that are cut in another way are others", () => {
  const weave = new Weave(7);
  for (let at = 0; at < WEAVE_ROWS + 500; at += 100) {
    const rows = Array.from({ length: 100 }, (_, n) => wire(1000 * (at + n), 5000 * (at + n)));
    weave.take({ sent: told(rows, { every: 3 }) });
  }
  assert.equal(weave.sent.rows().length, WEAVE_ROWS);
  assert.deepEqual([weave.sent.rows()[0].start, weave.sent.every], [500_000, 3]);
  weave.take({ sent: told([], { left_out: 4, known_to: 70 }) });
  assert.deepEqual([weave.sent.every, weave.sent.leftOut, weave.sent.knownTo], [3, 4, 70]);
  weave.take({ sent: told([wire(0, 0)], { cut: "fixed" }) });
  assert.equal(weave.sent.rows().length, 1);
});

test("of the rows of a time that one is drawn which shows something, the newest on top", () => {
  const rows = Array.from({ length: 100 }, (_, n) => rowOf(wire(1000 * n, 1000 * n, [], n === 37 ? [0, 600, 90] : null)));
  const chosen = choose(rows, 20_000, 100_000, 4).map((row) => row?.start);
  assert.deepEqual(chosen.map((start) => Math.floor(start / 20_000)), [4, 3, 2, 1]);
  assert.equal(chosen[3], 37_000);
  // A row that goes on is as high as that takes, and a time in which nothing was sent is empty.
  const starts = choose(rows.slice(0, 1), 0, 8000, 8).map((row) => row?.start);
  assert.deepEqual(starts, [undefined, undefined, undefined, undefined, 0, 0, 0, 0]);
  assert.deepEqual(choose(rows, 104_001, 200_000, 2), [undefined, undefined]);
  // Where nothing was filled there is none, also within a row that goes on after it.
  const halves = rowOf(wire(0, 0, [], null));
  halves.parts = [0, 7000].map((first) => ({ ...halves.parts[0], first, last: first + 999 }));
  assert.deepEqual(choose([halves], 0, 8000, 8).map((row) => row !== undefined), [true, true, false, false, false, false, false, true]);
  assert.deepEqual(within([halves, rows[50]], 7500, 9000), [halves]);
  // One that took long is seen around others, and comes after them: it began before.
  const [long, short] = rows;
  assert.deepEqual(eachOnce([long, undefined, short, long]), [short, long]);
});
