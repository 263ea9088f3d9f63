package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// The pods of a picture: make demo-federation prints them.
const (
	markAway, markMayGo, markStays = "○", "◎", "●"
	markUnknown                    = "?" // the guard has not answered
	legend                         = "○ away, ◎ may go now, ● stays, or asks for a unit first"
)

// draw logs what each pod of each site may do. Where a picture is wanted, it waits for that.
func (w *team) draw(t *testing.T, step string, want ...string) {
	t.Helper()
	testenv.Within(t, time.Minute, func() error {
		text, marks := w.picture(t)
		if strings.Contains(marks, markUnknown) || want != nil && !slices.Contains(want, marks) {
			return fmt.Errorf("%s: %s, want %s", step, text, want)
		}
		t.Logf("%-28s %s", step, text)
		return nil
	})
}

// picture is what each pod of each site may do, with the names of the sites and without.
func (w *team) picture(t *testing.T) (text, all string) {
	t.Helper()
	var picture []string
	for at := range w.lands {
		marks := ""
		for pod := range w.pods[at] {
			marks += w.mark(t, at, pod)
		}
		picture = append(picture, strings.TrimPrefix(w.lands[at].name+"/"+w.in[at]+" "+marks, "/"))
		all += marks
	}
	return strings.Join(picture, "  "), all
}

// mark tells what one pod may do. A dry run asks no peer for a unit.
func (w *team) mark(t *testing.T, at, pod int) string {
	t.Helper()
	var now corev1.Pod
	err := w.lands[at].env.Client.Get(t.Context(), client.ObjectKeyFromObject(w.pods[at][pod]), &now)
	if apierrors.IsNotFound(err) || err == nil && !workload.Ready(&now) {
		return markAway
	}
	switch err = w.evict(t.Context(), at, pod, metav1.DryRunAll); {
	case err == nil:
		return markMayGo
	case apierrors.IsTooManyRequests(err):
		return markStays
	}
	return markUnknown
}

// ringInOneObject is a StatefulSet of nine pods, each of which is a place: of three neighbours two stay.
func ringInOneObject(t *testing.T, here *land) {
	w := &team{lands: []*land{here}, in: []string{"ring"}, size: 9}
	w.fill(t, func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
		atMostOne(s)
		s.Federation, s.Groups = nil, &limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{OrderBy: limpetv1alpha1.OrderOrdinal, Size: 3, Wrap: true}}
	})
	w.shows(t, 0, func(b *limpetv1alpha1.DistributedPodDisruptionBudget) bool {
		return b.Status.CurrentHealthy == 9 && meta.IsStatusConditionTrue(b.Status.Conditions, policyv1beta1.ConditionEnforced)
	})
	want := []string{"◎◎◎◎◎◎◎◎◎", "○●●◎◎◎◎●●", "○●●○●●◎●●", "○●●○●●○●●"}
	for i, marks := range want {
		if i > 0 {
			w.goes(t, 0, 3*(i-1))
		}
		w.draw(t, "a ring in one object", marks)
	}
}
