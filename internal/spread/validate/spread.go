// Package validate judges WorkloadSpreads when they are written.
package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/mark"
	"github.com/limpet-io/limpet/internal/platform/review"
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
	Namespaces *review.Namespaces
	// Workloads knows which kinds are named for spreads; nil for none.
	Workloads *workloads.Reader
}

var kind = appsv1beta1.GroupVersion.WithKind("WorkloadSpread")

// formerNames gives fields their names of v1alpha1.
var formerNames = strings.NewReplacer("].requiredNodeSelector", "].requiredNodeSelectorTerm", "].preferredNodeSelector", "].preferredNodeSelectorTerms")

var _ admission.Validator[*appsv1beta1.WorkloadSpread] = (*WorkloadSpread)(nil)

// ValidateCreate names every field that is wrong.
func (w *WorkloadSpread) ValidateCreate(ctx context.Context, s *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	named, err := w.named(ctx, s)
	if err != nil {
		return nil, review.Crowded(err)
	}
	warnings, errs := uselessSpread(s), judgeSpread(s, named)
	taken, err := w.judgeTaken(ctx, s)
	if err != nil {
		return warnings, review.Crowded(err)
	}
	errs = append(errs, taken...)
	if len(errs) == 0 {
		errs = w.judgeTemplate(ctx, s, nil)
	}
	if err := review.Invalid(kind, s.Name, review.AsSent(ctx, formerNames, errs)); err != nil {
		return warnings, err
	}
	return append(warnings, w.surges(ctx, s)...), w.Namespaces.LabelOf(ctx, mark.Spreads, kind, s)
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
		return nil, review.Crowded(err)
	}
	added, known := review.Compare(review.AsSent(ctx, formerNames, judgeSpread(before, named)), review.AsSent(ctx, formerNames, judgeSpread(after, named)))
	if len(added) == 0 {
		added = review.AsSent(ctx, formerNames, w.judgeTemplate(ctx, after, before))
	}
	warnings := slices.Concat(known, uselessSpread(after))
	return warnings, review.Invalid(kind, after.Name, added)
}

// ValidateDelete allows every deletion.
func (w *WorkloadSpread) ValidateDelete(context.Context, *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	return nil, nil
}

// templateOf returns an object for a workload of Kubernetes, and where its pod template is once
// the object was read. It returns nothing for other kinds.
func templateOf(t workload.Target) (client.Object, func() *corev1.PodTemplateSpec) {
	o := cluster.NewWorkload(t.GroupKind())
	switch w := o.(type) {
	case nil, *appsv1.DaemonSet: // a pod of each node has no subset
		return nil, nil
	case *appsv1.StatefulSet:
		return o, func() *corev1.PodTemplateSpec { return withClaims(&w.Spec) }
	}
	return o, func() *corev1.PodTemplateSpec {
		template, _ := cluster.MakesPods(o)
		return template
	}
}

// withClaims is the pod template of a StatefulSet with the volumes that its pods get for its claims.
func withClaims(set *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	template := set.Template.DeepCopy()
	for i := range set.VolumeClaimTemplates {
		name := set.VolumeClaimTemplates[i].Name
		template.Spec.Volumes = slices.DeleteFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	return template
}
