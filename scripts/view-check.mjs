// Looks at voxsaw view in headless Chromium: a click moves the crosshair, an overlay is toggled, the
// curve of a running training grows, a page from another origin gets nothing, a screenshot is saved, a
// scan is dropped, a puzzle is shown, the reference is an outline, the paths are copied, labels
// without names have their colours, and a key tells which are whose.
//
//	npm install playwright-core && node scripts/view-check.mjs VOXSAW DEMO
//
// VOXSAW is the program, DEMO a folder of voxsaw demo --quick, $CHROMIUM a browser (/usr/bin/chromium).
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createRequire } from "node:module";
import { gunzipSync, gzipSync } from "node:zlib";

const { chromium } = createRequire(join(process.cwd(), "x.js"))("playwright-core");
const [voxsaw, given] = process.argv.slice(2);
const demo = resolve(given); // Chromium drops files by their whole paths alone
const work = mkdtempSync(join(tmpdir(), "view-"));
const children = [];
const start = (...args) => { const c = spawn(voxsaw, args); children.push(c); return c; };
const view = (...args) => new Promise((done, fail) => {
  const c = start("view", ...args);
  c.stdout.once("data", (line) => done(String(line).trim()));
  c.once("exit", () => fail(new Error("voxsaw view has ended")));
});

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"] });
try {
  const page = await browser.newPage({ viewport: { width: 1200, height: 800 } });
  page.setDefaultTimeout(300_000); // software draws it, perhaps beside other work
  const asked = [];
  page.on("request", (r) => asked.push(r.url()));
  page.on("pageerror", (err) => { throw err; });
  const address = await view(join(demo, "scans"), "--predictions", join(demo, "scans/labelsTr"));
  await page.goto(address.replace(/\/$/, "")); // as somebody may copy it
  await page.waitForSelector("body[data-shown]");
  assert.equal(page.url(), address, "an address without its last slash leads elsewhere");
  const parts = await page.evaluate(() => {
    const [name, why] = document.querySelector("#cases").rows[0].cells, text = document.createRange();
    why.textContent = "left kidney: 9 components, where others have 4";
    text.selectNodeContents(name);
    return text.getClientRects().length;
  });
  assert.equal(parts, 1, "what is doubtful about a case breaks its name into pieces");
  const greys = () => page.evaluate(() => [nv.volumes[0].cal_min, nv.volumes[0].cal_max]);
  assert.deepEqual(await greys(), [-160, 240], "CT is not in the window of abdominal CT");
  const where = () => page.evaluate(() => [...window.nv.scene.crosshairPos]);
  const before = await where();
  await page.mouse.click(520, 620);
  const after = await where();
  assert.notDeepEqual(after, before, "a click does not move the crosshair");
  const key = await page.evaluate(() => [...document.querySelectorAll("#key button")].map((b) => b.textContent));
  assert.ok(key.includes("liver"), "no key says which colours the structures have: " + key);
  await page.click("#key button:has-text('liver')");
  const under = await page.evaluate(() => { // the voxel of the prediction under the crosshair
    const v = nv.volumes.find((one) => one.name === "prediction"), [x, y, z] = v.mm2vox(nv.frac2mm(nv.scene.crosshairPos));
    return [v.img[(Math.round(z) * v.hdr.dims[2] + Math.round(y)) * v.hdr.dims[1] + Math.round(x)], v.drawn.get(2)];
  });
  assert.deepEqual(under, [2, "liver"], "a click on a structure's name does not lead to it");
  const opacity = () => page.evaluate(() => window.nv.volumes.find((v) => v.name === "prediction").opacity);
  const shown = await opacity();
  await page.keyboard.press("p");
  assert.ok(shown > 0 && (await opacity()) === 0, "P does not hide the prediction");
  // how many pixels of the canvas have a colour
  const coloured = () => page.evaluate(() => {
    const { width, height } = nv.canvas;
    const ctx = new OffscreenCanvas(width, height).getContext("2d");
    nv.drawScene();
    ctx.drawImage(nv.canvas, 0, 0);
    const { data } = ctx.getImageData(0, 0, width, height);
    let n = 0;
    for (let at = 0; at < data.length; at += 4) {
      if (Math.max(...data.slice(at, at + 3)) - Math.min(...data.slice(at, at + 3)) > 12) n++;
    }
    return n;
  });
  // In each plane, through the middle of the reference: an outline is thin, and has no holes or caps, so that it goes
  // around what is filled.
  await page.evaluate(() => {
    const v = nv.volumes.find((v) => v.name === "reference"), [, i, j] = v.hdr.dims, sum = [0, 0, 0];
    let n = 0;
    v.img.forEach((label, at) => {
      if (!label) return;
      n++;
      [at % i, Math.floor(at / i) % j, Math.floor(at / i / j)].forEach((place, axis) => { sum[axis] += place; });
    });
    const middle = [...sum.map((s) => Math.round(s / n)), 1];
    const mm = v.hdr.affine.slice(0, 3).map((row) => row.reduce((s, x, axis) => s + x * middle[axis], 0));
    nv.opts.crosshairWidth = 0;
    nv.scene.crosshairPos = nv.mm2frac(mm);
  });
  for (const plane of ["Axial", "Coronal", "Sagittal"]) {
    await page.evaluate((plane) => nv.setSliceType(nv["sliceType" + plane]), plane);
    await page.keyboard.press("r");
    const nothing = await coloured();
    await page.keyboard.press("r");
    const outline = await coloured() - nothing;
    await page.screenshot({ path: join(work, `outline-${plane}.png`) });
    await page.keyboard.press("o");
    assert.equal(await coloured() - nothing, outline, `${plane}: the reference is no outline at the start`);
    await page.keyboard.press("o");
    const filled = await coloured() - nothing;
    assert.ok(outline > 50 && outline < 0.5 * filled,
      `${plane}: the reference: ${outline} pixels outlined, ${filled} filled`);
    await page.keyboard.press("o");
    assert.equal(await coloured() - nothing, outline, `${plane}: O does not come back to the outline of the reference`);
  }
  await page.keyboard.press("p");
  await page.evaluate(() => nv.setSliceType(nv.sliceTypeMultiplanar));
  await page.screenshot({ path: join(work, "case.png") });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.click("#path");
  await page.waitForFunction(() => /copied: .* and .*prepare --labels-corrected/.test(document.querySelector("#state").textContent));
  const name = await page.evaluate(() => document.body.dataset.shown);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()),
    ["imagesTr", "labelsTr"].map((folder) => join(demo, "scans", folder, name + ".nii.gz")).join("\n"));
  const first = await page.evaluate(() => document.body.dataset.shown);
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction((name) => document.body.dataset.shown !== name, first);
  const download = page.waitForEvent("download");
  await page.keyboard.press("s");
  const shot = await readFile(await (await download).path());
  assert.equal(shot.subarray(1, 4).toString(), "PNG", "S does not save a picture");
  const scans = await readdir(join(demo, "scans/imagesTr"));
  const read = await page.evaluate(() => window.nv.volumes[0].id);
  const browserItself = await page.context().newCDPSession(page);
  const drop = async (...files) => {
    for (const type of ["dragEnter", "dragOver", "drop"]) {
      await browserItself.send("Input.dispatchDragEvent", { type, x: 700, y: 400,
        data: { items: [], files, dragOperationsMask: 1 } });
    }
  };
  const state = (text) => page.waitForFunction((part) => document.querySelector("#state").textContent.includes(part), text);
  const shownBefore = await page.evaluate(() => document.body.dataset.shown);
  await drop(...scans.slice(0, 2).map((name) => join(demo, "scans/imagesTr", name)));
  await state("2 files were dropped");
  await drop(join(demo, "scans/imagesTr"));
  await state("a folder cannot be dropped");
  assert.equal(await page.evaluate(() => document.body.dataset.shown), shownBefore, "what cannot be dropped takes the case away");
  await drop(join(demo, "scans/imagesTr", scans[0]));
  await page.waitForFunction((id) => window.nv.volumes.length === 1 && window.nv.volumes[0].id !== id, read);
  assert.deepEqual(await greys(), [-160, 240], "dropped CT is not in the window of abdominal CT");
  const left = await page.evaluate(() => [document.querySelectorAll("tr.shown").length,
    document.querySelectorAll("#key button").length, document.body.dataset.shown || "",
    document.querySelector("#title").textContent]);
  assert.deepEqual(left, [0, 0, "", "dropped: " + scans[0]], "a dropped scan stands under the name of a case");
  const text = join(work, "notes.txt");
  await writeFile(text, "no scan");
  await drop(text);
  await state("notes.txt cannot be shown");
  assert.equal(await page.evaluate(() => nv.volumes.length), 0, "another picture stays where a dropped file is no scan");
  // Who goes on to a case while a dropped scan is read gets the case.
  await page.evaluate(() => {
    const load = niivue.NVImage.loadFromFile;
    niivue.NVImage.loadFromFile = async (what) => {
      const v = await load.call(niivue.NVImage, what);
      show(1);
      await new Promise((done) => setTimeout(done, 500));
      niivue.NVImage.loadFromFile = load;
      return v;
    };
  });
  await drop(join(demo, "scans/imagesTr", scans[0]));
  await page.waitForSelector("body[data-shown]");
  await page.waitForTimeout(1000);
  assert.deepEqual(await page.evaluate(() => [document.body.dataset.shown, nv.volumes[0].name,
    document.querySelector("tr.shown").cells[0].textContent, document.querySelector("#title").textContent]),
  await page.evaluate(() => [site.cases[1].name, "scan", site.cases[1].name, site.title]),
  "a dropped scan is shown under the name of a case that was chosen meanwhile");
  assert.ok(asked.every((url) => (url + "/").startsWith(address) || /^(data|blob):/.test(url)), `asked for ${asked}`);

  // Labels without names have the same colours as those with names: the first is orange in the prediction. The
  // demo's maps have their names in an extension of the header. Of a file that is cut short the page says so.
  const nameless = join(work, "nameless"), maps = join(work, "maps");
  await cp(join(demo, "scans/imagesTr"), nameless, { recursive: true });
  await mkdir(maps);
  for (const file of await readdir(join(demo, "scans/labelsTr"))) {
    const whole = gunzipSync(await readFile(join(demo, "scans/labelsTr", file)));
    const bare = Buffer.concat([whole.subarray(0, 348), Buffer.alloc(4), whole.subarray(whole.readFloatLE(108))]);
    bare.writeFloatLE(352, 108);
    await writeFile(join(maps, file), gzipSync(bare));
  }
  await page.goto(await view(nameless, "--predictions", maps));
  await page.waitForSelector("body[data-shown]");
  // Who goes on while a case is read gets the next one, and nothing of the first.
  const mixed = await page.evaluate(async () => {
    const load = nv.loadVolumes.bind(nv), asked = [];
    nv.loadVolumes = async (list) => { // as NiiVue does: the volumes come when all are there
      asked.push(list[0].url);
      await new Promise((done) => setTimeout(done, asked.length === 1 ? 800 : 0));
      return load(list);
    };
    show(1);
    await new Promise((done) => setTimeout(done, 100));
    show(2);
    show(0);
    await queue;
    nv.loadVolumes = load;
    return [asked.join(), nv.volumes.filter((v) => v.name === "scan").length, document.body.dataset.shown,
      site.cases[0].name];
  });
  assert.equal(mixed[0], "1/scan.nii,0/scan.nii", "cases that nobody waits for are read, or two at once");
  assert.equal(mixed[1], 1, "the scans of two cases are shown");
  assert.equal(mixed[2], mixed[3], "another case is shown than the one that was chosen last");

  const broken = join(nameless, scans.at(-1));
  await writeFile(broken, (await readFile(broken)).subarray(0, 2000));
  await page.goto(await view(nameless, "--predictions", maps));
  await page.waitForSelector("body[data-shown]");
  assert.equal(await page.evaluate(() => {
    const { lut, labels, min = 0 } = nv.volumes.find((v) => v.name === "prediction").colormapLabel;
    return [labels[1 - min], ...lut.slice(4 * (1 - min), 4 * (1 - min) + 3)].join();
  }), "label 1,255,112,67", "a label without a name has another colour");
  await page.click(`text=${scans.at(-1).replace(".nii.gz", "")}`);
  await page.waitForFunction((file) => new RegExp(`cannot be shown: .*${file}`).test(document.querySelector("#state").textContent), scans.at(-1));
  assert.equal(await page.evaluate(() => nv.volumes.length), 0, "another case's picture stays where one cannot be shown");
  assert.equal(await page.evaluate(() => {
    const c = nv.canvas, ctx = new OffscreenCanvas(c.width, c.height).getContext("2d");
    nv.drawScene();
    ctx.drawImage(c, 0, 0);
    const { data } = ctx.getImageData(c.width / 4, c.height / 4, 1, 1);
    return Math.max(...data.slice(0, 3)) < 40;
  }), true, "the canvas is not blank where a case cannot be shown");

  const run = join(work, "run");
  const training = start("finetune", "--data", join(demo, "prepared"), "--crop", "32", "--levels", "3", "--channels", "4",
    "--steps", "20000", "--checkpoint-every", "5", "--out", run);
  await new Promise((done) => training.stderr.on("data", (text) => Number(/(\d+)\/20000/.exec(text)?.[1]) >= 20 && done()));
  await page.goto(await view(run));
  await page.frameLocator("#frame").locator("table").first().waitFor();
  const curves = await page.evaluate(() => {
    const frame = document.querySelector("#frame"), inside = frame.contentDocument;
    return { page: getComputedStyle(inside.documentElement).backgroundColor, around: getComputedStyle(document.body).backgroundColor,
      below: frame.getBoundingClientRect().bottom <= document.querySelector("#state").getBoundingClientRect().top,
      cut: [...inside.querySelectorAll(".scroll")].some((one) => one.scrollWidth > one.clientWidth) };
  });
  assert.equal(curves.page, curves.around, "the curves have another colour than what is around them");
  assert.ok(curves.below && !curves.cut, "a line of the page of curves is covered, or a table cut");
  const curve = async () => (await page.frameLocator("#frame").locator("svg path[stroke=currentColor]").first().getAttribute("d")).length;
  const short = await curve();
  const patience = Date.now() + 90_000;
  while ((await curve()) <= short) {
    assert.ok(Date.now() < patience, "the curve does not grow");
    await page.waitForTimeout(500);
  }
  await page.screenshot({ path: join(work, "curves.png") });
  await page.route("**/curves.html", (route) => route.fulfill({ status: 500, body: "metrics.csv <b>is</b> damaged" }));
  await page.frameLocator("#frame").getByText("metrics.csv <b>is</b> damaged").waitFor();
  await page.unroute("**/curves.html");

  await page.goto(await view(join(demo, "pretraining/3x3x3/fold-1")));
  await page.frameLocator("#frame").getByRole("heading", { name: "How it does its task now" }).waitFor();
  const puzzle = page.frameLocator("#frame").locator("img").first();
  assert.ok((await puzzle.evaluate((img) => img.naturalWidth)) > 200, "no puzzle is shown");
  await page.screenshot({ path: join(work, "puzzle.png") });

  const other = http.createServer((_, answer) => answer.end("<p>another page</p>"));
  await new Promise((done) => other.listen(0, "127.0.0.1", done));
  await page.goto(`http://127.0.0.1:${other.address().port}/`);
  const got = await page.evaluate((url) => fetch(url + "site.json").then((a) => a.text()).catch(() => "nothing"), address);
  assert.equal(got, "nothing", "another page reads the site");
  other.close();
  console.log(`voxsaw view does what it should; pictures in ${work}`);
} finally {
  await browser.close();
  for (const c of children) c.kill("SIGINT");
}
