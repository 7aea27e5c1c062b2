package dataset

import (
	"path/filepath"
	"slices"
	"sync"

	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// seen is what was found out about files while a data set is looked for. Each is opened once then:
// very many do not stay in memory, and come from a disk, or over a network, whenever they are read.
// A nil one remembers nothing.
type seen struct {
	mutex sync.Mutex
	dicom map[string]foundDICOM // below a folder
	heads map[string]head       // of files of voxels
}

type foundDICOM struct {
	series []*dicom.Series
	passed []dicom.Passed
}

// head is what the header of a file says that finding a data set asks for.
type head struct {
	names   map[uint16]string // of labels
	stamped bool              // a prediction of this program
	oneHot  int               // volumes, of a file that has several and no layers of segments
}

func newSeen() *seen { return &seen{dicom: map[string]foundDICOM{}, heads: map[string]head{}} }

// scanDICOM is the function of that name. The lists that it returns are the caller's.
func (s *seen) scanDICOM(path string) ([]*dicom.Series, []dicom.Passed, error) {
	if s == nil {
		return scanDICOM(path)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := filepath.Clean(path)
	found, known := s.dicom[key]
	if !known {
		var err error
		if found.series, found.passed, err = scanDICOM(path); err != nil {
			return nil, nil, err
		}
		s.dicom[key] = found
	}
	return slices.Clone(found.series), slices.Clone(found.passed), nil
}

// add remembers the header of a file.
func (s *seen) add(h *format.Header) head {
	found := head{names: h.Names}
	if h.Volumes > 1 && len(h.Segments) == 0 {
		found.oneHot = h.Volumes
	}
	if own, isNIfTI := h.Own.(*nifti.Header); isNIfTI {
		_, found.stamped = provenance.In(own)
	}
	if s != nil {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.heads[h.Path] = found
	}
	return found
}

// head says what is remembered of a file, or what its header says; nothing where it cannot be read.
func (s *seen) head(path string) head {
	if s != nil {
		s.mutex.Lock()
		found, known := s.heads[path]
		s.mutex.Unlock()
		if known {
			return found
		}
	}
	h, err := format.ReadHeader(path)
	if err != nil {
		return head{}
	}
	return s.add(h)
}

// stamped says whether a file is a prediction of this program.
func (s *seen) stamped(path string) bool {
	if format.IsName(path) {
		return s.head(path).stamped
	}
	_, stamped := provenance.Read(path)
	return stamped
}
