package console

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// HistoryParts are the facts that History needs, of the namespace of the pod.
var HistoryParts = append(slices.Clone(HomeParts), facts.Loans, facts.Events)

// held is addresses that a node holds for a pod.
type held struct {
	Node    string       `json:"node"`
	Network string       `json:"network"`
	IPs     string       `json:"ips"`
	State   string       `json:"state"`
	Until   *metav1.Time `json:"until,omitempty"`
}

// Told is one event.
type Told struct {
	Time    time.Time `json:"time"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Object  string    `json:"object"`
}

// HistoryReport is what is known of one pod name.
type HistoryReport struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Node, IPs and State are those of the pod; empty for a pod that does not exist.
	Node  string `json:"node,omitempty"`
	IPs   string `json:"ips,omitempty"`
	State string `json:"state"`
	// RecordedBy names the PersistentPodState; RecordedNode, RecordedIPs and RecordedAt are what
	// it records.
	RecordedBy   string       `json:"recordedBy,omitempty"`
	RecordedNode string       `json:"recordedNode,omitempty"`
	RecordedIPs  string       `json:"recordedIPs,omitempty"`
	RecordedAt   *metav1.Time `json:"recordedAt,omitempty"`
	// Subset is the WorkloadSpread that places the pod, with its subset.
	Subset string `json:"subset,omitempty"`
	Held   []held `json:"held"`
	// Last is the last rebuild of the pod. Only the last one of the workload has a message.
	Last *appsv1beta1.Rebuild `json:"last,omitempty"`
	// Next says what the pod would get if it were rebuilt now.
	Next   string         `json:"next"`
	Events []Told         `json:"events"`
	Unread []facts.Unread `json:"unread,omitempty"`
}

// History reports on one pod name, which may have no pod now. It fails when nothing is known
// under the name.
func History(f *facts.Facts, namespace, name string) (HistoryReport, error) {
	r := HistoryReport{Namespace: namespace, Pod: name, State: "None", Held: []held{}, Events: events(f, namespace, name), Unread: f.Unread}
	pod := f.Pod(namespace, name)
	keptAs := name
	if pod != nil {
		keptAs = reservation.OwnerName(name, pod.Annotations)
	}
	for _, k := range keptFor(f, namespace, keptAs) {
		s := k.Status
		r.Held = append(r.Held, held{Node: s.Node, Network: s.Network, IPs: s.IPs, State: string(s.State), Until: s.Until})
	}
	state := recording(f, namespace, name)
	if pod != nil {
		r.Node, r.IPs, r.State = pod.Spec.NodeName, pin.Addresses(pod), PodState(pod)
		r.Subset = subsetOf(f, pod)
		if s := stateOf(f, pod); s != nil {
			state = s
		}
		r.Next = next(f, pod)
	}
	if state != nil {
		record := state.Status.PodStates[name]
		r.RecordedBy, r.RecordedNode, r.RecordedIPs, r.RecordedAt = state.Name, record.NodeName, record.IPs, record.RecordedAt
		r.Last = lastOf(state, name)
	}
	if pod == nil && !read(f, facts.Pods) {
		r.State = "Unknown"
	}
	if pod == nil && state == nil && len(r.Held) == 0 && len(r.Events) == 0 {
		if why := f.Unknown(facts.Pods, facts.Kept, facts.States, facts.Events); why != "" {
			return r, fmt.Errorf("nothing that you may read tells of pod %s/%s: %s", namespace, name, why)
		}
		return r, fmt.Errorf("nothing is known of pod %s/%s: check the name and --namespace", namespace, name)
	}
	return r, nil
}

// lastOf returns the last rebuild of a pod; nil for none. The record of the pod outlives the last rebuild of its workload.
func lastOf(s *appsv1beta1.PersistentPodState, name string) *appsv1beta1.Rebuild {
	record, n := s.Status.PodStates[name], s.Status.Rebuilds
	switch {
	case n != nil && n.Last != nil && n.Last.Pod == name:
		return n.Last
	case record.Outcome == "":
		return nil
	}
	now := appsv1beta1.Place{NodeName: record.NodeName, IPs: record.IPs}
	return &appsv1beta1.Rebuild{
		Pod: name, Outcome: record.Outcome, Cause: record.Cause, From: ptr.Deref(record.From, now), To: now, Time: ptr.Deref(record.RecordedAt, metav1.Time{}),
	}
}

// recording returns the PersistentPodState that has a record of a pod name.
func recording(f *facts.Facts, namespace, name string) *appsv1beta1.PersistentPodState {
	for i := range f.States {
		if _, ok := f.States[i].Status.PodStates[name]; ok && f.States[i].Namespace == namespace {
			return &f.States[i]
		}
	}
	return nil
}

// next says in a sentence where a pod would start if it were rebuilt.
func next(f *facts.Facts, pod *corev1.Pod) string {
	d := home(f, pod, nil)
	place := placeOf(d)
	switch why := unknownHome(f, pod); {
	case why != "":
		return why
	case d.Reason == pin.ReasonPinned:
		return d.Message
	case len(place) > 0:
		return fmt.Sprintf("the pod waits for a node with %s: %s", place, d.Message)
	case subsetOf(f, pod) != "":
		return "the pod starts on any node of the subset that it gets then; it is placed by " + subsetOf(f, pod)
	}
	return "the pod starts on any node: " + d.Message
}

// PodState is the state of a pod as one word, as kubectl prints it.
func PodState(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "Terminating"
	}
	return state(p)
}

// events returns what Limpet reported about a pod, the newest first.
func events(f *facts.Facts, namespace, name string) []Told {
	told := []Told{}
	for _, e := range f.Events {
		about := e.InvolvedObject
		gathered := e.ReportingController == facts.Controller && pin.Names(e.Message, name)
		if e.Namespace != namespace || !isPod(&about, name) && !isPod(e.Related, name) && !gathered {
			continue
		}
		told = append(told, Told{Time: TimeOf(&e), Reason: e.Reason, Message: e.Message, Object: about.Kind + "/" + about.Name})
	}
	slices.SortFunc(told, func(a, b Told) int { return b.Time.Compare(a.Time) })
	return told
}

func isPod(o *corev1.ObjectReference, name string) bool {
	return o != nil && o.Kind == "Pod" && o.Name == name
}

// TimeOf returns when an event was last seen. The two versions of the API use different fields.
func TimeOf(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
