package sites

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Site is a budget: its cluster, namespace and name, separated by slashes.
type Site string

// SiteOf names a budget. The cluster is "" where it has no name.
func SiteOf(cluster, namespace, name string) Site {
	return Site(cluster + "/" + namespace + "/" + name)
}

// Parts are the cluster, the namespace and the name.
func (s Site) Parts() (cluster, namespace, name string) {
	cluster, rest, _ := strings.Cut(string(s), "/")
	namespace, name, _ = strings.Cut(rest, "/")
	return cluster, namespace, name
}

// fixed begins the names of PodDisruptionBudgets. No object has a slash in its name.
const fixed = "pdb/"

// FixedName is the name of a PodDisruptionBudget in that of a site.
func FixedName(name string) string { return fixed + name }

// PlainName returns the name of the PodDisruptionBudget that a name means; false for any other budget.
func PlainName(name string) (string, bool) { return strings.CutPrefix(name, fixed) }

// Fixed reports whether a site is a PodDisruptionBudget, whose share is what its spec says: it gives no unit and takes none.
func (s Site) Fixed() bool {
	_, _, name := s.Parts()
	return strings.HasPrefix(name, fixed)
}

// Spec is what one budget says about sites.
type Spec struct {
	// MaxUnavailable or MinAvailable is set, to a number for the pods of all sites together.
	MaxUnavailable, MinAvailable *intstr.IntOrString
	// Members are the sites, in order, the budget itself among them.
	Members []Site
}

// Hash is equal for two specs of one budget that say the same.
func (s Spec) Hash() string { return hash(fmt.Sprint(s.least(), s.number()), s.Members) }

func (s Spec) least() bool { return s.MinAvailable != nil }

func (s Spec) number() int32 {
	if s.least() {
		return s.MinAvailable.IntVal
	}
	if s.MaxUnavailable == nil {
		return 0
	}
	return s.MaxUnavailable.IntVal
}

// whole reports whether the number is one, and no percentage.
func (s Spec) whole() bool {
	v := cmp.Or(s.MinAvailable, s.MaxUnavailable)
	return v != nil && v.Type == intstr.Int
}

// field is the one that has the number.
func (s Spec) field() string {
	if s.least() {
		return "minAvailable"
	}
	return "maxUnavailable"
}

// Group is a set of sites that share units.
type Group struct {
	ID      string
	Members []Site // in order; the first one is the home of the units
	// Least: the number is how many pods must be available, and not how many may be unavailable.
	Least bool
	// Number is without the shares of PodDisruptionBudgets.
	Number int32
	// Waits: such a budget was tightened, and lacks pods beyond its share. The units that it has given up are not free yet.
	Waits bool
}

// groupOf makes a group of members. Shares are those of PodDisruptionBudgets, as text: sites that read others have
// another group.
func groupOf(members []Site, least bool, number int32, shares ...Site) Group {
	return Group{ID: hash(fmt.Sprint(least, number), slices.Concat(members, shares)), Members: members, Least: least, Number: number}
}

func (s Spec) peers(self Site) []Site { return others(s.Members, self) }

func others(members []Site, self Site) []Site {
	return slices.DeleteFunc(slices.Clone(members), func(s Site) bool { return s == self })
}

// GroupsOf returns in which groups a site is. Where all members name the same members, they are one group. Where a
// site has other neighbours than its peers, as in a ring, it shares one unit with each: no two neighbours have a pod
// away at a time. That needs a number by which one pod may be away. The shares of PodDisruptionBudgets are taken from
// the number. The problem is "" or says why there is no group. All peers are known.
func GroupsOf(self Site, own Spec, expected int32, peers map[Site]Heard) (groups []Group, problem string) {
	same, waits, rest := true, false, int64(own.number())
	var shares []Site
	for _, site := range own.peers(self) {
		peer := peers[site]
		switch {
		case peer.Problem != "":
			return nil, fmt.Sprintf("peer %s %s", site, peer.Problem)
		case site.Fixed() && (peer.Spec.least() != own.least() || !peer.Spec.whole()):
			return nil, fmt.Sprintf("peer %s has no %s that is a number", site, own.field())
		case site.Fixed():
			rest -= int64(peer.Spec.number())
			waits = waits || peer.Unsettled != ""
			shares = append(shares, Site(fmt.Sprint(site, " ", peer.Spec.number())))
			continue
		case peer.Spec.least() != own.least() || peer.Spec.number() != own.number():
			return nil, fmt.Sprintf("peer %s has another number: maxUnavailable or minAvailable must be the same everywhere", site)
		}
		expected += peer.Expected
		same = same && slices.Equal(peer.Spec.Members, own.Members)
	}
	away := own.number()
	if own.least() {
		away = expected - away
	}
	switch {
	case rest < 0 && !own.least():
		return nil, fmt.Sprintf("its PodDisruptionBudgets let %d pods go, and all sites together may let %d", int64(own.number())-rest, own.number())
	case same:
		members := slices.DeleteFunc(slices.Clone(own.Members), Site.Fixed)
		g := groupOf(members, own.least(), int32(max(rest, 0)), shares...)
		g.Waits = waits
		return []Group{g}, ""
	case len(shares) > 0:
		return nil, "its peers name other peers, and a PodDisruptionBudget can be no neighbour in a ring: name the same peers everywhere"
	case away != 1:
		return nil, fmt.Sprintf("its peers name other peers, and %d pods may be away: name the same peers everywhere, or let one pod be away", away)
	}
	for _, site := range own.peers(self) {
		groups = append(groups, groupOf(slices.Sorted(slices.Values([]Site{self, site})), false, 1))
	}
	return groups, ""
}

func hash(terms string, members []Site) string {
	lines := []string{terms}
	for _, m := range members {
		lines = append(lines, string(m))
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:8])
}

// agreement is what sites agree on: their group, and a nonce of each.
func agreement(group string, nonces map[Site]string) string {
	var lines []Site
	for _, site := range slices.Sorted(maps.Keys(nonces)) {
		lines = append(lines, site+" "+Site(nonces[site]))
	}
	return hash(group, lines)
}
