package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/bench/measure"
)

var errFormerValue = errors.New("pods have the former value")

// changeKeep changes what all Namespaces ask, and waits until each pod has the new value.
func (b *bench) changeKeep(ctx context.Context, r *report) error {
	if _, err := b.Audit.Next(); err != nil {
		return err
	}
	const value = "20m"
	begin := time.Now()
	for i := 0; i < b.size.sets; i += perNamespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tenant-%d", i/perNamespace)}}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, reservation.KeepAnnotation, value)
		if err := b.Client.Patch(ctx, ns, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("change namespace: %w", err)
		}
	}
	err := measure.Poll(ctx, 5*longestWait, 5*time.Second, func(ctx context.Context) error {
		pods := &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := b.Client.List(ctx, pods, client.HasLabels{"app"}); err != nil {
			return err
		}
		r.changed = 0
		former := 0
		for _, p := range pods.Items {
			switch {
			case p.Namespace == metav1.NamespaceSystem || metav1.GetControllerOf(&p) == nil:
			case p.Annotations[reservation.KeepAnnotation] == value:
				r.changed++
			default:
				former++
			}
		}
		if former > 0 {
			return fmt.Errorf("%d of %d %w", former, len(pods.Items), errFormerValue)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.change = time.Since(begin)
	if r.changeRequests, err = b.Audit.Next(); err != nil {
		return err
	}
	_, r.highest, err = b.controlled.Memory()
	return err
}
