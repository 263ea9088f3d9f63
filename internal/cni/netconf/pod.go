package netconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var (
	// ErrArgs is wrapped by every error about CNI_ARGS.
	ErrArgs = errors.New("invalid CNI_ARGS")
	// errNoText is what is wrong with CNI_ARGS that are not valid UTF-8.
	errNoText = errors.New("not a text")
)

// Pod is what a Kubernetes runtime tells about the pod in CNI_ARGS.
type Pod struct {
	Namespace, Name, UID string
	// IP is the address asked for by number; not valid for none.
	IP netip.Addr
}

// podArgs has the names that the runtime uses, as the CNI library wants them.
type podArgs struct {
	types.CommonArgs
	IP                requestedIP
	K8S_POD_NAMESPACE types.UnmarshallableString //nolint:revive // the names are the runtime's
	K8S_POD_NAME      types.UnmarshallableString //nolint:revive // the names are the runtime's
	K8S_POD_UID       types.UnmarshallableString //nolint:revive // the names are the runtime's
}

type requestedIP struct{ netip.Addr }

// UnmarshalText reads an address that may have a prefix length.
func (r *requestedIP) UnmarshalText(text []byte) (err error) {
	if len(text) > 0 {
		r.Addr, err = parseRequested(string(text))
	}
	return err
}

// ParsePod reads CNI_ARGS.
func ParsePod(args string) (Pod, error) {
	if args == "" {
		return Pod{}, nil
	}
	var a podArgs
	err := types.LoadArgs(args, &a)
	if err == nil && !utf8.ValidString(args) {
		err = errNoText
	}
	if err != nil {
		return Pod{}, fmt.Errorf("CNI_ARGS %q: %w: %w", args, err, ErrArgs)
	}
	return Pod{Namespace: string(a.K8S_POD_NAMESPACE), Name: string(a.K8S_POD_NAME), UID: string(a.K8S_POD_UID), IP: a.IP.Addr}, nil
}

// PodOfPairs reads the arguments that concern the pod from pairs of name and value, as
// libcni keeps them.
func PodOfPairs(pairs [][2]string) Pod {
	var pod Pod
	for _, arg := range pairs {
		if strings.ContainsRune(arg[1], 0) {
			continue
		}
		switch arg[0] {
		case "K8S_POD_NAMESPACE":
			pod.Namespace = arg[1]
		case "K8S_POD_NAME":
			pod.Name = arg[1]
		case "K8S_POD_UID":
			pod.UID = arg[1]
		}
	}
	return pod
}

// annotations returns the pod's annotations with what args.cni adds. A value there is a text; any other counts as
// one that says nothing, so that no pod fails.
func (f *file) annotations() map[string]string {
	all := f.RuntimeConfig.Annotations
	for key, raw := range map[string]json.RawMessage{
		reservation.RetainAnnotation: f.Args.CNI.Retain, reservation.ModeAnnotation: f.Args.CNI.Mode, reservation.OwnerAnnotation: f.Args.CNI.Owner,
	} {
		if _, annotated := all[key]; annotated || raw == nil {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[key] = strings.Trim(string(raw), `"`)
	}
	return all
}

// Attachment returns what the configuration and the pod say of an attachment, and warnings
// about annotations that cannot be honored.
func (c *Config) Attachment(pod Pod, containerID, ifName string) (reservation.Attachment, []string) {
	id := reservation.AttachmentID{Network: c.Network, ContainerID: containerID, IfName: ifName}
	asks, warnings := reservation.ParseRetentionRequest(c.Annotations, c.MaxReservation)
	asks = asks.On(c.Follows || c.Network == reservation.FollowNetwork, c.MaxReservation)
	owner := pod.Owner(id)
	owner.Pod = reservation.OwnerName(owner.Pod, c.Annotations)
	return reservation.Attachment{
		ID: id, Owner: owner, UID: pod.UID, Retain: asks.Retain, Mode: asks.Mode, AnnotationsSeen: c.Annotations != nil,
	}, warnings
}

// Owner returns the owner of the pod's attachment.
func (p Pod) Owner(id reservation.AttachmentID) reservation.Owner {
	return reservation.Owner{Network: id.Network, IfName: id.IfName, Namespace: p.Namespace, Pod: p.Name}
}

// ErrRequested matches every RequestedError.
var ErrRequested = errors.New("requested address")

// RequestedError says in host-local's words why a requested address cannot be had.
type RequestedError string

// Error returns the words.
func (e RequestedError) Error() string { return string(e) }

// Is makes ErrRequested match.
func (e RequestedError) Is(target error) bool { return target == ErrRequested }

// requestedIPs reads the addresses that the configuration asks for by number.
func requestedIPs(f *file) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, key := range []struct {
		name string
		ips  []string
	}{{"args.cni.ips", f.Args.CNI.IPs}, {"runtimeConfig.ips", f.RuntimeConfig.IPs}} {
		for _, s := range key.ips {
			a, err := parseRequested(s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w: %w", key.name, err, ErrConfig)
			}
			all = append(all, a)
		}
	}
	return all, nil
}

// parseRequested reads an address and ignores a prefix length: the range has one.
func parseRequested(s string) (netip.Addr, error) {
	var a netip.Addr
	if strings.Contains(s, "/") {
		ip, _, _ := net.ParseCIDR(s) // nil for invalid text
		a, _ = netip.AddrFromSlice(ip)
	} else {
		a, _ = netip.ParseAddr(s)
	}
	if !a.IsValid() || a.Zone() != "" {
		return a, fmt.Errorf("invalid IP address %s", s)
	}
	return a.Unmap(), nil
}

// Assign gives each range set the first requested address that it contains; the address in
// CNI_ARGS comes first. The result has one address for each set, not valid where none was asked
// for.
func (c *Config) Assign(pod Pod) ([]netip.Addr, error) {
	var left []netip.Addr
	if pod.IP.IsValid() {
		left = append(left, pod.IP)
	}
	left = append(left, c.Requested...)
	if len(left) == 0 {
		return make([]netip.Addr, len(c.Sets)), nil
	}
	return c.assign(left)
}

func (c *Config) assign(left []netip.Addr) ([]netip.Addr, error) {
	wanted := make([]netip.Addr, len(c.Sets))
	for n, set := range c.Sets {
		i := slices.IndexFunc(left, func(a netip.Addr) bool { _, in := set.Contains(a); return in })
		if i < 0 {
			continue
		}
		if r, _ := set.Contains(left[i]); r.Gateway == left[i] {
			return nil, RequestedError(fmt.Sprintf("failed to allocate for range %d: requested ip %s is subnet's gateway", n, left[i]))
		}
		wanted[n] = left[i]
		left = slices.DeleteFunc(left, func(a netip.Addr) bool { return a == wanted[n] })
	}
	if len(left) > 0 {
		return nil, RequestedError("failed to allocate all requested IPs: " + strings.Trim(fmt.Sprint(left), "[]"))
	}
	return wanted, nil
}

// Fits says why addresses that an owner had cannot be handed out again: the ranges have
// changed, or other addresses are asked for by number. Of a guest only the families are of this node.
func (c *Config) Fits(wanted, addrs []netip.Addr, guest bool) error {
	if guest {
		for n, a := range addrs {
			if _, _, err := c.SubnetOf(n, a); err != nil {
				return err
			}
		}
		return nil
	}
	if err := ipam.Fit(c.Sets, addrs); err != nil {
		return err
	}
	for n, want := range wanted {
		if want.IsValid() && want != addrs[n] {
			return fmt.Errorf("%s is asked for instead of %s", want, addrs[n])
		}
	}
	return nil
}

// SubnetOf returns an address with the mask of its range, and the gateway. The address is of the set with that number. One of
// another node gets the mask of the first range of its family, and a gateway in the subnet of the address: ptp, which answers for
// any gateway, cannot reach another one. On a segment that the nodes share, that is the gateway of this node.
func (c *Config) SubnetOf(set int, a netip.Addr) (subnet netip.Prefix, gateway netip.Addr, err error) {
	if set < len(c.Sets) {
		if r, ok := c.Sets[set].Contains(a); ok {
			return netip.PrefixFrom(a, r.Subnet.Bits()), r.Gateway, nil
		}
	}
	for _, s := range c.Sets {
		if s[0].Start.BitLen() != a.BitLen() {
			continue
		}
		subnet = netip.PrefixFrom(a, s[0].Subnet.Bits())
		switch {
		case c.Segment != "" && a == s[0].Gateway: // with isGateway the node itself has it, and does not answer itself
			return subnet, gateway, fmt.Errorf("%s is the gateway of this node: no pod can have it", a)
		case c.Segment != "" && s[0].Subnet.Contains(a):
			return subnet, s[0].Gateway, nil
		case c.Segment != "":
			return subnet, gateway, fmt.Errorf("%s is of another node, and not in %s: nodes that share a network share its subnet", a, s[0].Subnet)
		}
		return subnet, ipam.GuestGateway(subnet), nil
	}
	return subnet, gateway, fmt.Errorf("%s is of another node, and no range of this network has its family", a)
}
