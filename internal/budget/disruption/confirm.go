package disruption

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
)

// confirm puts the pod that the API server has into an inquiry, in the place of the one that the request shows: any
// client that reaches the port may send a request. A pod that is gone, or whose name another one has, is in no book:
// the API server itself finds that the pod is not there. The pod of an eviction was read before, and of a dry run
// nothing is written.
func (j *Judge) confirm(ctx context.Context, c inquiry) (inquiry, error) {
	asked := c.request.Pod
	if c.request.Own || c.request.DryRun || c.request.Verb == budget.VerbEvict || len(c.covering) == 0 {
		return c, nil
	}
	var pod corev1.Pod
	switch err := j.live.Get(ctx, client.ObjectKeyFromObject(asked), &pod); {
	case apierrors.IsNotFound(err) || err == nil && pod.UID != asked.UID:
		return inquiry{request: c.request}, nil
	case err != nil:
		c.unread = fmt.Errorf("read pod: %w", err)
		return c, nil
	}
	c.request.Pod = &pod
	if equality.Semantic.DeepEqual(pod.Labels, asked.Labels) && equality.Semantic.DeepEqual(pod.OwnerReferences, asked.OwnerReferences) {
		return c, nil
	}
	return j.find(ctx, c.request)
}

// unconfirmed is the answer about a pod that could not be read: what no budget may refuse passes, without an entry.
func (j *Judge) unconfirmed(ctx context.Context, c inquiry) (budget.Decision, error) {
	in, err := j.input(ctx, c)
	if err != nil {
		return budget.Decision{}, err
	}
	if !unrefusable(in) {
		return budget.Decision{}, c.unread
	}
	return budget.Decision{Verdict: budget.Accounted, Reason: budget.ReasonPolicy}, nil
}
