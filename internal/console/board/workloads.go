package board

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Workload is the target of a PersistentPodState with its pods.
type Workload struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Target    string `json:"target"`
	Kept      int64  `json:"kept"`
	Moved     int64  `json:"moved"`
	Lost      int64  `json:"lost"`
	Pods      []Pod  `json:"pods"`
	// More is the number of pods that are left out.
	More int `json:"more"`
}

// Pod is a pod name of a workload. The pod itself may not exist now.
type Pod struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Node  string `json:"node"`
	IPs   string `json:"ips"`
	// RecordedNode, RecordedIPs and RecordedAt are the place where the pod was last Ready.
	RecordedNode string       `json:"recordedNode"`
	RecordedIPs  string       `json:"recordedIPs"`
	RecordedAt   *metav1.Time `json:"recordedAt,omitempty"`
	// Waiting is why the required place does not take the pod.
	Waiting string `json:"waiting,omitempty"`
	// Until is when the reservation of its addresses on ReservedOn ends.
	Until      *metav1.Time `json:"until,omitempty"`
	ReservedOn string       `json:"reservedOn,omitempty"`
	// Lent says of which node its addresses are, and which one has them, instead.
	Lent string `json:"lent,omitempty"`
	// Past is what became of the pod, the newest first.
	Past []Past `json:"past"`
}

// Past is a rebuild, or another event that Limpet reported about the pod.
type Past struct {
	Time time.Time `json:"time"`
	// What is Kept, Moved, Lost or the reason of another event.
	What string `json:"what"`
	Text string `json:"text"`
	// Bad tells that the pod moved, lost its addresses, or that the event is a warning.
	Bad bool `json:"bad"`
}

// known are the facts by the pods that they are about.
type known struct {
	pods  map[key]*corev1.Pod
	owned map[key][]*corev1.Pod                       // by controller, as kind/name
	kept  map[key]*limpetv1alpha1.IPReservationStatus // the longest reservation
	past  map[key][]Past
	loans map[key]*limpetv1alpha1.BorrowedAddress
}

// workloads returns the targets of all PersistentPodStates. The board makes only those that it keeps.
func workloads(f *facts.Facts) []sized[Workload] {
	k := known{map[key]*corev1.Pod{}, map[key][]*corev1.Pod{}, map[key]*limpetv1alpha1.IPReservationStatus{}, past(f.Events), map[key]*limpetv1alpha1.BorrowedAddress{}}
	for i := range f.Loans {
		k.loans[key{f.Loans[i].Namespace, f.Loans[i].Spec.Pod}] = &f.Loans[i]
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		k.pods[key{p.Namespace, p.Name}] = p
		if c := metav1.GetControllerOf(p); c != nil {
			owner := key{p.Namespace, c.Kind + "/" + c.Name}
			k.owned[owner] = append(k.owned[owner], p)
		}
	}
	for i := range f.Reservations {
		r := &f.Reservations[i]
		pod := key{r.Namespace, r.Status.Pod}
		if known := k.kept[pod]; r.Status.State == limpetv1alpha1.IPReserved && (known == nil || known.Until.Before(r.Status.Until)) {
			k.kept[pod] = &r.Status
		}
	}
	all := []sized[Workload]{}
	for i := range f.States {
		s := &f.States[i]
		names := sync.OnceValue(func() []string { return k.names(s) })
		all = append(all, sized[Workload]{
			key: key{s.Namespace, s.Name}, parts: func() int { return min(len(names()), mostPods) },
			cut: func(most int) Workload { return k.workload(s, names(), most) },
		})
	}
	slices.SortFunc(all, func(a, b sized[Workload]) int { return a.compare(b.key) })
	return all
}

func targetOf(s *appsv1beta1.PersistentPodState) string {
	return s.Spec.TargetReference.Kind + "/" + s.Spec.TargetReference.Name
}

// workload returns a workload with the first of its pods.
func (k known) workload(s *appsv1beta1.PersistentPodState, names []string, most int) Workload {
	w := Workload{
		Namespace: s.Namespace, Name: s.Name, Target: short(targetOf(s)), Pods: []Pod{}, More: len(names) - most,
	}
	if n := s.Status.Rebuilds; n != nil {
		w.Kept, w.Moved, w.Lost = n.Kept, n.Moved, n.Lost
	}
	for _, name := range names[:most] {
		w.Pods = append(w.Pods, k.pod(s, name))
	}
	return w
}

// names returns the names of all pods of a workload: those that are recorded, and those that exist.
func (k known) names(s *appsv1beta1.PersistentPodState) []string {
	names := map[string]bool{}
	for name := range s.Status.PodStates {
		names[name] = true
	}
	for _, p := range k.owned[key{s.Namespace, targetOf(s)}] {
		names[p.Name] = true
	}
	return slices.SortedFunc(maps.Keys(names), byName)
}

func (k known) pod(s *appsv1beta1.PersistentPodState, name string) Pod {
	pod, record := key{s.Namespace, name}, s.Status.PodStates[name]
	p := Pod{
		Name: name, State: "None", RecordedNode: record.NodeName, RecordedIPs: record.IPs, RecordedAt: record.RecordedAt,
		Past: slices.Clone(k.past[pod]),
	}
	if b := k.loans[pod]; b != nil && b.Status.Phase != "Ended" {
		p.Lent = short("of node " + b.Status.Home + ": " + console.LoanState(b))
	} else if kept := k.kept[pod]; kept != nil {
		p.Until, p.ReservedOn = kept.Until, short(kept.Node)
	}
	if now := k.pods[pod]; now != nil {
		p.State, p.Node, p.IPs = console.PodState(now), now.Spec.NodeName, pin.Addresses(now)
	}
	if record.Waiting != nil {
		p.Waiting = short(record.Waiting.Reason)
	}
	if n := s.Status.Rebuilds; n != nil && n.Last != nil && n.Last.Pod == name {
		p.Past = withLast(p.Past, *n.Last)
	}
	p.Past = append([]Past{}, p.Past[:min(len(p.Past), mostPast)]...)
	return p
}

// withLast adds the last rebuild of a workload, which outlives its event. The event is left out.
func withLast(told []Past, last appsv1beta1.Rebuild) []Past {
	const apart = 10 * time.Second
	told = slices.DeleteFunc(told, func(p Past) bool {
		return p.What == string(last.Outcome) && p.Time.Sub(last.Time.Time).Abs() < apart
	})
	text := []string{fmt.Sprintf("%s with %s → %s with %s", last.From.NodeName, last.From.IPs, last.To.NodeName, last.To.IPs)}
	for _, why := range []string{last.Cause, last.Message} {
		if why != "" {
			text = append(text, why)
		}
	}
	told = append(told, Past{Time: last.Time.Time, What: string(last.Outcome), Text: short(strings.Join(text, "; ")), Bad: last.Outcome != appsv1beta1.Kept})
	slices.SortStableFunc(told, func(a, b Past) int { return b.Time.Compare(a.Time) })
	return told
}

// past returns what Limpet reported about each pod, the newest first.
func past(events []corev1.Event) map[key][]Past {
	told := map[key][]Past{}
	for i := range events {
		e := &events[i]
		for _, name := range podsOf(e) {
			pod := key{e.Namespace, name}
			bad := e.Type == corev1.EventTypeWarning || e.Reason == string(appsv1beta1.Moved) || e.Reason == string(appsv1beta1.Lost)
			told[pod] = append(told[pod], Past{Time: console.TimeOf(e), What: short(e.Reason), Text: short(e.Message), Bad: bad})
		}
	}
	for _, of := range told {
		slices.SortStableFunc(of, func(a, b Past) int { return b.Time.Compare(a.Time) })
	}
	return told
}

// podsOf returns the pods of which an event tells. The controller gathers what happens to the pods of a workload.
func podsOf(e *corev1.Event) []string {
	if e.InvolvedObject.Kind == "Pod" {
		return []string{e.InvolvedObject.Name}
	}
	var pods []string
	if e.ReportingController == facts.Controller {
		pods = pin.Named(e.Message)
	}
	if e.Related != nil && e.Related.Kind == "Pod" && !slices.Contains(pods, e.Related.Name) {
		pods = append(pods, e.Related.Name)
	}
	return pods
}
