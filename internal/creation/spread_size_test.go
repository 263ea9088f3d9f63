package creation_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/spread"
	"github.com/limpet-io/limpet/internal/testenv"
)

// A percentage of a size that cannot be read gives no subset. A pod is created all the same, and a
// warning, an event and a metric tell it. A dry run is only answered.
func TestAPercentageOfASizeThatCannotBeRead(t *testing.T) {
	serve(t)
	c, heard := env.Listen(t)
	ns := env.Namespace(t)
	unknown := schema.GroupVersionKind{Group: "unknown.example.com", Version: "v1", Kind: "Unknown"}
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(unknown)
	owner.SetNamespace(ns)
	owner.SetName("web")
	owner.SetUID("unknown")
	s := aSpread(ns, "web", "unknown.example.com/v1", "Unknown", "web", "a=50%", "b")
	env.Create(t, s)
	sent(t, testenv.APod("web-x").Of(owner, unknown).Pod)
	before := decided(t, "SizeUnknown")
	if err := c.Create(t.Context(), testenv.APod("web-x").Of(owner, unknown).Pod, client.DryRunAll); err != nil {
		t.Error(err)
	}
	pod := testenv.APod("web-x").Of(owner, unknown).Pod
	if err := c.Create(t.Context(), pod); err != nil || subsetOf(pod) != "" {
		t.Errorf("subset %q, %v", subsetOf(pod), err)
	}
	env.RemoveAtEnd(t, pod)
	countedOnce(t, "SizeUnknown", before)
	if err := heard.Names("without a subset of WorkloadSpread web"); err != nil {
		t.Error(err)
	}
	env.Told(t, s, "SizeUnknown", spread.ErrSize.Error())
}
