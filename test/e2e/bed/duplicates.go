package bed

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Duplicates watches for running pods with the same address, which rule 1 of
// docs/design/0001-architecture.md forbids.
type Duplicates struct {
	cancel context.CancelFunc
	done   chan struct{}
	found  []string
}

// WatchDuplicates starts to watch.
func (b *Bed) WatchDuplicates(ctx context.Context) *Duplicates {
	ctx, cancel := context.WithCancel(ctx)
	d := &Duplicates{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		for ctx.Err() == nil {
			if pods, err := b.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"}); err == nil {
				d.look(pods.Items)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return d
}

func (d *Duplicates) look(pods []corev1.Pod) {
	holder := map[string]string{}
	for _, p := range pods {
		if p.Spec.HostNetwork || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			if other, taken := holder[ip.IP]; taken {
				d.found = append(d.found, fmt.Sprintf("%s: %s and %s", ip.IP, other, p.Name))
			}
			holder[ip.IP] = p.Name
		}
	}
}

// Stop ends the watch and returns what it found.
func (d *Duplicates) Stop() []string {
	d.cancel()
	<-d.done
	return d.found
}
