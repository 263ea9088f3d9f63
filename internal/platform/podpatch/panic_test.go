package podpatch_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
)

// The library panics at lists where it compares values. Such a patch is refused as any other that
// does not apply.
func TestPatchesThatTheLibraryCannotCompare(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	for _, patch := range []string{
		`{"metadata":{"$retainKeys":[["a"]]}}`,
		`{"spec":{"$retainKeys":[{"a":1}]}}`,
		`{"spec":{"containers":[{"name":[["main"]]}]}}`,
		`{"spec":{"containers":[{"name":{"a":1}},{"name":{"a":1}}]}}`,
	} {
		if _, err := podpatch.Strategic(pod, []byte(patch)); err == nil {
			t.Errorf("patch %s applies", patch)
		}
	}
}
