"use strict";
// The page of voxsaw view: a table of cases, NiiVue, and the curves of a training.

const $ = (id) => document.getElementById(id);
const say = (text) => { $("state").textContent = text; };

// the colours of the pictures in reports
const inks = [[255, 112, 67], [66, 165, 245], [102, 220, 120], [240, 98, 200], [255, 213, 79], [77, 208, 225],
  [179, 136, 255], [198, 226, 90]];

const nv = new niivue.Niivue({ backColor: [0.07, 0.09, 0.11, 1], isRadiologicalConvention: true, show3Dcrosshair: true,
  crosshairColor: [1, 0.85, 0.3, 0.8], crosshairWidth: 0.8, crosshairWidthUnit: "mm",
  dragAndDropEnabled: true, loadingText: "", isCornerOrientationText: true }); // the crosshair leaves corners free
nv.onLocationChange = (at) => say(at.string);
// Scans in Hounsfield units, which fall far below zero, are shown in the window of abdominal CT, as in reports. What
// prepared cases bring, show sets afterwards.
nv.onImageLoaded = (v) => {
  if (!v.colormapLabel && v.global_min <= -200) [v.cal_min, v.cal_max] = [-160, 240];
};
window.nv = nv; // for who looks on from the browser's console

// What is dropped is a scan, Shift or not (a label map over another scan would not be drawn), and one: slices show one.
nv.handleFilesDrop = async (items) => {
  const files = [...items].map((item) => item.getAsFile()).filter(Boolean); // now: there are none once this returns
  if ([...items].some((item) => item.webkitGetAsEntry()?.isDirectory)) {
    return say("a folder cannot be dropped: start voxsaw view on it");
  }
  const ends = (end) => files.find((file) => file.name.toLowerCase().endsWith(end));
  const pair = files.length === 2 && ends(".hdr") && ends(".img"); // header and voxels of one scan
  if (files.length > 1 && !pair) return say(`${files.length} files were dropped, and one scan is shown: drop one alone`);
  const [file, voxels] = pair ? [ends(".hdr"), ends(".img")] : files;
  if (file) drop(file, voxels);
};

// drop shows a scan that is nobody's case: none is marked, nor named, nor has its label maps over it.
function drop(file, voxels) {
  const mine = ++loading;
  shown = -1;
  for (const row of $("cases").rows) row.classList.remove("shown");
  $("key").replaceChildren();
  $("key").hidden = true;
  for (const id of ["prediction", "reference"]) $(id).disabled = true;
  delete document.body.dataset.shown;
  curves(false);
  $("title").textContent = "dropped: " + file.name;
  say("reading " + file.name + " ...");
  queue = queue.then(async () => {
    if (mine !== loading) return;
    try {
      const v = await niivue.NVImage.loadFromFile({ file, urlImgData: voxels, limitFrames4D: nv.opts.limitFrames4D });
      if (mine !== loading) return; // another one is wanted by now
      nv.volumes = [];
      nv.addVolume(v);
      nv.drawScene();
      say($("title").textContent);
    } catch (err) {
      if (mine === loading) failed(file.name, err);
    }
  });
}
nv.handleUrlDrop = async () => say("only files of this machine can be dropped");

// NiiVue tells of a file that is not given out by the answer's number alone; its text says why.
const ask = window.fetch.bind(window);
window.fetch = async (...what) => {
  const answer = await ask(...what);
  if (answer.status === 500) throw new Error((await answer.text()).trim());
  return answer;
};

let site, shown = -1, loading = 0;
let queue = Promise.resolve(); // of cases that are being read: NiiVue mixes the volumes of two

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
  v.drawn = new Map([...there].filter(([label]) => seen[label]));
  const table = { R: [0], G: [0], B: [0], A: [0], I: [0], labels: [""] };
  for (const [label, name] of there) {
    const [r, g, b] = inks[(label - 1) % inks.length].map((x) => (light ? (x >> 2) + 191 : x));
    table.R.push(r); table.G.push(g); table.B.push(b); table.A.push(255); table.I.push(label); table.labels.push(name);
  }
  return table;
}

// key lists the structures of a case with their colours; a click on one goes to it.
function key() {
  const drawn = new Map(nv.volumes.slice(1).flatMap((v) => [...v.drawn]));
  $("key").hidden = drawn.size === 0 || pressed("curves");
  $("key").replaceChildren(...[...drawn].sort(([a], [b]) => a - b).map(([label, name]) => {
    const entry = document.createElement("button"), ink = document.createElement("i");
    ink.style.background = `rgb(${inks[(label - 1) % inks.length]})`;
    entry.append(ink, name);
    entry.title = "go to it: the slice that shows most of it";
    entry.onclick = () => { go(label); entry.blur(); };
    return entry;
  }));
}

// go moves the crosshair to the middle of a structure in the slice that shows most of it: of the prediction, or of the
// reference where that alone has it.
function go(label) {
  const v = nv.volumes.slice(1).find((one) => one.drawn.has(label)), [, i, j, k] = v.hdr.dims;
  const voxels = new Float64Array(k), sums = new Float64Array(2 * k);
  v.img.forEach((is, at) => {
    if (is !== label) return;
    const slice = Math.floor(at / (i * j));
    voxels[slice]++;
    sums[2 * slice] += at % i;
    sums[2 * slice + 1] += Math.floor(at / i) % j;
  });
  const best = voxels.indexOf(Math.max(...voxels));
  const voxel = [sums[2 * best] / voxels[best], sums[2 * best + 1] / voxels[best], best, 1];
  const mm = v.hdr.affine.slice(0, 3).map((row) => row.reduce((sum, x, n) => sum + x * voxel[n], 0));
  nv.scene.crosshairPos = nv.mm2frac(mm);
  nv.drawScene();
  nv.createOnLocationChange();
}

// layer is the overlay of a name, if the case has one.
const layer = (name) => nv.volumes.findIndex((v) => v.name === name);

// Which label maps are outlined and not filled, by how the button is pressed.
const outlines = { mixed: ["reference"], true: ["reference", "prediction"], false: [] };
const isOutlined = (name) => outlines[$("outline").getAttribute("aria-pressed")].includes(name);

// Slices have their label maps from here, not from NiiVue, which would show one outline in all planes: a fragment
// shader reads the voxels under a pixel, and an outline is where the voxels beside it in the plane have another label.
// layers are the maps by name: number of their texture, what makes their colours lighter, and how a filled one covers.
const layers = { prediction: { unit: 14, light: 0, filled: 0.45 }, reference: { unit: 15, light: 0.75, filled: 0.7 } };
const glsl = `
void main() {
	ofNiivue();
	vec3 dx = 1.5 * dFdx(texPos), dy = 1.5 * dFdy(texPos);` + Object.keys(layers).map((name) => `
	paint(${name}Map, ${name}At, ${name}Shown, ${name}Light, dx, dy);`).join("") + `
}`;
const glslBefore = Object.keys(layers).map((name) => `
uniform highp usampler3D ${name}Map;
uniform mat4 ${name}At;
uniform vec2 ${name}Shown;
uniform float ${name}Light;`).join("") + `
const vec3 inks[${inks.length}] = vec3[](${inks.map((rgb) => `vec3(${rgb.map((x) => (x / 255).toFixed(4))})`)});
uint labelAt(highp usampler3D map, mat4 at, vec3 where) {
	ivec3 voxel = ivec3(round((at * vec4(where, 1.0)).xyz));
	if (any(lessThan(voxel, ivec3(0))) || any(greaterThanEqual(voxel, textureSize(map, 0)))) return 0u;
	return texelFetch(map, voxel, 0).r;
}
void paint(highp usampler3D map, mat4 at, vec2 shown, float light, vec3 dx, vec3 dy) {
	uint label = labelAt(map, at, texPos);
	if (shown.y == 0.0 || label == 0u) return;
	if (shown.x > 0.0 && labelAt(map, at, texPos + dx) == label && labelAt(map, at, texPos - dx) == label &&
		labelAt(map, at, texPos + dy) == label && labelAt(map, at, texPos - dy) == label) return;
	color.rgb = mix(color.rgb, mix(inks[(label - 1u) % ${inks.length}u], vec3(1.0), light), shown.y);
	color.a = 1.0;
}
`;

// customShader adds the label maps to NiiVue's shader of slices, which draws the scan.
function customShader() {
  const { gl } = nv, shaders = gl.getAttachedShaders(nv.sliceMMShader.program);
  const source = gl.getShaderSource(shaders.find((s) => gl.getShaderParameter(s, gl.SHADER_TYPE) === gl.FRAGMENT_SHADER));
  nv.setCustomSliceShader(source
    .replace("uniform float overlays;", "uniform float overlays;\n#define overlays 0.0") // NiiVue's own are left out
    .replace("void main()", glslBefore + "void ofNiivue()") + glsl);
}

// labelTexture has the voxels of a label map, as they lie in its file.
function labelTexture(v) {
  const { gl } = nv, bytes = v.img.BYTES_PER_ELEMENT;
  const [format, type] = bytes === 1 ? [gl.R8UI, gl.UNSIGNED_BYTE] : [gl.R16UI, gl.UNSIGNED_SHORT];
  gl.deleteTexture(layers[v.name].texture);
  gl.activeTexture(gl.TEXTURE0 + layers[v.name].unit);
  gl.bindTexture(gl.TEXTURE_3D, layers[v.name].texture = gl.createTexture());
  for (const [what, how] of [[gl.TEXTURE_MIN_FILTER, gl.NEAREST], [gl.TEXTURE_MAG_FILTER, gl.NEAREST],
    [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE], [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE], [gl.TEXTURE_WRAP_R, gl.CLAMP_TO_EDGE]]) {
    gl.texParameteri(gl.TEXTURE_3D, what, how);
  }
  const alignment = gl.getParameter(gl.UNPACK_ALIGNMENT), [, i, j, k] = v.hdr.dims;
  gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
  gl.texImage3D(gl.TEXTURE_3D, 0, format, i, j, k, 0, gl.RED_INTEGER, type, v.img);
  gl.pixelStorei(gl.UNPACK_ALIGNMENT, alignment);
  layers[v.name].at = voxelOf(v);
}

// voxelOf is the matrix, column by column, from a place in the scan, as NiiVue's shaders have it, to a voxel of a label
// map.
function voxelOf(v) {
  const [a, b, c] = v.hdr.affine, det = (m, x, y, z) => m[0][x] * (m[1][y] * m[2][z] - m[1][z] * m[2][y]) -
    m[0][y] * (m[1][x] * m[2][z] - m[1][z] * m[2][x]) + m[0][z] * (m[1][x] * m[2][y] - m[1][y] * m[2][x]);
  const all = det([a, b, c], 0, 1, 2);
  const voxel = (frac) => { // Cramer's rule
    const mm = nv.frac2mm(frac, 0, true), d = [a, b, c].map((row, n) => [...row.slice(0, 3), mm[n] - row[3]]);
    return [det(d, 3, 1, 2), det(d, 0, 3, 2), det(d, 0, 1, 3)].map((x) => x / all);
  };
  const zero = voxel([0, 0, 0]);
  const columns = [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map((frac) => voxel(frac).map((x, n) => x - zero[n]));
  return new Float32Array([...columns.flatMap((column) => [...column, 0]), ...zero, 1]);
}

const drawSlice = nv.draw2D.bind(nv);
nv.draw2D = (...how) => {
  const { gl, customSliceShader: shader } = nv;
  if (shader) {
    shader.use(gl);
    for (const [name, { unit, light, filled, texture, at }] of Object.entries(layers)) {
      const uniform = (what) => gl.getUniformLocation(shader.program, name + what);
      const there = layer(name) > 0 && texture;
      gl.activeTexture(gl.TEXTURE0 + unit);
      gl.bindTexture(gl.TEXTURE_3D, there ? texture : null);
      gl.uniform1i(uniform("Map"), unit);
      gl.uniform1f(uniform("Light"), light);
      const outlined = isOutlined(name), covers = outlined ? 1 : filled;
      gl.uniform2f(uniform("Shown"), outlined ? 1 : 0, there && pressed(name) ? covers : 0);
      if (there) gl.uniformMatrix4fv(uniform("At"), false, at);
    }
  }
  return drawSlice(...how);
};

function paint() {
  for (const [id, { filled }] of Object.entries(layers)) { // as the view in three dimensions shows them
    const at = layer(id);
    if (at > 0) nv.setOpacity(at, pressed(id) ? filled : 0);
  }
  nv.updateGLVolume();
}

function show(n) {
  if (n < 0 || n >= site.cases.length) return;
  const mine = ++loading, c = site.cases[n];
  shown = n;
  $("title").textContent = site.title;
  for (const [at, row] of [...$("cases").rows].entries()) row.classList.toggle("shown", at === n);
  $("cases").rows[n].scrollIntoView({ block: "nearest" });
  $("key").replaceChildren();
  curves(false);
  say("reading " + c.name + " ...");
  queue = queue.then(() => (mine === loading ? read(n, mine) : null));
}

// read shows a case, unless another one is wanted by then.
async function read(n, mine) {
  const c = site.cases[n];
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
    for (const v of nv.volumes.slice(1)) {
      v.setColormapLabel(labelColors(v, c.labels));
      labelTexture(v);
    }
    key();
    paint();
    say(c.name + (c.text ? ": " + c.text : ""));
    document.body.dataset.shown = c.name;
  } catch (err) {
    if (mine === loading) failed(c.name, err);
  }
}

// failed says why there is no picture; no other case's stays under this name.
function failed(name, err) {
  nv.volumes = [];
  nv.updateGLVolume();
  nv.drawScene();
  delete document.body.dataset.shown;
  say(`${name} cannot be shown: ${err.message || err}`);
}

function curves(on) {
  press("curves", on);
  $("frame").hidden = !on;
  $("key").hidden = on || !$("key").children.length;
  if (on) refresh();
}

// dark is a page in the colours that it has on dark screens: those of the frame around it.
const dark = (page) => page.replaceAll("@media screen and (prefers-color-scheme: dark)", "@media screen")
  .replace('content="light dark"', 'content="dark"').replace("color-scheme: light dark", "color-scheme: dark");

// refresh draws the curves as they are now.
async function refresh() {
  if (!pressed("curves")) return;
  const problem = document.createElement("p"); // a TypeError: nobody has answered
  const text = await fetch("curves.html").then((answer) => answer.text()).catch((err) => {
    problem.textContent = err instanceof TypeError ? "voxsaw view has ended." : err.message;
    problem.style.color = "#e6ebf1";
    return problem.outerHTML;
  });
  const frame = $("frame");
  if (frame.dataset.text !== text) {
    const at = frame.contentWindow ? frame.contentWindow.scrollY : 0;
    frame.onload = () => frame.contentWindow.scrollTo(0, at);
    frame.dataset.text = text;
    frame.srcdoc = dark(text);
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
      (map ? ". Once the label map is corrected, voxsaw prepare --labels-corrected takes it for labels" : ""));
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
  customShader();
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
  const refreshing = async () => { // a page on a long training takes its time: no second one is asked for meanwhile
    const began = performance.now();
    await refresh();
    setTimeout(refreshing, Math.max(3000, 10 * (performance.now() - began)));
  };
  refreshing();
  if (site.curves) curves(true);
  else show(0);
})();
