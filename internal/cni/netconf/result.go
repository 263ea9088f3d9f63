package netconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// ErrUnknown is returned by CHECK for an attachment or an address that is not known.
var ErrUnknown = errors.New("Failed to find address added by container") //nolint:staticcheck // host-local's text, which people search for

// Compare fails when an earlier result does not name all addresses of an attachment. The
// result may name addresses of other plugins too. Without a result nothing is compared.
func Compare(a reservation.Attachment, prevResult json.RawMessage) error {
	if len(prevResult) == 0 || string(prevResult) == "null" {
		return nil
	}
	type ip struct {
		Address netip.Prefix `json:"address"`
	}
	var prev struct {
		IPs []ip `json:"ips"`
	}
	if err := json.Unmarshal(prevResult, &prev); err != nil {
		return fmt.Errorf("prevResult: %w: %w", err, ErrConfig)
	}
	for _, want := range a.Addresses {
		if !slices.ContainsFunc(prev.IPs, func(ip ip) bool { return ip.Address.Addr() == want }) {
			return fmt.Errorf("%w %s: it holds %s, which prevResult does not name", ErrUnknown, a.ID.ContainerID, want)
		}
	}
	return nil
}

// ResultAddresses returns the addresses in a result of any version of the specification.
func ResultAddresses(result json.RawMessage) []netip.Addr {
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

// ValidAttachments reads the list of a GC. A null list says that no attachment is valid;
// known is false where the list is missing, which says nothing.
func (in *Input) ValidAttachments() (valid map[reservation.AttachmentID]bool, known bool, err error) {
	raw := in.keys.ValidAttachments
	if raw == nil {
		return nil, false, nil
	}
	var list []struct {
		ContainerID string `json:"containerID"`
		IfName      string `json:"ifname"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, false, fmt.Errorf("cni.dev/valid-attachments: %w: %w", err, ErrConfig)
	}
	valid = map[reservation.AttachmentID]bool{}
	for _, a := range list {
		valid[reservation.AttachmentID{Network: in.keys.Name, ContainerID: a.ContainerID, IfName: a.IfName}] = true
	}
	return valid, true, nil
}
