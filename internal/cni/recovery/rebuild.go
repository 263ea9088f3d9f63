package recovery

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/results"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// errNoNetwork refuses to rebuild where addresses would be left out.
var errNoNetwork = errors.New("network namespaces have addresses, and nothing tells of which network: " +
	"the next pod that starts here makes the state again with its network's configuration, so run this again after it")

// Rebuild makes a new, lost or damaged state out of what is left of the state and what the
// node knows.
func (r *Recovery) Rebuild(conf *netconf.Config, log *slog.Logger, left persistence.Salvaged) (reservation.Records, error) {
	in, err := r.gather(conf, left)
	if err != nil {
		return reservation.Records{}, err
	}
	plan := reservation.PlanRebuild(in)
	report(log, left, in, plan)
	return plan.Records, nil
}

// RebuildIn returns what does the same for the state in dir, where no verb brings the
// configuration of a network.
func (r *Recovery) RebuildIn(dir string) func(persistence.Salvaged) (reservation.Records, error) {
	return func(left persistence.Salvaged) (reservation.Records, error) {
		return r.Rebuild(&netconf.Config{DataDir: dir, MaxReservation: reservation.DefaultMaxRetain}, r.Log, left)
	}
}

func (r *Recovery) gather(conf *netconf.Config, left persistence.Salvaged) (in reservation.RebuildInput, err error) {
	in = reservation.RebuildInput{Now: r.Node.Now(), Read: left.Read, Complete: left.Complete, Unreferenced: left.Unreferenced, Alive: r.Node.Alive}
	if in.Seen, err = r.seen(conf); err != nil {
		return in, err
	}
	if left.Cause == nil {
		in.Placeholders, err = r.placeholdersOf(conf)
		return in, err
	}
	in.Placeholders, err = r.unexplained(conf.Network, in)
	return in, err
}

// placeholdersOf returns placeholders for the addresses that may be of a network. Addresses in
// host-local's files are known there. A node that looks new may have lost a state and its marker.
func (r *Recovery) placeholdersOf(conf *netconf.Config) ([]reservation.Attachment, error) {
	all, err := r.placeholders([]string{conf.Network})
	for i := range all {
		all[i].Addresses = slices.DeleteFunc(slices.Clone(all[i].Addresses), func(addr netip.Addr) bool {
			return !conf.MayHold(addr) || r.Others.Has(conf, addr)
		})
	}
	return all, err
}

// report tells a person what happened, once: the next verb finds a sound state.
func report(log *slog.Logger, left persistence.Salvaged, in reservation.RebuildInput, plan reservation.RebuildDecision) {
	for _, d := range plan.Dropped {
		log.Warn("Dropped while rebuilding the state", "address", d)
	}
	if left.Cause == nil {
		named := slices.DeleteFunc(slices.Clone(plan.Attachments), func(a reservation.Attachment) bool { return a.ID.IsNetNSPlaceholder() })
		if n := len(plan.Attachments) - len(named); n > 0 {
			log.Warn("New state, and network namespaces have addresses of the network that no record names: "+
				"a state was lost with its marker, or another program hands out these addresses", "namespaces", n)
		}
		if len(plan.Attachments) > 0 {
			log.Info("New state, with the pods that run already", "attachments", len(plan.Attachments))
		}
		return
	}
	lost := "nothing"
	if !left.Complete {
		lost = "reservations that could not be read"
	}
	log.Warn("State was lost or damaged and is rebuilt", "cause", left.Cause.Error(), "damagedFile", left.BackupPath, "lost", lost,
		"attachments", len(plan.Attachments), "reservations", len(plan.Reservations),
		"readAttachments", len(in.Read.Attachments), "readReservations", len(in.Read.Reservations),
		"seenAttachments", len(in.Seen))
}

// seen returns the attachments that libcni's cache names, and those that only mirrored
// files name.
func (r *Recovery) seen(conf *netconf.Config) ([]reservation.Attachment, error) {
	seen, err := r.cached(conf)
	if err != nil {
		return nil, err
	}
	mirrored, err := r.Others.Mirrored(conf)
	return reservation.MergeSeen(seen, mirrored), err
}

// cached returns the attachments that libcni's cache names: those of this network, and of
// other networks with the same state. Attachments that another plugin holds are left out.
func (r *Recovery) cached(conf *netconf.Config) ([]reservation.Attachment, error) {
	all, err := results.Read(r.Node.ResultsDirs(), conf.MaxReservation)
	if err != nil {
		return nil, err
	}
	var seen []reservation.Attachment
	for _, c := range all {
		a := c.Attachment
		if _, kept := keptIn(c.Config, stateDir(conf)); !kept && a.ID.Network != conf.Network {
			continue
		}
		if a.ID.Network == conf.Network && r.Others.Holds(conf, a) {
			continue
		}
		if now, found := r.Node.NetNS(a.NetNS.Path); found && a.NetNS.Path != "" {
			a.NetNS = now
		}
		seen = append(seen, a)
	}
	return seen, nil
}

// placeholders returns the addresses in the node's namespaces as nameless attachments, once
// for each network: the network of an address cannot be seen. They cover pods whose ADD was
// under way, and pods whose cache file is gone.
func (r *Recovery) placeholders(networks []string) (all []reservation.Attachment, err error) {
	if r.Interfaces == nil {
		return nil, nil
	}
	inside, err := r.Interfaces()
	for _, i := range inside {
		for _, n := range networks {
			id := reservation.AttachmentID{Network: n, ContainerID: reservation.NetNSPlaceholder(i.NetNS), IfName: i.Name}
			all = append(all, reservation.Attachment{
				ID: id, Owner: reservation.Owner{Network: n, IfName: i.Name}, NetNS: i.NetNS, Addresses: i.Addresses, Since: r.Node.Now(),
			})
		}
	}
	return all, err
}

// unexplained returns placeholders for every network that is known. It refuses where no
// network is known: a state without these addresses would look sound.
func (r *Recovery) unexplained(network string, in reservation.RebuildInput) ([]reservation.Attachment, error) {
	networks := networksOf(network, in)
	if len(networks) > 0 {
		return r.placeholders(networks)
	}
	all, err := r.placeholders([]string{""})
	if len(all) > 0 {
		err = fmt.Errorf("%w: %d interfaces", errNoNetwork, len(all))
	}
	return nil, err
}

// networksOf lists the networks of all attachments and reservations, and one more unless it
// is "".
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
