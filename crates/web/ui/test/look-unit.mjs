// How the pointer turns the player's view, without a browser: node --test test/look-unit.mjs

import assert from "node:assert/strict";
import { test } from "node:test";

import { modules } from "./modules.mjs";

const { Look } = await modules("player/look");

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
