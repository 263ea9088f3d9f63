package show

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const (
	// passTimeout bounds one pass over the API objects.
	passTimeout = 30 * time.Second
	// passWrites bounds the writes of a pass, and passGap is the time until the next one after so many: a
	// tenant whose pods come and go without end costs the API server at most 20 writes a second and node,
	// and between two passes only the last state of each object counts.
	passWrites, passGap = 100, 5 * time.Second
	// relist is about how often the loop lists what the API server has, to undo what others have changed or
	// deleted.
	relist = time.Hour
	// reservedFor is the age from which the namespace of a reservation is watched, and whether a user gives it up.
	// Most pods are back earlier.
	reservedFor = 5 * time.Second
)

// pass makes one pass in its usual time.
func (l *Loop) pass(ctx context.Context) (due time.Time, err error) {
	bounded, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	return l.passWithin(ctx, bounded)
}

// passWithin makes the API show the wanted objects, as far as the server allows it now. Requests end with bounded,
// and what begins with the pass ends with ctx. It returns when the next pass is due without news; zero if it is
// not. The error says what could not be shown.
func (l *Loop) passWithin(ctx, bounded context.Context) (due time.Time, err error) {
	want, hold, offered := l.latest()
	now := l.Clock.Now()
	switch m := &l.memory; {
	case !offered:
		return due, nil
	case now.Before(m.busy.Until):
		return m.busy.Until, m.busy.Err
	case now.Before(m.rest):
		return m.rest, m.retries.Standing()
	}
	l.own(want)
	if err := l.listIfDue(bounded, now); err != nil {
		return l.failed(ctx, err)
	}
	l.followNamespaces(ctx, want, now)
	changes, due := l.dueChanges(want, hold, now)
	if len(changes) > passWrites {
		changes = changes[:passWrites]
		l.memory.rest = now.Add(passGap)
		due = l.memory.rest
	}
	for _, c := range changes {
		if err := l.write(bounded, c); err != nil {
			return l.failed(ctx, err)
		}
	}
	l.memory.settled = true
	return earliest(due, l.memory.retries.Next(now)), l.memory.retries.Standing()
}

// own gives the wanted objects their owner, as soon as it is known.
func (l *Loop) own(want []plan.Object) {
	if owner := l.Owner(); len(owner) > 0 {
		for _, o := range want {
			o.SetOwnerReferences(owner)
		}
	}
}

// failed notes that the server does not answer. The end of the agent is no failure of the server.
func (l *Loop) failed(ctx context.Context, err error) (due time.Time, _ error) {
	if ctx.Err() != nil {
		return due, fmt.Errorf("show objects: %w", ctx.Err())
	}
	l.memory.busy = l.memory.busy.After(err, leastBusy, mostBusy, l.Clock.Now(), l.Random())
	return l.memory.busy.Until, err
}

// listIfDue reads the objects of this node from the API server.
func (l *Loop) listIfDue(ctx context.Context, now time.Time) error {
	m := &l.memory
	if m.shown != nil && now.Before(m.relist) {
		return nil
	}
	shown := map[string]plan.Object{}
	for resource, kind := range map[string]plan.Object{"ipreservations": &v1alpha1.IPReservation{}, "nodeippools": &v1alpha1.NodeIPPool{}} {
		newest, err := l.Client.list(ctx, resource, l.Node, cmp.Or(m.versions[resource], "0"), func(from *json.Decoder) error {
			o := kind.DeepCopyObject().(plan.Object)
			err := from.Decode(o)
			shown[plan.Key(o)] = brief(o)
			return err
		})
		if err != nil {
			delete(m.versions, resource) // a server that was restored knows no version of the future
			return fmt.Errorf("list %s: %w", resource, err)
		}
		m.versions[resource] = newest
	}
	m.shown = shown
	m.busy = Retry{}
	m.relist = now.Add(relist - relist/6 + time.Duration(l.Random()*float64(relist/3)))
	return nil
}

// Shown returns the IPReservations of the node as the API server has them.
func (l *Loop) Shown(ctx context.Context) (ips []v1alpha1.IPReservation, err error) {
	_, err = l.Client.list(ctx, "ipreservations", l.Node, "0", func(from *json.Decoder) error {
		var ip v1alpha1.IPReservation
		err := from.Decode(&ip)
		ips = append(ips, ip)
		return err
	})
	return ips, err
}

// followNamespaces watches the namespaces that may have taken objects with them, and forgets those objects. A node with
// reservations also watches what users mark.
func (l *Loop) followNamespaces(ctx context.Context, want []plan.Object, now time.Time) {
	wanted, reserved := map[string]bool{}, []string{}
	for _, o := range want {
		ns := o.GetNamespace()
		if r, ok := o.(*v1alpha1.IPReservation); ok && r.Status.Until != nil && !wanted["reserved "+ns] && began(r).Add(reservedFor).Before(now) {
			wanted["reserved "+ns] = true // no namespace has a space in its name
			reserved = append(reserved, ns)
		}
		wanted[ns] = true
	}
	l.namespaces.follow(ctx, wanted, reserved)
	l.marks.follow(ctx, reserved)
	for key, o := range l.memory.shown {
		if o.GetNamespace() != "" && l.namespaces.outlived(o) {
			delete(l.memory.shown, key)
			delete(l.memory.retries, key)
		}
	}
}

// began returns when a reservation began.
func began(r *v1alpha1.IPReservation) time.Time {
	return r.Status.Until.Add(-time.Duration(r.Status.RetainMinutes) * time.Minute)
}

// dueChanges returns the changes that are written now, in turns of their namespaces, and when the next are due.
func (l *Loop) dueChanges(want []plan.Object, hold map[string]bool, now time.Time) (changes []plan.Change, due time.Time) {
	m, keys := &l.memory, map[string]bool{}
	for _, c := range plan.InTurns(plan.Changes(m.shown, want, hold)) {
		key := plan.Key(c.Object)
		keys[key] = true
		switch wait := l.waitOf(c, key, now); {
		case c.Object.GetNamespace() != "" && l.namespaces.lost(c.Object.GetNamespace()): // its watch tells when to write
		case now.Before(wait):
			due = earliest(due, wait)
		default:
			changes = append(changes, c)
		}
	}
	m.keep(keys)
	return changes, due
}

// waitOf returns until when a change waits.
func (l *Loop) waitOf(c plan.Change, key string, now time.Time) time.Time {
	m := &l.memory
	wait, pause := m.retries[key].Until, l.pauseOf(c, m.shown[key])
	if pause == 0 {
		delete(m.differs, key)
		return wait
	}
	if _, known := m.differs[key]; !known {
		m.differs[key] = now
	}
	if lasted := m.differs[key].Add(pause); lasted.After(wait) {
		return lasted
	}
	return wait
}

// pauseOf returns how long a difference must last until it is written. An end that the first pass finds happened
// before the agent started, and is written at once.
func (l *Loop) pauseOf(c plan.Change, shown plan.Object) time.Duration {
	switch {
	case plan.CountsOnly(c, shown):
		return l.Pace.Counts
	case l.memory.settled && plan.EndOnly(c, shown):
		return l.Pace.Ends
	}
	return 0
}

// write sends one change, and notes what the answer means. It returns an error when the others need not
// be sent either.
func (l *Loop) write(ctx context.Context, c plan.Change) error {
	key, m := plan.Key(c.Object), &l.memory
	ns := c.Object.GetNamespace()
	if ns != "" && l.namespaces.lost(ns) { // another object has just told
		return nil
	}
	o, err := l.send(ctx, c)
	told := fmt.Errorf("%s %s: %w", c.Verb, key, err)
	switch now := l.Clock.Now(); plan.Judge(c.Verb, err) {
	case plan.Written:
		m.written(key, o)
	case plan.Refused:
		m.later(key, told, now, l.Random())
	case plan.WithoutNamespace:
		l.namespaces.lose(ns)
	case plan.Vanished:
		delete(m.shown, key)
		m.later(key, nil, now, l.Random())
	case plan.Outdated:
		if err := l.read(ctx, c.Object, key); err != nil {
			return err
		}
		m.later(key, nil, now, l.Random())
	case plan.Busy:
		return told
	}
	return nil
}

// send sends one change and returns the object as the server has it then, nil after a deletion.
func (l *Loop) send(ctx context.Context, c plan.Change) (plan.Object, error) {
	if c.Verb == plan.Delete {
		return nil, l.Client.Delete(ctx, c.Object)
	}
	o := c.Object.DeepCopyObject().(plan.Object)
	if c.Verb == plan.Create {
		return o, l.Client.Create(ctx, o)
	}
	return o, l.Client.Update(ctx, o)
}

// read reads one object again.
func (l *Loop) read(ctx context.Context, o plan.Object, key string) error {
	o = o.DeepCopyObject().(plan.Object)
	err := l.Client.Get(ctx, o)
	switch plan.Judge(plan.Update, err) {
	case plan.Written:
		l.memory.remember(key, o)
	case plan.Busy:
		return fmt.Errorf("get %s: %w", key, err)
	default: // it was deleted meanwhile
		delete(l.memory.shown, key)
	}
	return nil
}

// earliest returns the earlier of two times, of which a zero one does not count.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
