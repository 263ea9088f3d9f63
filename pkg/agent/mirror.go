package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// PlanMirror says what the API should show of a node's state: an IPReservation for
// each owner that asked for its addresses to be kept, and a NodeIPPool for each
// network.
func PlanMirror(node string, networks []Network, now reservation.Moment) []client.Object {
	var objects []client.Object
	for _, n := range networks {
		for _, a := range n.Attachments {
			if a.Owner.Named() && a.Retain > 0 {
				objects = append(objects, newIPReservation(node, a.Owner, a.UID, a.Addresses, a.Retain))
			}
		}
		reserved := 0
		for _, r := range n.Reservations {
			if r.Deadline.Passed(now) {
				continue
			}
			reserved++
			o := newIPReservation(node, r.Owner, r.UID, r.Addresses, r.Retain)
			until := metav1.NewTime(r.Deadline.From.Wall.Add(r.Deadline.For).Truncate(time.Second))
			o.Status.State, o.Status.Until, o.Status.Left = v1alpha1.IPReserved, &until, left(r.Deadline.Left(now))
			objects = append(objects, o)
		}
		objects = append(objects, newNodeIPPool(node, n, reserved, now.Wall))
	}
	return objects
}

func newIPReservation(node string, o reservation.Owner, uid string, addrs []netip.Addr, retain time.Duration) *v1alpha1.IPReservation {
	ips := make([]string, len(addrs))
	for i, a := range addrs {
		ips[i] = a.String()
	}
	return &v1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: objectName(o.Pod, o.IfName, o.Network, node),
			Labels: map[string]string{v1alpha1.LabelNode: node},
		},
		Status: v1alpha1.IPReservationStatus{
			Node: node, Network: o.Network, Interface: o.IfName, Pod: o.Pod, PodUID: uid,
			IPs: strings.Join(ips, ","), State: v1alpha1.IPAttached, RetainMinutes: int32(retain / time.Minute),
		},
	}
}

// left says a length of time in full minutes.
func left(d time.Duration) string {
	if d < time.Minute {
		return "<1m"
	}
	return fmt.Sprintf("%dm", int(d.Minutes()))
}

// objectName joins parts into a name that is legal and that no other parts have. A
// dot within any part but the last would make two ways to read the name.
func objectName(parts ...string) string {
	name := strings.Join(parts, ".")
	dotted := slices.ContainsFunc(parts[:len(parts)-1], func(p string) bool { return strings.Contains(p, ".") })
	if !dotted && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "x" + hex.EncodeToString(sum[:12])
}

const (
	// showWait bounds how long one go at the API server may take.
	showWait = 30 * time.Second
	// relist is how often the mirror looks at what the API server has, to put right
	// what others have changed or deleted.
	relist = 10 * time.Minute
)

// mirror keeps the API objects of one node like the plan. It remembers what it has
// written, so that a quiet node writes nothing.
type mirror struct {
	client client.Client
	node   string
	shown  map[string]client.Object // nil: not known, to be listed
	listed time.Time
	// homeless are objects whose namespace is going or gone. They are not tried again
	// before the next listing; their reservations lapse by themselves.
	homeless map[string]bool
}

func key(o client.Object) string {
	return fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
}

// show makes the API show exactly the objects. After an error the next call starts
// over from what the API server has.
func (m *mirror) show(ctx context.Context, want []client.Object, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, showWait)
	defer cancel()
	if m.shown == nil || now.Sub(m.listed) >= relist {
		m.listed = now
		if err := m.list(ctx); err != nil {
			m.shown = nil
			return err
		}
	}
	err := m.putAndDelete(ctx, want)
	if err != nil {
		m.shown = nil
	}
	return err
}

// putAndDelete goes on past objects that the API server refuses, and stops when there
// is no answer: then there will be none for the others either.
func (m *mirror) putAndDelete(ctx context.Context, want []client.Object) error {
	var errs []error
	wanted := map[string]bool{}
	for _, o := range want {
		wanted[key(o)] = true
		if err := m.put(ctx, o); err != nil {
			errs = append(errs, err)
			if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
				return errors.Join(errs...)
			}
		}
	}
	for k, o := range m.shown {
		if wanted[k] {
			continue
		}
		if err := client.IgnoreNotFound(m.client.Delete(ctx, o)); err != nil {
			return errors.Join(append(errs, fmt.Errorf("delete %s: %w", k, err))...)
		}
		delete(m.shown, k)
	}
	return errors.Join(errs...)
}

func (m *mirror) list(ctx context.Context) error {
	var ips v1alpha1.IPReservationList
	var pools v1alpha1.NodeIPPoolList
	ours := client.MatchingLabels{v1alpha1.LabelNode: m.node}
	if err := m.client.List(ctx, &ips, ours); err != nil {
		return fmt.Errorf("list IPReservations: %w", err)
	}
	if err := m.client.List(ctx, &pools, ours); err != nil {
		return fmt.Errorf("list NodeIPPools: %w", err)
	}
	m.shown, m.homeless = map[string]client.Object{}, map[string]bool{}
	for i := range ips.Items {
		m.shown[key(&ips.Items[i])] = &ips.Items[i]
	}
	for i := range pools.Items {
		m.shown[key(&pools.Items[i])] = &pools.Items[i]
	}
	return nil
}

// put creates or updates one object, unless it is shown already.
func (m *mirror) put(ctx context.Context, o client.Object) error {
	k := key(o)
	if m.homeless[k] {
		return nil
	}
	old, found := m.shown[k]
	if !found {
		return m.create(ctx, o)
	}
	keepTransitions(old, o)
	keepOwner(old, o)
	if sameStatus(old, o) && sameOwner(old, o) {
		return nil
	}
	o.SetResourceVersion(old.GetResourceVersion())
	if err := m.client.Update(ctx, o); err != nil {
		return fmt.Errorf("update %s: %w", k, err)
	}
	m.shown[k] = o
	return nil
}

func (m *mirror) create(ctx context.Context, o client.Object) error {
	k := key(o)
	err := m.client.Create(ctx, o)
	switch {
	case apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		m.homeless[k] = true
		return nil
	case err != nil:
		return fmt.Errorf("create %s: %w", k, err)
	}
	m.shown[k] = o
	return nil
}

func sameStatus(a, b client.Object) bool {
	switch a := a.(type) {
	case *v1alpha1.IPReservation:
		return apiequality.Semantic.DeepEqual(a.Status, b.(*v1alpha1.IPReservation).Status)
	case *v1alpha1.NodeIPPool:
		return apiequality.Semantic.DeepEqual(a.Status, b.(*v1alpha1.NodeIPPool).Status)
	}
	return false
}
