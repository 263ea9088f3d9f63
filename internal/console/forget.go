package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Place is the recorded place of a pod that a user gives up.
type Place struct {
	State   string         `json:"persistentPodState"`
	Pod     string         `json:"pod"`
	Node    string         `json:"node"`
	UID     types.UID      `json:"-"`
	Outcome ReleaseOutcome `json:"outcome"`
	Message string         `json:"message,omitempty"`
}

// planForget chooses the recorded places of the named pods, and of the pods whose reservations are released.
func planForget(f *facts.Facts, namespace string, q ReleaseQuery, released []Release) (places []Place, err error) {
	wanted := map[string]bool{}
	for _, one := range released {
		wanted[one.Pod] = true
	}
	for _, name := range q.Names {
		wanted[name] = true
	}
	for i := range f.States {
		s, given := &f.States[i], 0
		for name, record := range s.Status.PodStates {
			if !wanted[name] || record.UID == "" || q.Node != "" && record.NodeName != q.Node {
				continue
			}
			p := Place{State: s.Name, Pod: name, Node: record.NodeName, UID: record.UID, Outcome: Releasable}
			if pod := f.Pod(namespace, name); pod != nil && !workload.Ended(pod) {
				p.Outcome, p.Message = InUse, "pod "+name+" exists ("+PodState(pod)+"): scale its workload down first"
			} else {
				given++
			}
			places = append(places, p)
		}
		err = errors.Join(err, checkForget(s.Name, given))
	}
	slices.SortFunc(places, func(a, b Place) int { return strings.Compare(a.State+" "+a.Pod, b.State+" "+b.Pod) })
	return places, err
}

// CountPlaces returns how many places have one of some outcomes.
func (r ReleaseReport) CountPlaces(outcomes ...ReleaseOutcome) (n int) {
	for _, p := range r.Places {
		if slices.Contains(outcomes, p.Outcome) {
			n++
		}
	}
	return n
}

// askForget annotates the PersistentPodStates whose records are given up.
func (r *ReleaseReport) askForget(ctx context.Context, c client.Client, options []client.PatchOption) error {
	given := map[string][]types.UID{}
	for i := range r.Places {
		if p := &r.Places[i]; p.Outcome == Releasable {
			given[p.State] = append(given[p.State], p.UID)
			p.Outcome = Asked
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if err := annotate(ctx, c, client.ObjectKey{Namespace: r.Namespace, Name: name}, given[name], options); err != nil {
			return fmt.Errorf("give up recorded places of PersistentPodState %s: %w", name, err)
		}
	}
	return nil
}

// forgetAttempts is how often the command tries to annotate an object that others write at the same time.
const forgetAttempts = 5

// annotate adds UIDs to the annotation of one PersistentPodState. UIDs without a record are dropped from the value. The
// controller may write the status at the same time, because of a reservation that is released: each attempt reads again.
func annotate(ctx context.Context, c client.Client, key client.ObjectKey, uids []types.UID, options []client.PatchOption) (err error) {
	for range forgetAttempts {
		if err = annotateOnce(ctx, c, key, uids, options); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

func annotateOnce(ctx context.Context, c client.Client, key client.ObjectKey, uids []types.UID, options []client.PatchOption) error {
	var s appsv1beta1.PersistentPodState
	if err := c.Get(ctx, key, &s); err != nil {
		return err
	}
	before, value := s.DeepCopy(), forgotten(&s, uids)
	if err := checkForget(key.Name, len(value)); err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, pin.AnnotationForget, strings.Join(value, ","))
	return c.Patch(ctx, &s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), options...)
}

// forgotten returns the UIDs of the records that are given up: those asked for now, and those of the annotation.
func forgotten(s *appsv1beta1.PersistentPodState, uids []types.UID) (value []string) {
	earlier := pin.Forgotten(s)
	for _, record := range s.Status.PodStates {
		if slices.Contains(uids, record.UID) || earlier[record.UID] {
			value = append(value, string(record.UID))
		}
	}
	slices.Sort(value)
	return value
}

// checkForget returns an error if the controller would ignore an annotation with a number of UIDs.
func checkForget(state string, n int) error {
	if n > pin.MostForgotten {
		return fmt.Errorf("PersistentPodState %s would forget %d places, and %d are the most at a time: release the pods of one node after another, with --node",
			state, n, pin.MostForgotten)
	}
	return nil
}

// followForget compares the places that the controller was asked to forget with the records now.
func (r *ReleaseReport) followForget(f *facts.Facts) {
	recorded := map[types.UID]bool{}
	for i := range f.States {
		for _, record := range f.States[i].Status.PodStates {
			recorded[record.UID] = true
		}
	}
	for i := range r.Places {
		if p := &r.Places[i]; p.Outcome == Asked && !recorded[p.UID] {
			p.Outcome = Freed
		}
	}
}
