package chaos

import (
	"fmt"
	"slices"
	"time"
)

// Pod is one life of a pod, as it was Ready.
type Pod struct {
	// Name is the pod's name, and UID tells its lives apart.
	Name, UID, Node string
	IPs             []string
	// Asks tells that the pod asks for a reservation, Required that it must return to its node, and Follows that its addresses
	// follow it to any node.
	Asks, Required, Follows bool
}

// shortLife is how long a pod must be Ready until its rebuild is judged: the controller must
// have seen it.
const shortLife = 5 * time.Second

// Keeper knows where pods must come back, and which addresses no other pod may get. It is told
// what was done to nodes and what was seen of pods, in the order of time. Reservations must
// last for longer than the run.
type Keeper struct {
	homes   map[string]home
	held    map[string]holder
	windows map[string][]window

	// Rebuilt counts rebuilt pods: Kept came back, Followed of them on another node. FreeToMove did not have to.
	Rebuilt, Kept, Followed, FreeToMove int
	Violations                          []string
}

// home is the last life of a pod that was Ready.
type home struct {
	Pod
	ready time.Time
	seen  time.Time // Ready, for the last time
	gone  time.Time // zero while the pod lives
}

// holder is the pod for which an address is held on a node.
type holder struct{ pod, node string }

// window is a time in which a node need not take pods back; until is zero while it lasts. In a
// lost window the node may forget addresses.
type window struct {
	from, until time.Time
	lost        bool
}

// NewKeeper returns a Keeper that knows no pod.
func NewKeeper() *Keeper {
	return &Keeper{homes: map[string]home{}, held: map[string]holder{}, windows: map[string][]window{}}
}

// Disturb begins a time in which a node need not take pods back.
func (k *Keeper) Disturb(node string, at time.Time) {
	k.windows[node] = append(k.windows[node], window{from: at})
}

// Settle ends all such times of a node.
func (k *Keeper) Settle(node string, at time.Time) {
	for i := range k.windows[node] {
		if k.windows[node][i].until.IsZero() {
			k.windows[node][i].until = at
		}
	}
}

// Forget tells that a disturbed node loses its state. With all, no address is held there any
// longer. Without, those of pods that run there still are.
func (k *Keeper) Forget(node string, all bool) {
	for ip, h := range k.held {
		at := k.homes[h.pod]
		if h.node == node && (all || !at.gone.IsZero() || at.Node != node) {
			delete(k.held, ip)
		}
	}
	for i := range k.windows[node] {
		k.windows[node][i].lost = k.windows[node][i].lost || k.windows[node][i].until.IsZero()
	}
}

// Gone tells that a life of a pod ends or has ended.
func (k *Keeper) Gone(name, uid string, at time.Time) {
	if h, ok := k.homes[name]; ok && h.UID == uid && h.gone.IsZero() {
		h.gone = at
		k.homes[name] = h
	}
}

// Ready tells that a pod is Ready. It may be told again of the same life.
func (k *Keeper) Ready(p Pod, at time.Time) {
	before, known := k.homes[p.Name]
	if known && before.UID == p.UID && slices.Equal(before.IPs, p.IPs) {
		before.seen = at
		k.homes[p.Name] = before
		return
	}
	for _, ip := range p.IPs {
		if h, taken := k.held[ip]; taken && h.pod != p.Name {
			k.violate(at, "%s has %s, which node %s holds for %s", p.Name, ip, h.node, h.pod)
		}
	}
	switch {
	case !known || !p.Asks:
	case before.UID != p.UID:
		k.judge(before, p, at)
	case !k.disturbed(before.Node, before.seen, at, true):
		k.violate(at, "%s lives still on node %s, and has %v in place of %v", p.Name, p.Node, p.IPs, before.IPs)
	}
	k.homes[p.Name] = home{Pod: p, ready: at, seen: at}
	if p.Asks {
		for _, ip := range p.IPs {
			k.held[ip] = holder{p.Name, p.Node}
		}
	}
}

// judge compares two lives of a pod.
func (k *Keeper) judge(before home, p Pod, at time.Time) {
	k.Rebuilt++
	from := before.gone
	if from.IsZero() {
		from = at
	}
	switch {
	case slices.Equal(before.IPs, p.IPs) && (before.Node == p.Node || p.Follows):
		k.Kept++
		if before.Node != p.Node {
			k.Followed++
		}
	case from.Sub(before.ready) < shortLife || k.disturbed(before.Node, from, at, p.Follows) && (!p.Required || before.Node == p.Node):
		k.FreeToMove++
	default:
		k.violate(at, "%s was on %s with %v until %s, and is on %s with %v", p.Name, before.Node, before.IPs, clockTime(from), p.Node, p.IPs)
	}
}

// disturbed tells that a node was disturbed at some time between two, so that its state may be lost.
func (k *Keeper) disturbed(node string, from, to time.Time, lost bool) bool {
	return slices.ContainsFunc(k.windows[node], func(w window) bool {
		return (w.lost || !lost) && w.from.Before(to) && (w.until.IsZero() || w.until.After(from))
	})
}

func (k *Keeper) violate(at time.Time, format string, args ...any) {
	k.Violations = append(k.Violations, clockTime(at)+" "+fmt.Sprintf(format, args...))
}

func clockTime(at time.Time) string { return at.UTC().Format("15:04:05.0") }
