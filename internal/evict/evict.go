// Package evict deletes pods for the controller. No other package of the controller may
// delete or evict a pod. A future limit on the number of deleted pods belongs here.
package evict

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Evictor deletes pods.
type Evictor struct {
	Client client.Client
}

// Delete deletes a pod if it is still the one that was read, unchanged; any other pod of
// its name stays, and the error is a conflict. It returns false for a pod that is gone.
func (e *Evictor) Delete(ctx context.Context, pod *corev1.Pod) (deleted bool, err error) {
	unchanged := client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
	switch err := e.Client.Delete(ctx, pod.DeepCopy(), unchanged); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("delete pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	return true, nil
}
