package cni

import (
	"errors"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Codes of our own; the specification leaves 100 and above to plugins.
const (
	// CodeExhausted says that every address of a range set is held.
	CodeExhausted uint = 100
	// CodeRequired says that a pod with retention "required" cannot have its
	// addresses.
	CodeRequired uint = 101
	// CodeDuplicate says that the container has addresses on this interface.
	CodeDuplicate uint = 102
	// CodeUnknown says that CHECK found no such attachment, or found other addresses.
	CodeUnknown uint = 103
	// CodeRequested says that an address asked for by number cannot be had.
	CodeRequested uint = 104
	// codeStatusUnavailable is the specification's "plugin not available".
	codeStatusUnavailable uint = 50
)

var (
	// errUnread keeps a range out of use whose loans the agent has not read.
	errUnread = errors.New("limpet-agent has not read which of its addresses follow pods of other nodes")
	// errUnasked ends a try that must ask first who has the addresses.
	errUnasked = errors.New("the segment was not asked for the addresses")
	// errAnswered keeps an address from a pod while another machine has it.
	errAnswered = errors.New("the address is in use on the segment")
	// errOrphaned ends an ADD whose caller is gone.
	errOrphaned = errors.New("the calling plugin is gone; nothing was allocated")
	// errEnded ends an ADD that a DEL of its container has cancelled.
	errEnded = errors.New("the container ended while this waited for its turn; nothing was allocated")
	// errStatus is returned by STATUS.
	errStatus = errors.New("addresses cannot be handed out")
)

// codes maps errors to the codes that a runtime sees; the first match counts. Every other
// error is an I/O failure of the state.
var codes = []struct {
	is   error
	code uint
}{
	{errStatus, codeStatusUnavailable},
	{netconf.ErrConfig, types.ErrInvalidNetworkConfig},
	{netconf.ErrArgs, types.ErrInvalidEnvironmentVariables},
	{persistence.ErrName, types.ErrInvalidEnvironmentVariables},
	{persistence.ErrLocked, types.ErrTryAgainLater},
	{errOrphaned, types.ErrTryAgainLater},
	{errUnread, types.ErrTryAgainLater},
	{errUnasked, types.ErrTryAgainLater}, // the addresses changed while the ADD asked
	{errAnswered, types.ErrTryAgainLater},
	{errEnded, types.ErrTryAgainLater},
	{outside.ErrBusy, types.ErrTryAgainLater},
	{reservation.ErrPredecessor, types.ErrTryAgainLater},
	{reservation.ErrRequired, CodeRequired},
	{reservation.ErrDuplicate, CodeDuplicate},
	{ipam.ErrExhausted, CodeExhausted},
	{netconf.ErrRequested, CodeRequested},
	{netconf.ErrUnknown, CodeUnknown},
}

// coded gives an error its CNI code, unless it has one.
func coded(err error) error {
	if already := new(types.Error); errors.As(err, &already) {
		return err
	}
	code := types.ErrIOFailure
	for _, c := range codes {
		if errors.Is(err, c.is) {
			code = c.code
			break
		}
	}
	msg := err.Error()
	if len(msg) > maxReason { // it may repeat what the caller passed
		msg = strings.ToValidUTF8(msg[:maxReason], "") + "…"
	}
	return types.NewError(code, msg, "")
}
