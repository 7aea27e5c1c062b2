"use strict";
// The page of voxsaw view: a table of cases, NiiVue, and the curves of a training.

const $ = (id) => document.getElementById(id);
const say = (text) => { $("state").textContent = text; };

// the colours of the pictures in reports
const inks = [[255, 112, 67], [66, 165, 245], [102, 220, 120], [240, 98, 200], [255, 213, 79], [77, 208, 225],
  [179, 136, 255], [198, 226, 90]];

const nv = new niivue.Niivue({ backColor: [0.07, 0.09, 0.11, 1], isRadiologicalConvention: true, show3Dcrosshair: true,
  crosshairColor: [1, 0.85, 0.3, 0.8], crosshairWidth: 0.8, crosshairWidthUnit: "mm",
  dragAndDropEnabled: true, loadingText: "" });
nv.onLocationChange = (at) => say(at.string);
// Scans in Hounsfield units, which fall far below zero, are shown in the window of abdominal CT, as in reports. What
// prepared cases bring, show sets afterwards.
nv.onImageLoaded = (v) => {
  if (!v.colormapLabel && v.global_min <= -200) [v.cal_min, v.cal_max] = [-160, 240];
};
window.nv = nv; // for who looks on from the browser's console

// NiiVue tells of a file that is not given out by the answer's number alone; its text says why.
const ask = window.fetch.bind(window);
window.fetch = async (...what) => {
  const answer = await ask(...what);
  if (answer.status === 500) throw new Error((await answer.text()).trim());
  return answer;
};

let site, shown = -1, loading = 0;

const pressed = (id) => $(id).getAttribute("aria-pressed") === "true";
const press = (id, on) => $(id).setAttribute("aria-pressed", String(on));

// labelColors is NiiVue's table of colours for the labels of a volume, which may have names; those of the reference
// are lighter. A label that a table lacks gets NiiVue's colour of another.
function labelColors(v, names) {
  const light = v.name === "reference", there = new Map();
  for (const [label, name] of Object.entries(names || {})) there.set(Number(label), name);
  const seen = new Uint8Array(1 << 16); // label maps are of 8 or 16 bits
  for (const label of v.img) seen[label] = 1;
  seen.forEach((is, label) => { if (is && label && !there.has(label)) there.set(label, "label " + label); });
  const table = { R: [0], G: [0], B: [0], A: [0], I: [0], labels: [""] };
  for (const [label, name] of there) {
    const [r, g, b] = inks[(label - 1) % inks.length].map((x) => (light ? (x >> 2) + 191 : x));
    table.R.push(r); table.G.push(g); table.B.push(b); table.A.push(255); table.I.push(label); table.labels.push(name);
  }
  return table;
}

// layer is the overlay of a name, if the case has one.
const layer = (name) => nv.volumes.findIndex((v) => v.name === name);

// Which label maps are outlined and not filled, by how the button is pressed.
const outlines = { mixed: ["reference"], true: ["reference", "prediction"], false: [] };
const isOutlined = (name) => outlines[$("outline").getAttribute("aria-pressed")].includes(name);

// outlineOf has of each label the voxels that are beside another one in their axial slice, as the
// pictures in reports.
function outlineOf(v) {
  const size = v.hdr.dims.slice(1, 4), step = [1, size[0], size[0] * size[1]];
  const axial = [0, 1, 2].filter((axis) => axis !== Math.abs(v.permRAS[2]) - 1);
  const edge = new v.img.constructor(v.img.length);
  v.img.forEach((label, n) => {
    if (label && axial.some((axis) => {
      const at = Math.floor(n / step[axis]) % size[axis];
      return at === 0 || at === size[axis] - 1 || v.img[n - step[axis]] !== label || v.img[n + step[axis]] !== label;
    })) edge[n] = label;
  });
  return edge;
}

// A layer that is outlined keeps its voxels, for the text under the crosshair, and is drawn with
// those of the outline, which NiiVue would fade.
const drawLayer = nv.refreshLayers.bind(nv);
nv.refreshLayers = (v, layer) => {
  if (!layer || !v.opacity || !isOutlined(v.name)) return drawLayer(v, layer);
  const whole = v.img;
  v.img = v.outline ??= outlineOf(v);
  nv.opts.atlasOutline = 1;
  try {
    drawLayer(v, layer);
  } finally {
    v.img = whole;
    nv.opts.atlasOutline = 0;
  }
};

// Between slices and voxels the scan is interpolated; labels are not, of which a line would fade.
const filter = nv.updateInterpolation.bind(nv);
nv.updateInterpolation = (layer, linear) => {
  nv.opts.isNearestInterpolation = layer > 0;
  filter(layer, linear);
  nv.opts.isNearestInterpolation = false;
};

function paint() {
  for (const [id, filled] of [["prediction", 0.45], ["reference", 0.7]]) {
    const at = layer(id);
    if (at > 0) nv.setOpacity(at, !pressed(id) ? 0 : isOutlined(id) ? 1 : filled);
  }
  nv.updateGLVolume();
}

async function show(n) {
  if (n < 0 || n >= site.cases.length) return;
  const mine = ++loading, c = site.cases[n];
  shown = n;
  for (const [at, row] of [...$("cases").rows].entries()) row.classList.toggle("shown", at === n);
  $("cases").rows[n].scrollIntoView({ block: "nearest" });
  curves(false);
  say("reading " + c.name + " ...");
  const scan = { url: `${n}/scan.nii`, name: "scan.nii", colormap: "gray" };
  try {
    const volumes = [scan];
    for (const id of ["prediction", "reference"]) { // the outline on top
      $(id).disabled = !c[id];
      if (c[id]) volumes.push({ url: `${n}/${id}.nii`, name: id + ".nii", opacity: 0.5 });
    }
    await nv.loadVolumes(volumes);
    if (mine !== loading) return;
    nv.volumes.forEach((v) => { v.name = v.name.replace(/\.nii$/, ""); });
    if (c.window[0] !== c.window[1]) [nv.volumes[0].cal_min, nv.volumes[0].cal_max] = c.window;
    for (const v of nv.volumes.slice(1)) v.setColormapLabel(labelColors(v, c.labels));
    paint();
    say(c.name + (c.text ? ": " + c.text : ""));
    document.body.dataset.shown = c.name;
  } catch (err) {
    say(`${c.name} cannot be shown: ${err.message || err}`);
  }
}

function curves(on) {
  press("curves", on);
  $("frame").hidden = !on;
  if (on) refresh();
}

// refresh draws the curves as they are now.
async function refresh() {
  if (!pressed("curves")) return;
  const answer = await fetch("curves.html").catch(() => null);
  const frame = $("frame"), text = answer ? await answer.text() : "voxsaw view has ended.";
  if (frame.dataset.text !== text) {
    const at = frame.contentWindow ? frame.contentWindow.scrollY : 0;
    frame.onload = () => frame.contentWindow.scrollTo(0, at);
    frame.srcdoc = frame.dataset.text = text;
  }
}

const actions = {
  curves: () => curves(!pressed("curves")),
  prediction: () => { press("prediction", !pressed("prediction")); paint(); },
  reference: () => { press("reference", !pressed("reference")); paint(); },
  outline: () => {
    const states = Object.keys(outlines);
    press("outline", states[(states.indexOf($("outline").getAttribute("aria-pressed")) + 1) % states.length]);
    paint();
  },
  planes: () => nv.setSliceType((nv.opts.sliceType + 1) % 5),
  shot: () => nv.saveScene((shown < 0 ? "scan" : site.cases[shown].name) + ".png"),
  path: async () => {
    if (shown < 0) return;
    const { path, prediction_path: map } = site.cases[shown];
    const paths = [path, map].filter(Boolean).join("\n");
    if (!paths) return say("nobody knows where this case lies");
    const done = await navigator.clipboard.writeText(paths).then(() => "copied: ", () => "copy by hand: ");
    say(done + [path, map].filter(Boolean).join(" and ") +
      (map ? ". Once the label map is corrected, voxsaw prepare --labels-predicted takes it for labels" : ""));
  },
};
const keys = { p: "prediction", r: "reference", o: "outline", v: "planes", s: "shot", c: "curves" };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const id = keys[event.key.toLowerCase()];
  if (id && !$(id).disabled && !$(id).hidden) actions[id]();
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") show(shown + (event.key === "ArrowDown" ? 1 : -1));
  else return;
  event.preventDefault();
  event.stopPropagation();
}, true);

(async () => {
  for (const [id, act] of Object.entries(actions)) $(id).onclick = () => { act(); $(id).blur(); };
  await nv.attachToCanvas($("view"));
  nv.setSliceType(nv.sliceTypeMultiplanar);
  site = await (await fetch("site.json")).json();
  document.title = $("title").textContent = site.title;
  $("curves").hidden = !site.curves;
  for (const [n, c] of site.cases.entries()) {
    const row = $("cases").insertRow();
    row.insertCell().textContent = c.name;
    row.insertCell().textContent = c.text;
    row.onclick = () => show(n);
  }
  setInterval(refresh, 3000);
  if (site.curves) curves(true);
  else show(0);
})();
