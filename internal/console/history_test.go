package console_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/pkg/pin"
)

// An event about several pods is on their workload. It is part of the history of each pod that it names.
func TestAnEventOfSeveralPodsIsInTheHistoryOfEach(t *testing.T) {
	digest := pin.Digest{Reason: pin.ReasonReturned, Namespace: "team", Notices: []pin.Notice{
		{Pod: "web-0", IPs: "10.0.1.5", Node: "n1"}, {Pod: "web-11", IPs: "10.0.1.6", Node: "n1"},
	}}
	event := func(name, by string) corev1.Event {
		return corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Reason: pin.ReasonReturned, Message: digest.Text(), ReportingController: by,
			InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Namespace: "team", Name: "web"},
		}
	}
	f := installed()
	f.Events = append(f.Events, event("ours", facts.Controller), event("forged", "another"))
	for pod, want := range map[string]int{"web-0": 1, "web-11": 1, "web-1": 0} {
		r, err := console.History(f, "team", pod)
		if len(r.Events) != want || (err == nil) != (want > 0) {
			t.Errorf("%s: events %+v, want %d; error %v", pod, r.Events, want, err)
		}
	}
}
