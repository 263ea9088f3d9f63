package disruption

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/books"
	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/pkg/budget"
	"github.com/limpet-io/limpet/pkg/workload"
)

// facts gathers in which way a pod goes.
func (j *Judge) facts(ctx context.Context, c *inquiry) (budget.Facts, error) {
	pod := c.request.Pod
	f := budget.Facts{Verb: c.request.Verb, User: c.request.User, ByLimpet: c.request.User == j.user, Pod: pod}
	f.EndsNodes = slices.Contains(j.nodeEnders, c.request.User)
	if c.request.Changed != nil {
		return f, j.change(ctx, c, &f)
	}
	var err error
	if f.NamespaceDeleting, err = j.namespaceEnds(ctx, pod.Namespace); err != nil {
		return f, err
	}
	if c.request.Verb == budget.VerbEvict {
		return f, nil // the rest is about deletions
	}
	if err = j.owner(ctx, c.chain, pod, &f); err != nil {
		return f, err
	}
	node, err := cluster.Node(ctx, j.reader.cached, pod.Spec.NodeName)
	if err != nil {
		return f, err
	}
	if node != nil {
		f.Taints, f.NodeDeleting = node.Spec.Taints, node.DeletionTimestamp != nil
	}
	return f, nil
}

// change gathers what an update or a resize does. A user who may update a budget may exempt its pods.
func (j *Judge) change(ctx context.Context, c *inquiry, f *budget.Facts) (err error) {
	before, after := c.request.Pod, c.request.Changed
	f.Change = budget.Disruptive(before, after)
	reowned := f.Change.Reowned(c.request.User)
	for i := range c.covering {
		of := &c.covering[i]
		of.leaves = reowned || of.matcher.Leaves(before, after, c.chain, c.after)
		if of.leaves && !reowned && len(c.covering) <= books.MostBudgets && of.matcher.Covers(after, c.after) { // the pod is exempted
			may, err := j.mayExempt(ctx, c.request, of.object)
			if err != nil {
				return err
			}
			of.leaves = !may
		}
		f.Leaves = f.Leaves || of.leaves
	}
	if f.Leaves && len(c.chain) > 0 {
		f.Owner, _, err = j.stateOf(ctx, before.Namespace, c.chain[len(c.chain)-1])
	}
	return err
}

func (j *Judge) namespaceEnds(ctx context.Context, name string) (bool, error) {
	var namespace corev1.Namespace
	err := j.reader.cached.Get(ctx, client.ObjectKey{Name: name}, &namespace, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return err == nil && namespace.DeletionTimestamp != nil, nil
}

// owner gathers the state of the pod's workload, and how many pods it wants and has.
func (j *Judge) owner(ctx context.Context, chain []workload.Owner, pod *corev1.Pod, f *budget.Facts) error {
	if len(chain) == 0 {
		return nil
	}
	state, top, err := j.stateOf(ctx, pod.Namespace, chain[len(chain)-1])
	if err != nil {
		return err
	}
	_, near, err := j.stateOf(ctx, pod.Namespace, chain[0])
	if err != nil {
		return err
	}
	f.Owner, f.WorkloadWants, f.OwnerWants, f.Intended = state, Wants(top), Wants(near), intended(near, top)
	if strings.HasPrefix(f.User, systemUsers) { // no other user scales in
		f.OwnerHas, err = j.living(ctx, pod.Namespace, chain[0].UID)
	}
	return err
}

// intended tells whether a deletion by the controller of a pod is what the workload asks for. A Job replaces no pod by
// a deletion. A Deployment with the strategy Recreate wants no pod of a former template, and makes no other before.
func intended(near, top client.Object) bool {
	if d, ok := top.(*appsv1.Deployment); ok {
		return d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && Wants(near) == 0
	}
	_, job := near.(*batchv1.Job)
	return job
}

// systemUsers begins the names of the controllers of Kubernetes, and of all service accounts.
const systemUsers = "system:"

// living counts the pods of an owner that do not terminate.
func (j *Judge) living(ctx context.Context, namespace string, owner types.UID) (n int32, err error) {
	pods, err := j.reader.pods(ctx, namespace)
	for _, pod := range pods {
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.UID == owner && workload.Alive(pod) {
			n++
		}
	}
	return n, err
}

// stateOf returns whether an owner lives, and the object of one that does; OwnerUnknown for kinds
// that the cache does not hold.
func (j *Judge) stateOf(ctx context.Context, namespace string, owner workload.Owner) (budget.OwnerState, client.Object, error) {
	o := cluster.NewWorkload(owner.GroupKind())
	if o == nil {
		return budget.OwnerUnknown, nil, nil
	}
	key := client.ObjectKey{Namespace: namespace, Name: owner.Name}
	switch err := j.reader.cached.Get(ctx, key, o, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err) || err == nil && o.GetUID() != owner.UID:
		return budget.OwnerGone, nil, nil
	case err != nil:
		return "", nil, fmt.Errorf("get %s %s: %w", owner.Kind, key, err)
	case o.GetDeletionTimestamp() != nil:
		return budget.OwnerDeleting, nil, nil
	}
	return budget.OwnerLiving, o, nil
}
