package netconf

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/containernetworking/cni/pkg/types"

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

// Attachment returns what the configuration and the pod say of an attachment, and warnings
// about annotations that cannot be honored.
func (c *Config) Attachment(pod Pod, containerID, ifName string) (reservation.Attachment, []string) {
	id := reservation.AttachmentID{Network: c.Network, ContainerID: containerID, IfName: ifName}
	asks, warnings := reservation.ParseRetentionRequest(c.Annotations, c.MaxReservation)
	return reservation.Attachment{
		ID: id, Owner: pod.Owner(id), UID: pod.UID, Retain: asks.Retain, Mode: asks.Mode, AnnotationsSeen: c.Annotations != nil,
	}, warnings
}

// Owner returns the owner of the pod's attachment.
func (p Pod) Owner(id reservation.AttachmentID) reservation.Owner {
	return reservation.Owner{Network: id.Network, IfName: id.IfName, Namespace: p.Namespace, Pod: p.Name}
}
