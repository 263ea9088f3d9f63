package cniplugin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// errNoNetwork refuses to rebuild where addresses would be left out.
var errNoNetwork = errors.New("network namespaces have addresses, and nothing tells of which network: " +
	"the next pod that starts here makes the state again with its network's configuration, so run this again after it")

// rebuild returns what makes a state that is new, lost or damaged out of what is left
// of it and what the node knows (rule 6).
func (p *Plugin) rebuild(conf *config) func(persistence.Salvaged) (reservation.Records, error) {
	return func(left persistence.Salvaged) (reservation.Records, error) {
		seen, err := p.seen(conf)
		if err != nil {
			return reservation.Records{}, err
		}
		in := reservation.RebuildInput{
			Now: p.Now(), Read: left.Read, Complete: left.Complete, Unreferenced: left.Unreferenced, Alive: p.alive,
			Seen: seen,
		}
		if left.Cause != nil { // a new node has none of ours
			if in.Placeholders, err = p.foundIn(conf.network, in); err != nil {
				return reservation.Records{}, err
			}
		}
		plan := reservation.PlanRebuild(in)
		p.reportRebuild(left, in, plan)
		return plan.Records, nil
	}
}

// reportRebuild tells a person what happened, once: the next verb finds a sound state.
func (p *Plugin) reportRebuild(left persistence.Salvaged, in reservation.RebuildInput, plan reservation.RebuildDecision) {
	for _, d := range plan.Dropped {
		p.Log.Warn("Dropped while rebuilding the state", "address", d)
	}
	if left.Cause == nil {
		if len(plan.Attachments) > 0 {
			p.Log.Info("New state, with the pods that run already", "attachments", len(plan.Attachments))
		}
		return
	}
	lost := "nothing"
	if !left.Complete {
		lost = "reservations that could not be read"
	}
	p.Log.Warn("State was lost or damaged and is rebuilt", "cause", left.Cause.Error(), "damagedFile", left.BackupPath, "lost", lost,
		"attachments", len(plan.Attachments), "reservations", len(plan.Reservations),
		"readAttachments", len(in.Read.Attachments), "readReservations", len(in.Read.Reservations),
		"seenAttachments", len(in.Seen))
}

// seen returns the attachments that libcni's cache names, and those that only mirrored
// files name.
func (p *Plugin) seen(conf *config) ([]reservation.Attachment, error) {
	seen, err := p.cached(conf)
	if err != nil {
		return nil, err
	}
	nameless, err := conf.mirrored()
	nameless = slices.DeleteFunc(nameless, func(m reservation.Attachment) bool {
		return slices.ContainsFunc(seen, func(a reservation.Attachment) bool { return a.ID == m.ID })
	})
	return append(nameless, seen...), err
}

// cached returns the attachments that libcni's cache names: those of this network, and of
// others that keep their addresses in the same state. What host-local holds by a file of
// its own needs no second holder.
func (p *Plugin) cached(conf *config) ([]reservation.Attachment, error) {
	all, err := readCache(p.ResultsDir, conf.maxReservation)
	if err != nil {
		return nil, err
	}
	var seen []reservation.Attachment
	for _, c := range all {
		a := c.attachment
		if _, kept := keptIn(c.config, conf.dataDir); !kept && a.ID.Network != conf.network {
			continue
		}
		if a.ID.Network == conf.network && conf.hostLocalHolds(a) {
			continue
		}
		if now, found := p.NetNS(a.NetNS.Path); found && a.NetNS.Path != "" {
			a.NetNS = now
		}
		seen = append(seen, a)
	}
	return seen, nil
}

// hostLocalHolds reports whether a file of host-local's own names the attachment.
func (c *config) hostLocalHolds(a reservation.Attachment) bool {
	for _, addr := range a.Addresses {
		h, found, err := c.hostLocal.Holder(addr)
		if err == nil && found && !h.Mirrored && h.Is(a.ID.ContainerID, a.ID.IfName) {
			return true
		}
	}
	return false
}

// keptIn reports whether a network configuration, or one of a list, is limpet-ipam's with
// its state in dir, and returns the dataDir that it names.
func keptIn(config []byte, dir string) (dataDir string, kept bool) {
	type conf struct {
		IPAM struct {
			Type    string `json:"type"`
			DataDir string `json:"dataDir"`
		} `json:"ipam"`
	}
	var list struct {
		conf
		Plugins []conf `json:"plugins"`
	}
	_ = json.Unmarshal(config, &list) // what does not fit is not ours
	for _, c := range append(list.Plugins, list.conf) {
		state := cmp.Or(c.IPAM.DataDir, persistence.DefaultDir)
		if c.IPAM.Type == pluginType && filepath.IsAbs(state) && sameDir(state, dir) {
			return c.IPAM.DataDir, true
		}
	}
	return "", false
}

// found returns the addresses in the node's namespaces as nameless attachments, once for
// each network: of which network an address is cannot be seen. It covers pods whose ADD was
// under way, and those whose cache is gone.
func (p *Plugin) found(networks []string) []reservation.Attachment {
	if p.Interfaces == nil {
		return nil
	}
	var all []reservation.Attachment
	for _, i := range p.Interfaces() {
		for _, n := range networks {
			id := reservation.AttachmentID{Network: n, ContainerID: reservation.NetNSPlaceholder(i.NetNS), IfName: i.Name}
			all = append(all, reservation.Attachment{
				ID: id, Owner: reservation.Owner{Network: n, IfName: i.Name}, NetNS: i.NetNS, Addresses: i.Addresses, Since: p.Now(),
			})
		}
	}
	return all
}

// foundIn returns what the namespaces have, for every network that is known. With none it
// refuses: a state that leaves them out would look sound.
func (p *Plugin) foundIn(network string, in reservation.RebuildInput) ([]reservation.Attachment, error) {
	networks := networksOf(network, in)
	if len(networks) > 0 {
		return p.found(networks), nil
	}
	if n := len(p.found([]string{""})); n > 0 {
		return nil, fmt.Errorf("%w: %d interfaces", errNoNetwork, n)
	}
	return nil, nil
}

// networksOf lists the networks that attachments and reservations are of, and one more
// unless it is "".
func networksOf(network string, in reservation.RebuildInput) []string {
	networks := map[string]bool{network: true}
	for _, a := range slices.Concat(in.Seen, in.Read.Attachments, in.Unreferenced.Attachments) {
		networks[a.ID.Network] = true
	}
	for _, r := range slices.Concat(in.Read.Reservations, in.Unreferenced.Reservations) {
		networks[r.Owner.Network] = true
	}
	delete(networks, "")
	return slices.Sorted(maps.Keys(networks))
}
