package cniplugin

import (
	"fmt"
	"net/netip"
	"unicode/utf8"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/skel"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// podArgs is what a Kubernetes runtime tells of the pod in CNI_ARGS.
type podArgs struct {
	types.CommonArgs
	IP                requestedIP
	K8S_POD_NAMESPACE types.UnmarshallableString //nolint:revive // the names are the runtime's
	K8S_POD_NAME      types.UnmarshallableString //nolint:revive // the names are the runtime's
	K8S_POD_UID       types.UnmarshallableString //nolint:revive // the names are the runtime's
}

// requestedIP is not valid where none is asked for.
type requestedIP struct{ netip.Addr }

// UnmarshalText reads an address that may have a prefix length.
func (r *requestedIP) UnmarshalText(text []byte) (err error) {
	if len(text) > 0 {
		r.Addr, err = parseRequested(string(text))
	}
	return err
}

func parsePod(args string) (*podArgs, error) {
	var pod podArgs
	if args == "" {
		return &pod, nil
	}
	err := types.LoadArgs(args, &pod)
	if err == nil && !utf8.ValidString(args) {
		err = errNoText
	}
	if err != nil {
		return nil, fmt.Errorf("CNI_ARGS %q: %w: %w", args, err, errArgs)
	}
	return &pod, nil
}

// endedPod returns the pod of a container that ends. What cannot be told of it is ADD's to
// report.
func endedPod(args *skel.CmdArgs) *podArgs {
	pod, err := parsePod(args.Args)
	if err != nil {
		return &podArgs{}
	}
	return pod
}

func (p *podArgs) owner(id reservation.AttachmentID) reservation.Owner {
	return reservation.Owner{
		Network: id.Network, IfName: id.IfName,
		Namespace: string(p.K8S_POD_NAMESPACE), Pod: string(p.K8S_POD_NAME),
	}
}
