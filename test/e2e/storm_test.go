package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/disruptions"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// stormManifest has two workloads, a budget for each, and one for all of their pods. The budgets
// keep their pods while no controller answers, because the storm kills both.
const stormManifest = `apiVersion: policy.kruise.io/v1alpha1
kind: PodUnavailableBudget
metadata: {name: web, namespace: storm, annotations: {limpet.dev/failure-policy: Closed}}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxUnavailable: 2
---
apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata: {name: db, namespace: storm, annotations: {limpet.dev/failure-policy: Closed}}
spec:
  selector: {matchLabels: {app: db}}
  maxUnavailable: 25%
---
apiVersion: policy.kruise.io/v1alpha1
kind: PodUnavailableBudget
metadata: {name: all, namespace: storm, annotations: {limpet.dev/failure-policy: Closed}}
spec:
  selector: {matchLabels: {storm: "yes"}}
  minAvailable: 8
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: storm}
spec:
  replicas: 6
  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 3}}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, storm: "yes"}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent, readinessProbe: {httpGet: {port: 8080}, initialDelaySeconds: 1, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 10}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: storm}
spec:
  serviceName: db
  replicas: 4
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db, storm: "yes"}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent, readinessProbe: {httpGet: {port: 8080}, initialDelaySeconds: 1, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 10}}]
`

// TestAStormKeepsItsBudgets drains nodes ten times while rollouts and people delete pods, and
// the controllers are killed. The audit log proves that the budgets were kept.
func TestAStormKeepsItsBudgets(t *testing.T) {
	long(t)
	namespace(t, "storm")
	apply(t, stormManifest)
	awaitStorm(t)
	s := &storm{t: t, random: rand.New(rand.NewPCG(1, 2))}
	s.rage(2, 5)
	awaitStorm(t)
	t.Logf("%d drains, %d of them tried again; %d requests, %d controllers killed", s.drains.Load(), s.again.Load(), s.requests.Load(), s.killed.Load())
	if n := s.drains.Load(); n != 10 {
		t.Errorf("%d drains ended, want 10", n)
	}
	events := recorded(t, "storm")
	result := disruptions.Check(events, stormBounds)
	t.Logf("%d voluntary disruptions of available pods, %d losses, %d refusals", result.Disruptions, result.Losses, result.Refusals)
	for _, v := range result.Violations {
		t.Error(v)
	}
	if result.Disruptions < 15 || result.Refusals < 15 {
		t.Error("the storm was too weak to prove anything")
	}
	if stricter := disruptions.Check(withoutUnits(events), stormBounds); len(stricter.Violations) < 10 {
		t.Errorf("the log violates budgets that let no pod go: %d violations were found, want 10 or more", len(stricter.Violations))
	}
}

// withoutUnits returns the events with budgets that let no pod go.
func withoutUnits(events []disruptions.Event) []disruptions.Event {
	changed := slices.Clone(events)
	none := intstr.FromInt32(0)
	for i, e := range changed {
		if e.Budget != nil && !e.Budget.Gone {
			b := *e.Budget
			b.MaxUnavailable, b.MinAvailable = &none, nil
			changed[i].Budget = &b
		}
	}
	return changed
}

var stormBounds = disruptions.Options{Lag: 2 * time.Second, Replacement: time.Minute}

// recorded returns the events of one namespace, and of the nodes.
func recorded(t *testing.T, namespace string) []disruptions.Event {
	t.Helper()
	file, err := os.Open(theBed.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := disruptions.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e disruptions.Event) bool { return e.Namespace != namespace && e.Node == nil })
}

// awaitStorm waits until all pods of the storm are Ready.
func awaitStorm(t *testing.T) {
	t.Helper()
	await(t, 3*time.Minute, "ten Ready pods", func(ctx context.Context) (bool, string) {
		list, err := theBed.Client.CoreV1().Pods("storm").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		ready := 0
		for _, p := range list.Items {
			if bed.Ready(&p) && p.DeletionTimestamp == nil {
				ready++
			}
		}
		return ready == 10 && len(list.Items) == 10, fmt.Sprintf("%d of %d are Ready", ready, len(list.Items))
	})
}

// storm is all that disturbs the pods.
type storm struct {
	t                               *testing.T
	mutex                           sync.Mutex
	random                          *rand.Rand
	drains, again, requests, killed atomic.Int32
}

// below returns a random number.
func (s *storm) below(n int) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.random.IntN(n)
}

// rage drains some nodes, each a number of times, one at a time, and disturbs the pods until all
// drains have ended. The last node takes what the others lose.
func (s *storm) rage(nodes, times int) {
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	var drains, others sync.WaitGroup
	for _, node := range theBed.Cluster.Nodes()[:nodes] {
		drains.Go(func() {
			for range times {
				s.drain(ctx, node)
			}
		})
	}
	every := func(pause time.Duration, do func(context.Context)) {
		others.Go(func() {
			for ctx.Err() == nil {
				do(ctx)
				select {
				case <-ctx.Done():
				case <-time.After(pause + time.Duration(s.below(int(pause)))):
				}
			}
		})
	}
	every(500*time.Millisecond, s.disturb)
	every(12*time.Second, s.killController)
	every(25*time.Second, func(ctx context.Context) {
		for _, workload := range []string{"deployment/web", "statefulset/db"} {
			s.kubectl(ctx, "rollout", "restart", "-n", "storm", workload)
		}
	})
	drains.Wait()
	stop()
	others.Wait()
}

// drain drains a node of the pods of the storm. While no controller answers, the API server
// refuses with an error that ends kubectl; an administrator tries again.
func (s *storm) drain(ctx context.Context, node string) {
	for try := 0; try < 20; try++ {
		if s.kubectl(ctx, "drain", node, "--ignore-daemonsets", "--pod-selector=storm=yes", "--timeout=90s") {
			s.drains.Add(1)
			break
		}
		s.again.Add(1)
		select {
		case <-ctx.Done():
			try = 20
		case <-time.After(2 * time.Second):
		}
	}
	s.kubectl(context.WithoutCancel(ctx), "uncordon", node)
}

// kubectl reports whether kubectl ended without an error.
func (s *storm) kubectl(ctx context.Context, args ...string) bool {
	_, err := theBed.Kubectl(ctx, args...)
	if err != nil && ctx.Err() == nil {
		s.t.Logf("%.300s", err)
	}
	return err == nil
}

// disturb deletes or evicts a pod, twice at the same time.
func (s *storm) disturb(ctx context.Context) {
	pods := theBed.Client.CoreV1().Pods("storm")
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return
	}
	name, evicts := list.Items[s.below(len(list.Items))].Name, s.below(2) == 0
	var twice sync.WaitGroup
	for range 2 {
		twice.Go(func() {
			s.requests.Add(1)
			if evicts {
				_ = theBed.Client.PolicyV1().Evictions("storm").Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "storm", Name: name}})
				return
			}
			_ = pods.Delete(ctx, name, metav1.DeleteOptions{}) // most are refused: the audit log tells
		})
	}
	twice.Wait()
}

// killController deletes a controller, or both, without grace.
func (s *storm) killController(ctx context.Context) {
	pods := theBed.Client.CoreV1().Pods(bed.System)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=limpet-controller"})
	if err != nil {
		return
	}
	both := s.below(4) == 0
	s.mutex.Lock()
	s.random.Shuffle(len(list.Items), func(i, j int) { list.Items[i], list.Items[j] = list.Items[j], list.Items[i] })
	s.mutex.Unlock()
	for i, p := range list.Items {
		if (i == 0 || both) && p.Status.Phase == corev1.PodRunning && pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}) == nil {
			s.killed.Add(1)
		}
	}
}
