package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// mostMoved is how many pods of a spread are deleted in one look. The rest of a spread of more than
// 5 000 pods lasts longer than a second, and so does the time until the next look.
const mostMoved = 50

// decide asks spread.Adapt.
func (r *Reconciler) decide(ctx context.Context, s *situation) (spread.Actions, error) {
	in := spread.AdaptInput{
		Spread: s.says, Since: s.skipped(), Slots: s.slots(), Now: r.Clock.Now(),
		Complete: s.unknown == "" && len(s.pods) >= int(s.size) && len(s.entries) == 0,
	}
	fits := map[string]bool{}
	ungated := r.memory.gates(client.ObjectKeyFromObject(s.object), s.pods, in.Now)
	for _, m := range s.pods {
		p := spread.PodState{UID: m.UID, Name: m.Name, Revision: m.revision, Subset: m.subset, Ready: workload.Ready(m.Pod)}
		p.Refused, _ = spread.Refused(m.Pod, ungated[m.UID])
		p.Held = m.Annotations[podpatch.AnnotationPlace] != ""
		if p.Home = m.Annotations[appsv1beta1.AnnotationHomeSubset]; p.Home != "" && in.Spread.Adaptive != nil && in.Spread.Adaptive.Return {
			known, ok := fits[p.Home]
			if !ok { // the pods of a workload ask for the same
				var err error
				if known, err = r.fits(ctx, s, m.Pod, p.Home); err != nil {
					return spread.Actions{}, err
				}
				fits[p.Home] = known
			}
			p.HomeFits = known
		}
		in.Pods = append(in.Pods, p)
	}
	return spread.Adapt(in), nil
}

// skipped is since when each skipped subset is skipped, as the status has it.
func (s *situation) skipped() map[string]time.Time {
	since := map[string]time.Time{}
	for _, o := range s.object.Status.SubsetStatuses {
		c := meta.FindStatusCondition(o.Conditions, appsv1beta1.ConditionSchedulable)
		if c != nil && c.Status == metav1.ConditionFalse && c.Reason != appsv1beta1.ReasonPodWaits {
			since[o.Name] = c.LastTransitionTime.Time
		}
	}
	return since
}

// fits reports whether a node of a subset has room for a pod.
func (r *Reconciler) fits(ctx context.Context, s *situation, pod *corev1.Pod, subset string) (bool, error) {
	at := slices.IndexFunc(s.says.Subsets, func(o spread.Subset) bool { return o.Name == subset })
	if at < 0 {
		return false, nil
	}
	nodes, err := cluster.Nodes(ctx, r.Client)
	if err != nil {
		return false, err
	}
	fits := spread.Fits(s.says.Subsets[at], pod, nodes, func(node *corev1.Node) bool {
		others, failed := cluster.PodsOn(ctx, r.Client, node.Name)
		err = errors.Join(err, failed)
		return failed != nil || fit.Shortage(node, pod, others) != ""
	})
	return fits, err
}

// addRoom finds out whether a rollout of the target would wait without end. The pods of the next
// revision are taken to ask for as much as those of this one.
func (r *Reconciler) addRoom(ctx context.Context, s *situation) error {
	var d appsv1.Deployment
	target := workload.TargetOf(s.object.Spec.TargetReference)
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.object.Namespace, Name: target.Name}, &d, client.UnsafeDisableDeepCopy)
	if s.surges = target.Kind == "Deployment" && err == nil && spread.Surges(&d); !s.surges {
		return client.IgnoreNotFound(err)
	}
	for _, o := range s.says.Subsets {
		at := slices.IndexFunc(s.pods, func(m *member) bool { return m.subset == o.Name && m.Spec.NodeName != "" })
		if o.Required == nil || at < 0 {
			continue
		}
		if fits, err := r.fits(ctx, s, s.pods[at].Pod, o.Name); err != nil || !fits {
			s.blocked = o.Name
			return err
		}
	}
	return nil
}

// move deletes pods that the scheduler has refused for too long, or one pod that returns. Their
// owners create them again. A pod is deleted once the cache shows that its subset is skipped:
// else the pod could get the same subset again.
func (r *Reconciler) move(ctx context.Context, s *situation, a spread.Actions) (again time.Duration, err error) {
	stored, count := s.skipped(), 0
	for _, m := range s.pods {
		reason := rescheduled
		switch {
		case a.Return != "" && m.UID == a.Return:
			reason = returned
		case !slices.Contains(a.Reschedule, m.UID):
			continue
		case stored[m.subset].IsZero() || count == mostMoved:
			again = sooner(again, soon)
			continue
		}
		deleted, err := r.Evictor.Delete(ctx, m.Pod)
		var refused *evict.RefusedError
		switch {
		case errors.As(err, &refused):
			again = sooner(again, lookAgain)
			continue
		case cluster.Conflict(err): // the cache is behind
			again = sooner(again, soon)
			continue
		case err != nil:
			return 0, err
		}
		if count++; deleted {
			r.reportMove(s, m, reason)
		}
	}
	return again, nil
}
