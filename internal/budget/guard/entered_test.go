package guard_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
)

// mostEntered bounds the files that a reader of an eviction has to open.
const mostEntered = 10

func TestAnEvictionEntersFewFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and this builds all rooms once more, with coverage, for a minute; make test-all runs it")
	}
	files := testenv.EnteredBy(t, "TestOneEviction")
	t.Logf("%d files:\n%s", len(files), strings.Join(files, "\n"))
	if len(files) > mostEntered || len(files) < 5 {
		t.Errorf("an eviction enters %d files, want at most %d", len(files), mostEntered)
	}
}

// A pod may go by its budget.
func TestOneEviction(t *testing.T) {
	noKindHeld(t)
	before, mgr := serving, env.NewManager(t, cluster.CacheOptions(needs()...))
	err := errors.Join(cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs()...), cluster.HoldAll(t.Context(), mgr.GetCache(), needs()...))
	if err != nil {
		t.Fatal(err)
	}
	handler := handlerOf(mgr, mgr.GetAPIReader())
	env.Start(t, mgr)
	mgr.GetCache().WaitForCacheSync(t.Context())
	serving = mgr // no other webhook than this one is asked
	t.Cleanup(func() { serving = before })
	ns := guarded(t)
	_, pods := web(t, ns, 3, intstr.FromInt32(1))
	raw, err := json.Marshal(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pods[0].Name}})
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(testenv.EntersVar) == "no" {
		return
	}
	answer := handler.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "eviction", Namespace: ns, Name: pods[0].Name, Operation: admissionv1.Create, SubResource: "eviction", Object: runtime.RawExtension{Raw: raw},
	}})
	if !answer.Allowed {
		t.Errorf("answer %+v", answer)
	}
}
