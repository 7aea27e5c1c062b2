#!/usr/bin/env python3
"""Holds what voxsaw convert and export write for nnU-Net against nnU-Net itself. About ten minutes on two cores.

    pip install nnunetv2==2.8.1 safetensors
    go build -o voxsaw ./cmd/voxsaw
    python3 scripts/nnunet-check.py ./voxsaw WORK [NEWER]

Scans are those of voxsaw demo --quick, plans those that nnU-Net makes for them, with an eighth of the channels. For each:

- to nnunet: nnUNetv2_predict makes label maps, and those of voxsaw predict with the same folder have at most ten
  voxels in a million that differ: sums in the network are rounded in another order. Those that differ from voxsaw predict with the checkpoint
  are counted.
- to nnunet-pretrained: nnU-Net's network has every tensor of the checkpoint's encoder by every name, nnU-Net trains from it, and
  torch.load reads it with weights_only.

- voxsaw export: nnU-Net verifies the folder, its voxels and labels are those of the scans, and regions keep their order; so of
  DICOM series, with label maps, SEG objects and contours, and of two channels with an ignore label. Folds divide no patient.

NEWER is a checkout of nnU-Net that has nnUNetv2_train_pretrained: its trainer loads the same file, too.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

golden = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "testdata", "nnunet"))
voxsaw, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
newer = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
os.makedirs(work, exist_ok=True)
os.chdir(work)
for name in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"):
    os.environ[name] = os.path.join(work, name)
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
os.environ["nnUNet_compile"] = "f"

import nibabel  # noqa: E402
import numpy as np  # noqa: E402
import SimpleITK as sitk  # noqa: E402
import torch  # noqa: E402
from nnunetv2.run.load_pretrained_weights import load_pretrained_weights  # noqa: E402
from nnunetv2.run.run_training import maybe_load_checkpoint  # noqa: E402
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer  # noqa: E402
from nnunetv2.utilities.get_network_from_plans import get_network_from_plans  # noqa: E402
from nnunetv2.utilities.label_handling.label_handling import LabelManager  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

SET, CONFIGURATION, failed = "Dataset901_Demo", "3d_fullres", []


def run(*command):
    print("+", *(os.path.basename(str(c)) for c in command), flush=True)
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    if done.returncode:
        sys.exit(done.stdout[-4000:])
    return done.stdout


def theirs(name, *arguments):
    return run(os.path.join(os.path.dirname(sys.executable), name), *arguments)


def check(ok, what):
    print(("ok      " if ok else "FAILED  ") + what, flush=True)
    if not ok:
        failed.append(what)


def fresh(*folders):
    for f in folders:
        shutil.rmtree(f, ignore_errors=True)


# scans, and nnU-Net's plans of them
fresh("demo", "scans", "test")
run(voxsaw, "demo", "--quick", "--out", "demo")
raw = f"nnUNet_raw/{SET}"
for folder in (raw + "/imagesTr", raw + "/labelsTr", "scans/imagesTr", "scans/labelsTr", "test"):
    os.makedirs(folder)
labels = sorted(glob.glob("demo/scans/labelsTr/*.nii.gz"))
for path in labels:
    case = os.path.basename(path)[: -len(".nii.gz")]
    image = path.replace("labelsTr", "imagesTr")
    shutil.copy(image, f"{raw}/imagesTr/{case}_0000.nii.gz")
    shutil.copy(image, f"scans/imagesTr/{case}.nii.gz")
    for folder in (raw + "/labelsTr", "scans/labelsTr"):
        shutil.copy(path, f"{folder}/{case}.nii.gz")
names = json.load(open("demo/scans/dataset.json"))["labels"]
shutil.copy("demo/scans/dataset.json", "scans/dataset.json")
with open(raw + "/dataset.json", "w") as f:
    json.dump({"channel_names": {"0": "CT"}, "labels": {name: int(n) for n, name in names.items()}, "numTraining": len(labels),
               "file_ending": ".nii.gz"}, f)
theirs("nnUNetv2_plan_and_preprocess", "-d", "901", "-c", CONFIGURATION, "-np", "1", "-npfp", "1")
theirs("nnUNetv2_plan_experiment", "-d", "901", "-pl", "nnUNetPlannerResEncM")


# the same data set by voxsaw export; whether nnU-Net finds nothing wrong with it
def exported(number, name, *arguments):
    out = f"nnUNet_raw/Dataset{number}_{name}"
    run(voxsaw, "export", *arguments, "--out", out)
    said = theirs("nnUNetv2_extract_fingerprint", "-d", number, "--verify_dataset_integrity", "-np", "1")
    check("verify_dataset_integrity Done" in said and not re.search("(warning|error):", said, re.I), f"export: nnU-Net verifies {name}")
    return out


def equal(one, two, what, numbers=None):
    """The same voxels at the same places, along whatever axes; with labels of other numbers, where these are given."""
    one, two = (nibabel.as_closest_canonical(nibabel.load(p)) for p in (one, two))
    values = one.get_fdata()
    values = np.array(numbers)[values.astype(int)] if numbers else values
    check(np.array_equal(values, two.get_fdata()) and np.allclose(one.affine, two.affine, atol=1e-3), f"export: {what} is what it was")


whole = exported(902, "Exported", "demo/scans", "--names", "keep")
for path in labels:
    case = os.path.basename(path)[: -len(".nii.gz")]
    equal(path, f"{whole}/labelsTr/{case}.nii.gz", f"{case}, its labels")
    equal(path.replace("labelsTr", "imagesTr"), f"{whole}/imagesTr/{case}_0000.nii.gz", case)


# DICOM series, oblique, the first two of one patient: with label maps of other axes beside them, with SEG objects and with contours
def series(image, folder, patient, uid):
    os.makedirs(folder)
    d, writer = image.GetDirection(), sitk.ImageFileWriter()
    writer.KeepOriginalImageUIDOn()
    for k in range(image.GetDepth()):
        one = image[:, :, k]
        for tag, value in {"0008|0060": "CT", "0010|0020": patient, "0020|000d": f"{uid}.1", "0020|000e": f"{uid}.2", "0020|0052": f"{uid}.3",
                           "0008|0018": f"{uid}.4.{k + 1}", "0020|0013": k + 1, "0028|1052": 0, "0028|1053": 1,
                           "0020|0032": "\\".join(f"{x:.9g}" for x in image.TransformIndexToPhysicalPoint((0, 0, k))),
                           "0020|0037": "\\".join(f"{d[n]:.9g}" for n in (0, 3, 6, 1, 4, 7))}.items():
            one.SetMetaData(tag, str(value))
        writer.SetFileName(f"{folder}/{k:03}.dcm")
        writer.Execute(one)


fresh("dicom", "turned", "drawn", "dicom-seg", "rtstruct")
for folder in ("dicom/labelsTr", "turned"):
    os.makedirs(folder)
tilt = sitk.Euler3DTransform()
tilt.SetRotation(0.2, 0, 0.1)
tilt = np.array(tilt.GetMatrix()).reshape(3, 3)
for n, path in enumerate(labels[:4]):
    case = os.path.basename(path)[: -len(".nii.gz")]
    scan, drawn = sitk.ReadImage(path.replace("labelsTr", "imagesTr"), sitk.sitkInt16), sitk.ReadImage(path)
    for image in (scan, drawn):
        image.SetDirection((tilt @ np.array(image.GetDirection()).reshape(3, 3)).ravel())
    series(sitk.DICOMOrient(scan, "LPS"), f"dicom/imagesTr/{case}", f"P{max(n, 1)}", f"2.25.9{n}")
    sitk.WriteImage(sitk.DICOMOrient(drawn, "RAI"), f"dicom/labelsTr/{case}.nii.gz")
    sitk.WriteImage(scan, f"turned/{case}.nii.gz")
slices = exported(903, "Series", "dicom", "--names", "keep")
for path in sorted(glob.glob("dicom/labelsTr/*.nii.gz")):
    case = os.path.basename(path)[: -len(".nii.gz")]
    equal(path, f"{slices}/labelsTr/{case}.nii.gz", f"{case} of DICOM, its labels")
    equal(f"turned/{case}.nii.gz", f"{slices}/imagesTr/{case}_0000.nii.gz", f"{case} of DICOM")
pair = {os.path.basename(path)[: -len(".nii.gz")] for path in labels[:2]}
folds = json.load(open(slices + "/splits_final.json"))
check(len(folds) == 3 and all(len(pair & set(f["val"])) != 1 for f in folds), "export: no fold divides the patient of two scans")
run(voxsaw, "predict", "dicom/imagesTr", "--checkpoint", golden + "/flat", "--folds", "0", "--mirror", "none", "--out", "drawn")
for number, form in ((904, "dicom-seg"), (905, "rtstruct")):
    fresh("with")
    shutil.copytree("dicom/imagesTr", "with")
    run(voxsaw, "predict", "dicom/imagesTr", "--checkpoint", golden + "/flat", "--folds", "0", "--mirror", "none", "--format", form, "--out", form)
    for path in glob.glob(form + "/*.dcm"):
        shutil.copy(path, f"with/{os.path.basename(path)[: -len('.dcm')]}/labels.dcm")
    out = exported(number, form.replace("-", ""), "with", "--labels-predicted", "--names", "keep")
    found = json.load(open(out + "/dataset.json"))["labels"]  # contours have names and no numbers
    for path in sorted(glob.glob("drawn/*.nii.gz")):
        equal(path, f"{out}/labelsTr/{os.path.basename(path)}", f"{os.path.basename(path)} by {form}", [0, found["organ"], found["lesion"]])

# two channels, and an ignore label
fresh("two")
os.makedirs("two/imagesTr")
os.makedirs("two/labelsTr")
for path in sorted(glob.glob("demo/scans/labelsTr/*.nii.gz")):  # without the names in them, of which one would contradict dataset.json
    image = nibabel.load(path)
    nibabel.save(nibabel.Nifti1Image(np.asanyarray(image.dataobj), image.affine), f"two/labelsTr/{os.path.basename(path)}")
for path in labels:
    case = os.path.basename(path)[: -len(".nii.gz")]
    image = nibabel.load(path.replace("labelsTr", "imagesTr"))
    nibabel.save(image, f"two/imagesTr/{case}_0000.nii.gz")
    other = (2000 - np.asarray(image.dataobj)).astype(np.int16)
    nibabel.save(nibabel.Nifti1Image(other, image.affine), f"two/imagesTr/{case}_0001.nii.gz")
with open("two/dataset.json", "w") as f:
    json.dump({"channel_names": {"0": "T1", "1": "T2"}, "labels": {"ignore" if n == "2" else name: int(n) for n, name in names.items()},
               "numTraining": len(labels), "file_ending": ".nii.gz"}, f)
two = exported(906, "Channels", "two", "--channels", "T1,T2", "--names", "keep")
about = json.load(open(two + "/dataset.json"))
check(about["channel_names"] == {"0": "T1", "1": "T2"} and LabelManager(about["labels"], None).ignore_label == len(names) - 1,
      f"export: two channels, the last label is ignored: {about}")
for path in sorted(glob.glob("two/imagesTr/*.nii.gz")):
    equal(path, f"{two}/imagesTr/{os.path.basename(path)}", f"{os.path.basename(path)} of two channels")

# regions in the order of --regions: nnU-Net writes a smaller one over the one around it
fresh("regions")
organs = [name for n, name in names.items() if n != "0"]
run(voxsaw, "export", "demo/scans", "--out", "regions", "--regions", f"whole={'+'.join(organs)},part={organs[1]}")
about = json.load(open("regions/dataset.json"))
manager = LabelManager(about["labels"], about["regions_class_order"])
found = torch.tensor([[1.0, 1.0], [0.0, 1.0]])[:, None, None, :]  # a voxel of the whole alone, and one of the part
got = manager.convert_probabilities_to_segmentation(found).flatten().tolist()
check(got == [1, 2], f"export: a voxel of the part keeps its label beside the whole, {got}")


# scans to predict, larger than the window by air around them: one of the plans' voxels, one of others, one with other axes; and one smaller
# than the window
def save(name, image):
    nibabel.save(image, f"test/{name}_0000.nii.gz")


def wider(image, factors):
    around = (14, 24, 24)
    voxels = np.pad(np.asarray(image.dataobj), [(n, n) for n in around], constant_values=-1000)
    a = image.affine.copy()
    a[:3, :3] *= factors
    a[:3, 3] -= a[:3, :3] @ np.array(around)
    return nibabel.Nifti1Image(voxels, a)


others = [nibabel.load(p) for p in sorted(glob.glob("demo/scans/imagesTr/*.nii.gz"))[-3:]]
save("same_voxels", wider(others[0], 1))
save("other_voxels", wider(others[1], [1.3, 0.9, 0.8]))
turn = nibabel.orientations.ornt_transform(nibabel.orientations.axcodes2ornt("RAS"), nibabel.orientations.axcodes2ornt("PIL"))
save("other_axes", wider(others[2], 1).as_reoriented(turn))
save("small", others[0].slicer[10:50, 5:40, 8:40])


def differ(one, two):
    """Of each scan, voxels that differ, voxels that hold a label in the second, and all."""
    found = {}
    for path in sorted(glob.glob(one + "/*.nii.gz")):
        x, y = nibabel.load(path), nibabel.load(os.path.join(two, os.path.basename(path)))
        assert x.shape == y.shape and np.allclose(x.affine, y.affine, atol=1e-3), path
        x, y = np.asarray(x.dataobj), np.asarray(y.dataobj)
        found[os.path.basename(path)[:-len(".nii.gz")]] = int((x != y).sum()), int((y > 0).sum()), y.size
    return found


def predicted(title, checkpoint, plans):
    model = f"nnUNet_results/{SET}/nnUNetTrainer__{plans}__{CONFIGURATION}"
    out = f"predicted_{title}"
    fresh(model, out)
    run(voxsaw, "convert", checkpoint, "--to", "nnunet", "--out", model)
    theirs("nnUNetv2_predict", "-i", "test", "-o", out + "/theirs", "-d", "901", "-p", plans, "-c", CONFIGURATION, "-f", "0", "-device",
           "cpu", "-npp", "1", "-nps", "1")
    run(voxsaw, "predict", "test", "--checkpoint", model, "--out", out + "/folder")
    run(voxsaw, "predict", "test", "--checkpoint", checkpoint, "--components", "all", "--out", out + "/checkpoint")
    for scan, (n, of, size) in differ(out + "/theirs", out + "/folder").items():
        check(n <= size / 1e5 and of > 100, f"{title}, {scan}: {n} of {size} voxels of nnUNetv2_predict differ from voxsaw predict with the folder; {of} hold a label")
    for scan, (n, of, _) in differ(out + "/theirs", out + "/checkpoint").items():
        print(f"        {title}, {scan}: {n} differ from voxsaw predict with the checkpoint, where {of} hold a label", flush=True)


def pretrained(title, checkpoint, configuration):
    path, arch = f"{title}.pth", configuration["architecture"]
    run(voxsaw, "convert", checkpoint, "--to", "nnunet-pretrained", "--out", path)
    torch.manual_seed(1)
    net = get_network_from_plans(arch["network_class_name"], arch["arch_kwargs"], arch["_kw_requires_import"], 1, len(names))
    first = {k: v.clone() for k, v in net.state_dict().items()}
    load_pretrained_weights(net, path)
    got = net.state_dict()
    safe = load_file(glob.glob(checkpoint + "/last.safetensors")[0])
    ours = {k: safe.get("average/" + k, v) for k, v in safe.items() if k.startswith(("encoder.", "decoder."))}
    compared = set()
    for name, t in got.items():
        own = name.replace("decoder.encoder.", "encoder.").replace(".all_modules.0.", ".conv.").replace(".all_modules.1.", ".norm.")
        if own in ours and "seg_layers" not in name:
            compared.add(own)
            if not np.array_equal(t.numpy(), ours[own]):
                check(False, f"{title}: {name} has other values")
    encoder = {k for k in ours if k.startswith("encoder.")}
    check(encoder and encoder <= compared, f"{title}: nnU-Net has all {len(encoder)} tensors of the encoder, and {len(compared - encoder)} "
          "others of the checkpoint")
    check(all(torch.equal(got[k], first[k]) for k in got if ".seg_layers." in k), f"{title}: heads are nnU-Net's own")
    drawn = [k for k in got if k.startswith("decoder.transpconvs") and k.endswith("weight") and k not in ours]
    for k in drawn:  # as nnU-Net draws them
        check(0.8 < float(got[k].std() / first[k].std()) < 1.25, f"{title}: {k} has nnU-Net's first values")
    plan = torch.load(path, weights_only=True)["nnssl_adaptation_plan"]
    check(plan["architecture_plans"]["arch_kwargs"] == json.loads(json.dumps(arch["arch_kwargs"])), f"{title}: weights_only, the same architecture")
    check(plan["key_to_encoder"] == net.key_to_encoder and plan["key_to_stem"] == net.key_to_stem
          and set(plan["keys_to_in_proj"]) == set(net.keys_to_in_proj), f"{title}: keys are the network's own")
    return path


class ShortTrainer(nnUNetTrainer):
    """Of another name, so that it writes beside the converted models and not over them."""


def trained(title, path, plans):
    torch.set_num_threads(2)
    trainer = ShortTrainer({**plans, "continue_training": False}, CONFIGURATION, 0, json.load(open(raw + "/dataset.json")), device=torch.device("cpu"))
    trainer.num_epochs, trainer.num_iterations_per_epoch, trainer.num_val_iterations_per_epoch = 1, 2, 1
    maybe_load_checkpoint(trainer, False, False, path)
    trainer.run_training()
    loss = trainer.logger.get_value("train_losses", step=None)
    check(len(loss) == 1 and np.isfinite(loss[0]), f"{title}: nnU-Net trains from it, loss {loss}")


for plans, title in (("nnUNetPlans", "plain"), ("nnUNetResEncUNetMPlans", "residual")):
    at = f"nnUNet_preprocessed/{SET}/{plans}.json"
    text = json.load(open(at))
    kwargs = text["configurations"][CONFIGURATION]["architecture"]["arch_kwargs"]
    kwargs["features_per_stage"] = [max(4, n // 8) for n in kwargs["features_per_stage"]]
    with open(at, "w") as f:
        json.dump(text, f)
    fresh(f"prepared_{title}", f"run_{title}", f"pre_{title}")
    run(voxsaw, "prepare", "scans", "--plans", at, "--out", f"prepared_{title}")
    run(voxsaw, "finetune", "--data", f"prepared_{title}", "--plans", at, "--steps", "500", "--foreground", "1", "--hold-out", "0", "--out", f"run_{title}")
    predicted(title, f"run_{title}", plans)
    crop = "x".join(map(str, text["configurations"][CONFIGURATION]["patch_size"][::-1]))
    for task in ("mae", "jigsaw"):
        pre = f"pre_{title}_{task}"
        fresh(pre)
        more = ["--crop", crop] if task == "mae" else []
        run(voxsaw, "pretrain", "--data", f"prepared_{title}", "--network", at, "--task", task, *more, "--steps", "3", "--out", pre)
        path = pretrained(pre, pre, text["configurations"][CONFIGURATION])
        trained(pre, path, text)
        if newer:
            code = ("import sys, torch; sys.path.insert(0, sys.argv[2])\n"
                    "import nnunetv2; assert nnunetv2.__file__.startswith(sys.argv[2])\n"
                    "from nnunetv2.training.nnUNetTrainer.pretraining.pretrainedTrainer import PretrainedTrainer as T\n"
                    "from nnunetv2.utilities.get_network_from_plans import get_network_from_plans\n"
                    "c = torch.load(sys.argv[1], weights_only=True); p = c['nnssl_adaptation_plan']; a = p['architecture_plans']\n"
                    "conf = list(p['pretrain_plan']['configurations'].values())[0]\n"
                    "net = get_network_from_plans('dynamic_network_architectures.architectures.unet.' + a['arch_class_name'], a['arch_kwargs'],"
                    " a['arch_kwargs_requiring_import'], 1, 3)\n"
                    "got, _ = T.load_pretrained_weights(net, sys.argv[1], p['pretrain_num_input_channels'], 1, conf['patch_size'],"
                    " conf['patch_size'], p['key_to_encoder'], p['key_to_stem'], tuple(p['keys_to_in_proj']), p['key_to_lpe'])\n"
                    "s = got.state_dict(); w = c['network_weights']\n"
                    "assert all(torch.equal(s[k], w[k]) for k in s if k.startswith('encoder.'))\n")
            run(sys.executable, "-c", code, path, newer)
            check(True, f"{pre}: the newer nnU-Net's trainer has every tensor of the encoder")

# a network of our own, on scans that were turned to RAS
fresh("prepared_turned", "run_turned")
run(voxsaw, "prepare", "scans", "--spacing", "7x6x6", "--crop", "none", "--out", "prepared_turned")
run(voxsaw, "finetune", "--data", "prepared_turned", "--network", "resenc", "--channels", "4", "--levels", "2", "--blocks", "1,2,2", "--crop",
    "32x32x32", "--batch", "2", "--steps", "500", "--foreground", "1", "--hold-out", "0", "--out", "run_turned")
predicted("turned", "run_turned", "turnedPlans")
sys.exit(f"{len(failed)} failed" if failed else None)
