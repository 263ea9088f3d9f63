package cniplugin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/skel"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// maxCacheFile is far more than libcni writes for one attachment.
const maxCacheFile = 1 << 20

// cached is one file of libcni's result cache: an attachment that a whole chain of
// plugins made, and whose DEL has not succeeded yet.
type cached struct {
	attachment reservation.Attachment
	// config is the network configuration or the list of them.
	config []byte
	since  time.Time
}

// cacheFile is what libcni writes, as far as it matters here.
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

// readCache returns the attachments in libcni's cache, the oldest first. A file that
// cannot be understood is another's, and left out.
func readCache(dir string, maxRetain time.Duration) ([]*cached, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read result cache: %w", err)
	}
	var all []*cached
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // removed meanwhile, or something that a read could hang on
		}
		data, err := readAtMost(filepath.Join(dir, e.Name()), maxCacheFile)
		if err != nil {
			continue
		}
		if c, ok := parseCached(data, maxRetain); ok {
			c.since = info.ModTime()
			c.attachment.Since = reservation.Moment{Wall: c.since}
			all = append(all, &c)
		}
	}
	slices.SortFunc(all, func(a, b *cached) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.attachment.ID.ContainerID, b.attachment.ID.ContainerID))
	})
	return all, nil
}

func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, errors.Join(err, f.Close())
}

// parseCached understands one file of the cache.
func parseCached(data []byte, maxRetain time.Duration) (cached, bool) {
	var f cacheFile
	if !json.Valid(data) {
		return cached{}, false
	}
	_ = json.Unmarshal(data, &f) // what is of another type than libcni writes is left out, not the address
	if f.Kind != "cniCacheV1" || !skel.ValidName(f.NetworkName) || !skel.ValidName(f.ContainerID) || !skel.ValidIfName(f.IfName) {
		return cached{}, false
	}
	addrs := resultAddresses(f.Result)
	if len(addrs) == 0 {
		return cached{}, false
	}
	wish, _ := reservation.ParseRetentionRequest(f.CapabilityArgs.Annotations, maxRetain) // its ADD has warned
	id := reservation.AttachmentID{Network: f.NetworkName, ContainerID: f.ContainerID, IfName: f.IfName}
	pod := podOf(f.CNIArgs)
	return cached{config: f.Config, attachment: reservation.Attachment{
		ID: id, Owner: pod.owner(id), UID: string(pod.K8S_POD_UID), Addresses: addrs, NetNS: reservation.NetNS{Path: f.NetNS},
		Retain: wish.Retain, Mode: wish.Mode, AnnotationsSeen: f.CapabilityArgs.Annotations != nil,
	}}, true
}

// podOf reads the arguments that concern the pod.
func podOf(args [][2]string) *podArgs {
	var pod podArgs
	for _, arg := range args {
		value := types.UnmarshallableString(arg[1])
		if strings.ContainsRune(arg[1], 0) {
			continue
		}
		switch arg[0] {
		case "K8S_POD_NAMESPACE":
			pod.K8S_POD_NAMESPACE = value
		case "K8S_POD_NAME":
			pod.K8S_POD_NAME = value
		case "K8S_POD_UID":
			pod.K8S_POD_UID = value
		}
	}
	return &pod
}

// resultAddresses returns the addresses in a result of any version.
func resultAddresses(result json.RawMessage) []netip.Addr {
	type old struct {
		IP string `json:"ip"`
	}
	var r struct {
		IPs []struct {
			Address string `json:"address"`
		} `json:"ips"`
		IP4 *old `json:"ip4"`
		IP6 *old `json:"ip6"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return nil
	}
	var texts []string
	for _, ip := range r.IPs {
		texts = append(texts, ip.Address)
	}
	for _, ip := range []*old{r.IP4, r.IP6} {
		if ip != nil {
			texts = append(texts, ip.IP)
		}
	}
	var addrs []netip.Addr
	for _, t := range texts {
		p, err := netip.ParsePrefix(t)
		if err == nil && !slices.Contains(addrs, p.Addr()) {
			addrs = append(addrs, p.Addr())
		}
	}
	return addrs
}
