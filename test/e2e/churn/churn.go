// Package churn creates and deletes pods all the while something else goes on in a cluster, and tells which of them
// had no network.
package churn

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// Churn is a pod on each node that is created, and deleted as soon as it is Ready, again and again.
type Churn struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup
	mu     sync.Mutex
	pods   int
	errs   []error
}

// Start starts a churn with pods of a namespace. Their names begin with name.
func Start(ctx context.Context, b *bed.Bed, namespace, name string) *Churn {
	ctx, cancel := context.WithCancel(ctx)
	c := &Churn{cancel: cancel}
	for _, node := range b.Cluster.Nodes() {
		c.wait.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				c.count(Live(context.WithoutCancel(ctx), b, namespace, fmt.Sprintf("%s-%s-%d", name, node, i), node))
			}
		})
	}
	return c
}

func (c *Churn) count(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods++
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

// Stop waits until the last pods are gone. It returns how many there were, and those that did not start or end.
func (c *Churn) Stop() (pods int, errs []error) {
	c.cancel()
	c.wait.Wait()
	return c.pods, c.errs
}

// limit is generous: the machine may be busy with other things.
const limit = 2 * time.Minute

// Live is the life of one pod: it becomes Ready and is gone again.
func Live(ctx context.Context, b *bed.Bed, namespace, name, node string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "churn"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "cilium/echoserver:latest", ImagePullPolicy: corev1.PullIfNotPresent}}},
	}
	api := b.Client.CoreV1().Pods(namespace)
	if _, err := api.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s: %w", name, err)
	}
	err := bed.Await(ctx, limit, name+" to be Ready", func(ctx context.Context) (bool, string) {
		p, err := api.Get(ctx, name, metav1.GetOptions{})
		return err == nil && bed.Ready(p), fmt.Sprint(err)
	})
	if err != nil {
		return err
	}
	if err := api.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)}); err != nil {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return bed.Await(ctx, limit, name+" to be gone", func(ctx context.Context) (bool, string) {
		_, err := api.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), "it is there"
	})
}

// Slow is in what an interface plugin says that fails on a machine that is overloaded.
const Slow = "still has tentative addresses"

// FailedSandboxes returns the events of a namespace that tell of a pod whose network was not made or not removed. The
// names of the pods begin with prefix. On a machine that is overloaded the kernel needs more than five seconds to check
// an IPv6 address, and the interface plugin fails, whichever program gave the address. These events are slow ones.
func FailedSandboxes(ctx context.Context, b *bed.Bed, namespace, prefix string) (failed, slow []string, err error) {
	events, err := b.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list events of %s: %w", namespace, err)
	}
	for _, e := range events.Items {
		if !strings.HasPrefix(e.InvolvedObject.Name, prefix) || e.Reason != "FailedCreatePodSandBox" && e.Reason != "FailedKillPod" {
			continue
		}
		told := fmt.Sprintf("%s: %s: %s", e.InvolvedObject.Name, e.Reason, e.Message)
		if strings.Contains(e.Message, Slow) {
			slow = append(slow, told)
		} else {
			failed = append(failed, told)
		}
	}
	return failed, slow, nil
}
