package console

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Ask marks the releasable reservations of a report, so that the agents of their nodes end them, and asks the
// controller to forget places. The options may make it a dry run.
func (r *ReleaseReport) Ask(ctx context.Context, c client.Client, options ...client.PatchOption) error {
	for i := range r.Reservations {
		one := &r.Reservations[i]
		if one.Outcome != Releasable {
			continue
		}
		switch err := mark(ctx, c, r.Namespace, one, options); {
		case err == nil:
			one.Outcome, one.Message = Asked, ""
		case apierrors.IsNotFound(err): // the agent deleted it, and may have made another one since
			one.Outcome, one.Message = Freed, "the reservation had ended before"
		case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"):
			one.Outcome, one.Message = Replaced, "the reservation has changed since it was read: "+err.Error()
		case apierrors.IsForbidden(err):
			return fmt.Errorf("release %s: %w; remedy: who may patch ipreservations.limpet.dev in namespace %s may release, as ClusterRole limpet-release "+
				"allows (a part of edit and admin)", one.Name, err, r.Namespace)
		default:
			return fmt.Errorf("release %s: %w", one.Name, err)
		}
	}
	return r.askForget(ctx, c, options)
}

// mark sets the label of one object. The UID keeps the mark from a later object of the same name.
func mark(ctx context.Context, c client.Client, namespace string, one *Release, options []client.PatchOption) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": one.UID, "labels": map[string]string{limpetv1alpha1.LabelRelease: one.Mark},
	}})
	if err != nil {
		return fmt.Errorf("encode the mark: %w", err)
	}
	o := &limpetv1alpha1.IPReservation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: one.Name}}
	err = c.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), options...)
	if !apierrors.IsConflict(err) {
		return err
	}
	// A conflict is another UID, or a patch that lost against other writers.
	if read := c.Get(ctx, client.ObjectKeyFromObject(o), o); read != nil {
		return read
	}
	if o.UID != one.UID {
		return apierrors.NewNotFound(limpetv1alpha1.GroupVersion.WithResource("ipreservations").GroupResource(), one.Name)
	}
	return err
}

// Refused takes over what a dry run did not ask for.
func (r *ReleaseReport) Refused(tried ReleaseReport) {
	for i, one := range tried.Reservations {
		if one.Outcome != Asked {
			r.Reservations[i] = one
		}
	}
	for i, one := range tried.Places {
		if one.Outcome != Asked {
			r.Places[i] = one
		}
	}
}
