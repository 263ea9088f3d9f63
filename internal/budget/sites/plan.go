package sites

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// Report is what a site shows its peers of one group.
type Report struct {
	Share ledger.Share
	// Short is how many pods are away beyond the share.
	Short int32
	// Since is when the oldest request was refused that waits for a unit, and Pod the name of its pod; zero for none.
	Since time.Time
	Pod   string
	// Spare is how many further pods may go there, and Has how many are available. ReportsOf sets both.
	Spare, Has int32
}

// Input is what a site knows of one group.
type Input struct {
	Self  Site
	Group Group
	// Share is that of the book that the plan is for; zero for none.
	Share ledger.Share
	// Used is how many pods are unavailable here, and Has how many are available.
	Used, Has int32
	// Certain tells that no pod counts as available that may be gone. Else nothing is sent, and no base is counted.
	Certain bool
	// Since is when the oldest request was refused here that waits for a unit, and Pod the name of its pod; zero for none.
	Since time.Time
	Pod   string
	// Peers are the last known reports. A report may be old.
	Peers map[Site]Report
	// Fresh is a nonce that was never used.
	Fresh string
	// Idle: for long no pod went here, and no request waited.
	Idle bool
}

// Spare is how many further pods may go by a share; below 0 for what is short.
func Spare(in Input, s ledger.Share) int32 {
	if s.Least {
		return in.Has - s.Number()
	}
	return s.Number() - in.Used // a site without pods may have units, which peers need
}

// ReportOf is what the site shows of a share.
func ReportOf(in Input, s ledger.Share) Report {
	r := Report{Share: s, Since: in.Since, Pod: in.Pod}
	if s.Agreement != "" {
		r.Short = max(-Spare(in, s), 0)
	}
	return r
}

// Plan returns the share as it shall be. A closed share counts with its nonce what is away by then.
func Plan(in Input) ledger.Share {
	s := in.Share
	s.Peers = slices.Clone(s.Peers)
	if s.Nonce == "" && !s.Open || in.ended(s) {
		s = in.closed(s)
	}
	if s.Group, s.Least = in.Group.ID, in.Group.Least; s.Nonce == "" && in.Certain {
		s.Nonce, s.Base = in.Fresh, in.Used
		if in.Group.Least {
			s.Base = in.Has
		}
	}
	if !s.Open && s.Nonce != "" {
		if s = in.agree(s); in.ended(s) {
			s = in.closed(s) // the next plan begins
		}
	}
	if s.Open {
		s = in.spread(in.send(in.take(s)))
	}
	return s
}

// closed is a share that begins. It names its peers at once, so that the book has room for what it will say of them.
func (in *Input) closed(s ledger.Share) ledger.Share {
	s = ledger.Share{Budget: s.Budget, UID: s.UID, Spec: s.Spec, Group: in.Group.ID, Least: in.Group.Least}
	for _, site := range others(in.Group.Members, in.Self) {
		s.Peers = append(s.Peers, ledger.PeerUnits{Site: string(site)})
	}
	return s
}

// ended reports whether the nonce has served: a peer has another one, or the book was put back from a copy, so that a
// peer has taken what was never sent, or has opened what its home has not. A site that is closed goes on when others
// than the home come and go: the home opens one agreement with each nonce.
func (in *Input) ended(s ledger.Share) bool {
	home := string(in.Group.Members[0])
	return slices.ContainsFunc(s.Peers, func(known ledger.PeerUnits) bool {
		r, heard := in.Peers[Site(known.Site)]
		if !heard || r.Share.Nonce == "" || known.Nonce == "" {
			return false
		}
		took, _ := r.Share.Peer(string(in.Self))
		restored := took.Taken > known.Sent || r.Share.Open && !s.Open && string(in.Self) == home
		return r.Share.Nonce != known.Nonce && (s.Open || known.Site == home) || r.Share.Agreement == s.Agreement && restored
	})
}

// agree brings a closed site into the agreement of all, and opens it when the others are in it.
func (in *Input) agree(s ledger.Share) ledger.Share {
	nonces := map[Site]string{in.Self: s.Nonce}
	var peers []ledger.PeerUnits
	for _, site := range others(in.Group.Members, in.Self) {
		r, heard := in.Peers[site]
		if !heard || r.Share.Nonce == "" {
			return s
		}
		nonces[site] = r.Share.Nonce
		peers = append(peers, ledger.PeerUnits{Site: string(site), Nonce: r.Share.Nonce})
	}
	s.Agreement, s.Peers = agreement(in.Group.ID, nonces), peers
	home := in.Group.Members[0]
	if in.Self != home {
		s.Open = in.Peers[home].Share.Open && in.Peers[home].Share.Agreement == s.Agreement
		return s
	}
	if in.Group.Waits {
		return s
	}
	rest := in.Group.Number
	for _, p := range peers {
		r := in.Peers[Site(p.Site)].Share
		if r.Agreement != s.Agreement {
			return s
		}
		rest -= r.Base
	}
	s.Base, s.Open = rest, true
	return s
}

// take takes what peers have sent.
func (in *Input) take(s ledger.Share) ledger.Share {
	for i, known := range s.Peers {
		if r := in.Peers[Site(known.Site)]; r.Share.Agreement == s.Agreement {
			gave, _ := r.Share.Peer(string(in.Self))
			s.Peers[i].Taken = max(known.Taken, gave.Sent)
		}
	}
	return s
}

// mostAtOnce is how many units one plan sends: a peer may say that it lacks any number of pods.
const mostAtOnce = 1000

// send gives spare units to peers that are short, and then to those that have waited longest. A site keeps one for a
// request of its own that has waited longer.
func (in *Input) send(s ledger.Share) ledger.Share {
	for spare := min(Spare(*in, s), mostAtOnce); in.Certain && spare > 0; spare-- {
		to := in.neediest(s, spare == 1)
		if to < 0 {
			break
		}
		s.Peers[to].Sent++
	}
	return s
}

// spread sends idle units to one peer, so that it then has no more than this site, and no more than it has pods: while
// peers are silent, each site has its part. A site without pods needs none.
func (in *Input) spread(s ledger.Share) ledger.Share {
	to, most, spare := 0, int32(0), Spare(*in, s)
	for i, known := range s.Peers {
		r := in.Peers[Site(known.Site)]
		took, _ := r.Share.Peer(string(in.Self))
		part := min(spare, r.Has-r.Spare, mostAtOnce)
		if in.Has > 0 {
			part = min(part, (spare-r.Spare)/2)
		}
		if r.Share.Agreement == s.Agreement && known.Sent == took.Taken && part > most {
			to, most = i, part
		}
	}
	if in.Idle && in.Certain && most > 0 {
		s.Peers[to].Sent += int64(most)
	}
	return s
}

// neediest returns the peer that shall have the next unit; -1 for none.
func (in *Input) neediest(s ledger.Share, last bool) int {
	best, bestNeed := -1, need{}
	for i, known := range s.Peers {
		r := in.Peers[Site(known.Site)]
		took, _ := r.Share.Peer(string(in.Self))
		onWay := int32(known.Sent - took.Taken)
		if r.Share.Agreement != s.Agreement || onWay > 0 && onWay >= r.Short {
			continue
		}
		n := need{short: r.Short > 0, since: r.Since, site: Site(known.Site), pod: r.Pod}
		if n.some() && (best < 0 || n.before(bestNeed)) {
			best, bestNeed = i, n
		}
	}
	if own := (need{since: in.Since, site: in.Self, pod: in.Pod}); last && own.some() && own.before(bestNeed) {
		return -1
	}
	return best
}

// need is why a site shall have a unit.
type need struct {
	short bool
	since time.Time
	site  Site
	pod   string
}

func (n need) some() bool { return n.short || !n.since.IsZero() }

// before orders needs in the same way at each site, whatever its clock shows, and in the same way for all budgets of the same
// pods: in one namespace by the pods, because the names of the budgets differ.
func (n need) before(other need) bool {
	switch {
	case n.short != other.short:
		return n.short
	case !n.since.Equal(other.since):
		return !n.since.IsZero() && (other.since.IsZero() || n.since.Before(other.since))
	}
	pods := strings.Compare(n.pod, other.pod)
	if n.pod == "" || other.pod == "" { // a site whose CRD is older does not show it
		pods = 0
	}
	return cmp.Or(strings.Compare(path.Dir(string(n.site)), path.Dir(string(other.site))), pods, strings.Compare(string(n.site), string(other.site))) < 0
}
