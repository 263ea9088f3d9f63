package budget_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/books"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/internal/workloads"
	"github.com/limpet-io/limpet/pkg/ledger"
)

// The controller of a StatefulSet waits for minutes after a few refusals. It is woken when a unit is
// free, the longest waiting first, and a set for which a drain waits is not.
func TestAFreeUnitWakesTheControllerThatWaitsLongest(t *testing.T) {
	m := startReconciler(t)
	ns := env.Namespace(t)
	pub := aBudget(ns, "web", intstr.FromInt32(1))
	sets := map[string]testenv.StatefulSet{}
	var waiting []ledger.Waiting
	now := time.Now()
	for i, name := range []string{"first", "second", "drained"} {
		set := testenv.AStatefulSet(name, 1).In(ns)
		env.Create(t, set.StatefulSet)
		pod := testenv.APod(name + "-0").In(ns).OwnedBy(set.StatefulSet).Ready()
		pod.Labels = map[string]string{"app": "web"}
		env.Create(t, pod.Pod)
		by := "system:serviceaccount:kube-system:statefulset-controller"
		if name == "drained" {
			by = "bob"
		}
		sets[name] = set
		waiting = append(waiting, ledger.Waiting{
			UID: string(pod.UID), Pod: pod.Name, By: by, Since: now.Add(time.Duration(i)*time.Minute - time.Hour), Last: now.Add(-30 * time.Second),
		})
	}
	env.Create(t, pub)
	shows(t, pub, numbers{1, 3, 2, 3})
	_, err := m.books.Decide(t.Context(), ns, []books.Owner{{Name: pub.Name, UID: pub.UID}}, func(b ledger.Book) (ledger.Book, bool) {
		for _, w := range waiting {
			b, _ = ledger.Ask(b, w)
		}
		return b, true
	})
	if err != nil {
		t.Fatal(err)
	}
	nudged := func(name string) string {
		set := sets[name].DeepCopy()
		env.Read(t, client.ObjectKeyFromObject(set), set)
		return set.Annotations[workloads.AnnotationNudged]
	}
	for _, name := range []string{"first", "second"} { // the first one does not ask again, so that the second one may
		testenv.Eventually(t, func() error {
			if name == "first" && nudged("first") == "" && nudged("second") != "" {
				t.Fatal("the second was woken first")
			}
			if nudged(name) == "" {
				return fmt.Errorf("StatefulSet %s was not woken", name)
			}
			return nil
		})
	}
	if nudged("drained") != "" {
		t.Error("the set for which a drain waits was woken")
	}
}
