package disruption_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// informers is a cache with the stores of real informers, which no API server fills.
type informers struct {
	cache.Cache
	of map[reflect.Type]toolscache.SharedIndexInformer
}

func (i informers) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	kind := reflect.TypeOf(o)
	if i.of[kind] == nil {
		i.of[kind] = toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, o.(runtime.Object), 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	}
	return i.of[kind], nil
}

// with fills the stores with a StatefulSet of three pods, and some Jobs. It returns a budget of the set.
func (i informers) with(tb testing.TB, jobs int) *policyv1beta1.PodUnavailableBudget {
	tb.Helper()
	set := testenv.AStatefulSet("web", 3).In("shop")
	set.UID = "web"
	objects := []client.Object{set.StatefulSet}
	for n := range 3 {
		objects = append(objects, owned("shop", fmt.Sprint("web-", n), controlledBy(set, "apps/v1", "StatefulSet")))
	}
	for n := range jobs {
		job := &batchv1.Job{ObjectMeta: meta("shop", fmt.Sprint("job-", n))}
		job.Spec.Template.Labels = map[string]string{"app": "job", "run": fmt.Sprint(n), "team": "shop"}
		objects = append(objects, job)
	}
	for _, o := range objects {
		informer, err := i.GetInformer(tb.Context(), o)
		if err == nil {
			err = informer.(toolscache.SharedIndexInformer).GetIndexer().Add(o)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: meta("shop", "web")}
	pub.Spec.Selector, pub.Spec.MaxUnavailable = set.Spec.Selector, new(intstr.FromInt32(1))
	return pub
}

// Decisions wait for their turn by what they look at: the workloads of a namespace too, since the selector of a budget
// is compared with the template of each.
func TestWorkloadsCountForTheTurnOfADecision(t *testing.T) {
	c := informers{of: map[reflect.Type]toolscache.SharedIndexInformer{}}
	c.with(t, 40)
	reader := disruption.NewReader(c, nil)
	for namespace, want := range map[string]int{"shop": 44, "other": 0} {
		if n, err := reader.Count(t.Context(), namespace); err != nil || n != want {
			t.Errorf("a decision in namespace %s looks at %d objects, want %d; error %v", namespace, n, want, err)
		}
	}
}

// BenchmarkSizeOfABudget reads what a budget of one workload counts, in a namespace with some Jobs.
func BenchmarkSizeOfABudget(b *testing.B) {
	for _, jobs := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("%d Jobs", jobs), func(b *testing.B) {
			c := informers{of: map[reflect.Type]toolscache.SharedIndexInformer{}}
			pub, now := c.with(b, jobs), time.Now()
			reader := disruption.NewReader(c, nil)
			for b.Loop() {
				if f, err := reader.Covered(b.Context(), pub, now); err != nil || f.Budget.Expected != 3 {
					b.Fatalf("size %d, want 3; error %v", f.Budget.Expected, err)
				}
			}
		})
	}
}
