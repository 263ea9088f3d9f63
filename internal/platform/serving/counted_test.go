package serving_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/testenv"
)

func TestAnswersAreCountedAndTimed(t *testing.T) {
	registry, clock := prometheus.NewRegistry(), testingclock.NewFakeClock(time.Unix(0, 0))
	answers := serving.NewAnswers(registry, clock)
	var next admission.Response
	handler := answers.Count("/path", &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		clock.Step(time.Second)
		return next
	})})
	for _, next = range []admission.Response{
		admission.Allowed(""), admission.Patched("", jsonpatch.NewOperation("add", "/a", "b")), admission.Denied("no"),
		{AdmissionResponse: admissionv1.AdmissionResponse{}},
		admission.Errored(http.StatusServiceUnavailable, errors.New("no API server")),
		admission.Errored(http.StatusBadRequest, errors.New("no pod")),
		{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
			Code: http.StatusTooManyRequests, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: serving.CauseUndecided}}},
		}}},
	} {
		handler.(*admission.Webhook).Handle(t.Context(), admission.Request{})
	}
	want := map[string]uint64{"/path allowed": 1, "/path changed": 1, "/path denied": 2, "/path error": 3}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, m := range families[0].GetMetric() {
		h := m.GetHistogram()
		got[m.GetLabel()[1].GetValue()+" "+m.GetLabel()[0].GetValue()] = h.GetSampleCount()
		if h.GetSampleSum() != float64(h.GetSampleCount()) {
			t.Errorf("%v took %v s, want a second each", m.GetLabel(), h.GetSampleSum())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// Each metric of the webhook server is in the runbook.
func TestTheRunbookNamesTheMetricsOfTheServer(t *testing.T) {
	collectors := &testenv.Collectors{}
	serving.NewAnswers(collectors, testingclock.NewFakePassiveClock(time.Now()))
	serving.NewServer(serving.Options{Certificate: &serving.Certificate{}, Limits: serving.DefaultLimits, Registry: collectors})
	testenv.MetricsInRunbook(t, collectors.Labels())
}
