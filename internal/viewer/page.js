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
window.nv = nv; // for who looks on from the browser's console

let site, shown = -1, loading = 0;

const pressed = (id) => $(id).getAttribute("aria-pressed") === "true";
const press = (id, on) => $(id).setAttribute("aria-pressed", String(on));

// labelColors is NiiVue's table of colours for the labels of a case.
function labelColors(names) {
  const table = { R: [0], G: [0], B: [0], A: [0], I: [0], labels: [""] };
  for (const [label, name] of Object.entries(names || {})) {
    const [r, g, b] = inks[(label - 1) % inks.length];
    table.R.push(r); table.G.push(g); table.B.push(b); table.A.push(255); table.I.push(Number(label)); table.labels.push(name);
  }
  return table;
}

// layer is the overlay of a name, if the case has one.
const layer = (name) => nv.volumes.findIndex((v) => v.name === name);

function paint() {
  for (const [id, opacity] of [["prediction", 0.45], ["reference", 0.7]]) {
    const at = layer(id);
    if (at > 0) nv.setOpacity(at, pressed(id) ? opacity : 0);
  }
  nv.overlayOutlineWidth = pressed("outline") ? 0.25 : 0;
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
  if (c.window[0] !== c.window[1]) [scan.cal_min, scan.cal_max] = c.window;
  try {
    const volumes = [scan];
    for (const id of ["reference", "prediction"]) {
      $(id).disabled = !c[id];
      if (c[id]) volumes.push({ url: `${n}/${id}.nii`, name: id + ".nii", opacity: 0.5 });
    }
    await nv.loadVolumes(volumes);
    if (mine !== loading) return;
    nv.volumes.forEach((v) => { v.name = v.name.replace(/\.nii$/, ""); });
    for (const v of nv.volumes.slice(1)) v.setColormapLabel(labelColors(c.labels));
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
  outline: () => { press("outline", !pressed("outline")); paint(); },
  planes: () => nv.setSliceType((nv.opts.sliceType + 1) % 5),
  shot: () => nv.saveScene((shown < 0 ? "scan" : site.cases[shown].name) + ".png"),
  path: async () => {
    if (shown < 0) return;
    const path = site.cases[shown].path;
    await navigator.clipboard.writeText(path).catch(() => {});
    say("copied: " + path);
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
