package show_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestFieldsThatAnEarlierCRDLacks runs the loop while the CRDs know the required fields alone, as CRDs of an earlier
// version lack fields that came later. The objects are written once, and again after each list, which is once an hour.
// After an upgrade of the CRDs the fields are shown.
func TestFieldsThatAnEarlierCRDLacks(t *testing.T) {
	testenv.Beside(t, &env)
	ns := env.Namespace(t)
	whole := withoutOptionalFields(t, ns)
	b := newBed(t, "earlier", show.Pace{Counts: 15 * time.Second, Ends: 5 * time.Second})
	b.attach(ns, "web-0")
	b.reserve(ns, "web-1", 24*time.Hour)
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	b.wants(t, "of a start", map[string]int{"GET ipreservations": 1, "GET nodeippools": 1, "POST ipreservations": 2, "POST nodeippools": 1})
	b.passTime(t, 10*time.Second)
	b.asks(t, "WATCH namespaces")
	b.since()
	b.passTime(t, 2*time.Hour)
	got := b.since()
	lists := got["GET ipreservations"]
	if lists < 1 || lists > 3 || got["PUT ipreservations"] != 2*lists || got["PUT nodeippools"] > lists {
		t.Errorf("requests of two hours: %v, want each object written after a list alone", got)
	}

	whole()
	b.passTime(t, 2*time.Hour)
	var r v1alpha1.IPReservation
	env.Read(t, client.ObjectKey{Namespace: ns, Name: "web-1.eth0.net.earlier"}, &r)
	if r.Status.Until == nil || r.Status.RetainMinutes != 24*60 {
		t.Errorf("the upgraded CRD shows %+v, want the fields that it has now", r.Status)
	}
	b.since()
	b.passTime(t, time.Hour)
	if got := b.since(); got["PUT ipreservations"]+got["PUT nodeippools"] > 0 {
		t.Errorf("requests of an hour after the upgrade: %v, want no writes", got)
	}
}

// withoutOptionalFields takes the optional fields of the status out of both CRDs. The function that it returns puts
// them back, as the end of the test does.
func withoutOptionalFields(t *testing.T, ns string) (whole func()) {
	t.Helper()
	former := map[string]apiextensionsv1.CustomResourceDefinitionSpec{}
	for _, name := range []string{"ipreservations.limpet.dev", "nodeippools.limpet.dev"} {
		env.ChangeCRD(t, name, func(crd *apiextensionsv1.CustomResourceDefinition) {
			if _, known := former[name]; !known {
				former[name] = *crd.Spec.DeepCopy()
			}
			schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
			status := schema.Properties["status"]
			for field := range status.Properties {
				if !slices.Contains(status.Required, field) {
					delete(status.Properties, field)
				}
			}
			schema.Properties["status"] = status
		})
	}
	awaitFields(t, ns, false)
	restored := false
	whole = func() {
		if restored {
			return
		}
		restored = true
		for name, spec := range former {
			env.ChangeCRD(t, name, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec = spec })
		}
		awaitFields(t, ns, true)
	}
	t.Cleanup(whole)
	return whole
}

// awaitFields waits until the API server keeps or drops an optional field of each kind.
func awaitFields(t *testing.T, ns string, kept bool) {
	t.Helper()
	share := int64(7)
	testenv.Eventually(t, func() error {
		r := &v1alpha1.IPReservation{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"},
			Status:     v1alpha1.IPReservationStatus{Node: "n", Network: "net", Interface: "eth0", Pod: "p", IPs: "10.0.0.1", State: v1alpha1.IPAttached, PodUID: "u"},
		}
		p := &v1alpha1.NodeIPPool{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Status: v1alpha1.NodeIPPoolStatus{Node: "n", Network: "net", Share: &share}}
		for _, o := range []client.Object{r, p} {
			if err := env.Client.Create(t.Context(), o, client.DryRunAll); err != nil {
				return err
			}
		}
		if got := []bool{r.Status.PodUID != "", p.Status.Share != nil}; got[0] != kept || got[1] != kept {
			return fmt.Errorf("the fields are kept: %v, want %t", got, kept)
		}
		return nil
	})
}
