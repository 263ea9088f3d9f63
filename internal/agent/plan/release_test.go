package plan_test

import (
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// shown returns the object of a reservation as the API has it, with the mark of a user.
func shown(t *testing.T, r reservation.Reservation, mark string) *v1alpha1.IPReservation {
	t.Helper()
	for _, o := range plan.Mirror("n1", []plan.Network{{Name: "net", Reservations: []reservation.Reservation{r}}}, now) {
		if ipr, ok := o.(*v1alpha1.IPReservation); ok {
			if mark == "" {
				mark = ipr.Status.Releases()
			}
			ipr.Labels[v1alpha1.LabelRelease] = mark
			return ipr
		}
	}
	t.Fatal("the reservation is not shown")
	return nil
}

// TestAMarkReleasesOneReservation marks the reservation that the API shows, while the state has gone on.
func TestAMarkReleasesOneReservation(t *testing.T) {
	r := reserved(time.Minute)
	is := func(change func(*reservation.Reservation)) func(*v1alpha1.IPReservation, *reservation.Reservation) {
		return func(_ *v1alpha1.IPReservation, r *reservation.Reservation) { change(r) }
	}
	object := func(change func(*v1alpha1.IPReservation)) func(*v1alpha1.IPReservation, *reservation.Reservation) {
		return func(o *v1alpha1.IPReservation, _ *reservation.Reservation) { change(o) }
	}
	for name, tc := range map[string]struct {
		mark   string
		change func(*v1alpha1.IPReservation, *reservation.Reservation)
		want   bool
	}{
		"the same reservation": {want: true},
		"a step of the clock by a second": {
			change: is(func(r *reservation.Reservation) { r.Deadline.From = ago(time.Minute + time.Second) }), want: true,
		},
		"a later reservation of another pod of the name": {change: is(func(r *reservation.Reservation) { r.UID = "next" })},
		"a later reservation of the same pod":            {change: is(func(r *reservation.Reservation) { r.Deadline.From = ago(0) })},
		"another interface":                              {change: is(func(r *reservation.Reservation) { r.Owner.IfName = "net1" })},
		"a mark of an earlier reservation":               {mark: "20251231T230000Z"},
		"a mark that is no time":                         {mark: "true"},
		"an object of another node":                      {change: object(func(o *v1alpha1.IPReservation) { o.Status.Node = "n2" })},
		"an object of another namespace":                 {change: object(func(o *v1alpha1.IPReservation) { o.Namespace = "tenant" })},
		"addresses of a running pod":                     {change: object(func(o *v1alpha1.IPReservation) { o.Status.State = v1alpha1.IPAttached })},
		"a reservation without an end":                   {change: object(func(o *v1alpha1.IPReservation) { o.Status.Until = nil })},
		"a mark that was removed":                        {change: object(func(o *v1alpha1.IPReservation) { delete(o.Labels, v1alpha1.LabelRelease) })},
	} {
		t.Run(name, func(t *testing.T) {
			o, state := shown(t, r, tc.mark), r
			if tc.change != nil {
				tc.change(o, &state)
			}
			in := plan.OrphansInput{Now: now, Reservations: []reservation.Reservation{state}, Grace: time.Hour}
			if mark, ok := plan.MarkOf("n1", o); ok {
				in.Marks = []plan.Mark{mark}
			}
			got := plan.Orphans(in)
			if released := len(got) == 1 && got[0].Cause == plan.CauseReleased; released != tc.want || len(got) > 1 {
				t.Errorf("ended %+v, want released: %t", got, tc.want)
			}
		})
	}
}
