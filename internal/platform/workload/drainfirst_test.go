package workload_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// What is wrong is told with its field, and what to write.
func TestWrongWaits(t *testing.T) {
	const hooks = policyv1beta1.AnnotationLifecycle
	for name, tc := range map[string]struct{ key, value, says string }{
		"no duration":     {policyv1beta1.AnnotationDrainFirst, "10", "write a duration from 1s to 10m"},
		"nothing":         {hooks, "", "write preDelete or inPlaceUpdate"},
		"no hook":         {hooks, "{}", "write preDelete or inPlaceUpdate"},
		"another hook":    {hooks, "preNormal: {labelsHandler: {a: b}}", `unknown field "preNormal"`},
		"another handler": {hooks, "preDelete: {labelHandler: {a: b}}", `unknown field "labelHandler"`},
		"no handler":      {hooks, "preDelete: {markPodNotReady: true}", "preDelete: nothing keeps the pod: write labelsHandler or finalizersHandler"},
		"not marked":      {hooks, "inPlaceUpdate: {labelsHandler: {a: b}, markPodNotReady: false}", "inPlaceUpdate.markPodNotReady: such a pod is always out of service"},
		"no finalizer":    {hooks, "preDelete: {finalizersHandler: [mine]}", "write names as example.com/handler"},
		"no label":        {hooks, "inPlaceUpdate: {labelsHandler: {-a: b}}", "inPlaceUpdate.labelsHandler"},
		"no value":        {hooks, `preDelete: {labelsHandler: {a: "b c"}}`, "preDelete.labelsHandler"},
		"a list":          {hooks, "preDelete: {labelsHandler: [a]}", "labelsHandler"},
		"an alias":        {hooks, "preDelete: {labelsHandler: {a: &x b, c: *x}}", "write no & and no *"},
		"many finalizers": {hooks, "preDelete: {finalizersHandler: [" + strings.Repeat("a/b,", 17) + "]}", "preDelete.finalizersHandler: 17 names: write at most 16"},
		"too much":        {hooks, strings.Repeat("#", 3000), "write at most 2048"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{tc.key: tc.value}}}
			if _, err := workload.Waits(pod.Annotations); err == nil || !strings.Contains(err.Error(), tc.key) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %s and %q", err, tc.key, tc.says)
			}
			if wait, err := workload.WaitOf(pod, false); err == nil || wait != (workload.Wait{}) {
				t.Errorf("%+v, %v: a pod with a wrong annotation waits", wait, err)
			}
		})
	}
}

// A handler keeps a pod while any of its labels or finalizers is there.
func TestHowAPodWaits(t *testing.T) {
	const both = `{"preDelete": {"labelsHandler": {"a": "b"}, "finalizersHandler": ["example.com/f"], "markPodNotReady": true}}`
	kept, done := workload.Wait{Most: 10 * time.Minute, Handled: true}, workload.Wait{Most: 10 * time.Minute, Handled: true, Done: true}
	for name, tc := range map[string]struct {
		hooks, drain string
		labels       map[string]string
		finalizers   []string
		inPlace      bool
		want         workload.Wait
	}{
		"asks for nothing":          {want: workload.Wait{}},
		"for a time":                {drain: "10s", want: workload.Wait{Most: 10 * time.Second}},
		"… before a change":         {drain: "10s", inPlace: true, want: workload.Wait{Most: 10 * time.Second}},
		"has the label":             {hooks: both, labels: map[string]string{"a": "b"}, want: kept},
		"has the finalizer":         {hooks: both, finalizers: []string{"example.com/f"}, want: kept},
		"has both":                  {hooks: both, labels: map[string]string{"a": "b"}, finalizers: []string{"example.com/f"}, want: kept},
		"has another value":         {hooks: both, labels: map[string]string{"a": "c"}, want: done},
		"has nothing of it":         {hooks: both, finalizers: []string{"example.com/other"}, want: done},
		"a time, and a handler":     {hooks: both, drain: "10s", labels: map[string]string{"a": "b"}, want: workload.Wait{Most: 10 * time.Second, Handled: true}},
		"the hook of another way":   {hooks: both, labels: map[string]string{"a": "b"}, inPlace: true, want: workload.Wait{}},
		"… and a time":              {hooks: both, drain: "10s", inPlace: true, want: workload.Wait{Most: 10 * time.Second}},
		"the hook before a change":  {hooks: "inPlaceUpdate: {labelsHandler: {a: b}}", labels: map[string]string{"a": "b"}, inPlace: true, want: kept},
		"an empty value is a value": {hooks: `preDelete: {labelsHandler: {a: ""}}`, want: done},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}, Labels: tc.labels, Finalizers: tc.finalizers}}
			if tc.hooks != "" {
				pod.Annotations[policyv1beta1.AnnotationLifecycle] = tc.hooks
			}
			if tc.drain != "" {
				pod.Annotations[policyv1beta1.AnnotationDrainFirst] = tc.drain
			}
			if got, err := workload.WaitOf(pod, tc.inPlace); err != nil || got != tc.want {
				t.Errorf("%+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}
