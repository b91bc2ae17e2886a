// Builds the page into static/: one script, one style sheet, both named by their content, and the index that names them.
//
//   node build.mjs          static/
//   node build.mjs --watch  static/, again on every change, with names that stay
//   node build.mjs --test   bundles every *.test.ts below page/ and runs them with node's own test runner
//
// The server's content security policy allows no inline script or style, so the index has none.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const page = join(here, "page");
const out = join(here, "static");

const common = { bundle: true, format: "esm", jsx: "automatic", jsxImportSource: "preact", logLevel: "warning" };

async function buildPage({ watch }) {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const options = {
    ...common,
    entryPoints: [join(page, "main.tsx")],
    outdir: join(out, "assets"),
    entryNames: watch ? "page" : "page-[hash]",
    target: ["es2022", "chrome111", "firefox115", "safari16.4"],
    minify: !watch,
    sourcemap: watch ? "linked" : false,
    legalComments: "none",
    metafile: true,
    define: { "process.env.NODE_ENV": '"production"' },
    plugins: [{ name: "index", setup: (build) => build.onEnd((result) => writeIndex(result)) }],
  };
  if (watch) {
    await (await esbuild.context(options)).watch();
    return;
  }
  await esbuild.build(options);
}

function writeIndex(result) {
  if (!result.metafile) return;
  const names = Object.keys(result.metafile.outputs).map((path) => basename(path));
  const script = names.find((name) => name.endsWith(".js"));
  const style = names.find((name) => name.endsWith(".css"));
  const index = readFileSync(join(page, "index.html"), "utf8");
  writeFileSync(join(out, "index.html"), index.replace("{script}", script).replace("{style}", style));
  writeFileSync(join(out, "icon.svg"), readFileSync(join(page, "icon.svg")));
}

const filesBelow = (folder, ending) =>
  readdirSync(folder, { recursive: true })
    .filter((path) => path.endsWith(ending))
    .map((path) => join(folder, path));

async function test() {
  const folder = mkdtempSync(join(tmpdir(), "clew-page-"));
  try {
    await esbuild.build({
      ...common,
      entryPoints: filesBelow(page, ".test.ts"),
      outbase: page,
      outdir: folder,
      outExtension: { ".js": ".mjs" },
      platform: "node",
      external: ["node:*"],
    });
    const bundled = filesBelow(folder, ".test.mjs");
    const ran = spawnSync(process.execPath, ["--test", "--test-reporter=dot", ...bundled], { stdio: "inherit" });
    process.exitCode = ran.status ?? 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv.includes("--test")) await test();
else await buildPage({ watch: process.argv.includes("--watch") });
