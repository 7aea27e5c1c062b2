// Package miniature makes little copies of published data sets, as faithful as they are small: the
// folders, the names and the oddities of what is fetched, with made-up patients and pictures in it.
// Tests run on them what people run on the data sets themselves.
//
// Start at [NIH], [MSD], [ImageNet] and [Caltech256]; Pascal VOC is package voctest's. The oddities
// are listed with each function. [Scans], [Picture] and [OddPictures] make the least that the
// program can work on, in several formats. Everything is a function of its arguments: two calls
// write the same bytes.
package miniature

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

// Shape is the size of the made-up scans.
var Shape = [3]int{30, 26, 22}

// NIH writes cases of these numbers as The Cancer Imaging Archive hands NIH Pancreas-CT out:
//
//   - Pancreas-CT/PANCREAS_00XX/STUDY/SERIES/*.dcm, every second case below DOI, whose files have
//     names that say nothing about their order;
//   - TCIA_pancreas_labels-02-05-2017/label00XX.nii.gz, whose headers disagree with the scans': a
//     label is the scan's by columns, rows and the order of the instance numbers, and nothing else
//     is right about where it lies.
//
// One label is told from the background.
func NIH(root string, numbers []int) error {
	for n, number := range numbers {
		scan, labels, err := patient(number)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("PANCREAS_%04d", number)
		uid := fmt.Sprintf("1.2.826.0.1.3680043.2.1125.%d", number)
		folder := filepath.Join(root, "Pancreas-CT", name, uid+".1", uid+".2")
		if n%2 == 1 {
			folder = filepath.Join(root, "Pancreas-CT", "DOI", name, uid+".1", uid+".2")
		}
		if scan, err = scan.Orient("LPS"); err != nil {
			return err
		}
		if err := writeSeries(folder, uid, scan); err != nil {
			return err
		}
		// the first instance is the highest slice
		if labels, err = labels.Orient("LPI"); err != nil {
			return err
		}
		labels.Affine = volume.Scaling(labels.Spacing()) // as if it were RAS, from the origin on
		path := filepath.Join(root, "TCIA_pancreas_labels-02-05-2017", fmt.Sprintf("label%04d.nii.gz", number))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := nifti.WriteLabels(path, labels); err != nil {
			return err
		}
	}
	return nil
}

// patient is a made-up one with his pancreas drawn.
func patient(number int) (*volume.Volume, *volume.LabelMap, error) {
	scan, labels, err := phantom.New(uint64(number), phantom.Options{Shape: Shape})
	if err != nil {
		return nil, nil, err
	}
	for n, label := range labels.Labels {
		labels.Labels[n] = 0
		if label == phantom.Pancreas {
			labels.Labels[n] = 1
		}
	}
	return scan, labels, nil
}

// MSD writes Task07_Pancreas of the Medical Segmentation Decathlon: imagesTr, labelsTr (1 pancreas,
// 2 tumour), imagesTs without labels, dataset.json, and beside each file another whose name begins
// with a dot, as the archive has them.
func MSD(root string, train, test int) error {
	task := filepath.Join(root, "Task07_Pancreas")
	for _, folder := range []string{"imagesTr", "labelsTr", "imagesTs"} {
		if err := os.MkdirAll(filepath.Join(task, folder), 0o777); err != nil {
			return err
		}
	}
	type pair struct {
		Image string `json:"image"`
		Label string `json:"label"`
	}
	training, testing := []pair{}, []string{}
	for n := range train + test {
		name := fmt.Sprintf("pancreas_%03d.nii.gz", n+1)
		scan, labels, err := patient(1000 + n)
		if err != nil {
			return err
		}
		folder := "imagesTr"
		if n >= train {
			folder = "imagesTs"
			testing = append(testing, "./imagesTs/"+name)
		} else {
			training = append(training, pair{"./imagesTr/" + name, "./labelsTr/" + name})
			tumour(labels)
			if err := nifti.WriteLabels(filepath.Join(task, "labelsTr", name), labels); err != nil {
				return err
			}
		}
		if err := nifti.Write(filepath.Join(task, folder, name), scan); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(task, folder, "._"+name), []byte("Mac OS X        "), 0o666); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(map[string]any{
		"name": "Pancreas", "tensorImageSize": "3D", "modality": map[string]string{"0": "CT"},
		"labels":      map[string]string{"0": "background", "1": "pancreas", "2": "cancer"},
		"numTraining": train, "numTest": test, "training": training, "test": testing,
	}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(task, "dataset.json"), text, 0o666)
}

// tumour makes every third voxel of the pancreas one of the tumour.
func tumour(l *volume.LabelMap) {
	count := 0
	for n, label := range l.Labels {
		if label == 1 {
			if count++; count%3 == 0 {
				l.Labels[n] = 2
			}
		}
	}
}

// writeSeries writes an axial CT as DICOM files: explicit little endian, one slice a file, HU +
// 1024 in unsigned 16 bits. The first slice has the highest instance number.
func writeSeries(folder, uid string, v *volume.Volume) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	area, spacing := v.Shape[0]*v.Shape[1], v.Spacing()
	short := func(x int) string { return string(binary.LittleEndian.AppendUint16(nil, uint16(x))) }
	for k := range v.Shape[2] {
		var pixels []byte
		for _, hu := range v.Int16[k*area:][:area] {
			pixels = binary.LittleEndian.AppendUint16(pixels, uint16(hu+1024))
		}
		sop, p := fmt.Sprintf("%s.3.%d", uid, k+1), v.World([3]float64{0, 0, float64(k)})
		meta := element(0x0002, 0x0002, "UI", ctImage) + element(0x0002, 0x0003, "UI", sop) +
			element(0x0002, 0x0010, "UI", "1.2.840.10008.1.2.1")
		file := strings.Repeat("\x00", 128) + "DICM" +
			element(0x0002, 0x0000, "UL", string(binary.LittleEndian.AppendUint32(nil, uint32(len(meta))))) + meta +
			element(0x0008, 0x0016, "UI", ctImage) + element(0x0008, 0x0018, "UI", sop) +
			element(0x0008, 0x0060, "CS", "CT") + element(0x0010, 0x0020, "LO", uid) +
			element(0x0020, 0x000D, "UI", uid+".1") + element(0x0020, 0x000E, "UI", uid+".2") +
			element(0x0020, 0x0011, "IS", "1") + element(0x0020, 0x0013, "IS", fmt.Sprint(v.Shape[2]-k)) +
			// DICOM's world is LPS, ours RAS
			element(0x0020, 0x0032, "DS", fmt.Sprintf("%.4f\\%.4f\\%.4f", -p[0], -p[1], p[2])) +
			element(0x0020, 0x0037, "DS", `1\0\0\0\1\0`) + element(0x0020, 0x0052, "UI", uid+".4") +
			element(0x0028, 0x0002, "US", short(1)) + element(0x0028, 0x0004, "CS", "MONOCHROME2") +
			element(0x0028, 0x0010, "US", short(v.Shape[1])) + element(0x0028, 0x0011, "US", short(v.Shape[0])) +
			element(0x0028, 0x0030, "DS", fmt.Sprintf("%.5f\\%.5f", spacing[1], spacing[0])) +
			element(0x0028, 0x0100, "US", short(16)) + element(0x0028, 0x0101, "US", short(16)) +
			element(0x0028, 0x0102, "US", short(15)) + element(0x0028, 0x0103, "US", short(0)) +
			element(0x0028, 0x1052, "DS", "-1024") + element(0x0028, 0x1053, "DS", "1") +
			element(0x7FE0, 0x0010, "OW", string(pixels))
		name := fmt.Sprintf("%08x-%04x.dcm", uint32(k+1)*2654435761, k) // in no order
		if err := os.WriteFile(filepath.Join(folder, name), []byte(file), 0o666); err != nil {
			return err
		}
	}
	return nil
}

const ctImage = "1.2.840.10008.5.1.4.1.1.2"

// element writes one of DICOM's in explicit little endian.
func element(group, number uint16, representation, value string) string {
	if len(value)%2 == 1 {
		value += map[bool]string{true: "\x00", false: " "}[representation == "UI"]
	}
	b := binary.LittleEndian.AppendUint16(nil, group)
	b = append(binary.LittleEndian.AppendUint16(b, number), representation...)
	if representation == "OW" {
		b = binary.LittleEndian.AppendUint32(append(b, 0, 0), uint32(len(value)))
	} else {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
	}
	return string(b) + value
}
