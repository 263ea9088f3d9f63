package validate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/mark"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/spread"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// WorkloadSpreadPath is the path of the webhook for WorkloadSpreads.
const WorkloadSpreadPath = "/validate-workloadspread"

// WorkloadSpread refuses invalid WorkloadSpreads. Before a valid one is stored, its namespace has
// the label by which new pods are sent to the planners.
type WorkloadSpread struct {
	// Live reads past the cache, so that the second of two new objects sees the first. It
	// bounds the reads by namespace, because a client may name any.
	Live *cluster.LiveReader
	// Cached reads WorkloadSpreads.
	Cached     client.Reader
	Namespaces *Namespaces
	// Workloads knows which kinds are named for spreads; nil for none.
	Workloads *workloads.Reader
}

var _ admission.Validator[*appsv1beta1.WorkloadSpread] = (*WorkloadSpread)(nil)

// ValidateCreate names every field that is wrong.
func (w *WorkloadSpread) ValidateCreate(ctx context.Context, s *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	named, err := w.named(ctx, s)
	if err != nil {
		return nil, crowded(err)
	}
	warnings, errs := uselessSpread(s), judgeSpread(s, named)
	taken, err := w.judgeTaken(ctx, s)
	if err != nil {
		return warnings, crowded(err)
	}
	errs = append(errs, taken...)
	if len(errs) == 0 {
		errs = w.judgeTemplate(ctx, s, nil)
	}
	if len(errs) > 0 {
		return warnings, invalidSpread(s.Name, asSent(ctx, errs))
	}
	return append(warnings, w.surges(ctx, s)...), w.label(ctx, s)
}

// named reports whether a user has named the kind of a spread's target, if it needs that.
func (w *WorkloadSpread) named(ctx context.Context, s *appsv1beta1.WorkloadSpread) (bool, error) {
	kind := workload.TargetOf(s.Spec.TargetReference).GroupKind()
	kinds, known := spreadKinds[kind.Group]
	if !known || slices.Contains(kinds, kind.Kind) || w.Workloads == nil {
		return false, nil
	}
	if w.Workloads.SpreadKinds().Contains(kind) {
		return true, nil
	}
	fresh, err := w.Workloads.FreshSpreadKinds(ctx) // a user may have named the kind a moment ago
	return fresh.Contains(kind), err
}

// surges warns of a Deployment that creates a pod before it deletes one.
func (w *WorkloadSpread) surges(ctx context.Context, s *appsv1beta1.WorkloadSpread) admission.Warnings {
	var d appsv1.Deployment
	target := workload.TargetOf(s.Spec.TargetReference)
	fenced := slices.ContainsFunc(s.Spec.Subsets, func(o appsv1beta1.WorkloadSpreadSubset) bool {
		return o.MaxReplicas != nil && o.RequiredNodeSelector != nil
	})
	if target.Kind != "Deployment" || !fenced || w.Live.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: target.Name}, &d) != nil || !spread.Surges(&d) {
		return nil // a spread may be older than its workload
	}
	return admission.Warnings{"a rollout of Deployment " + d.Name + " deletes no pod before its successor is Ready: where the nodes of a subset have no room " +
		"for one pod more, it waits without end; remedy: rollingUpdate.maxUnavailable of 1 or more, or room for maxSurge pods in each subset"}
}

// judgeTaken refuses a second spread of a target. An update cannot change a target.
func (w *WorkloadSpread) judgeTaken(ctx context.Context, s *appsv1beta1.WorkloadSpread) (field.ErrorList, error) {
	target := workload.TargetOf(s.Spec.TargetReference)
	others, err := cluster.LiveSpreadsOf(ctx, w.Live, w.Cached, s.Namespace, target)
	if err != nil {
		return nil, err
	}
	for i := range others {
		if o := &others[i]; o.Name != s.Name && o.DeletionTimestamp == nil {
			taken := field.Duplicate(field.NewPath("spec", "targetRef"), target.Kind+" "+target.Name)
			taken.Detail = "WorkloadSpread " + o.Name + " has the same target; remedy: change that one"
			return field.ErrorList{taken}, nil
		}
	}
	return nil, nil
}

// judgeTemplate judges patches by the pod template of the workload, unless the spread had them
// before. A spread may be older than its workload, so a template that cannot be read hinders
// nothing.
func (w *WorkloadSpread) judgeTemplate(ctx context.Context, s, before *appsv1beta1.WorkloadSpread) field.ErrorList {
	changed := changedPatches(s, before)
	if len(changed) == 0 {
		return nil
	}
	template, err := w.template(ctx, s.Namespace, workload.TargetOf(s.Spec.TargetReference))
	if client.IgnoreNotFound(err) != nil {
		log.FromContext(ctx).Error(err, "Cannot tell whether the patches of a spread suit its workload", "namespace", s.Namespace, "spread", s.Name)
	}
	if err != nil || template == nil || template.Size() > mostTemplate {
		return nil
	}
	var errs field.ErrorList
	for _, i := range changed {
		errs = append(errs, judgeOnTemplate(template, s.Spec.Subsets[i].Patch.Raw, field.NewPath("spec", "subsets").Index(i).Child("patch"))...)
	}
	return errs
}

// changedPatches returns the indexes of subsets whose patch they did not have before.
func changedPatches(s, before *appsv1beta1.WorkloadSpread) []int {
	had := map[string]string{}
	if before != nil {
		for i := range before.Spec.Subsets {
			had[before.Spec.Subsets[i].Name] = string(before.Spec.Subsets[i].Patch.Raw)
		}
	}
	var changed []int
	for i := range s.Spec.Subsets {
		if raw := s.Spec.Subsets[i].Patch.Raw; len(raw) > 0 && had[s.Spec.Subsets[i].Name] != string(raw) {
			changed = append(changed, i)
		}
	}
	return changed
}

// template reads the pod template of a workload of Kubernetes; nil for other kinds.
func (w *WorkloadSpread) template(ctx context.Context, namespace string, t workload.Target) (*corev1.PodTemplateSpec, error) {
	object, template := templateOf(t)
	if object == nil {
		return nil, nil //nolint:nilnil // of other kinds it is not known where the template is
	}
	if err := w.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: t.Name}, object); err != nil {
		return nil, fmt.Errorf("get %s: %w", t, err)
	}
	return template(), nil
}

// ValidateUpdate judges only changes: what was wrong before a rule came is answered with a
// warning.
func (w *WorkloadSpread) ValidateUpdate(ctx context.Context, before, after *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) && before.Annotations[appsv1beta1.AnnotationSpreadFailure] == after.Annotations[appsv1beta1.AnnotationSpreadFailure] {
		return nil, nil
	}
	named, err := w.named(ctx, after)
	if err != nil {
		return nil, crowded(err)
	}
	errs := newErrors(asSent(ctx, judgeSpread(before, named)), asSent(ctx, judgeSpread(after, named)))
	if len(errs.added) == 0 {
		errs.added = asSent(ctx, w.judgeTemplate(ctx, after, before))
	}
	warnings := slices.Concat(errs.known, uselessSpread(after))
	if len(errs.added) > 0 {
		return warnings, invalidSpread(after.Name, errs.added)
	}
	return warnings, nil
}

// label labels the namespace of a spread, unless the request is a dry run or the webhooks leave
// the namespace out.
func (w *WorkloadSpread) label(ctx context.Context, s *appsv1beta1.WorkloadSpread) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return fmt.Errorf("judge WorkloadSpread %s: %w", s.Name, err)
	}
	if request.DryRun != nil && *request.DryRun || workload.IsLeftOut(s.Namespace) {
		return nil
	}
	return w.Namespaces.Label(ctx, mark.Spreads, s.Namespace)
}

// crowded tells a client to try again where too many reads wait.
func crowded(err error) error {
	if errors.Is(err, fair.ErrCrowded) {
		return apierrors.NewTooManyRequests(err.Error(), 1)
	}
	return err
}

func invalidSpread(name string, errs field.ErrorList) error {
	return apierrors.NewInvalid(appsv1beta1.GroupVersion.WithKind("WorkloadSpread").GroupKind(), name, errs)
}

// ValidateDelete allows every deletion.
func (w *WorkloadSpread) ValidateDelete(context.Context, *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	return nil, nil
}
