package prepared

import (
	"container/list"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"

	"github.com/edsrzf/mmap-go"
)

// This file: which cases are mapped into memory. A system allows a process so many mappings (Linux
// 65,530 unless vm.max_map_count says otherwise) and so much address space, and a data set may have
// more cases than that. So those that were read least recently are unmapped where there are too
// many, but never one that is being read.

// A view is the file of a case, mapped, and what is found in it.
type view struct {
	bytes   mmap.MMap
	layout  caseLayout
	present []uint16 // labels with at least one voxel, ascending
}

// mappings are the cases that are mapped. Its methods may be called from any number of goroutines.
type mappings struct {
	mutex     sync.Mutex
	most      int       // cases mapped at once, unless more are read at once
	mostBytes int64     // the same of their bytes
	recent    list.List // of *Case: the one that was read last comes first
	bytes     int64     // of all
}

// shared are the mappings of all stores: the limits are those of the process.
var shared = sync.OnceValue(func() *mappings {
	most, mostBytes := mappingLimits()
	return &mappings{most: most, mostBytes: mostBytes}
})

// acquire gives the view of a case, which stays valid until it is released.
func (m *mappings) acquire(c *Case) (*view, error) {
	m.mutex.Lock()
	if c.view == nil {
		m.mutex.Unlock()
		opened, err := m.open(c)
		if err != nil {
			return nil, fmt.Errorf("opening prepared case %s: %w", c.ID, err)
		}
		m.mutex.Lock()
		if c.view == nil {
			c.view, c.place = opened, m.recent.PushFront(c)
			m.bytes += int64(len(opened.bytes))
		} else { // another reader was faster
			defer opened.bytes.Unmap()
		}
	}
	defer m.mutex.Unlock()
	m.recent.MoveToFront(c.place)
	c.readers++
	if err := m.evict(m.most, m.mostBytes); err != nil {
		c.readers--
		return nil, err
	}
	return c.view, nil
}

// release says that a view is no longer read.
func (m *mappings) release(c *Case) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	c.readers--
}

// evict unmaps cases that nobody reads until no more than so many are left, and so many bytes.
func (m *mappings) evict(most int, mostBytes int64) error {
	var errs []error
	for place := m.recent.Back(); place != nil && (m.recent.Len() > most || m.bytes > mostBytes); {
		c, next := place.Value.(*Case), place.Prev()
		if c.readers == 0 {
			errs = append(errs, m.unmap(c))
		}
		place = next
	}
	return errors.Join(errs...)
}

// drop unmaps a case that nobody reads, if it is mapped.
func (m *mappings) drop(c *Case) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if c.view == nil {
		return nil
	}
	return m.unmap(c)
}

func (m *mappings) unmap(c *Case) error {
	m.recent.Remove(c.place)
	m.bytes -= int64(len(c.view.bytes))
	err := c.view.bytes.Unmap()
	c.view, c.place = nil, nil
	return err
}

// open maps a case's file. Where the system allows no more mappings than there are, because others
// in this process have some too, half of the cases give way, and no more are mapped from then on.
func (m *mappings) open(c *Case) (*view, error) {
	opened, err := openView(c)
	for errors.Is(err, syscall.ENOMEM) {
		m.mutex.Lock()
		m.most = min(m.most, max(m.recent.Len()/2, 1))
		before := m.recent.Len()
		evicted := m.evict(m.most, m.mostBytes)
		freed := m.recent.Len() < before
		m.mutex.Unlock()
		if !freed || evicted != nil {
			return nil, errors.Join(err, evicted)
		}
		opened, err = openView(c)
	}
	return opened, err
}

func openView(c *Case) (*view, error) {
	f, err := c.openFile()
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping outlives its file's descriptor
	mapped, err := mmap.Map(f, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("mapping %s into memory: %w", f.Name(), err)
	}
	return &view{mapped, newCaseLayout(c.Record), slices.Sorted(maps.Keys(c.LabelCounts))}, nil
}
