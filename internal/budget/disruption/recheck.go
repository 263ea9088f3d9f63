package disruption

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
)

// decide decides about an inquiry. A pod that is not Ready may go, and may become Ready before the
// book has its entry: another decision could count on the pod in between. So the pod is read again
// when the book has the entry, after which no decision counts on it, and judged as it is then.
func (j *Judge) decide(ctx context.Context, c inquiry) (Answer, error) {
	answer, err := j.decideAsAsked(ctx, c)
	if err != nil || c.request.DryRun || !spends(answer.Decision) || budget.PodOf(c.request.Pod, 0, j.clock.Now()).Serving {
		return answer, err
	}
	pod, err := j.servingNow(ctx, c.request.Pod)
	if err != nil || pod == nil {
		return answer, err
	}
	c.request.Pod = pod
	again, err := j.decideAsAsked(ctx, c)
	if err != nil || again.Verdict != budget.Refused {
		return answer, err
	}
	return again, j.Return(ctx, answer)
}

// servingNow reads a pod past the cache; nil if the pod is gone or does not serve.
func (j *Judge) servingNow(ctx context.Context, asked *corev1.Pod) (*corev1.Pod, error) {
	var pod corev1.Pod
	switch err := j.live.Get(ctx, client.ObjectKeyFromObject(asked), &pod); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // a pod that is gone is an answer
	case err != nil:
		return nil, fmt.Errorf("read pod again: %w", err)
	case pod.UID != asked.UID || !budget.PodOf(&pod, 0, j.clock.Now()).Serving:
		return nil, nil //nolint:nilnil // and so is another pod, or one that does not serve
	}
	return &pod, nil
}
