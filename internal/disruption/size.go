package disruption

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/budget"
	"github.com/limpet-io/limpet/pkg/workload"
)

// sized is a workload of which a budget counts the pods.
type sized struct {
	kind schema.GroupVersionKind
	name string
	// through are the ReplicaSets or Jobs between the workload and its covered pods.
	through []workload.Owner
}

// size returns how many pods a budget shall expect, or why that is not known.
func (r *Reader) size(ctx context.Context, pub *policyv1beta1.PodUnavailableBudget, f Facts, now time.Time) (int32, string, error) {
	if pub.Spec.ProtectTotalReplicas != nil || f.Budget.Rules.IgnoreScale {
		size, unknown := budget.SizeOf(pub, f.Budget.Rules, nil, 0, f.Living)
		return size, unknown, nil
	}
	tops, bare := workloadsOf(pub, f)
	var workloads []budget.Workload
	for _, w := range tops {
		replicas, unknown, err := r.replicas(ctx, pub.Namespace, w, now)
		if err != nil {
			return 0, "", err
		}
		workloads = append(workloads, budget.Workload{Name: w.name, Replicas: replicas, Unknown: unknown})
	}
	size, unknown := budget.SizeOf(pub, f.Budget.Rules, workloads, bare, f.Living)
	return size, unknown, nil
}

// workloadsOf returns the target of a budget, or the distinct workloads of the pods that it
// selects; and the number of these pods that have no controller.
func workloadsOf(pub *policyv1beta1.PodUnavailableBudget, f Facts) (found []sized, bare int) {
	at := map[workload.Target]int{}
	add := func(kind schema.GroupVersionKind, target workload.Target) int {
		i, known := at[target]
		if !known {
			i = len(found)
			at[target] = i
			found = append(found, sized{kind: kind, name: target.Name})
		}
		return i
	}
	if ref := pub.Spec.TargetReference; ref != nil {
		add(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), workload.NewTarget(ref.APIVersion, ref.Kind, ref.Name))
	}
	seen := map[*workload.Owner]bool{}
	for n, chain := range f.chains {
		pod := f.Pods[n]
		switch {
		case len(chain) == 0 && workload.Alive(pod):
			bare++
			continue
		case len(chain) == 0 || seen[&chain[0]]:
			continue
		}
		seen[&chain[0]] = true
		top := chain[len(chain)-1]
		i, known := at[top.Target]
		if pub.Spec.TargetReference == nil {
			i, known = add(kindOf(pod, chain), top.Target), true
		}
		if known && len(chain) > 1 {
			found[i].through = append(found[i].through, chain[:len(chain)-1]...)
		}
	}
	return found, bare
}

// replicas returns how many pods a workload wants; 0 for one that is gone or is being deleted.
func (r *Reader) replicas(ctx context.Context, namespace string, w sized, now time.Time) (replicas int32, unknown string, err error) {
	key := client.ObjectKey{Namespace: namespace, Name: w.name}
	o := cachedKind(w.kind.GroupKind())
	if o != nil {
		replicas, err = wanted(ctx, r.cached, key, o)
		return replicas, "", err
	}
	if len(w.through) > 0 { // such as a Rollout or a CronJob
		return r.sum(ctx, namespace, w.through)
	}
	return r.scales.Read(ctx, w.kind, key, now)
}

// sum returns how many pods some ReplicaSets or Jobs want together.
func (r *Reader) sum(ctx context.Context, namespace string, owners []workload.Owner) (sum int32, unknown string, err error) {
	for _, owner := range owners {
		kind := schema.GroupVersionKind{Group: owner.Group, Kind: owner.Kind}
		n, unknown, err := r.replicas(ctx, namespace, sized{kind: kind, name: owner.Name}, time.Time{})
		if err != nil || unknown != "" {
			return 0, unknown, err
		}
		sum += n
	}
	return sum, "", nil
}

// wanted reads a workload from the cache.
func wanted(ctx context.Context, cached client.Reader, key client.ObjectKey, into client.Object) (int32, error) {
	switch err := cached.Get(ctx, key, into, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err) || err == nil && into.GetDeletionTimestamp() != nil:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("get %T %s: %w", into, key, err)
	}
	return Wants(into), nil
}

// cachedKind returns an object of a kind of workload that the cache holds; nil for any other kind.
func cachedKind(kind schema.GroupKind) client.Object {
	switch kind {
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}:
		return &appsv1.StatefulSet{}
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}:
		return &appsv1.Deployment{}
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "ReplicaSet"}:
		return &appsv1.ReplicaSet{}
	case schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}:
		return &batchv1.Job{}
	}
	return nil
}

// Wants returns how many pods a StatefulSet, Deployment, ReplicaSet or Job wants; 0 for any
// other kind.
func Wants(o client.Object) int32 {
	switch w := o.(type) {
	case *appsv1.StatefulSet:
		return ptr.Deref(w.Spec.Replicas, 1)
	case *appsv1.Deployment:
		return ptr.Deref(w.Spec.Replicas, 1)
	case *appsv1.ReplicaSet:
		return ptr.Deref(w.Spec.Replicas, 1)
	case *batchv1.Job:
		return jobWants(w)
	}
	return 0
}

// jobWants returns how many pods a Job wants at a time.
func jobWants(job *batchv1.Job) int32 {
	if ptr.Deref(job.Spec.Suspend, false) {
		return 0
	}
	n := ptr.Deref(job.Spec.Parallelism, 1)
	if job.Spec.Completions != nil {
		n = min(n, *job.Spec.Completions-job.Status.Succeeded)
	}
	return max(n, 0)
}
