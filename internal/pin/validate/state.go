// Package validate judges PersistentPodStates when they are written, and warns of annotations of
// workloads that do nothing.
package validate

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/review"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// PersistentPodStatePath is the path of the webhook for PersistentPodStates.
const PersistentPodStatePath = "/validate-persistentpodstate"

// PersistentPodState refuses invalid PersistentPodStates.
type PersistentPodState struct {
	// Live reads past the cache, so that the second of two new objects sees the first. It
	// bounds the reads by namespace, because a client may name any.
	Live *cluster.LiveReader
	// Cached reads PersistentPodStates by their target.
	Cached client.Reader
	// Workloads knows the kinds that may be targets.
	Workloads *workloads.Reader
}

var _ admission.Validator[*appsv1beta1.PersistentPodState] = (*PersistentPodState)(nil)

// ValidateCreate names every field that is wrong.
func (w *PersistentPodState) ValidateCreate(ctx context.Context, s *appsv1beta1.PersistentPodState) (admission.Warnings, error) {
	errs, err := w.judgeNew(ctx, s)
	return w.warnings(ctx, s), orInvalid(ctx, err, s.Name, errs)
}

// judgeNew also looks for other states with the same target. An update cannot change a
// target.
func (w *PersistentPodState) judgeNew(ctx context.Context, s *appsv1beta1.PersistentPodState) (field.ErrorList, error) {
	others, err := cluster.LiveStatesOf(ctx, w.Live, w.Cached, s.Namespace, pin.TargetOf(s))
	if err != nil {
		return nil, review.Crowded(err)
	}
	return w.judge(ctx, s, others)
}

func (w *PersistentPodState) judge(ctx context.Context, s *appsv1beta1.PersistentPodState, others []appsv1beta1.PersistentPodState) (field.ErrorList, error) {
	kinds, err := w.Workloads.Kinds(), error(nil)
	if !kinds.Contains(pin.TargetOf(s)) { // a user may have named its kind a moment ago
		kinds, err = w.Workloads.Fresh(ctx)
	}
	return pin.Validate(s, others, kinds), err
}

// mostKeys is how many keys of a state are looked for among the labels of the nodes.
const mostKeys = 32

// warnings returns what is allowed and has no effect.
func (w *PersistentPodState) warnings(ctx context.Context, s *appsv1beta1.PersistentPodState) admission.Warnings {
	keys := pin.Keys(s)
	missing, err := cluster.MissingLabels(ctx, w.Cached, keys[:min(len(keys), mostKeys)])
	if err != nil { // a cache that is being stopped
		log.FromContext(ctx).Error(err, "Looked for no node labels")
	}
	out := append(pin.Warnings(s), pin.KeyWarnings(missing)...)
	if why := w.Workloads.Forbidden(pin.TargetOf(s)); why != "" {
		out = append(out, "spec.targetRef: no pod is recorded: "+why)
	}
	return out
}

// formerNames gives fields their names of v1alpha1.
var formerNames = strings.NewReplacer("Topology.keys", "Topology.nodeTopologyKeys", ".preference.keys", ".preference.nodeTopologyKeys")

// orInvalid returns err if there is one, else a refusal that names the wrong fields, else
// nil.
func orInvalid(ctx context.Context, err error, name string, errs field.ErrorList) error {
	if err != nil {
		return err
	}
	return review.Invalid(appsv1beta1.GroupVersion.WithKind("PersistentPodState"), name, review.AsSent(ctx, formerNames, errs))
}

// ValidateUpdate judges only changes: objects that are older than a rule stay valid.
func (w *PersistentPodState) ValidateUpdate(ctx context.Context, before, after *appsv1beta1.PersistentPodState) (admission.Warnings, error) {
	if pin.Unchanged(before, after) {
		return nil, nil
	}
	errs, err := w.judge(ctx, after, nil)
	return w.warnings(ctx, after), orInvalid(ctx, err, after.Name, errs)
}

// ValidateDelete allows every deletion.
func (w *PersistentPodState) ValidateDelete(context.Context, *appsv1beta1.PersistentPodState) (admission.Warnings, error) {
	return nil, nil
}
