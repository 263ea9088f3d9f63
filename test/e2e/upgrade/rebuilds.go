package upgrade

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

const (
	namespace = "upgrade"
)

// workloads has pods that prefer to return to their nodes, pods that must, and spread ones. The budget, the spread
// and the state of "must" are objects of users, in the versions that a user may have.
const workloads = `apiVersion: v1
kind: Namespace
metadata: {name: upgrade}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: home
  namespace: upgrade
  annotations: {kruise.io/auto-generate-persistent-pod-state: "true", kruise.io/preferred-persistent-topology: kubernetes.io/hostname}
spec:
  serviceName: home
  replicas: 3
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: home}}
  template:
    metadata:
      labels: {app: home, retains: "yes"}
      annotations: {io.kubernetes.cri/reserved-ip-duration: "60"}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
---
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata: {name: must, namespace: upgrade}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: must}
  requiredPersistentTopology: {nodeTopologyKeys: [kubernetes.io/hostname]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: must, namespace: upgrade}
spec:
  serviceName: must
  replicas: 3
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: must}}
  template:
    metadata:
      labels: {app: must, retains: "yes"}
      annotations: {io.kubernetes.cri/reserved-ip-duration: "60"}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: upgrade}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "cilium/echoserver:latest", imagePullPolicy: IfNotPresent}]
`

// rules are objects of kinds that early versions do not have.
const rules = `apiVersion: policy.kruise.io/v1alpha1
kind: PodUnavailableBudget
metadata: {name: home, namespace: upgrade}
spec: {selector: {matchLabels: {app: home}}, maxUnavailable: 1}
---
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: web, namespace: upgrade}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, subsets: [{name: first, maxReplicas: 2}, {name: rest}]}
`

// sets are the StatefulSets with retaining pods.
func sets() []string { return []string{"home", "must"} }

// rebuilds evicts the retaining pods of each set one after the other, and looks where each comes back.
type rebuilds struct {
	bed    *bed.Bed
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu      sync.Mutex
	rounds  map[string]int
	kept    int
	all     int
	longest time.Duration
	lost    []string
}

func startRebuilds(ctx context.Context, b *bed.Bed) *rebuilds {
	ctx, cancel := context.WithCancel(ctx)
	r := &rebuilds{bed: b, cancel: cancel, rounds: map[string]int{}}
	for _, set := range sets() {
		r.wait.Go(func() {
			for ctx.Err() == nil {
				r.round(ctx, set)
			}
		})
	}
	return r
}

func (r *rebuilds) round(ctx context.Context, set string) {
	for i := range 3 {
		if ctx.Err() != nil {
			return
		}
		start := time.Now()
		err := r.rebuild(context.WithoutCancel(ctx), fmt.Sprintf("%s-%d", set, i))
		r.count(time.Since(start), err)
	}
	r.mu.Lock()
	r.rounds[set]++
	r.mu.Unlock()
}

func (r *rebuilds) count(took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all++
	r.longest = max(r.longest, took)
	if err != nil {
		r.lost = append(r.lost, err.Error())
	} else {
		r.kept++
	}
}

// whole reports whether each pod has been rebuilt since the start.
func (r *rebuilds) whole() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rounds) == len(sets())
}

// rebuild evicts a pod and waits for its successor, which must be at the same place.
func (r *rebuilds) rebuild(ctx context.Context, name string) error {
	before, err := r.ready(ctx, name, "")
	if err != nil {
		return err
	}
	err = bed.Await(ctx, time.Minute, "the eviction of "+name, func(ctx context.Context) (bool, string) {
		err := r.bed.Client.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		return err == nil, fmt.Sprint(err)
	})
	if err != nil {
		return err
	}
	after, err := r.ready(ctx, name, string(before.UID))
	if err != nil {
		return err
	}
	if before.Spec.NodeName != after.Spec.NodeName || !slices.Equal(before.Status.PodIPs, after.Status.PodIPs) {
		return fmt.Errorf("%s was on %s with %v, is on %s with %v", name, before.Spec.NodeName, before.Status.PodIPs, after.Spec.NodeName, after.Status.PodIPs)
	}
	return nil
}

// ready waits until a pod with another UID is Ready and recorded on its node.
func (r *rebuilds) ready(ctx context.Context, name, notUID string) (*corev1.Pod, error) {
	var found *corev1.Pod
	err := bed.Await(ctx, 2*time.Minute, name+" to be Ready and recorded", func(ctx context.Context) (bool, string) {
		p, err := r.bed.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil || string(p.UID) == notUID || p.DeletionTimestamp != nil || !bed.Ready(p) {
			return false, fmt.Sprint("no such pod is Ready: ", err)
		}
		recorded, err := r.bed.Recorded(ctx, namespace, p.Labels["app"])
		found = p
		return recorded[name] == p.Spec.NodeName, fmt.Sprintf("on %s, recorded %v, %v", p.Spec.NodeName, recorded, err)
	})
	return found, err
}

// stop waits for the last rebuild.
func (r *rebuilds) stop() {
	r.cancel()
	r.wait.Wait()
}

// setUp makes the workloads and waits until they are Ready and recorded.
func setUp(ctx context.Context, b *bed.Bed) error {
	manifest := workloads
	if _, err := b.Kubectl(ctx, "get", "podunavailablebudgets,workloadspreads"); err == nil {
		manifest += "---\n" + rules
	}
	err := bed.Await(ctx, time.Minute, "the webhooks to admit the workloads", func(ctx context.Context) (bool, string) {
		_, err := b.KubectlIn(ctx, manifest, "apply", "-f", "-")
		return err == nil, fmt.Sprint(err)
	})
	r := &rebuilds{bed: b}
	for _, set := range sets() {
		for i := range 3 {
			if err == nil {
				_, err = r.ready(ctx, fmt.Sprintf("%s-%d", set, i), "")
			}
		}
	}
	return err
}
