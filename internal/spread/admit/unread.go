package admit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/spread"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// reasonNotRead: it could not be read which spread a pod has, or what the spread needs. In a
// namespace that is open, the pod was created without a subset. The event is on the pod's owner
// where the spread is not known.
const reasonNotRead spread.Reason = "SpreadNotRead"

// planUnread is the plan for a pod whose spread could not be read. Pods of closed namespaces and pods
// that ask for their address are refused, and their owners try again. In an open namespace, a failed
// look for a new spread alone refuses no pod.
func (p *placing) planUnread(cause error) (creation.Plan, error) {
	retained := reservation.Asks(p.facts.Pod.Annotations)
	switch {
	case p.closed:
		return creation.Plan{}, fmt.Errorf("%w: %w", creation.ErrEssential, cause)
	case errors.Is(cause, errNewest):
		return creation.Plan{Commit: p.unread(cause)}, nil
	case retained && !p.facts.Pod.Spec.HostNetwork || !p.facts.Labelled:
		return creation.Plan{}, cause
	}
	return creation.Plan{Commit: p.unread(cause)}, nil
}

// unread is the commit of a pod that is created although its spread could not be read. The API server
// drops a warning of several lines, as several failed reads make it.
func (p *placing) unread(cause error) creation.Commit {
	return func(ctx context.Context, dryRun bool) (creation.Addition, error) {
		message := fmt.Sprintf("pod %s is created without a subset: %v", p.podName(), strings.ReplaceAll(cause.Error(), "\n", "; "))
		if !dryRun {
			log.FromContext(ctx).Error(cause, "Pod is created without a subset", "pod", p.podName())
			p.Metrics.placed(reasonNotRead)
			p.tellUnread(message)
		}
		return creation.Addition{Patch: podpatch.Patch{Drop: placedAnnotations}, Warnings: []string{"limpet: " + message}}, nil
	}
}

// tellUnread makes an event of the spread; of the pod's owner where the spread is not known. Owners
// are names that a pod gives, so that each namespace has few such events.
func (p *placing) tellUnread(message string) {
	if p.object != nil {
		p.report(false, reasonNotRead, message)
		return
	}
	if owner := p.ownerReference(); owner != nil && p.told.Take(p.facts.Pod.Namespace, p.Clock.Now(), unreadRest, mostTold) {
		p.reportOn(owner, reasonNotRead, message)
	}
}

// ownerReference says which object controls the pod; nil for one whose name no object can have.
func (p *placing) ownerReference() runtime.Object {
	ref := metav1.GetControllerOfNoCopy(p.facts.Pod)
	if ref == nil || len(ref.Name) > longestName || len(ref.Kind) > longestName || len(ref.APIVersion) > longestName || len(ref.UID) > longestName {
		return nil
	}
	return &corev1.ObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: p.facts.Pod.Namespace, Name: ref.Name, UID: ref.UID}
}

const (
	// unreadRest is the shortest time between two events about owners of one namespace.
	unreadRest = 10 * time.Second
	// mostTold bounds the memory of namespaces.
	mostTold = 1024
)
