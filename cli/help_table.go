package cli

// touched are the settings that people touch, by command: fifteen at most, in groups. A command
// that is not here shows all that it has, but for how the machine computes.
var touched = map[string]string{
	"prepare": `
Data set: layout channels pairs structures unlabelled
Preparation: spacing intensity window modality crop
Run: out part workers memory config`,
	"plan": `
Data set: layout labels pairs structures
What is planned: to plans network
Time and machine: hours device memory gpu-memory
Run: out force config`,
	"pretrain": `
Data: data fold hold-out
What is learnt: task grid crop
Network: network channels
Training: steps batch lr device
Run: out resume config`,
	"finetune": `
Data: data labels fold folds fraction
Network: init network
Training: crop steps batch lr device
Run: out resume config`,
	"selftrain": `
Data: data labels fold folds fraction
Teachers: teacher agreement rounds same
Students: init crop steps lr
Run: out config`,
	"crossval": `
Experiment: data folds fractions seeds unlabelled
Pretraining: pretrain-task pretrain-steps
Fine-tuning: finetune-network finetune-steps
Run: out plan device ranks write config`,
	"predict": `
Network: checkpoint device precision memory
Inference: window overlap mirror components
Scans: series volume
Label maps: out format probabilities force
Run: config`,
	"next": `
Network: checkpoint device memory
Inference: window overlap mirror components
Ranking: drawn count
Output: out format json config`,
	"evaluate": `
Labels: labels merge pairs missing scans
Scores: tolerance overlap-only penalise
Run: out json memory config`,
	"export": `
Data set: layout labels pairs structures modality channels
Export: names regions folds seed
Run: out json config`,
	"doctor": `
Memory of a step: network preset channels crop device memory
Run: json config`,
	"tune": `
Convolutions: network inputs channels levels task crop batch
Machine: device precision threads
Run: out config`,
	"bench pretrain": `
Network: network inputs channels norm preset
Puzzles: grid batch head
Timing: steps warmup profile
Machine: device memory
Run: config`,
	"bench segment": `
Network: network inputs channels norm preset
Crops: crop batch
Timing: steps warmup profile
Machine: device memory
Run: config`,
	"bench infer": `
Network: network inputs channels norm preset
Crops: crop batch
Timing: steps warmup profile
Machine: device memory
Run: config`,
	"bench layers": `
Convolutions: network inputs channels levels norm task crop batch
Machine: device precision threads
Run: json config`,
	"bench predict": `
Network: network channels norm preset
Inference: window overlap batch mirror windows
Machine: device precision threads memory
Run: config`,
	"2d pretrain": `
What is learnt: data task grid preset-paper
Network: backbone checkpoint
Training: steps batch lr validate-photos device
Run: out resume config`,
	"2d finetune": `
What is learnt: data train-on task proposals
Network: backbone checkpoint
Training: steps batch lr images validate-photos device
Run: out resume config`,
	"2d transfer": `
Photographs: data mix per-class seeds
Features: checkpoint backbone layer side
Support vector machine: C normalise
Run: json device config`,
	"2d compare": `
Comparison: photos seeds rounds only-classes solve-photos
Pretraining: pretrain-task pretrain-backbone pretrain-grid pretrain-steps pretrain-batch
Run: out json device config`,
}

// A short is the help of a flag on one line, for all flags whose long help begins so: what it
// takes, if its type does not tell, and its purpose. Without that, the first clause of the long
// help is shown.
type short struct{ long, takes, text string }

// shorts are the short helps. %s stands for the words that the flag chooses from.
var shorts = []short{
	{"YAML `FILE`", "FILE", "YAML file with any of these settings; flags win over it"},
	{"alexnet (of the Context Free", "NAME", "%s"},
	{"kind of network", "KIND", "vnet, or resenc (nnU-Net's residual encoder U-Net)"},
	{"vnet: paper", "NAME", "vnet: paper, caffe or monai (MONAI, vnet.pytorch)"},
	{"channels of the first stage", "", "channels of the first stage; 0: the network's own"},
	{"numbered: case_0001", "HOW", "numbered: case_0001, ...; keep: as they are"},
	{"names of the channels of each scan", "NAMES", "each scan's channels: T1w,FLAIR or CT,PET"},
	{"normalisation", "NORM", "normalisation: none, instance, batch or group"},
	{"what is learnt", "TASK", "%s"},
	{"number of training steps", "", "training steps"},
	{"puzzles in a step; auto", "", "puzzles in a step, or auto: as many as fit into memory"},
	{"crops in a step; auto", "", "crops in a step, or auto: as many as fit into memory"},
	{"size of the crop that a puzzle", "", "size of a training crop, in voxels"},
	{"size of training crops", "", "size of crops and of windows, in voxels"},
	{"labels to segment", "NAME,...", "labels to segment, by name or number; empty: all"},
	{"checkpoint to start from", "RUN", "run or checkpoint to start from, or MONAI's VNet; empty: none"},
	{"weights to start from", "RUN", "run or checkpoint to start from; empty: random weights"},
	{"share of the patients to validate", "", "share of the patients to validate on, without --fold"},
	{"fold to hold out", "", "fold to hold out, from 1 (nnU-Net counts from 0)"},
	{"continue the run", "", "go on with the run in --out, to the bit"},
	{"limit of what is taken of the GPU", "", "limit of the GPU's memory; 0: 95 % of what is free"},
	{"limit of the copies", "", "limit of the copies in --local"},
	{"limit", "", "limit of memory, such as 16GiB; 0: what the machine has"},
	{"labels to score", "NAME,...", "labels to score, by name or number; empty: all"},
	{"look at these DICOM series", "WHICH", "DICOM series by number, UID or words, such as modality~MR"},
	{"which DICOM series to take", "WHICH", "DICOM series of a study: number, UID or words; or all"},
	{"look at this volume", "", "which volume of a 4D file, from 1; 0: all of them"},
	{"which volume", "", "which volume of a 4D file, from 1"},
	{"which labels belong", "PAIRS", "which labels belong to which scan: a CSV file, or a pattern"},
	{"which prediction belongs", "PAIRS", "which files belong together: a CSV file, or a pattern"},
	{"structures to take", "NAME,...", "structures to take, * for anything; empty: all"},
	{"layout of the data set", "NAME", "nih, msd, nnunet or scans; empty: look"},
	{"voxel size in mm", "", "voxel size in mm; median of the scans, or own"},
	{"what a network sees of", "SCHEME", "scaling of values, such as ct-window; empty: by modality"},
	{"what the scans are", "NAME", "CT, MR, PT or another of DICOM's words; empty: look"},
	{"what of a scan is prepared", "", "body: the patient's box; auto: where that pays"},
	{"prepare this part", "K/N", "the K-th of N parts; all parts may run at once"},
	{"look at this part", "K/N", "the K-th of N parts; all parts may run at once"},
	{"read this part", "K/N", "the K-th of N parts; all parts may run at once"},
	{"what the plan is for", "WHAT", "voxsaw; prepare alone; nnunet and its ResEnc presets"},
	{"plans.json of nnU-Net, ", "FILE", "plans.json of nnU-Net, which is followed"},
	{"network that is planned", "KIND", "vnet, or unet or resenc by nnU-Net's rules"},
	{"file for the plan", "FILE", "the plan, which other commands take as --config"},
	{"print a list of {path", "", "print all of it as JSON"},
	{"where labels lie on", "", "where labels lie: by header, or voxel by voxel"},
	{"slices of a tilted gantry", "HOW", "tilted gantry: resample, keep or error"},
	{"uneven slice distances", "", "what to do where slices have uneven distances"},
	{"NIfTI files whose axes", "HOW", "axes not at right angles: keep, resample or error"},
	{"structures that share", "HOW", "voxels of two structures: error, last, order:NAMES"},
	{"labels that fit their scan", "", "mirrored labels (nih): refuse, mirror, do not look"},
	{"solve puzzles of all cases", "", "cases that the checkpoint was trained on, too"},
	{"checkpoint of voxsaw 2d pretrain, the", "RUN", "run of 2d pretrain, PyTorch's safetensors, or random"},
	{"checkpoints of voxsaw finetune", "RUN,...", "runs of finetune that label the scans"},
	{"run of voxsaw finetune (its", "RUN,...", "run of finetune; several are averaged"},
	{"a structure is ignored", "", "teachers' least DSC of a structure that counts"},
	{"how many students", "", "students, each of which joins the next one's teachers"},
	{"a scan is left out whose", "", "least DSC of a scan's label maps of two rounds"},
	{"checkpoint of voxsaw finetune", "RUN,...", "run of finetune, or nnU-Net's; several are averaged"},
	{"checkpoint of voxsaw", "RUN", "checkpoint, or the folder of its run (its best one)"},
	{"size of the window", "", "window in voxels; 0: the training crop"},
	{"test-time augmentation", "AXES", "test-time augmentation: axes to mirror, such as ijk"},
	{"connected components", "WHICH", "components of a label to keep: all, largest or validated"},
	{"of the label maps: nifti", "", "a PACS files dicom-seg with the study"},
	{"write NAME_prob", "", "write NAME_probabilities.nii.gz, too"},
	{"folder for the label maps", "PATH", "folder for the label maps, or the file of one"},
	{"write over label maps", "", "replace label maps; segment scans of another modality, too"},
	{"distances of a label", "", "a missed label is off by the image's diagonal, not infinity"},
	{"references without", "HOW", "references without a prediction: error, missed, left-out"},
	{"folder of scans: of pictures", "FOLDER", "scans, for pictures, DICOM SEG and RTSTRUCT"},
	{"new folder for the tables", "FOLDER", "new folder for tables, pictures and label maps"},
	{"folder for scores.csv", "FOLDER", "scores as CSV, JSON and Markdown, and a page of plots"},
	{"share of the patients that is set", "", "share of the patients for pretraining, without labels"},
	{"list the trials", "", "list the trials and the cases of each, and stop"},
	{"ranks of an MPI job", "", "ranks of an MPI job that carry out each trial together"},
	{"write the script that runs", "WHERE", "write a job for slurm or kubernetes, and stop"},
	{"of label maps; scan: DICOM SEG", "scan|nifti", "DICOM SEG where the scan is DICOM, or NIfTI for all"},
	{"what is printed: dsc", "NAME", "dsc, nsd, hd95, hd, assd, predicted, reference, difference"},
	{"difference to the baseline that", "", "difference to find, in the metric's unit"},
	{"about 25 seconds", "", "take 25 seconds, and learn little"},
	{"what the network does", "TASK", "%s"},
	{"size of crops, of windows", "", "size of crops, windows or patches, in voxels"},
	{"show where the time goes", "", "show where the time goes, too"},
	{"how photographs of another", "", "photographs of another shape: stretch them, or cut"},
	{"share of each class", "", "share of each class to hold out, without a split"},
	{"shuffle by this many", "", "shuffle by so many orders alone, as a K-way puzzle"},
	{"what is measured: last", "", "the last layer, or conv5"},
	{"sides that are trained on", "", "sides of Pascal VOC to train on"},
	{"detect: file of proposals", "FILE", "boxes to choose from, as CSV"},
	{"safetensors file to write", "FILE", "safetensors file to write"},
	{"side of what the network looks at", "", "width and height of what the network looks at"},
	{"how a GPU multiplies", "HOW", "bf16, tf32 or fp32 (exact) on a GPU; empty: bf16"},
}

// sectionNames are the sections of a file in words.
var sectionNames = map[string]string{
	"network": "network", "train": "training", "cases": "cases and folds", "machine": "machine",
	"augment": "augmentation", "dataset": "data set", "preparation": "preparation", "read": "reading scans",
	"inference": "inference", "metrics": "scores", "finetune": "fine-tuning", "pretrain": "pretraining",
}
