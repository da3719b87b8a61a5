// How the pointer turns the player's view, without a browser: node --test test/look-unit.mjs

import assert from "node:assert/strict";
import { test } from "node:test";

import { modules } from "./modules.mjs";

const { Look } = await modules("player/look");

test("the view is as wide as the program plans for, and no wider", () => {
  const listeners = {};
  const look = new Look({ addEventListener: (name, hear) => (listeners[name] = hear) }, () => undefined);
  const key = (key) => listeners.keydown({ key, preventDefault: () => undefined });
  assert.equal(look.view.fov, 100);
  look.span(120);
  assert.equal(look.view.fov, 120, "it was as wide as it may be");
  key("+");
  key("-");
  key("-");
  assert.equal(look.view.fov, 120);
  key("+");
  // One that was narrowed stays so, as far as it may.
  look.span(160);
  assert.equal(look.view.fov, 110);
  look.span(90);
  assert.equal(look.view.fov, 90);
  look.span(20);
  for (let n = 0; n < 3; n++) key("+");
  assert.equal(look.view.fov, 20);
  // A program of another release says nothing of it.
  look.span(undefined);
  key("Home");
  assert.equal(look.view.fov, 100);
});

test("the first button alone drags the picture, and no longer than it is held", () => {
  const listeners = {};
  const canvas = {
    clientWidth: 640, clientHeight: 360, setPointerCapture: () => undefined,
    addEventListener: (name, hear) => (listeners[name] = hear),
  };
  const look = new Look(canvas, () => undefined);
  const usual = { pointerId: 1, clientY: 0, button: -1, buttons: 1 };
  const pointer = (name, clientX, more) => listeners[name]?.({ ...usual, clientX, ...more });
  const turned = () => {
    const { yaw } = look.view;
    look.set({ ...look.view, yaw: 0 });
    return yaw !== 0;
  };
  pointer("pointerdown", 0, { button: 2, buttons: 2 });
  pointer("pointermove", 50, { buttons: 2 });
  assert.ok(!turned(), "the menu's button");
  pointer("pointerup", 50, { button: 2, buttons: 0 });
  pointer("pointerdown", 0, { button: 0 });
  pointer("pointermove", 50);
  assert.ok(turned());
  // Let go over another window.
  pointer("pointermove", 100, { buttons: 0 });
  pointer("pointermove", 150);
  assert.ok(!turned());
  pointer("pointerdown", 0, { button: 0 });
  pointer("lostpointercapture", 0, { buttons: 0 });
  pointer("pointermove", 50);
  assert.ok(!turned());
  pointer("pointerdown", 0, { button: 0, pointerId: 2 });
  pointer("pointermove", 50, { pointerId: 2 });
  assert.ok(turned(), "another one drags then");
});
