package cniplugin

import (
	"slices"

	"github.com/limpet-io/limpet/internal/skel"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// stateless ends a container on a node that has no state, and reports whether that was all
// there was to do. A state is made where there is something to write to it: an address of
// host-local's time to reserve, or a container that had its address from a state that was
// removed, as libcni's cache or a mirrored file tells.
func (p *Plugin) stateless(conf *config, args *skel.CmdArgs, wish reservation.RetentionRequest) (done bool, err error) {
	if begun, err := p.store(conf).Initialized(); begun || err != nil {
		return false, nil //nolint:nilerr // what cannot be looked at is Update's to report
	}
	id := reservation.AttachmentID{Network: conf.network, ContainerID: args.ContainerID, IfName: args.IfName}
	old, err := conf.remnantOf(id, endedPod(args).owner(id), nil)
	if err != nil || len(old.files) > 0 && (wish.Retain > 0 || old.record != nil) {
		return err != nil, err
	}
	ours, err := p.cached(conf)
	if err != nil || len(old.mirrored) > 0 || slices.ContainsFunc(ours, func(a reservation.Attachment) bool { return a.ID == id }) {
		return err != nil, err
	}
	pendingOf(conf.dataDir, id).takeAway()
	p.line.says(outcomeUnknown, "", nil)
	return true, conf.clear(old)
}
