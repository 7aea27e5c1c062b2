package main

import (
	"math"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// reading is what Voxsaw reads in a file or a folder.
type reading struct {
	volumes            []figure
	segments, labelled int
	refusals           []string // why something was not read
}

// read reads a file or a folder.
func read(path string) (r reading) {
	if nifti.IsName(path) {
		r.readNIfTI(path)
		return r
	}
	series, passed, err := dicom.Scan(path)
	if err != nil {
		r.refuse(err)
		return r
	}
	for _, s := range series {
		// a tilted gantry's voxels as they lie in the files, since others interpolate otherwise
		v, err := dicom.ReadWith(s, dicom.Options{Tilt: dicom.TiltKeep})
		if err != nil {
			r.refuse(err)
			continue
		}
		r.volumes = append(r.volumes, describe(v))
	}
	for _, p := range passed {
		switch {
		case p.What == dicom.WhatSEG:
			r.readSegmentation(p.Path)
		case p.Err != nil:
			r.refuse(p.Err)
		default:
			r.refusals = append(r.refusals, p.What)
		}
	}
	return r
}

func (r *reading) refuse(err error) { r.refusals = append(r.refusals, err.Error()) }

// readNIfTI reads all volumes of a file as one figure.
func (r *reading) readNIfTI(path string) {
	h, err := nifti.ReadHeader(path)
	if err != nil {
		r.refuse(err)
		return
	}
	all, err := nifti.ReadAll(path, nifti.Options{})
	if err != nil {
		r.refuse(err)
		return
	}
	f := describe(all[0])
	f.Shape = h.Dims
	finite, sum := 0, 0.0
	for n, v := range all {
		s := v.Statistics()
		if n == 0 {
			f.Min, f.Max = float64(s.Min), float64(s.Max)
		}
		f.Min, f.Max = min(f.Min, float64(s.Min)), max(f.Max, float64(s.Max))
		count := v.Len() - s.NonFinite
		finite, sum = finite+count, sum+float64(count)*s.Mean
	}
	f.Mean = sum / float64(max(1, finite))
	if len(all) > 1 {
		f.Centre = nil
	}
	r.volumes = append(r.volumes, f)
}

func (r *reading) readSegmentation(path string) {
	g, err := dicom.OpenSegmentation(path)
	if err != nil {
		r.refuse(err)
		return
	}
	labels, err := g.Read(dicom.Options{})
	if err != nil {
		r.refuse(err)
		return
	}
	r.segments += len(g.Segments)
	for label, voxels := range labels.Counts() {
		if label > 0 {
			r.labelled += voxels
		}
	}
}

// describe puts a volume into numbers, as expected.py does.
func describe(v *volume.Volume) figure {
	s, spacing := v.Statistics(), v.Spacing()
	end := [3]float64{float64(v.Shape[0] - 1), float64(v.Shape[1] - 1), float64(v.Shape[2] - 1)}
	first, last := v.World([3]float64{}), v.World(end)
	f := figure{
		Shape: v.Shape[:], Spacing: spacing[:], First: first[:], Last: last[:],
		Min: float64(s.Min), Max: float64(s.Max), Mean: s.Mean,
	}
	if s.NonFinite == 0 && s.Max > s.Min {
		f.Centre = centre(v, float64(s.Min))
	}
	return f
}

// centre is the centre of gravity of the values above the smallest, in voxels.
func centre(v *volume.Volume, least float64) []float64 {
	var weight float64
	at := make([]float64, 3)
	for k := range v.Shape[2] {
		for j := range v.Shape[1] {
			row, moment := 0.0, 0.0
			for i := range v.Shape[0] {
				w := float64(v.At(i, j, k)) - least
				row += w
				moment += w * float64(i)
			}
			weight += row
			at[0] += moment
			at[1] += row * float64(j)
			at[2] += row * float64(k)
		}
	}
	for n := range at {
		at[n] /= math.Max(weight, math.SmallestNonzeroFloat64)
	}
	return at
}
