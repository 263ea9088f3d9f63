package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// endGrace is the age from which an attachment whose sandbox and pod are gone is ended.
const endGrace = 5 * time.Minute

// correctAttachments stores what live pods ask for now, and ends attachments whose DEL was
// lost. While the pods are not known nothing is corrected. Old pods count, and are an error of the step.
func (a *Agent) correctAttachments(ctx context.Context, networks []network) error {
	pods, known, stale := a.Pods.Pods(ctx)
	if !known {
		return stale
	}
	in := plan.AttachmentsInput{
		Now: a.Now(), Pods: pods, Follows: a.lending.name(), Grace: endGrace, MaxRetain: map[string]time.Duration{}, DefaultMaxRetain: a.MaxRetain,
	}
	for _, n := range networks {
		if n.Limits != nil {
			in.MaxRetain[n.Name] = n.Limits.MaxRetain
		}
		in.Attachments = append(in.Attachments, a.withSandboxes(n.Attachments)...)
	}
	d := plan.Attachments(in)
	if err := applyCorrections(ctx, a.store, d, in.Now); err != nil {
		return errors.Join(stale, err)
	}
	a.metrics.corrected.Add(float64(len(d.Corrected)))
	a.metrics.ended.Add(float64(len(d.Ended)))
	a.metrics.recovered(recoveredAttachment, len(d.Ended))
	for _, id := range d.Ended {
		a.Log.Info("Ended an attachment whose sandbox is gone", "container", id.ContainerID, "network", id.Network)
	}
	return stale
}

// withSandboxes adds to attachments whether their network namespaces exist.
func (c Config) withSandboxes(attachments []reservation.Attachment) []plan.Attachment {
	_, err := os.Stat(c.NetNSDir)
	visible := err == nil
	all := make([]plan.Attachment, len(attachments))
	for i, at := range attachments {
		all[i] = plan.Attachment{Attachment: at}
		if visible {
			all[i].NetNSGone, all[i].NetNSExists = c.lookAtNetNS(at.NetNS)
		}
	}
	return all
}

// lookAtNetNS reports whether a network namespace certainly does not exist any more, and whether
// it certainly exists. A namespace that the agent cannot see may exist: it is bound in another
// directory, or its mount did not reach the agent, which then finds a plain file of another
// device.
func (c Config) lookAtNetNS(stored reservation.NetNS) (gone, exists bool) {
	if filepath.Dir(stored.Path) != filepath.Clean(c.NetNSDir) {
		return false, false
	}
	now, found := c.NetNS(stored.Path)
	return !found || now.Dev == stored.Dev && now.Inode != stored.Inode, found && now == stored
}

// applyCorrections writes the decision in one transaction. Attachments that ended since the
// state was read are skipped.
func applyCorrections(ctx context.Context, store *persistence.Store, d plan.AttachmentsDecision, now reservation.Moment) error {
	if len(d.Corrected)+len(d.Ended) == 0 {
		return nil
	}
	return store.Update(ctx, func(tx *persistence.Tx) error {
		for _, c := range d.Corrected {
			at, found, err := tx.Attachment(c.ID)
			if err == nil && found {
				err = tx.PutAttachment(c.Apply(at))
			}
			if err != nil {
				return err
			}
		}
		for _, id := range d.Ended {
			at, found, err := tx.Attachment(id)
			if err == nil && found {
				_, err = lifecycle.End(tx, at, now, false) // as the lost DEL would have done
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
