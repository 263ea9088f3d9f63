package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// kept returns an IPReservation of namespace shop: reserved if it has an end.
func kept(pod, node, ips string, minutes int) limpetv1alpha1.IPReservation {
	o := limpetv1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pod + ".eth0.net." + node, UID: types.UID(pod + node)},
		Status:     limpetv1alpha1.IPReservationStatus{Node: node, Network: "net", Interface: "eth0", Pod: pod, IPs: ips, State: limpetv1alpha1.IPAttached},
	}
	if minutes > 0 {
		until := metav1.NewTime(time.Date(2026, 1, 2, 3, minutes, 0, 0, time.UTC))
		o.Status.State, o.Status.Until = limpetv1alpha1.IPReserved, &until
	}
	return o
}

// outcomes returns what a report says of each reservation.
func outcomes(r console.ReleaseReport) map[string]console.ReleaseOutcome {
	all := map[string]console.ReleaseOutcome{}
	for _, one := range r.Reservations {
		all[one.Name] = one.Outcome
	}
	return all
}

func TestPlanRelease(t *testing.T) {
	f := &facts.Facts{
		Reservations: []limpetv1alpha1.IPReservation{
			kept("web-0", "n1", "10.0.0.1,fd00::1", 10), kept("web-1", "n1", "10.0.0.2", 10), kept("web-1", "n2", "10.0.1.2", 0), kept("web-2", "n2", "10.0.1.3", 0),
			kept("web-3", "n3", "10.0.2.3", 0), // its pod has just gone
		},
		Pods: []corev1.Pod{*testenv.APod("web-1").In("shop").Pod, *testenv.APod("web-2").In("shop").Pod},
	}
	for name, tc := range map[string]struct {
		query console.ReleaseQuery
		want  map[string]console.ReleaseOutcome
		fails string
	}{
		"a pod":               {console.ReleaseQuery{Names: []string{"web-0"}}, map[string]console.ReleaseOutcome{"web-0.eth0.net.n1": console.Releasable}, ""},
		"an address":          {console.ReleaseQuery{Names: []string{"fd00::1"}}, map[string]console.ReleaseOutcome{"web-0.eth0.net.n1": console.Releasable}, ""},
		"the pod and address": {console.ReleaseQuery{Names: []string{"fd00::1", "web-0"}}, map[string]console.ReleaseOutcome{"web-0.eth0.net.n1": console.Releasable}, ""},
		"a pod that runs":     {console.ReleaseQuery{Names: []string{"web-2"}}, map[string]console.ReleaseOutcome{"web-2.eth0.net.n2": console.InUse}, ""},
		"a pod that runs on another node": {
			console.ReleaseQuery{Names: []string{"web-1"}},
			map[string]console.ReleaseOutcome{"web-1.eth0.net.n1": console.Releasable, "web-1.eth0.net.n2": console.InUse},
			"",
		},
		"of one node": {console.ReleaseQuery{Names: []string{"web-1"}, Node: "n1"}, map[string]console.ReleaseOutcome{"web-1.eth0.net.n1": console.Releasable}, ""},
		"all": {console.ReleaseQuery{All: true}, map[string]console.ReleaseOutcome{
			"web-0.eth0.net.n1": console.Releasable, "web-1.eth0.net.n1": console.Releasable, "web-3.eth0.net.n3": console.InUse,
		}, ""},
		"all of a node without any":        {console.ReleaseQuery{All: true, Node: "n2"}, map[string]console.ReleaseOutcome{}, ""},
		"an unknown pod":                   {query: console.ReleaseQuery{Names: []string{"web-0", "web-9"}}, fails: "nothing is reserved for web-9"},
		"the beginning of an address":      {query: console.ReleaseQuery{Names: []string{"10.0.0"}}, fails: "nothing is reserved for 10.0.0"},
		"a pod without any on that node":   {query: console.ReleaseQuery{Names: []string{"web-0"}, Node: "n2"}, fails: "nothing is reserved for web-0"},
		"a node that is no name of a node": {query: console.ReleaseQuery{Names: []string{"web-0"}, Node: "n"}, fails: "nothing is reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := console.PlanRelease(f, "shop", tc.query)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("got %v, want an error with %q", err, tc.fails)
				}
				return
			}
			if diff := cmp.Diff(tc.want, outcomes(r)); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			for _, one := range r.Reservations {
				if gone := strings.Contains(one.Message, "is gone"); gone != (one.Pod == "web-3") {
					t.Errorf("%s: the message is %q", one.Name, one.Message)
				}
				if exists := strings.Contains(one.Message, "exists"); one.Outcome == console.Releasable && exists != (one.Pod == "web-1") {
					t.Errorf("%s says %q", one.Name, one.Message)
				}
			}
		})
	}
}

// TestFollowARelease compares what was asked for with each state that the API may show then.
func TestFollowARelease(t *testing.T) {
	was := kept("web-0", "n1", "10.0.0.1", 10)
	returned, again, later := kept("web-0", "n1", "10.0.0.1", 0), was, kept("web-0", "n1", "10.0.0.1", 30)
	again.UID = "another object of the name"
	for name, tc := range map[string]struct {
		now  []limpetv1alpha1.IPReservation
		want console.ReleaseOutcome
	}{
		"still there":             {[]limpetv1alpha1.IPReservation{was}, console.Asked},
		"gone":                    {nil, console.Freed},
		"gone, and another":       {[]limpetv1alpha1.IPReservation{again}, console.Freed},
		"the pod was faster":      {[]limpetv1alpha1.IPReservation{returned}, console.InUse},
		"the pod came and went":   {[]limpetv1alpha1.IPReservation{later}, console.Replaced},
		"another one beside them": {[]limpetv1alpha1.IPReservation{kept("web-1", "n1", "10.0.0.2", 10)}, console.Freed},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := console.PlanRelease(&facts.Facts{Reservations: []limpetv1alpha1.IPReservation{was}}, "shop", console.ReleaseQuery{All: true})
			if err != nil || len(r.Reservations) != 1 {
				t.Fatalf("%v: %+v", err, r)
			}
			r.Reservations[0].Outcome = console.Asked
			r.Follow(&facts.Facts{Reservations: tc.now})
			if got := r.Reservations[0].Outcome; got != tc.want {
				t.Errorf("outcome %s, want %s", got, tc.want)
			}
			r.GiveUp()
			if r.Reservations[0].Message == "" && tc.want != console.Freed {
				t.Error("the report does not say why")
			}
		})
	}
}

// TestPlacesAreForgotten plans and follows the records of pods that are away, that run, and that have no reservation.
func TestPlacesAreForgotten(t *testing.T) {
	state := testenv.APersistentPodState("web").In("shop").Recorded("web-0", "n1", nil).Recorded("web-1", "n1", nil).Recorded("web-2", "n2", nil).PersistentPodState
	for name, record := range state.Status.PodStates {
		record.UID = types.UID(name)
		state.Status.PodStates[name] = record
	}
	f := &facts.Facts{
		Reservations: []limpetv1alpha1.IPReservation{kept("web-0", "n1", "10.0.0.1", 10), kept("web-1", "n1", "10.0.0.2", 0)},
		Pods:         []corev1.Pod{*testenv.APod("web-1").In("shop").Pod}, States: []appsv1beta1.PersistentPodState{*state},
	}
	plan := func(q console.ReleaseQuery) map[string]console.ReleaseOutcome {
		r, err := console.PlanRelease(f, "shop", q)
		if err != nil {
			t.Error(err)
		}
		got := map[string]console.ReleaseOutcome{}
		for i := range r.Places {
			if got[r.Places[i].Pod] = r.Places[i].Outcome; r.Places[i].Outcome == console.Releasable {
				r.Places[i].Outcome = console.Asked
			}
		}
		r.Follow(&facts.Facts{})
		if r.CountPlaces(console.Asked) > 0 {
			t.Errorf("records that are gone: %+v", r.Places)
		}
		return got
	}
	for name, tc := range map[string]struct {
		query console.ReleaseQuery
		want  map[string]console.ReleaseOutcome
	}{
		"all":                         {console.ReleaseQuery{All: true, Forget: true}, map[string]console.ReleaseOutcome{"web-0": console.Releasable}},
		"an address":                  {console.ReleaseQuery{Names: []string{"10.0.0.1"}, Forget: true}, map[string]console.ReleaseOutcome{"web-0": console.Releasable}},
		"a pod that exists":           {console.ReleaseQuery{Names: []string{"web-1"}, Forget: true}, map[string]console.ReleaseOutcome{"web-1": console.InUse}},
		"a pod without a reservation": {console.ReleaseQuery{Names: []string{"web-2"}, Forget: true}, map[string]console.ReleaseOutcome{"web-2": console.Releasable}},
		"without the flag":            {console.ReleaseQuery{Names: []string{"web-0"}}, map[string]console.ReleaseOutcome{}},
	} {
		if diff := cmp.Diff(tc.want, plan(tc.query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestARefusalOfADryRunIsTold has the API server refuse one of two reservations.
func TestARefusalOfADryRunIsTold(t *testing.T) {
	r := console.ReleaseReport{Reservations: []console.Release{{Name: "a", Outcome: console.Releasable}, {Name: "b", Outcome: console.Releasable}}}
	tried := console.ReleaseReport{Reservations: []console.Release{{Name: "a", Outcome: console.Asked}, {Name: "b", Outcome: console.Replaced, Message: "why"}}}
	r.Refused(tried)
	if got := r.Reservations; got[0].Outcome != console.Releasable || got[1].Outcome != console.Replaced || got[1].Message != "why" {
		t.Errorf("reservations %+v", got)
	}
}
