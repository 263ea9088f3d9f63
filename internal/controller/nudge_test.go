package controller_test

import (
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/controller"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestNudgeGoesOnAfterARefusal(t *testing.T) {
	list := &appsv1.StatefulSetList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSetList"}}
	for _, name := range []string{"a", "b"} {
		set := appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		set.Spec.Template.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
		list.Items = append(list.Items, set)
	}
	c, patches := refusing(t, list, http.StatusForbidden, metav1.StatusReasonForbidden)
	err := (&controller.Nudger{Client: c, Clock: clock.RealClock{}}).Nudge(t.Context())
	if err == nil || !strings.Contains(err.Error(), "default/a") || !strings.Contains(err.Error(), "default/b") {
		t.Errorf("error %v, want it to name both StatefulSets", err)
	}
	if n := len(patches()); n != 2 {
		t.Errorf("%d patches, want 2", n)
	}
}
