// Modules of the pages for tests without a browser.

import { build } from "esbuild";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The exports of modules, named from src/. */
export async function modules(...names) {
  const contents = names.map((name) => `export * from "./src/${name}.ts";`).join("\n");
  const directory = await mkdtemp(join(tmpdir(), "weftline-web-"));
  const outfile = join(directory, "modules.mjs");
  try {
    await build({
      stdin: { contents, resolveDir: ".", loader: "ts" },
      bundle: true,
      format: "esm",
      platform: "node",
      outfile,
    });
    return await import(outfile);
  } finally {
    await rm(directory, { recursive: true });
  }
}
