package agent

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// ReconcileInput is what is known of the node's attachments and pods.
type ReconcileInput struct {
	Now         reservation.Moment
	Attachments []reservation.Attachment
	// Pods are those that the API server has bound to this node.
	Pods []corev1.Pod
	// Gone tells that the network namespace of an attachment is not there any more.
	Gone func(reservation.Attachment) bool
	// Grace is how old an attachment must be before its end is taken for granted.
	Grace time.Duration
	// Caps are what a pod may ask for at most, by network, and MaxRetain where that is not
	// known.
	Caps      map[string]time.Duration
	MaxRetain time.Duration
}

// capOf returns how long a pod may ask for on a network.
func (in ReconcileInput) capOf(network string) time.Duration {
	if most, known := in.Caps[network]; known {
		return most
	}
	return in.MaxRetain
}

// ReconcileDecision is what to correct.
type ReconcileDecision struct {
	// Wishes are attachments whose pod asks for something else than is stored: its
	// annotation changed, or the runtime sent none.
	Wishes map[reservation.AttachmentID]reservation.RetentionRequest
	// Ended are attachments whose sandbox and pod are both gone: their DEL was lost.
	Ended []reservation.AttachmentID
}

// PlanReconcile compares what the state says with what really runs.
func PlanReconcile(in ReconcileInput) ReconcileDecision {
	byUID := map[string]corev1.Pod{}
	byName := map[string]bool{}
	for _, p := range in.Pods {
		byUID[string(p.UID)] = p
		byName[p.Namespace+"/"+p.Name] = true
	}
	d := ReconcileDecision{Wishes: map[reservation.AttachmentID]reservation.RetentionRequest{}}
	for _, a := range in.Attachments {
		if !a.Owner.Named() {
			continue // not a pod: only its runtime knows
		}
		pod, runs := byUID[a.UID]
		switch {
		case runs && a.UID != "":
			wish, _ := reservation.ParseRetentionRequest(pod.Annotations, in.capOf(a.ID.Network)) // the webhook has warned
			if !a.AnnotationsSeen || wish.Retain != a.Retain || wish.Mode != a.Mode {
				d.Wishes[a.ID] = wish
			}
		case !byName[a.Owner.String()] && in.Gone(a) && in.Now.Since(a.Since) > in.Grace:
			d.Ended = append(d.Ended, a.ID)
		}
	}
	return d
}

// apply carries out the decision in one transaction.
func (d ReconcileDecision) apply(ctx context.Context, store *persistence.Store, now reservation.Moment) error {
	if len(d.Wishes)+len(d.Ended) == 0 {
		return nil
	}
	return store.Update(ctx, func(tx *persistence.Tx) error {
		for id, wish := range d.Wishes {
			a, found, err := tx.Attachment(id)
			if err != nil {
				return err
			}
			if !found {
				continue // it ended meanwhile
			}
			a.Retain, a.Mode, a.AnnotationsSeen = wish.Retain, wish.Mode, true
			if err := tx.PutAttachment(a); err != nil {
				return err
			}
		}
		for _, id := range d.Ended {
			if err := end(tx, id, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// end does what the lost DEL would have done.
func end(tx *persistence.Tx, id reservation.AttachmentID, now reservation.Moment) error {
	a, found, err := tx.Attachment(id)
	if err != nil || !found {
		return err
	}
	_, err = lifecycle.End(tx, a, now, false)
	return err
}
