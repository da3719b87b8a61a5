// Builds the page into a directory: the same bytes from the same sources, wherever and whenever.
//
//   node build.mjs DIRECTORY

import { build } from "esbuild";
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

// What is built in, and who holds the rights to it.
const BUILT_IN = ["lit-html", "uplot"];

async function licenses() {
  const parts = [
    "The dashboard is a part of Weftline (MIT or Apache-2.0). It has these in it, under their own",
    "licences.",
  ];
  for (const name of BUILT_IN) {
    const read = (file) => readFile(join("node_modules", name, file), "utf8");
    const { version, license, homepage } = JSON.parse(await read("package.json"));
    const title = name === "uplot" ? "uPlot" : name;
    parts.push("", "=".repeat(78), "", `${title} ${version}, ${license}`, homepage, "");
    parts.push((await read("LICENSE")).trim());
  }
  return parts.join("\n") + "\n";
}

// Templates of HTML are indented as our sources are, and HTML makes one space of that in any case.
const outdent = {
  name: "outdent",
  setup: ({ onLoad }) =>
    onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path }) => ({
      contents: (await readFile(path, "utf8")).replace(/\n[ ]+/g, "\n"),
      loader: "ts",
    })),
};

const out = process.argv[2];
await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await build({
  entryPoints: {
    dashboard: "src/dashboard/main.ts",
    weave: "src/weave/page.ts",
    player: "src/player/main.ts",
    "player-worker": "src/player/worker.ts",
  },
  outdir: out,
  bundle: true,
  plugins: [outdent],
  format: "esm",
  target: "es2022",
  charset: "utf8",
  // What stands in the repository can be read: names stay as they are.
  minifyWhitespace: true,
  minifySyntax: true,
  lineLimit: 120,
  legalComments: "none",
  banner: { js: "// Built by scripts/web; licences of what is built in: /a/licenses.txt" },
  logLevel: "warning",
});
for (const file of ["index.html", "icon.svg"]) {
  await copyFile(join("src/dashboard", file), join(out, file));
}
await copyFile("src/player/index.html", join(out, "player.html"));
await writeFile(join(out, "licenses.txt"), await licenses());
