// Package results reads libcni's result cache. libcni writes one file for an attachment when
// all plugins of the chain have succeeded, and deletes the file after a successful DEL.
package results

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// maxCacheFile is far more than libcni writes for one attachment.
const maxCacheFile = 1 << 20

// Entry is one file of the cache.
type Entry struct {
	Attachment reservation.Attachment
	// Config is the network configuration or the list of them.
	Config []byte
	since  time.Time
}

// cacheFile has those keys of a file of libcni's that matter here.
type cacheFile struct {
	Kind           string      `json:"kind"`
	ContainerID    string      `json:"containerId"`
	Config         []byte      `json:"config"`
	IfName         string      `json:"ifName"`
	NetworkName    string      `json:"networkName"`
	NetNS          string      `json:"netns"`
	CNIArgs        [][2]string `json:"cniArgs"`
	CapabilityArgs struct {
		Annotations map[string]string `json:"io.kubernetes.cri.pod-annotations"`
	} `json:"capabilityArgs"`
	Result json.RawMessage `json:"result"`
}

// Read returns the entries of several caches, the oldest first. A file that cannot be understood
// belongs to another program and is left out.
func Read(dirs []string, maxRetain time.Duration) ([]*Entry, error) {
	var all []*Entry
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("read result cache: %w", err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() {
				continue // removed meanwhile, or no file: a read could block
			}
			data, err := readAtMost(filepath.Join(dir, e.Name()), maxCacheFile)
			if err != nil {
				continue
			}
			if c, ok := parse(data, maxRetain); ok {
				c.since = info.ModTime()
				c.Attachment.Since = reservation.Moment{Wall: c.since}
				all = append(all, &c)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Entry) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.Attachment.ID.ContainerID, b.Attachment.ID.ContainerID))
	})
	return all, nil
}

// Of returns the attachment with an ID; false when the cache does not have it.
func Of(dir string, id reservation.AttachmentID, maxRetain time.Duration) (reservation.Attachment, bool) {
	data, err := readAtMost(path(dir, id), maxCacheFile)
	if err != nil {
		return reservation.Attachment{}, false // as after its DEL
	}
	e, ok := parse(data, maxRetain)
	return e.Attachment, ok && e.Attachment.ID == id
}

func path(dir string, id reservation.AttachmentID) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%s-%s", id.Network, id.ContainerID, id.IfName))
}

func readAtMost(path string, limit int64) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: %w", path, os.ErrInvalid) // a pipe would wait for a writer
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, errors.Join(err, f.Close())
}

// parse reads the content of one file.
func parse(data []byte, maxRetain time.Duration) (Entry, bool) {
	var f cacheFile
	if !json.Valid(data) {
		return Entry{}, false
	}
	_ = json.Unmarshal(data, &f) // a key of another type than libcni writes is left out, not the address
	id := reservation.AttachmentID{Network: f.NetworkName, ContainerID: f.ContainerID, IfName: f.IfName}
	if f.Kind != "cniCacheV1" || !ValidID(id) {
		return Entry{}, false
	}
	addrs := netconf.ResultAddresses(f.Result)
	if len(addrs) == 0 {
		return Entry{}, false
	}
	asks, _ := reservation.ParseRetentionRequest(f.CapabilityArgs.Annotations, maxRetain) // the ADD has warned already
	asks = asks.On(id.Network == reservation.FollowNetwork, maxRetain)                    // the agent corrects it for another network
	pod := netconf.PodOfPairs(f.CNIArgs)
	return Entry{Config: f.Config, Attachment: reservation.Attachment{
		ID: id, Owner: pod.Owner(id), UID: pod.UID, Addresses: addrs, NetNS: reservation.NetNS{Path: f.NetNS},
		Retain: asks.Retain, Mode: asks.Mode, AnnotationsSeen: f.CapabilityArgs.Annotations != nil,
	}}, true
}
