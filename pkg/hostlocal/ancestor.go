package hostlocal

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Reserved is what the ancestor wrote of one pod: the address that it has, or that is
// kept for it.
type Reserved struct {
	Namespace   string
	Pod         string
	ContainerID string
	IfName      string
	Addr        netip.Addr
	// For is how long the address is kept from Released on; Released is zero while the
	// pod has it.
	For      time.Duration
	Released time.Time
}

// Ancestor is the directory in which the ancestor kept a file for each pod, of all
// networks together. It need not be there.
type Ancestor struct {
	path string
}

// NewAncestor returns the directory at a path. It touches no file.
func NewAncestor(path string) Ancestor { return Ancestor{path} }

// Of returns the record of a pod. One that cannot be understood is as good as none: the
// ancestor left half-written ones behind.
func (d Ancestor) Of(namespace, pod string) (Reserved, bool, error) {
	if !filepath.IsLocal(namespace) || !filepath.IsLocal(pod) {
		return Reserved{}, false, nil // no name that Kubernetes gives
	}
	data, found, err := readFile(filepath.Join(d.path, namespace, pod))
	if err != nil || !found {
		return Reserved{}, false, err
	}
	r, ok := parseReserved(data)
	r.Namespace, r.Pod = namespace, pod
	return r, ok, nil
}

// All returns the records of all pods.
func (d Ancestor) All() ([]Reserved, error) {
	files, err := filepath.Glob(filepath.Join(d.path, "*", "*"))
	if err != nil {
		return nil, fmt.Errorf("list the ancestor's records: %w", err)
	}
	var all []Reserved
	for _, f := range files {
		r, found, err := d.Of(filepath.Base(filepath.Dir(f)), filepath.Base(f))
		if err != nil {
			return nil, err
		}
		if found {
			all = append(all, r)
		}
	}
	return all, nil
}

// Remove removes the record of a pod.
func (d Ancestor) Remove(r Reserved) error {
	if err := os.Remove(filepath.Join(d.path, r.Namespace, r.Pod)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the ancestor's record: %w", err)
	}
	return nil
}

// parseReserved understands a record. Its duration is a number of minutes, whatever the
// name says.
func parseReserved(data []byte) (Reserved, bool) {
	var f struct {
		ContainerID string `json:"containerId"`
		IfName      string `json:"ifName"`
		IPConf      struct {
			Address string `json:"address"`
		} `json:"IPConf"`
		Duration    int64      `json:"duration"`
		ReleaseTime *time.Time `json:"releaseTime"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return Reserved{}, false
	}
	p, err := netip.ParsePrefix(f.IPConf.Address)
	if err != nil || f.Duration < 0 || f.Duration > int64(maxDuration/time.Minute) {
		return Reserved{}, false
	}
	r := Reserved{ContainerID: f.ContainerID, IfName: f.IfName, Addr: p.Addr(), For: time.Duration(f.Duration) * time.Minute}
	if f.ReleaseTime != nil {
		r.Released = *f.ReleaseTime
	}
	return r, true
}

// maxDuration is the longest that a time.Duration can tell.
const maxDuration = time.Duration(1<<63 - 1)
