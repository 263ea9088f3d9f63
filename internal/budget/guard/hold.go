package guard

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
)

// causeOutOfService is the cause of a refusal of a pod that is out of service, and goes later.
const causeOutOfService metav1.CauseType = "OutOfServiceFirst"

// hold takes a pod out of service that its budgets let go or be changed, or says for how long it has been. A dry run only learns of it.
func (h *Handler) hold(ctx context.Context, r gathered, a disruption.Answer) (budget.Hold, error) {
	d := budget.Departure{Now: h.Clock.Now(), Pod: r.Pod, Vector: a.Vector, By: r.User, Forced: r.forced, Once: a.Once}
	d.Restarts = r.Changed != nil && budget.Disruptive(r.Pod, r.Changed).Restarts
	hold := d.Plan()
	if hold.Turn == nil || r.DryRun {
		return hold, nil
	}
	if r.Verb != budget.VerbEvict { // the pod of an eviction was read; any client that reaches the port may send another one
		d.Pod = &corev1.Pod{}
		if err := h.Live.Get(ctx, client.ObjectKeyFromObject(r.Pod), d.Pod); err != nil {
			return budget.Hold{}, client.IgnoreNotFound(fmt.Errorf("%w %s: %w", errRead, client.ObjectKeyFromObject(r.Pod), err))
		}
		if d.Pod.UID != r.Pod.UID {
			return budget.Hold{}, nil
		}
		if hold = d.Plan(); hold.Turn == nil {
			return hold, nil
		}
	}
	err := h.turn(ctx, d.Pod, *hold.Turn)
	if apierrors.IsForbidden(err) { // the condition can never be written: roles or policies of another version
		log.FromContext(ctx).Error(err, "Pod goes at once", "pod", r.Pod.Name)
		return budget.Hold{}, nil
	}
	return hold, err
}

// turn writes the condition of a pod. Any replica does, since a request does not wait for the leader.
func (h *Handler) turn(ctx context.Context, pod *corev1.Pod, c corev1.PodCondition) error {
	patch, err := budget.ServicePatch(pod.UID, "", c)
	if err != nil {
		return err
	}
	err = h.Status.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsInvalid(err) { // another pod has the name: the UID cannot be changed
		return fmt.Errorf("take pod %s out of service: %w", client.ObjectKeyFromObject(pod), err)
	}
	return nil
}

// outOfService is the answer for a pod that is out of service, and not for long enough.
func outOfService(hold budget.Hold) admission.Response {
	response := later(hold.Message, metav1.StatusCause{Type: causeOutOfService, Message: hold.Message})
	response.Result.Details.RetryAfterSeconds = hold.RetryAfter
	response.AuditAnnotations = map[string]string{"verdict": "Held", "reason": string(causeOutOfService)}
	return response
}
