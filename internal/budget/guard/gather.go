package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/platform/cluster"
)

var (
	// errRead is returned when the API server did not return the pod of an eviction.
	errRead = errors.New("get pod")
	// errProbe is returned for a request that only asks whether the guard is called.
	errProbe = errors.New("probe of the guard")
)

// gathered is a request, and what only the handler needs to know.
type gathered struct {
	disruption.Request
	// otherUID tells that the client means a pod of another UID: the API server itself refuses.
	otherUID bool
}

// options are those fields of the options of a request that the guard needs.
type options struct {
	DryRun        []string              `json:"dryRun"`
	Preconditions *metav1.Preconditions `json:"preconditions"`
}

// gather reads what is about to happen to which pod.
func (h *Handler) gather(ctx context.Context, req admission.Request) (gathered, error) {
	r := gathered{Request: disruption.Request{
		DryRun: ptr.Deref(req.DryRun, false), User: req.UserInfo.Username, Info: req.UserInfo, Pod: &corev1.Pod{},
	}}
	var o options
	if len(req.Options.Raw) > 0 {
		if err := json.Unmarshal(req.Options.Raw, &o); err != nil {
			return r, fmt.Errorf("decode options: %w", err)
		}
	}
	if req.Operation == admissionv1.Create && req.SubResource == "eviction" {
		err := h.gatherEviction(ctx, req, &r, o)
		return r, err
	}
	switch {
	case req.Operation == admissionv1.Delete && req.SubResource == "":
		r.Verb = budget.VerbDelete
	case req.Operation == admissionv1.Update && (req.SubResource == "" || req.SubResource == "status"):
		r.Verb = budget.VerbUpdate
	case req.Operation == admissionv1.Update && req.SubResource == "resize":
		r.Verb = budget.VerbResize
	default:
		return r, fmt.Errorf("%s of pods/%s is not a request that the guard is asked about", req.Operation, req.SubResource)
	}
	err := gatherPods(req, &r)
	r.apply(o)
	return r, err
}

// gatherPods decodes the pod before and after the request. The name of a request is empty in a
// deletecollection; the pod has its name.
func gatherPods(req admission.Request, r *gathered) error {
	if err := json.Unmarshal(req.OldObject.Raw, r.Pod); err != nil {
		return fmt.Errorf("decode pod: %w", err)
	}
	if r.Verb == budget.VerbDelete {
		return cluster.Plausible(r.Pod, req.UID)
	}
	r.Changed = &corev1.Pod{}
	if err := json.Unmarshal(req.Object.Raw, r.Changed); err != nil {
		return fmt.Errorf("decode changed pod: %w", err)
	}
	return errors.Join(cluster.Plausible(r.Pod, req.UID), cluster.Plausible(r.Changed, req.UID))
}

// gatherEviction reads the pod, which an eviction only names. Its dry run may be said in the
// eviction itself, and a drain says it nowhere else.
func (h *Handler) gatherEviction(ctx context.Context, req admission.Request, r *gathered, o options) error {
	r.Verb = budget.VerbEvict
	var eviction struct {
		DeleteOptions *options `json:"deleteOptions"`
	}
	if err := json.Unmarshal(req.Object.Raw, &eviction); err != nil {
		return fmt.Errorf("decode eviction: %w", err)
	}
	r.apply(o)
	if eviction.DeleteOptions != nil {
		r.apply(*eviction.DeleteOptions)
	}
	if isProbe(req, r.Request) {
		return errProbe
	}
	if err := h.Live.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, r.Pod); err != nil {
		return fmt.Errorf("%w %s/%s: %w", errRead, req.Namespace, req.Name, err)
	}
	if eviction.DeleteOptions != nil {
		r.apply(*eviction.DeleteOptions)
	}
	return nil
}

// apply enters options into the request.
func (r *gathered) apply(o options) {
	r.DryRun = r.DryRun || len(o.DryRun) > 0
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		r.ByUID = true
		r.otherUID = *o.Preconditions.UID != r.Pod.UID
	}
}
