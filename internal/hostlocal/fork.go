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

// Record is what the fork wrote about one pod: the address that the pod has, or the address
// that is kept for it.
type Record struct {
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

// ForkRecords is the directory in which host-local's fork keeps a file for each pod, of all
// networks together. It need not be there.
type ForkRecords struct {
	path string
}

// NewForkRecords returns the directory at a path. It touches no file.
func NewForkRecords(path string) ForkRecords { return ForkRecords{path} }

// Of returns the record of a pod. A record that cannot be understood counts as none:
// the fork left half-written ones behind.
func (d ForkRecords) Of(namespace, pod string) (Record, bool, error) {
	if !filepath.IsLocal(namespace) || !filepath.IsLocal(pod) {
		return Record{}, false, nil // no name that Kubernetes gives
	}
	data, found, err := readFile(filepath.Join(d.path, namespace, pod))
	if err != nil || !found {
		return Record{}, false, err
	}
	r, ok := parseRecord(data)
	r.Namespace, r.Pod = namespace, pod
	return r, ok, nil
}

// All returns the records of all pods.
func (d ForkRecords) All() ([]Record, error) {
	files, err := filepath.Glob(filepath.Join(d.path, "*", "*"))
	if err != nil {
		return nil, fmt.Errorf("list the records of host-local's fork: %w", err)
	}
	var all []Record
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
func (d ForkRecords) Remove(r Record) error {
	if err := os.Remove(filepath.Join(d.path, r.Namespace, r.Pod)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the record of host-local's fork: %w", err)
	}
	return nil
}

// parseRecord decodes a record. Its duration is a number of minutes.
func parseRecord(data []byte) (Record, bool) {
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
		return Record{}, false
	}
	p, err := netip.ParsePrefix(f.IPConf.Address)
	if err != nil || f.Duration < 0 || f.Duration > int64(maxDuration/time.Minute) {
		return Record{}, false
	}
	r := Record{ContainerID: f.ContainerID, IfName: f.IfName, Addr: p.Addr(), For: time.Duration(f.Duration) * time.Minute}
	if f.ReleaseTime != nil {
		r.Released = *f.ReleaseTime
	}
	return r, true
}

// maxDuration is the longest that a time.Duration can tell.
const maxDuration = time.Duration(1<<63 - 1)
